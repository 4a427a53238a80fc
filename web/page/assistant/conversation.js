/**
 * A conversation as data: its turns, what of it is kept, and how it is put back into the worker. Owns the order of things:
 * the worker has exactly the turns before the one that is asked, whatever else was asked of it meanwhile. A new one puts the
 * one before aside, with its tools, and that one can be brought back. Where it is kept is no other open tab's place:
 * places.js.
 */

import { unlessAborted } from "../../running.js";
import { recall, remember } from "../saved.js";
import { takePlace } from "./places.js";
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
 * @typedef {import("../toolset.js").Declared} Declared
 * @typedef {{declared: Declared, turns: Turn[]}} Whole a conversation with the tools it is about
 */

/** Turns that are kept; older ones go, for storage is small and the context is, too. */
const LIMIT = 200;
/** Characters that are kept of a request that was refused for its length: it may have millions. */
const REFUSED_LIMIT = 10_000;

/** Whether a request was refused for its length, and more of it than is kept. @param {Turn} turn */
const isTooLong = ({ said, error }) => error?.code === "context_full" && said.length > REFUSED_LIMIT;

/** A turn as it is kept: what is being answered is kept as stopped, which is what a reload makes of it. @param {Turn} turn */
function kept(turn) {
  if (turn.state === "working") return { ...turn, state: "stopped" };
  if (!isTooLong(turn)) return turn;
  return { ...turn, said: `${turn.said.slice(0, REFUSED_LIMIT)} … (${turn.said.length} characters; the rest was not kept)` };
}

/** @param {any} value @returns {value is Whole} */
const isWhole = (value) => Array.isArray(value?.turns) && typeof value.declared?.text === "string";

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
  /** The one before, if it was put aside. @type {Whole | null} */
  earlier = null;
  #client;
  #onKept;
  /** The name it is kept under; null until that is known. @type {string | null} */
  #place = null;
  /** When something was last said in it; 0 in a tab that was only opened. */
  #at = 0;
  /** The worker's epoch when it had all of `turns`. */
  #synced = -1;

  /**
   * @param {import("../../client.js").AreoleClient} client
   * @param {(how: import("../saved.js").Remembered) => void} onKept told after each time it was kept, or was not
   */
  constructor(client, onKept) {
    this.#client = client;
    this.#onKept = onKept;
  }

  /** What was kept at an earlier visit, and is this tab's now. @returns {Promise<Whole | null>} */
  async open() {
    this.#place = await takePlace();
    const saved = recall(this.#place);
    if (isWhole(saved?.earlier)) this.earlier = saved.earlier;
    this.#at = Number(saved?.at ?? 0);
    return isWhole(saved) ? saved : null;
  }

  /** The worker must be told anew: the rules are others. */
  desync() {
    this.#synced = -1;
  }

  save() {
    if (this.#place === null) return;
    const short = (/** @type {Whole} */ { declared, turns }) => ({ declared, turns: turns.slice(-LIMIT).map(kept) });
    const earlier = this.earlier && short(this.earlier);
    if (this.turns.length) this.#at = Date.now();
    const how = remember(this.#place, { ...short({ declared: toolset.declared, turns: this.turns }), earlier, at: this.#at });
    // A request that is too long may be too long to be kept, too; once it is refused, most of it goes.
    if (!this.turns.some(({ state }) => state === "working")) this.#onKept(how);
  }

  /** A new one; what there was is put aside. @param {Declared} [declared] what that was about */
  begin(declared = toolset.declared) {
    if (this.turns.length) this.earlier = { declared, turns: this.turns };
    this.go([]);
  }

  /** Goes on after these turns. @param {Turn[]} turns */
  go(turns) {
    this.turns = turns;
    this.#synced = -1;
    this.save();
  }

  /** Forgets all of it. */
  clear() {
    this.earlier = null;
    this.go([]);
  }

  /** Whether the last request can be asked again: all of it is there. */
  get canAskAgain() {
    const last = this.turns.findLast(({ isResult }) => !isResult);
    return last !== undefined && !isTooLong(last);
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
