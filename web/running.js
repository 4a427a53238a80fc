/**
 * Running calls in a page: each call's function with its arguments, one after the other. Owns what the model is told of
 * the outcome: the value itself, or {"error": "..."}; an error of one function is not the end of the others.
 */

import { AreoleError } from "./errors.js";

/**
 * @typedef {{name: string, arguments: Record<string, any>}} Call
 * @typedef {{name: string, description?: string, parameters?: Record<string, unknown>,
 *   run: (args: any, context: {signal?: AbortSignal}) => unknown}} RunnableTool
 * @typedef {{call: Call, value?: unknown, error?: Error, told: unknown}} Ran told: what the model is told, made of JSON
 * @typedef {object} RunOptions
 * @property {AbortSignal} [signal]
 * @property {(call: Call) => boolean | Promise<boolean>} [confirm] asked before each call; false: it is not run
 * @property {(token: any) => void} [onToken]
 * @property {(ran: Ran) => void} [onRan]
 */

/**
 * @param {Call[]} calls
 * @param {Map<string, RunnableTool>} tools
 * @param {RunOptions} [options]
 * @returns {Promise<Ran[]>}
 */
export async function runCalls(calls, tools, { signal, confirm, onRan } = {}) {
  const done = [];
  for (const call of calls) {
    if (signal?.aborted) throw new AreoleError("cancelled", "The run was cancelled between two calls.");
    const ran = await runOne(call, tools.get(call.name), { signal, confirm });
    onRan?.(ran);
    done.push(ran);
  }
  return done;
}

/**
 * @param {Call} call
 * @param {RunnableTool | undefined} tool
 * @param {RunOptions} options
 * @returns {Promise<Ran>}
 */
export async function runOne(call, tool, { signal, confirm } = {}) {
  try {
    if (!tool) throw new AreoleError("tools_shape", `${call.name} has no function to run`, { got: call.name });
    if (confirm && !(await confirm(call))) throw new AreoleError("cancelled", "the user declined");
    const value = await unlessAborted(tool.run(call.arguments, { signal }), signal);
    const text = JSON.stringify(value === undefined ? null : value);
    if (text === undefined) throw new TypeError(`${call.name} gave a ${typeof value}, which JSON cannot say`);
    return { call, value, told: JSON.parse(text) };
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    return { call, error, told: { error: error.message } };
  }
}

/**
 * What the work comes to, or an error as soon as the signal says so: what does not heed the signal is left behind.
 * @template T
 * @param {T | Promise<T>} work
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function unlessAborted(work, signal) {
  if (!signal) return work;
  /** @type {() => void} */
  let stop = () => {};
  /** @type {Promise<never>} */
  const aborted = new Promise((_, reject) => {
    stop = () => reject(new AreoleError("cancelled", "It was stopped."));
  });
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
