/**
 * The worker: one core, one Python, one queue. Answers one request at a time, in order; between two tokens it lets
 * messages in, so a cancel takes effect at the next token. Refuses nothing silently: every request ends in exactly one
 * `result` or `error` with its id.
 *
 * To the worker:   {type:"load", base, core?, model?, threads?, controlled?, fresh?, stallSeconds?, trace?} once, then with an id each
 *                  {type:"declare", tools, system, options} {type:"complete", text, options} {type:"embed", text} {type:"reset"}
 *                  {type:"replay", turns} {type:"check", tools} {type:"define", source} {type:"invoke", name, arguments}
 *                  {type:"survey", buffer, name} {type:"slice", depth}
 *                  {type:"golden", request} {type:"stats"}; {type:"cancel", id} {type:"keep-nothing"} {type:"close"}
 * From the worker: {type:"progress", file, loaded, total, phase} {type:"ready", info} {type:"event", id, event}
 *                  {type:"result", id, ...} {type:"error", id?, code, message, details}; an error without an id is the end
 *                  of this worker: it could not load, or its core trapped
 */

import { boot } from "./boot.js";
import { AreoleError } from "./errors.js";
import { keepNothing } from "./kept.js";

/** @typedef {{type: string, id: number, [key: string]: any}} Request */

/** @type {Promise<import("./boot.js").Runtime> | null} */
let loading = null;
/** @type {Request[]} */
const queue = [];
/** @type {Request | null} */
let running = null;
let cancelRunning = false;
let dead = false;

/** @param {Record<string, unknown>} message */
const post = (message) => self.postMessage(message);

self.onmessage = ({ data }) => {
  switch (data.type) {
    case "load":
      loading ??= load(data);
      loading.catch(() => {}); // told by its message; requests that wait for it get it too
      return;
    case "cancel":
      cancel(data.id);
      return;
    case "keep-nothing":
      keepNothing();
      return;
    case "close":
      close();
      return;
    default:
      queue.push(data);
      if (!running) pump();
  }
};

/** @param {import("./boot.js").BootOptions} options */
async function load(options) {
  try {
    const runtime = await boot(options, post);
    post({ type: "ready", info: runtime.info });
    runtime.practice?.between(() => running !== null);
    return runtime;
  } catch (error) {
    dead = true;
    const failure = AreoleError.wrap(error);
    post(failure.toMessage());
    throw failure;
  }
}

async function pump() {
  while (!running) {
    const request = queue.shift();
    if (!request) return;
    running = request;
    cancelRunning = false;
    try {
      if (!loading) throw new AreoleError("request_unknown", "The worker got a request before a load message.");
      const runtime = await loading;
      if (cancelRunning) throw cancelled();
      post({ type: "result", id: request.id, ...(await serve(runtime, request)) });
    } catch (error) {
      await report(request, error);
    } finally {
      running = null;
    }
  }
}

/**
 * @param {import("./boot.js").Runtime} runtime
 * @param {Request} request
 * @returns {Promise<Record<string, unknown>> | Record<string, unknown>}
 */
function serve(runtime, request) {
  const { bridge } = runtime;
  switch (request.type) {
    case "declare":
      return declare(runtime, request);
    case "complete":
      return complete(runtime, request);
    case "embed":
      return answer(bridge.embed(request.text));
    case "reset":
      return answer(bridge.reset());
    case "replay":
      return answer(bridge.replay(JSON.stringify(request.turns)));
    case "check":
      return answer(bridge.check(request.tools));
    case "define":
      return answer(bridge.define(request.source));
    case "invoke":
      return invoke(bridge, request);
    case "survey":
      return answer(bridge.survey(new Uint8Array(request.buffer), request.buffer.byteLength, request.name));
    case "slice":
      return slice(runtime, request.depth);
    case "golden":
      return answer(bridge.golden(JSON.stringify(request.request)));
    case "stats":
      return stats(runtime);
    default:
      throw new AreoleError("request_unknown", `The worker knows no request ${JSON.stringify(request.type)}.`);
  }
}

/**
 * Tools that were read at an earlier visit are not read again.
 * @param {import("./boot.js").Runtime} runtime
 * @param {Request} request
 */
async function declare({ bridge, prefixes }, request) {
  const name = await prefixes?.offer(bridge, /** @type {any} */ (request));
  const declared = answer(bridge.declare(request.tools, request.system, JSON.stringify(request.options ?? {})));
  if (name !== undefined && declared.prefix_cached === false) prefixes?.keep(bridge, name);
  return declared;
}

/**
 * Python's answer as an object; its typed errors are thrown as what they are.
 * @param {string | undefined} text JSON, or nothing for a call that only does something
 */
function answer(text) {
  if (text === undefined || text === "") return {};
  const value = JSON.parse(text);
  if (value.type === "error" && typeof value.code === "string") throw AreoleError.fromMessage(value);
  return withoutType(value);
}

/** @param {Record<string, unknown>} value a message of Python's, whose type says nothing to the page */
function withoutType(value) {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== "type"));
}

/**
 * Drives one run: Python makes a token a step, and the loop is here so that it can breathe between two.
 * @param {import("./boot.js").Runtime} runtime
 * @param {Request} request
 */
async function complete(runtime, request) {
  const run = runtime.bridge.begin(request.text, JSON.stringify(request.options ?? {}));
  if (typeof run === "string") return answer(run);
  let told = false;
  try {
    for (;;) {
      if (cancelRunning && !told) {
        told = true;
        run.cancel();
      }
      const text = run.step();
      if (text === "") throw told ? cancelled() : new AreoleError("internal", "A run ended without a result.");
      const event = JSON.parse(text);
      if (event.type === "error") throw AreoleError.fromMessage(event);
      if (event.type === "result") return withoutType(event);
      post({ type: "event", id: request.id, event });
      await tick();
    }
  } finally {
    run.destroy();
  }
}

/** Runs a function that a visitor wrote in Python; it may be async. @param {any} bridge @param {Request} request */
async function invoke(bridge, request) {
  const coroutine = bridge.invoke(request.name, JSON.stringify(request.arguments));
  try {
    return answer(await coroutine);
  } finally {
    coroutine.destroy?.();
  }
}

/**
 * The archive of a shorter model: Python says which parts of the file it is made of.
 * @param {import("./boot.js").Runtime} runtime
 * @param {number} depth
 */
async function slice({ bridge, file }, depth) {
  const { name, bytes, pieces } = /** @type {any} */ (answer(bridge.slice(depth)));
  const whole = await file();
  /** @param {string | [number, number]} piece */
  const part = (piece) =>
    typeof piece === "string" ? Uint8Array.from(atob(piece), (c) => c.charCodeAt(0)) : whole.subarray(piece[0], piece[0] + piece[1]);
  const blob = new Blob(pieces.map(part), { type: "application/octet-stream" });
  if (blob.size !== bytes) throw new AreoleError("internal", `The archive has ${blob.size} bytes; ${bytes} were planned.`);
  return { name, blob };
}

/**
 * Memory, threads and live handles; the handles only with `trace` at load.
 * @param {import("./boot.js").Runtime} runtime
 */
function stats({ memory, threads, pyodide }) {
  const module = pyodide._module;
  return {
    coreBytes: memory.buffer.byteLength,
    pythonBytes: module.HEAPU8?.byteLength ?? null,
    threads: threads?.state() ?? null,
    proxies: module.pyproxy_alloc_map?.size ?? null,
  };
}

/** @param {number} id */
function cancel(id) {
  if (running?.id === id) {
    cancelRunning = true;
    return;
  }
  const at = queue.findIndex((request) => request.id === id);
  if (at < 0) return; // already answered: the two messages crossed
  queue.splice(at, 1);
  post({ ...cancelled().toMessage(), id });
}

function cancelled() {
  return new AreoleError("cancelled", "The request was cancelled.");
}

/**
 * @param {Request} request
 * @param {unknown} error
 */
async function report(request, error) {
  const failure = AreoleError.wrap(error);
  const ended = dead ? null : await fatal(error);
  if (!ended) {
    post({ ...failure.toMessage(), id: request.id });
    return;
  }
  dead = true;
  const end = new AreoleError(
    "worker_failed",
    `The worker broke down (${ended}) and cannot go on. The next request starts a new one; the conversation is lost.`,
    { cause: ended, code: failure.code },
  );
  post({ ...end.toMessage(), id: request.id });
  post(end.toMessage());
}

/**
 * Why nothing can be asked of this worker any more, or null: a trap leaves the core's memory in an unknown state, and a
 * fatal error of Pyodide closes its interpreter.
 * @param {unknown} error
 */
async function fatal(error) {
  const runtime = await loading?.catch(() => null);
  const trap = runtime?.trapped();
  if (trap) return trap;
  if (error instanceof Error && /** @type {any} */ (error).pyodide_fatal_error) return error.message;
  return error instanceof Error && /fatally failed/.test(error.message) ? error.message : null;
}

/** Gives everything back in order. A page that is in a hurry ends the worker instead. */
async function close() {
  queue.length = 0;
  const runtime = await loading?.catch(() => null);
  if (runtime && !dead) {
    runtime.threads?.stop();
    runtime.bridge.close();
    runtime.bridge.destroy();
  }
  self.close();
}

const channel = new MessageChannel();
/** @type {(() => void) | null} */
let wake = null;
channel.port1.onmessage = () => wake?.();

/** One turn of the event loop, without the 4 ms that nested timers are held back. @returns {Promise<void>} */
function tick() {
  return new Promise((resolve) => {
    wake = resolve;
    channel.port2.postMessage(null);
  });
}
