/** The inside of an answer: its tokens with what the model thought of them, and where the time went. */

import { toolset } from "../toolset.js";
import { trace } from "../trace.js";
import { byId, element, showRows } from "../ui.js";
import { onView } from "../views.js";
import { stacked } from "./chart.js";

/** From which probability on a token counts as sure, and below which as a guess. */
const SURE = 0.9;
const GUESS = 0.5;

/** What is shown before there is an answer. */
const nothing = byId("inside-empty").textContent;

/** @param {number} value */
const percent = (value) => `${(100 * value).toFixed(value > 0.1 && value < 0.999 ? 1 : 2)} %`;
/** @param {number} seconds */
const milliseconds = (seconds) => `${Math.round(1000 * seconds)} ms`;
/** A token's text so that blanks and line breaks show. @param {string} text */
const visible = (text) => (text === "" ? "∅" : text.replaceAll("\n", "⏎").replaceAll(" ", "␣"));

/** @param {any} event */
function chip({ delta, forced, probability }) {
  const made = element("span", "token", visible(delta));
  made.dataset.chance = probability >= SURE ? "sure" : probability >= GUESS ? "likely" : "guess";
  if (forced) made.dataset.forced = "";
  return made;
}

/** @param {any} event @param {number} index */
function row({ delta, phase, forced, probability, runner_up: other }, index) {
  const known = typeof probability === "number";
  return element("tr", "", [
    element("td", "", String(index + 1)),
    element("td", "mono", visible(delta)),
    element("td", "", phase),
    element("td", "number", known ? percent(probability) : ""),
    element("td", "mono", other ? visible(other.text) : ""),
    element("td", "number", other ? percent(other.probability) : ""),
    element("td", "", forced ? "forced" : ""),
  ]);
}

function show() {
  const { turn } = trace;
  const events = trace.eventsOf(turn).filter(({ type }) => type === "token");
  byId("inside-empty").hidden = events.length > 0;
  byId("inside-empty").textContent = turn?.answer ? "The tokens of this answer were not kept: they last as long as the tab." : nothing;
  byId("inside").hidden = events.length === 0;
  if (!turn?.answer || !events.length) return;
  byId("inside-said").textContent = turn.isResult ? "After a tool's result" : turn.said;
  byId("tokens").replaceChildren(...events.map(chip));
  byId("token-rows").replaceChildren(...events.map(row));
  const { timings, tokens, prompt_tokens: read } = turn.answer;
  const { prefill_s: prefill = 0, decode_s: decode = 0, grammar_s: grammar = 0, gates_s: gates = 0 } = timings;
  const parts = [
    { name: "Prefill", value: prefill, className: "part-0", note: `${read} tokens read` },
    { name: "Decode", value: Math.max(decode - grammar, 0), className: "part-1", note: `${tokens} tokens written, the model alone` },
    { name: "Grammar", value: grammar, className: "part-2", note: "choosing the call's tokens" },
    { name: "Gates", value: gates, className: "part-3", note: "judging the calls" },
  ];
  const total = parts.reduce((sum, { value }) => sum + value, 0);
  byId("time-chart").replaceChildren(stacked(parts, "Where the time went"));
  showRows(
    byId("time-rows"),
    parts.map(({ name, value, className, note }) => [
      name,
      [element("span", `key ${className}`), `${milliseconds(value)}, ${percent(total ? value / total : 0)} (${note})`],
    ]),
  );
  const forced = events.filter((event) => event.forced).length;
  const guesses = events.filter(({ probability }) => probability < GUESS).length;
  byId("inside-counts").textContent = `${events.length} tokens: ${forced} forced by the grammar, ${guesses} at less than ${100 * GUESS} %.`;
}

/** What every request stands behind. @param {import("../../client.js").AreoleClient} client */
async function showPrefix(client) {
  const place = byId("prefix-text");
  const { text, system } = toolset;
  try {
    const { prompt, prompt_tokens: count } = await client.check(text);
    byId("prefix-count").textContent = `${count} tokens of tools; read once, then kept.`;
    place.textContent = `${system ? `${system}\n\n` : ""}${prompt}`;
  } catch {
    place.textContent = text;
  }
}

/** @param {import("../../client.js").AreoleClient} client */
export function startTokens(client) {
  onView("workbench", show);
  trace.addEventListener("turn", show);
  const prefix = /** @type {HTMLDetailsElement} */ (byId("prefix"));
  prefix.addEventListener("toggle", () => prefix.open && showPrefix(client));
}
