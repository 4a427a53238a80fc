/**
 * A conversation as data: its turns, what of it is kept, and how it is put back into the worker. Owns the order of things:
 * the worker has exactly the turns before the one that is asked, whatever else was asked of it meanwhile.
 */

import { unlessAborted } from "../../running.js";
import { recall, remember } from "../saved.js";
import { toolset } from "../toolset.js";

/**
 * @typedef {object} Turn
 * @property {string} said the request, or the results of the calls before it as JSON text
 * @property {boolean} isResult
 * @property {"working" | "done" | "failed" | "stopped"} state
 * @property {import("../../client.js").Answer | null} answer
 * @property {{code: string, message: string} | null} error
 * @property {(Outcome | null)[]} outcomes what came of each call; null: nothing yet
 *
 * @typedef {{told: unknown, error?: string, declined?: boolean}} Outcome told: what the model is told, made of JSON
 */

const SAVED = "conversation";
/** Turns that are kept; older ones go, for storage is small and the context is, too. */
const LIMIT = 200;

/** @param {Turn} turn @returns {import("../../client.js").Past} */
function past(turn) {
  const result = turn.answer?.result ?? {};
  const words = turn.answer?.text ?? "";
  return {
    said: turn.said,
    is_result: turn.isResult,
    calls: words ? null : (result.function_calls ?? []),
    text: words,
    reasoning: result.reasoning ?? "",
  };
}

export class Conversation {
  /** @type {Turn[]} */
  turns = [];
  #client;
  /** The worker's epoch when it had all of `turns`. */
  #synced = -1;

  /** @param {import("../../client.js").AreoleClient} client */
  constructor(client) {
    this.#client = client;
  }

  /** What was kept at an earlier visit. @returns {{declared: import("../toolset.js").Declared, turns: Turn[]} | null} */
  static saved() {
    const saved = recall(SAVED);
    return Array.isArray(saved?.turns) && typeof saved.declared?.text === "string" ? saved : null;
  }

  /** The worker must be told anew: the rules are others. */
  desync() {
    this.#synced = -1;
  }

  /** Keeps it; what is being answered is kept as stopped, which is what a reload makes of it. */
  save() {
    const turns = this.turns.slice(-LIMIT).map((turn) => (turn.state === "working" ? { ...turn, state: "stopped" } : turn));
    return remember(SAVED, { declared: toolset.declared, turns });
  }

  clear() {
    this.turns = [];
    this.#synced = -1;
    this.save();
  }

  /** Takes back the last request with all that followed from it. @returns {string} its text */
  takeBack() {
    const at = this.turns.findLastIndex(({ isResult }) => !isResult);
    const [first] = this.turns.splice(Math.max(at, 0));
    this.#synced = -1;
    this.save();
    return first?.said ?? "";
  }

  /** @param {string} said @param {boolean} isResult @returns {Turn} */
  add(said, isResult) {
    /** @type {Turn} */
    const turn = { said, isResult, state: "working", answer: null, error: null, outcomes: [] };
    this.turns.push(turn);
    return turn;
  }

  /**
   * Asks the last turn. An answer stays in the worker's conversation; one that failed or was stopped leaves none.
   * @param {Turn} turn
   * @param {{onEvent: (event: any) => void, signal: AbortSignal}} options
   */
  async ask(turn, { onEvent, signal }) {
    const { text, system, contract, depth } = toolset;
    if (this.#synced !== this.#client.epoch) {
      // The model may be minutes away: stopping must not wait for it.
      const options = { contract, explain: true, ...(depth === undefined ? {} : { depth }) };
      await unlessAborted(this.#client.prepare(text, system, options), signal);
      const earlier = this.turns.filter((one) => one !== turn && one.state === "done").map(past);
      if (earlier.length) await unlessAborted(this.#client.replay(earlier), signal);
    }
    this.#synced = -1;
    const answer = await this.#client.complete(turn.said, { onEvent, signal, probabilities: true });
    this.#synced = this.#client.epoch;
    turn.answer = answer;
    turn.outcomes = (answer.result.function_calls ?? []).map(() => null);
    turn.state = answer.result.success ? "done" : "failed";
    return answer;
  }
}
