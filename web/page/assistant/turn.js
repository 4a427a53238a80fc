/** One turn of the conversation on the page: filled while it streams, then shown whole. Owns its nodes only. */

import { AreoleError } from "../../errors.js";
import { button, element, showError } from "../ui.js";
import { callActions, callCard, figures, outcomeLine, reasonList } from "./cards.js";
import { pretty } from "./written.js";

/**
 * @typedef {import("./conversation.js").Turn} Turn
 * @typedef {object} Context what a turn needs of the assistant
 * @property {(answer: import("../../client.js").Answer) => import("./cards.js").Verdict} verdict
 * @property {(name: string) => boolean} runs
 * @property {(turn: Turn, index: number) => import("./cards.js").Deeds} deeds
 * @property {(turn: Turn, format: "json" | "openai" | "python") => void} copy
 * @property {(turn: Turn) => void} inspect
 */

export class TurnView {
  /** @param {Turn} turn @param {Context} context */
  constructor(turn, context) {
    this.turn = turn;
    this.context = context;
    this.node = element("li", "turn");
    this.node.tabIndex = -1;
    this.said = turn.isResult ? this.#toldBox() : element("p", "said", turn.said);
    this.text = element("p", "answer-text");
    this.fault = element("div", "fault");
    this.fault.setAttribute("role", "alert");
    this.calls = element("ol", "calls");
    this.calls.setAttribute("aria-label", "Calls");
    this.reasoning = element("p", "reasoning");
    this.thoughts = element("details", "thoughts", [element("summary", "", "Reasoning"), this.reasoning]);
    this.thoughts.open = true;
    this.writing = element("pre", "writing");
    this.writing.setAttribute("aria-label", "Call as it is written");
    this.rest = element("div", "rest");
    this.node.append(this.said, this.thoughts, this.writing, this.text, this.fault, this.calls, this.rest);
    this.show();
  }

  #toldBox() {
    return element("details", "told", [element("summary", "", "Result given to the model"), element("pre", "", pretty(this.turn.said))]);
  }

  /** @param {string} text */
  status(text) {
    this.text.textContent = text;
  }

  /** @param {Record<string, any>} event */
  stream(event) {
    if (event.type !== "token" || !event.delta) return;
    const place = event.phase === "reasoning" ? this.reasoning : this.writing;
    this.status(event.phase === "reasoning" ? "Thinking …" : event.phase === "call" ? "Writing the call …" : "Answering …");
    // Blank lines before the text say nothing; inside it they stay. Appended, not rewritten: long texts stay cheap.
    place.append(place.hasChildNodes() ? event.delta : event.delta.trimStart());
    if (place.firstChild?.textContent === "") place.replaceChildren();
    this.#fold();
  }

  #fold() {
    this.thoughts.hidden = !this.reasoning.hasChildNodes();
    this.writing.hidden = !this.writing.hasChildNodes();
  }

  /** As the turn is now. */
  show() {
    const { turn, context } = this;
    this.node.dataset.state = turn.state;
    showError(this.fault, turn.error ? AreoleError.fromMessage(turn.error) : null);
    if (turn.state === "stopped") this.status("Stopped.");
    else if (turn.error) this.status("No answer.");
    if (!turn.answer) {
      this.#fold();
      return;
    }
    const { result, text, json, tokens, timings } = turn.answer;
    const calls = result.function_calls ?? [];
    const withheld = result.suppressed_calls ?? [];
    this.reasoning.textContent = result.reasoning ?? "";
    if (result.success) this.writing.replaceChildren();
    this.#fold();
    this.status(text || summary(calls, withheld, result.success));
    const verdict = context.verdict(turn.answer);
    this.calls.replaceChildren(
      ...calls.map((/** @type {any} */ call, /** @type {number} */ index) => this.#card(call, index, verdict)),
      ...withheld.map((/** @type {any} */ call) => callCard(call, "withheld")),
    );
    const reasons = result.areole?.reasons ?? [];
    const numbers = figures(result, tokens, timings);
    const envelope = element("pre", "envelope", pretty(json));
    envelope.tabIndex = 0;
    envelope.setAttribute("aria-label", "Answer as JSON");
    this.rest.replaceChildren(
      ...(reasons.length ? [reasonList(reasons)] : []),
      ...(numbers ? [numbers] : []),
      this.#tools(),
      element("details", "", [element("summary", "", "Answer as JSON"), envelope]),
    );
  }

  #tools() {
    const { turn, context } = this;
    return element("div", "actions small", [
      button("Copy JSON", () => context.copy(turn, "json")),
      button("Copy OpenAI message", () => context.copy(turn, "openai")),
      button("Copy Python", () => context.copy(turn, "python")),
      button("Look inside", () => context.inspect(turn)),
    ]);
  }

  /** @param {{name: string, arguments: Record<string, unknown>}} call @param {number} index @param {import("./cards.js").Verdict} verdict */
  #card(call, index, verdict) {
    const card = callCard(call, verdict);
    const outcome = this.turn.outcomes[index];
    if (outcome) card.append(outcomeLine(outcome));
    else card.append(callActions(call, this.context.runs(call.name), verdict, this.context.deeds(this.turn, index)));
    return card;
  }
}

/** @param {any[]} calls @param {any[]} withheld @param {boolean} success */
export function summary(calls, withheld, success) {
  if (!success) return "No usable call.";
  const names = (/** @type {any[]} */ list) => list.map((call) => call.name).join(", ");
  const some = calls.length ? `${calls.length} ${calls.length === 1 ? "call" : "calls"}: ${names(calls)}.` : "";
  const held = withheld.length ? `Withheld: ${names(withheld)}.` : "";
  return `${some} ${held}`.trim() || "No call: none of the tools fits this request.";
}
