/** Calls as cards: what was called with what, what is to become of it, and what came of it. Owns no state. */

import { button, element, onSendKeys, shown } from "../ui.js";

/**
 * @typedef {"act" | "confirm" | "refuse" | "withheld" | "unsure"} Verdict unsure: the answer says nothing of its confidence
 * @typedef {object} Deeds
 * @property {() => void} run
 * @property {() => void} decline
 * @property {(text: string) => string | null} give a result typed by hand; gives back what is wrong with it
 */

/** What each verdict is called on a card. @type {Record<Verdict, string>} */
const TAGS = { act: "act", confirm: "asks first", refuse: "refused: not sure enough", withheld: "withheld", unsure: "" };

/**
 * @param {{name: string, arguments: Record<string, unknown>}} call
 * @param {Verdict} verdict
 */
export function callCard(call, verdict) {
  const head = element("div", "head", [element("span", "name", call.name)]);
  if (TAGS[verdict]) head.append(element("span", "tag", TAGS[verdict]));
  const card = element("li", verdict === "withheld" ? "call withheld" : "call", [head]);
  card.dataset.verdict = verdict;
  const entries = Object.entries(call.arguments ?? {});
  if (entries.length) {
    const list = element("dl");
    for (const [name, value] of entries) list.append(element("dt", "", name), element("dd", "", shown(value)));
    card.append(list);
  }
  return card;
}

/**
 * What can be done with a call that has no outcome yet.
 * @param {{name: string}} call
 * @param {boolean} runs whether a function is there
 * @param {Verdict} verdict
 * @param {Deeds} deeds
 */
export function callActions(call, runs, verdict, { run, decline, give }) {
  if (runs) {
    const label = verdict === "refuse" ? "Run it nevertheless" : "Run";
    return element("div", "actions", [button(label, run, verdict === "refuse" ? "" : "primary"), button("Don't", decline)]);
  }
  const box = element("textarea", "result");
  box.rows = 2;
  box.placeholder = '{"ok": true}';
  box.setAttribute("aria-label", `Result of ${call.name}, as JSON`);
  const fault = element("p", "fault");
  fault.setAttribute("role", "alert");
  const send = () => {
    const wrong = give(box.value.trim() || box.placeholder);
    fault.textContent = wrong ?? "";
    box.setAttribute("aria-invalid", String(wrong !== null));
  };
  onSendKeys(box, send);
  const label = element("summary", "", "Tell the model what came of it");
  return element("details", "give", [label, box, fault, element("div", "actions", [button("Send the result", send)])]);
}

/** @param {import("./conversation.js").Outcome} outcome */
export function outcomeLine({ told, error, declined }) {
  const text = declined ? "not run" : error !== undefined ? `failed: ${error}` : told === null ? "done" : shown(told);
  const line = element("p", error !== undefined && !declined ? "outcome bad" : "outcome", text);
  return line;
}

/**
 * What the rules withheld or changed.
 * @param {{gate: string, tool: string, argument: string | null, why: string}[]} reasons
 */
export function reasonList(reasons) {
  const list = element(
    "ul",
    "reasons",
    reasons.map(({ gate, tool, argument, why }) =>
      element("li", "", [
        element("span", "name", argument === null ? tool : `${tool}.${argument}`),
        `: ${why} `,
        element("span", "code", gate),
      ]),
    ),
  );
  list.setAttribute("aria-label", "What the rules withheld or changed");
  return list;
}

/**
 * @param {Record<string, any>} result
 * @param {number} tokens
 * @param {Record<string, number>} timings
 */
export function figures(result, tokens, timings) {
  /** @type {[string, (Node | string)[]][]} */
  const rows = [];
  if (typeof result.confidence === "number") {
    const meter = element("meter");
    meter.value = result.confidence;
    meter.setAttribute("aria-label", "Confidence");
    rows.push(["Confidence", [`${Math.round(result.confidence * 100)} %`, meter]]);
  }
  if (result.decode_tps) rows.push(["Decoding", [`${Math.round(result.decode_tps)} tokens/s`]]);
  if (result.prefill_tps) rows.push(["Prefill", [`${Math.round(result.prefill_tps)} tokens/s`]]);
  if (tokens !== undefined) rows.push(["Length", [`${tokens} tokens`]]);
  const spent = (timings?.prefill_s ?? 0) + (timings?.decode_s ?? 0);
  if (spent) rows.push(["Time", [`${spent.toFixed(2)} s`]]);
  const items = rows.map(([name, value]) => element("div", "", [element("dt", "", name), element("dd", "", value)]));
  return rows.length ? element("dl", "figures", items) : null;
}
