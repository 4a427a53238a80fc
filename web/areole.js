/**
 * areole for other pages: load once, then requests in and function calls out.
 *
 *     const areole = await Areole.load({ onProgress });
 *     await areole.use([{ name: "light", parameters: {...}, run: ({ room }) => ... }]);
 *     for await (const event of areole.stream("light the hall")) ...
 *     const { text, ran } = await areole.run("light the hall");
 *
 * Owns the names that are promised to others; the worker's life is client.js's business. One request is answered at a time,
 * further ones wait. Each failure is an AreoleError with a stable `code`, and after each but `request_closed` the next
 * request works. Types: areole.d.ts.
 */

import { AreoleClient } from "./client.js";
import { AreoleError } from "./errors.js";
import { runCalls } from "./running.js";

export { AreoleError } from "./errors.js";

/** @typedef {import("./running.js").RunnableTool} RunnableTool */

/** How often `run` gives results back before it stops. */
const MAX_TURNS = 8;

/**
 * A tool of a function: JavaScript knows no types, so what it takes is said beside it.
 * @param {(args: any, context: {signal?: AbortSignal}) => unknown} run gets the call's arguments as one object
 * @param {{name?: string, description?: string, parameters?: Record<string, unknown>}} [declaration]
 * @returns {RunnableTool}
 */
export function tool(run, { name = run.name, description, parameters } = {}) {
  if (!name) throw new AreoleError("tools_shape", "A function without a name needs one: tool(run, { name }).");
  return { name, description, parameters, run };
}

export class Areole {
  #client;
  /** @type {Map<string, RunnableTool>} */
  #runnable = new Map();

  /** @param {AreoleClient} client */
  constructor(client) {
    this.#client = client;
  }

  /**
   * @param {import("./client.js").ClientOptions & {
   *   tools?: unknown[], system?: string, onProgress?: (progress: any) => void, signal?: AbortSignal}} [options]
   * @returns {Promise<Areole>}
   */
  static async load({ tools, system, onProgress, signal, ...options } = {}) {
    const client = new AreoleClient(options);
    const areole = new Areole(client);
    const stop = () => client.close();
    if (signal?.aborted) throw new AreoleError("cancelled", "Loading was cancelled before it began.");
    signal?.addEventListener("abort", stop, { once: true });
    if (onProgress) client.addEventListener("progress", (event) => onProgress(/** @type {CustomEvent} */ (event).detail));
    try {
      areole.info = await client.start();
      if (tools) await areole.use(tools, { system });
    } catch (error) {
      client.close();
      throw signal?.aborted ? new AreoleError("cancelled", "Loading was cancelled.") : error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
    return areole;
  }

  /** What was loaded. @type {Record<string, any>} */
  info = {};

  /** "ready", "loading", "dead" (starts again with the next request), "failed" or "closed". */
  get state() {
    return this.#client.state;
  }

  /**
   * Declares tools and begins a new conversation.
   * @param {unknown[]} tools declarations, plain or OpenAI-wrapped; those with a function `run` are run by `run`
   * @param {import("./client.js").DeclareOptions & {system?: string}} [options]
   * @returns {Promise<{prefixTokens: number}>}
   */
  async use(tools, { system = "", ...options } = {}) {
    if (!Array.isArray(tools)) throw new AreoleError("tools_shape", "use(tools) takes a list of tools.", { got: typeof tools });
    const runnable = new Map();
    const declarations = tools.map((/** @type {any} */ entry) => {
      const { run, ...declaration } = entry ?? {};
      const named = declaration.function ?? declaration;
      if (typeof run === "function") runnable.set(named.name, { ...named, run });
      return declaration;
    });
    const answer = await this.#client.declare(declarations, system, { explain: true, ...options });
    if (answer.problem) throw AreoleError.fromMessage(answer.problem);
    this.#runnable = runnable;
    return { prefixTokens: answer.prefix_tokens };
  }

  /**
   * The answer to a request, or, after calls, to their results given as JSON text.
   * @param {string} text
   * @param {{maxNewTokens?: number, signal?: AbortSignal, onToken?: (token: any) => void}} [options]
   */
  async complete(text, { maxNewTokens, signal, onToken } = {}) {
    return answerOf(await this.#client.complete(text, { maxNewTokens, signal, onEvent: onToken }));
  }

  /**
   * Tokens as they come, then the answer; leaving the loop early stops the request.
   * @param {string} text
   * @param {{maxNewTokens?: number, signal?: AbortSignal}} [options]
   * @returns {AsyncGenerator<Record<string, any>>}
   */
  async *stream(text, { maxNewTokens, signal } = {}) {
    /** @type {any[]} */
    const waiting = [];
    let wake = () => {};
    const stop = new AbortController();
    const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
    let ended = false;
    const push = (/** @type {any} */ item) => {
      waiting.push(item);
      wake();
    };
    this.complete(text, { maxNewTokens, signal: either, onToken: push })
      .then((answer) => push({ type: "answer", answer }))
      .catch((error) => push({ type: "failure", error }));
    try {
      for (;;) {
        if (!waiting.length) await new Promise((resolve) => (wake = () => resolve(undefined)));
        const item = waiting.shift();
        if (item.type === "failure") {
          ended = true;
          throw item.error;
        }
        if (item.type === "answer") ended = true;
        yield item;
        if (ended) return;
      }
    } finally {
      if (!ended) stop.abort();
    }
  }

  /**
   * Answers a request, runs the functions that it calls, gives their results back, until there is no call.
   * @param {string} text
   * @param {import("./running.js").RunOptions & {maxNewTokens?: number, maxTurns?: number}} [options]
   */
  async run(text, { maxNewTokens, maxTurns = MAX_TURNS, signal, onToken, ...options } = {}) {
    const asking = { maxNewTokens, signal, onToken };
    let answer = await this.complete(text, asking);
    const ran = [];
    for (let turn = 0; turn < maxTurns && answer.calls.length; turn++) {
      const done = await runCalls(answer.calls, this.#runnable, { signal, ...options });
      ran.push(...done);
      answer = await this.complete(JSON.stringify(done.map((one) => one.told)), asking);
    }
    return { text: answer.text, answer, ran, stopped: answer.calls.length ? "limit" : "done" };
  }

  /** @param {string} text @returns {Promise<Float32Array>} a vector of length one */
  async embed(text) {
    return Float32Array.from(await this.#client.embed(text));
  }

  /** Forgets the conversation, not the tools. */
  async reset() {
    await this.#client.reset();
  }

  /** Ends the worker and gives its memory back; what waits is refused with `request_closed`. */
  close() {
    this.#client.close();
  }
}

/** @param {import("./client.js").Answer} answer */
function answerOf({ result, json, tokens, prompt_tokens: promptTokens, timings, text, failure }) {
  if (failure) throw AreoleError.fromMessage(failure);
  return {
    calls: /** @type {any[]} */ (result.function_calls ?? []),
    withheld: /** @type {any[]} */ (result.suppressed_calls ?? []),
    reasons: /** @type {any[]} */ (result.areole?.reasons ?? []),
    text,
    reasoning: String(result.reasoning ?? ""),
    confidence: Number(result.confidence ?? 0),
    tokens,
    promptTokens,
    timings,
    result,
    json,
  };
}
