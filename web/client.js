/**
 * The page's side of the worker: promises in, one queue behind, events out. Owns the worker's life: starts it, ends it,
 * and starts a new one at the next request after a failed load or a breakdown, with the same tools declared again.
 */

import { AreoleError } from "./errors.js";

/**
 * @typedef {object} ClientOptions
 * @property {string} [base] address of the site's folder; that of this file when not given
 * @property {"relaxed" | "simd128"} [core] core build; chosen by the worker when not given
 * @property {string} [model] other weights than the site's, from the same origin
 * @property {number} [stallSeconds] give a load up when nothing arrives for so long
 * @property {boolean} [trace] count live Python proxies (see stats)
 * @property {boolean} [keep] keep the weights in this browser; true when not given
 * @property {number} [threads] 1 when not given; more only where the page is cross-origin isolated
 * @property {Contract} [contract] the rules where a declaration names none; areole's own when not given
 *
 * @typedef {"areole" | "needle" | "raw"} Contract what stands between what the model writes and what is returned
 *
 * @typedef {object} DeclareOptions
 * @property {Contract} [contract]
 * @property {boolean | Record<string, boolean>} [gates] false: nothing is withheld; {negation: false}: not by that rule
 * @property {number} [depth] how many of the model's blocks to run; all when not given
 * @property {boolean} [explain] say in the result, under the key `areole`, why something was withheld or changed
 *
 * @typedef {object} CompleteOptions
 * @property {number} [maxNewTokens]
 * @property {(event: Record<string, any>) => void} [onEvent] each token as it comes: {type, id, delta, phase, ...}
 * @property {AbortSignal} [signal] stops at the next token; the session lives on
 * @property {boolean} [probabilities] each token comes with its probability, at the price of a softmax
 *
 * @typedef {object} Past a turn as it is replayed
 * @property {string} said the request, or the JSON text of the results of the calls before it
 * @property {boolean} [is_result]
 * @property {{name: string, arguments: Record<string, unknown>}[] | null} [calls] null where words were the answer
 * @property {string} [text]
 * @property {string} [reasoning]
 *
 * @typedef {{message: string, line: number | null, trace: string}} PythonFault
 *
 * @typedef {object} Answer
 * @property {Record<string, any>} result the envelope
 * @property {string} json the same as text: here 2.0 is not 2
 * @property {number} tokens generated
 * @property {number} prompt_tokens of this turn
 * @property {Record<string, number>} timings seconds, and the tokens they went into
 * @property {string} text what was said instead of a call, after a tool's result
 * @property {{code: string, message: string, details: Record<string, unknown>}} [failure] what is wrong with an unusable result
 *
 * @typedef {{resolve: (value: any) => void, reject: (error: AreoleError) => void, onEvent?: (event: any) => void}} Pending
 */

/** The messages after which the worker's conversation is another one. */
const CHANGES = new Set(["declare", "complete", "reset", "replay"]);

/**
 * Events: `progress` (detail {file, loaded, total, phase}) and `state` (detail {state, error?}), where state is one of
 * idle, loading, ready, failed, dead, closed.
 */
export class AreoleClient extends EventTarget {
  /** @type {Worker | null} */
  #worker = null;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #nextId = 1;
  #options;
  /** @type {Contract | undefined} */
  #contract;
  /** @type {{tools: string, system: string, options: DeclareOptions} | null} what a new worker must be told before a request */
  #declared = null;
  /** @type {{prefix_tokens: number, [key: string]: any} | null} */
  #declareAnswer = null;
  /** Python that defines tools, for a new worker. @type {string | null} */
  #defined = null;
  /** @type {PromiseWithResolvers<Record<string, any>>} */
  #ready = deferred();
  /** Counts what changes the conversation in the worker, so that a caller can tell whether another one has been there. */
  epoch = 0;
  #failedBefore = false;

  /** @param {ClientOptions} [options] */
  constructor({ contract, base, ...options } = {}) {
    super();
    this.#contract = contract;
    const site = base === undefined ? new URL("./", import.meta.url) : new URL(base, globalThis.document?.baseURI);
    this.#options = { base: site.href, ...options };
    this.state = "idle";
  }

  /** Settles when the load now under way does; a load that is started anew has a new promise. */
  get ready() {
    return this.#ready.promise;
  }

  /** Starts loading, if that is not under way or done. @returns {Promise<Record<string, any>>} the worker's info */
  start() {
    if (this.state === "closed") return Promise.reject(new AreoleError("request_closed", "This client was closed; make a new one."));
    if (this.state === "loading" || this.state === "ready") return this.ready;
    if (this.state !== "idle") this.#ready = deferred();
    this.epoch += 1;
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "areole" });
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault();
      // A script that cannot be fetched or parsed gives an event without a message.
      const text = event.message || "its script could not be fetched or parsed";
      this.#end(new AreoleError("worker_failed", `The worker failed: ${text}.`, { url: String(event.filename ?? "") }));
    };
    this.#enter("loading");
    const controlled = Boolean(navigator.serviceWorker?.controller);
    worker.postMessage({ type: "load", ...this.#options, controlled, fresh: this.#failedBefore });
    if (this.#defined !== null) this.#post({ type: "define", source: this.#defined }).catch(() => {});
    if (this.#declared) {
      // Its answer is not awaited: the requests behind it in the queue meet the same tools, or the same error.
      this.#post({ type: "declare", ...this.#declared }).catch(() => {});
    }
    return this.ready;
  }

  /**
   * @param {unknown[] | string} tools a list, or JSON text that is passed on as it is
   * @param {string} [system] facts for the system line
   * @param {DeclareOptions} [options]
   * @returns {Promise<{prefix_tokens: number, [key: string]: any}>}
   */
  async declare(tools, system = "", options = {}) {
    const declared = this.#declaration(tools, system, options);
    this.#begin();
    const answer = await this.#post({ type: "declare", ...declared });
    this.#declared = declared;
    this.#declareAnswer = answer;
    return answer;
  }

  /**
   * A fresh conversation with these tools: as declare, but tools that are declared already are not prefilled again.
   * @param {unknown[] | string} tools
   * @param {string} [system]
   * @param {DeclareOptions} [options]
   * @returns {Promise<{prefix_tokens: number, [key: string]: any}>}
   */
  async prepare(tools, system = "", options = {}) {
    const wanted = this.#declaration(tools, system, options);
    const same = JSON.stringify(this.#declared) === JSON.stringify(wanted);
    if (!same || !this.#declareAnswer) return this.declare(tools, system, options);
    await this.reset();
    return this.#declareAnswer;
  }

  /** @param {unknown[] | string} tools @param {string} system @param {DeclareOptions} options */
  #declaration(tools, system, options) {
    const text = typeof tools === "string" ? tools : JSON.stringify(tools);
    if (typeof text !== "string" || typeof system !== "string") {
      throw new AreoleError("request_option", "declare(tools, system) takes a list or JSON text, and a string.");
    }
    const contract = options.contract ?? this.#contract;
    return { tools: text, system, options: contract === undefined ? options : { ...options, contract } };
  }

  /**
   * @param {string} text
   * @param {CompleteOptions} [options]
   * @returns {Promise<Answer>}
   */
  async complete(text, { maxNewTokens, onEvent, signal, probabilities } = {}) {
    requireText(text, "complete");
    if (maxNewTokens !== undefined && !Number.isInteger(maxNewTokens)) {
      throw new AreoleError("request_option", `maxNewTokens is a whole number; got ${maxNewTokens}.`);
    }
    const options = {
      ...(maxNewTokens === undefined ? {} : { max_new_tokens: maxNewTokens }),
      ...(probabilities ? { probabilities } : {}),
    };
    this.#begin();
    return this.#post({ type: "complete", text, options }, { onEvent, signal });
  }

  /** @param {string} text @returns {Promise<number[]>} the pooled vector, of length one */
  async embed(text) {
    requireText(text, "embed");
    this.#begin();
    return (await this.#post({ type: "embed", text })).embedding;
  }

  /** Forgets the conversation, not the tools. */
  async reset() {
    this.#begin();
    await this.#post({ type: "reset" });
  }

  /**
   * Goes on after turns that have been, without answering them again.
   * @param {Past[]} turns
   * @returns {Promise<{tokens: number}>} how many were read
   */
  async replay(turns) {
    this.#begin();
    return this.#post({ type: "replay", turns });
  }

  /** What becomes of tools given as JSON text: rules, what is refused or dropped, the prompt. @param {string} tools */
  async check(tools) {
    this.#begin();
    return this.#post({ type: "check", tools });
  }

  /**
   * Runs a visitor's own Python for its `@tool` functions; `invoke` then runs those. A new worker gets it again.
   * @param {string} source
   * @returns {Promise<{tools: unknown[] | null, output: string, error: PythonFault | null}>}
   */
  async define(source) {
    this.#begin();
    const answer = await this.#post({ type: "define", source });
    if (!answer.error) this.#defined = source;
    return answer;
  }

  /**
   * @param {string} name
   * @param {Record<string, unknown>} args
   * @returns {Promise<{value: unknown, output: string, error: PythonFault | null}>}
   */
  async invoke(name, args) {
    this.#begin();
    return this.#post({ type: "invoke", name, arguments: args });
  }

  /** What is in an archive. @param {ArrayBuffer} buffer @param {string} name */
  async survey(buffer, name) {
    this.#begin();
    return this.#post({ type: "survey", buffer, name });
  }

  /** The archive of a shorter model, cut from the one that is loaded. @param {number} depth @returns {Promise<{name: string, blob: Blob}>} */
  async slice(depth) {
    this.#begin();
    return this.#post({ type: "slice", depth });
  }

  /**
   * Ends the worker in the middle of whatever it does, and starts a new one with the same tools and Python functions. The
   * way out of an endless loop: without cross-origin isolation there is no other.
   */
  restart() {
    if (this.state !== "ready") return;
    this.#end(new AreoleError("cancelled", "It was stopped; the model starts again."));
    this.start().catch(() => {}); // shown by the state event
  }

  /** From now on neither the worker nor one that follows it keeps anything in this browser; what it had opened is removed. */
  keepNothing() {
    this.#options.keep = false;
    this.#worker?.postMessage({ type: "keep-nothing" });
  }

  /** Logits and pooled cells for given token ids, for parity tests. @param {Record<string, unknown>} request */
  async golden(request) {
    this.#begin();
    return this.#post({ type: "golden", request });
  }

  /** Bytes of memory, what threads do, and, with the option `trace`, live Python proxies. */
  async stats() {
    this.#begin();
    return this.#post({ type: "stats" });
  }

  /**
   * Runs one entry of a case file: declares its tools, answers each case in a fresh conversation, and returns a copy with
   * `response`, `tokens` and `timings` per turn and `prefix_tokens`; `response_json` is the response as Python wrote it,
   * with 2.0 and 2 told apart. A turn that fails has `error` {code, message} instead,
   * the rest of its conversation is left out, and the next case goes on. The signal ends all of it.
   * @param {Record<string, any>} entry {id, system, tools, turns | cases}
   * @param {DeclareOptions & {onEvent?: (event: Record<string, any>) => void, signal?: AbortSignal}} [options]
   */
  async askEntry(entry, { onEvent, signal, ...options } = {}) {
    const copy = structuredClone(entry);
    const cases = copy.cases ?? [copy];
    try {
      copy.prefix_tokens = (await this.prepare(copy.tools, copy.system ?? "", options)).prefix_tokens;
    } catch (error) {
      copy.error = brief(error);
      for (const one of cases) for (const turn of one.turns ?? [one]) turn.error = copy.error;
      return copy;
    }
    for (const one of cases) {
      let turn = one;
      try {
        await this.reset();
        for (turn of one.turns ?? [one]) {
          const answer = await this.complete(turn.text, { maxNewTokens: turn.max_new_tokens, onEvent, signal });
          turn.response = answer.result;
          turn.response_json = answer.json;
          turn.tokens = answer.tokens;
          turn.timings = answer.timings;
        }
      } catch (error) {
        if (signal?.aborted) throw error;
        turn.error = brief(error);
      }
    }
    return copy;
  }

  /** Ends the worker. What waits for an answer is rejected. */
  close() {
    const error = new AreoleError("request_closed", "The client was closed.");
    this.#worker?.terminate(); // at once, also in the middle of a token: nothing of a worker outlives it
    this.#worker = null;
    this.#ready.reject(error);
    this.#rejectAll(error);
    this.#enter("closed");
  }

  #begin() {
    // A load that fails rejects the request too, so the promise of start() itself needs no second report.
    this.start().catch(() => {});
  }

  /**
   * @param {Record<string, unknown>} message
   * @param {{onEvent?: (event: any) => void, signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  #post(message, { onEvent, signal } = {}) {
    const worker = this.#worker;
    if (!worker) return Promise.reject(new AreoleError("request_closed", "This client was closed; make a new one."));
    if (signal?.aborted) return Promise.reject(new AreoleError("cancelled", "The request was cancelled before it began."));
    const id = this.#nextId++;
    if (CHANGES.has(String(message.type))) this.epoch += 1;
    const cancel = () => worker.postMessage({ type: "cancel", id });
    signal?.addEventListener("abort", cancel, { once: true });
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onEvent });
      worker.postMessage({ ...message, id });
    }).finally(() => signal?.removeEventListener("abort", cancel));
  }

  /** @param {Record<string, any>} message */
  #receive(message) {
    const { type, id, ...rest } = message;
    switch (type) {
      case "progress":
        this.dispatchEvent(new CustomEvent("progress", { detail: rest }));
        return;
      case "ready":
        this.#failedBefore = false;
        this.#enter("ready");
        this.#ready.resolve(rest.info);
        return;
      case "event":
        this.#pending.get(id)?.onEvent?.(rest.event);
        return;
      case "result":
        this.#pending.get(id)?.resolve(rest);
        this.#pending.delete(id);
        return;
      case "error":
        if (id === undefined) {
          this.#end(AreoleError.fromMessage(message));
          return;
        }
        this.#pending.get(id)?.reject(AreoleError.fromMessage(message));
        this.#pending.delete(id);
        return;
      default:
        throw new AreoleError("internal", `The worker sent a message of unknown type ${JSON.stringify(type)}.`);
    }
  }

  /** This worker is of no use any more. @param {AreoleError} error */
  #end(error) {
    const loaded = this.state === "ready";
    this.#worker?.terminate();
    this.#worker = null;
    this.#failedBefore = !loaded;
    this.#enter(loaded ? "dead" : "failed", error);
    this.#ready.reject(error); // of no effect when the load had succeeded
    this.#rejectAll(error);
  }

  /** @param {AreoleError} error */
  #rejectAll(error) {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }

  /** @param {string} state @param {AreoleError} [error] */
  #enter(state, error) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, error } }));
  }
}

/** @param {unknown} text @param {string} method */
function requireText(text, method) {
  if (typeof text === "string") return;
  throw new AreoleError("request_text", `${method}(text) takes a string; got ${text === null ? "null" : typeof text}.`);
}

/** @param {unknown} error */
function brief(error) {
  const { code, message } = AreoleError.wrap(error);
  return { code, message };
}

/** A promise with its handles; one that nobody awaits may reject in silence. @returns {PromiseWithResolvers<any>} */
function deferred() {
  /** @type {(value: any) => void} */
  let resolve = () => {};
  /** @type {(error: any) => void} */
  let reject = () => {};
  const promise = new Promise((yes, no) => {
    resolve = yes;
    reject = no;
  });
  promise.catch(() => {});
  return { promise, resolve, reject };
}
