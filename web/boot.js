/**
 * From nothing to a Python bridge that answers: picks the core build this browser can run, streams the weights into its
 * memory and starts Pyodide meanwhile, then hands both to `areole.bridge`. Owns progress and the watch for a load that
 * stands still. Asks for nothing outside the site and refuses to start where WebAssembly is blocked.
 */

import { AreoleError, CSP } from "./errors.js";
import { Kept, keepNothing, keeps } from "./kept.js";
import { checkResponse, fetchBytes, hashError, hex, networkError, streamInto } from "./loader.js";
import { Mark, Practice } from "./practice.js";
import { Prefixes } from "./prefixes.js";
import { Threads, planThreads } from "./threads.js";
import { warm } from "./warm.js";

/**
 * @typedef {object} Site site.json
 * @property {string} version
 * @property {{url: string, bytes: number, sha256: string, name: string}} model
 * @property {{relaxed: string, simd128: string, "relaxed-threads"?: string}} core
 * @property {string} wheel
 * @property {string | null} [snapshot] Python's memory with the wheel imported, gzipped
 * @property {string} pyodide folder, ends in a slash
 * @property {import("./warm.js").Rehearsal} [rehearsal] a small model to warm the kernels with
 * @property {Record<string, {bytes: number, sha256: string}>} files
 *
 * @typedef {object} BootOptions
 * @property {string} base address of the site's folder
 * @property {"relaxed" | "simd128"} [core] which core build; chosen by what the browser validates when not given
 * @property {string} [model] address of other weights; their length and hash are then not checked
 * @property {boolean} [fresh] go past the HTTP cache: after a load that failed
 * @property {number} [stallSeconds] give up when nothing has arrived for so long
 * @property {boolean} [trace] count live proxies, for the leak test
 * @property {boolean} [keep] keep the weights in this browser; true when not given
 * @property {boolean} [controlled] a service worker answers the page's requests
 * @property {number} [threads] 1 when not given; more only where the page is cross-origin isolated
 *
 * @typedef {object} Runtime
 * @property {any} bridge PyProxy of areole.bridge.Bridge
 * @property {any} pyodide
 * @property {Record<string, unknown>} info
 * @property {WebAssembly.Memory} memory
 * @property {Prefixes | null} prefixes tools that were read at earlier visits; null where nothing is kept
 * @property {Threads | null} threads
 * @property {Practice | null} practice
 * @property {() => string | null} trapped text of the trap that ended the core, if one did
 * @property {() => Promise<Uint8Array<ArrayBuffer>>} file the weights' file as it was loaded; the core repacks its copy
 */

/** An empty module: as small as a module can be, so compiling it only asks for permission. */
const EMPTY_MODULE = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
/** () -> v128 whose body ends in i8x16.popcnt (SIMD128), or in i16x8.relaxed_dot_i8x16_i7x16_s (relaxed SIMD). */
const SIMD128_MODULE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);
const RELAXED_MODULE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15,
  253, 146, 2, 11,
]);

const PYODIDE_FILES = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"];
/** Where snapshot.mjs has told Python to look for modules last. */
const WHEEL_FILE = "/areole.whl";
const STALL_SECONDS = 60;
const HASH_CHUNK = 1 << 20;
const PAGE = 65536;

/**
 * Throws a typed error where WebAssembly cannot be compiled. Pyodide's own start would wait for ever there.
 */
export function checkWebAssembly() {
  if (typeof WebAssembly !== "object") {
    throw new AreoleError("browser_unsupported", "This browser has no WebAssembly, which areole needs. Use a current browser.");
  }
  try {
    new WebAssembly.Module(EMPTY_MODULE);
  } catch (error) {
    throw new AreoleError(
      "wasm_blocked",
      "The Content-Security-Policy forbids WebAssembly. Add 'wasm-unsafe-eval' to script-src in the headers of the page " +
        `and of worker.js. A policy that works: ${CSP}`,
      { got: error instanceof Error ? error.message : String(error), needed: "script-src 'wasm-unsafe-eval'", csp: CSP },
    );
  }
}

/**
 * The core build to load: the one asked for, else the fastest this browser validates.
 * @param {string | undefined} asked
 * @returns {"relaxed" | "simd128"}
 */
export function chooseCore(asked) {
  if (asked !== undefined && asked !== "relaxed" && asked !== "simd128") {
    throw new AreoleError("request_option", `There is no core build ${JSON.stringify(asked)}; use relaxed or simd128.`, {
      got: asked,
      needed: ["relaxed", "simd128"],
    });
  }
  if (asked) return asked;
  if (WebAssembly.validate(RELAXED_MODULE)) return "relaxed";
  if (WebAssembly.validate(SIMD128_MODULE)) return "simd128";
  throw new AreoleError("browser_unsupported", "This browser's WebAssembly has no SIMD. Use a browser from 2023 or later.");
}

/** Bytes over all files, never falling, at most ten reports a second. */
class Progress {
  /**
   * @param {Map<string, number>} sizes path -> bytes
   * @param {(message: Record<string, unknown>) => void} post
   */
  constructor(sizes, post) {
    this.sizes = sizes;
    this.post = post;
    this.total = [...sizes.values()].reduce((a, b) => a + b, 0);
    /** @type {Map<string, number>} */
    this.have = new Map();
    this.phase = "download";
    this.last = 0;
    this.sent = 0;
    this.activity = 0;
  }

  /** @param {string} file @param {number} n */
  add(file, n) {
    this.activity += 1;
    const size = this.sizes.get(file) ?? 0;
    this.have.set(file, Math.min(size, (this.have.get(file) ?? 0) + n));
    this.report(file);
  }

  /** All of a file is here, whether its bytes could be counted or not. @param {string} file */
  done(file) {
    this.add(file, this.sizes.get(file) ?? 0);
  }

  /** The length of a file that the manifest does not know. @param {string} file @param {number} bytes */
  expect(file, bytes) {
    this.total += bytes - (this.sizes.get(file) ?? 0);
    this.sizes.set(file, bytes);
  }

  /** @param {string} phase @param {string} file */
  enter(phase, file) {
    this.phase = phase;
    this.activity += 1;
    this.report(file, true);
  }

  /** @param {string} file @param {boolean} [now] */
  report(file, now = false) {
    const time = performance.now();
    if (!now && time - this.last < 100) return;
    this.last = time;
    const loaded = [...this.have.values()].reduce((a, b) => a + b, 0);
    this.sent = Math.max(this.sent, loaded);
    this.post({ type: "progress", file, loaded: this.sent, total: this.total, phase: this.phase });
  }
}

/**
 * @param {BootOptions} options
 * @param {(message: Record<string, unknown>) => void} post
 * @returns {Promise<Runtime>}
 */
export async function boot(options, post) {
  const began = performance.now();
  if (options.keep === false) keepNothing();
  checkWebAssembly();
  const core = chooseCore(options.core);
  const unpacker = new Unpacker(); // it is ready by the time that the site is known
  const site = await readSite(options.base);
  const plan = planThreads(options.threads, core, site.core["relaxed-threads"]);
  const corePath = plan.threads > 1 ? /** @type {string} */ (site.core["relaxed-threads"]) : site.core[core];
  const abort = new AbortController();
  const fetching = { fresh: options.fresh, signal: abort.signal };

  const pyodidePaths = PYODIDE_FILES.map((file) => site.pyodide + file);
  const modelPath = options.model ?? site.model.url;
  const snapshotPath = site.snapshot && unpacker.able ? [site.snapshot] : [];
  if (!snapshotPath.length) unpacker.end();
  const paths = [corePath, site.wheel, ...snapshotPath, ...pyodidePaths];
  const sizes = new Map(paths.map((path) => [path, site.files[path]?.bytes ?? 0]));
  sizes.set(modelPath, options.model ? 0 : site.model.bytes);
  const progress = new Progress(sizes, post);
  const modelURL = new URL(modelPath, options.base);
  const expected = options.model ? {} : { bytes: site.model.bytes, sha256: site.model.sha256 };
  /** Seconds after which each part was there; the weights and Python come side by side. @type {Record<string, number>} */
  const seconds = {};
  const waiting = new Set(["the weights", "Pyodide"]);

  /**
   * The weights in place, checked where the manifest knows their hash and the browser can. What was kept and is damaged
   * is removed and fetched again, once.
   * @param {WebAssembly.Memory} memory
   * @param {number} address
   */
  const fill = async (memory, address) => {
    // Where the hash cannot be checked at once (plain http on another host), nothing is kept: browsers refuse it there.
    const may = keeps() && expected.sha256 && globalThis.crypto?.subtle;
    const kept = may ? await Kept.open(options.base, modelURL.href, expected.sha256) : undefined;
    const streaming = {
      ...fetching,
      kept,
      onBytes: (/** @type {number} */ n) => progress.add(modelPath, n),
      onSize: (/** @type {number} */ n) => progress.expect(modelPath, n),
    };
    let verified = expected.sha256 ? "later" : "not checked";
    let repaired = false;
    for (;;) {
      const { bytes, restored, resumed } = await streamInto(memory, address, modelURL, expected, streaming);
      seconds.weights_read = since(began);
      await kept?.settled();
      waiting.delete("the weights");
      if (expected.sha256 && globalThis.crypto?.subtle) {
        // The digest is taken on a view of the core's memory, off this thread; nothing grows that memory meanwhile. Of
        // memory that threads share the browser only takes a copy.
        const view = new Uint8Array(memory.buffer, address, bytes);
        const got = hex(await crypto.subtle.digest("SHA-256", plan.threads > 1 ? view.slice() : view));
        if (got !== expected.sha256) {
          await kept?.clear();
          if (repaired || !(restored || resumed)) throw hashError(modelURL, got, expected.sha256);
          repaired = true;
          waiting.add("the weights");
          progress.enter("repair", modelPath);
          streaming.fresh = true;
          continue;
        }
        verified = "SHA-256";
        await kept?.removeOthers();
      }
      return { nbytes: bytes, verified, kept: { state: kept?.state ?? "off", restored, repaired } };
    }
  };

  /** @param {string} path */
  const fetchPart = (path) =>
    fetchBytes(new URL(path, options.base), site.files[path] ?? {}, { ...fetching, onBytes: (n) => progress.add(path, n) });

  /** @type {() => void} */
  let arrived = () => {};
  /** The weights are there, or will not come. @type {Promise<void>} */
  const filled = new Promise((resolve) => {
    arrived = resolve;
  });

  const weights = async () => {
    const bytes = await fetchPart(corePath);
    const guarded = await startCore(bytes, corePath, plan.threads);
    const address = Math.ceil(guarded.heapBase / 64) * 64;
    seconds.core = since(began);
    // Before Python starts: its own functions would stand in line for the compiler first.
    const imports = Threads.imports(plan.threads);
    const warming = site.rehearsal ? warm(guarded.module, site.rehearsal, imports).catch(() => null) : null;
    const [there, warmSeconds] = await Promise.all([fill(guarded.memory, address).finally(arrived), warming]);
    seconds.weights = since(began);
    return { ...guarded, address, ...there, warmSeconds };
  };

  /** Python's memory as it was after importing the package, or undefined: then it starts from nothing. */
  const readSnapshot = async () => {
    const [path] = snapshotPath;
    try {
      const unpacked = await unpacker.unpack(new URL(path, options.base).href, site.files[path] ?? {}, options.fresh);
      seconds.snapshot = since(began);
      return unpacked;
    } catch {
      return undefined; // the weights fail the same way where it is the network, and say so
    } finally {
      unpacker.end();
      progress.done(path);
    }
  };

  const python = async () => {
    // The browser keeps code for a file as it was served: after a visit that is served otherwise it would be of no use.
    const mark = options.controlled ? Mark.open(options.base, [site.model.sha256, site.files[`${site.pyodide}pyodide.asm.wasm`]?.sha256]) : null;
    const wheel = fetchPart(site.wheel);
    wheel.catch(() => {}); // it is awaited below
    const snapshot = snapshotPath.length ? readSnapshot() : undefined;
    const started = snapshot && (await startPyodide(options.base, site, progress, snapshot).catch(() => undefined));
    const pyodide = started ?? (await startPyodide(options.base, site, progress));
    seconds.pyodide = since(began);
    if (options.trace) pyodide._module.enable_pyproxy_allocation_tracing();
    const bytes = await wheel;
    // All that a tab imports is in the snapshot; what a visitor's own Python asks for beyond it, Python finds in the file.
    if (started) pyodide.FS.writeFile(WHEEL_FILE, bytes);
    else pyodide.unpackArchive(bytes, "wheel");
    const module = pyodide.pyimport("areole.bridge");
    waiting.delete("Pyodide");
    seconds.python = since(began);
    const practice = started && !options.model ? new Practice(pyodide, site.model.sha256, await mark) : null;
    await practice?.until(filled);
    return { pyodide, module, practice, snapshot: started !== undefined };
  };

  const watch = stallWatch(progress, options.stallSeconds ?? STALL_SECONDS, waiting);
  let parts;
  try {
    parts = await Promise.race([Promise.all([weights(), python()]), watch.failed]);
  } catch (error) {
    abort.abort(); // the other half need not go on
    throw error;
  } finally {
    watch.stop();
  }
  const [{ exports, memory, address, nbytes, trapped, threads, ...loaded }, { pyodide, module, practice, snapshot }] = parts;
  if (loaded.verified === "later" && expected.sha256) {
    progress.enter("verify", modelPath);
    checkHashInPython(pyodide, memory, address, nbytes, expected.sha256, modelURL);
    loaded.verified = "SHA-256";
  }

  seconds.parts = since(began);
  const coreHash = site.files[corePath]?.sha256;
  const prefixes = loaded.kept.state !== "off" && expected.sha256 && coreHash ? Prefixes.open(options.base, [expected.sha256, coreHash]) : null;
  progress.enter("start", modelPath);
  const name = options.model ? modelURL.pathname.split("/").pop() || "model" : site.model.name;
  let bridge;
  try {
    bridge = module.start(exports, memory, address, nbytes, name, loaded.verified === "SHA-256" ? expected.sha256 : undefined);
  } catch (error) {
    throw trapped() ? new AreoleError("worker_failed", `The core trapped while it started: ${trapped()}`) : error;
  } finally {
    module.destroy();
  }
  if (typeof bridge === "string") throw AreoleError.fromMessage(JSON.parse(bridge));
  seconds.total = since(began);
  const info = {
    ...JSON.parse(bridge.info()),
    version: site.version,
    core,
    pyodide: pyodide.version,
    snapshot,
    model: { name, bytes: nbytes, verified: loaded.verified, sha256: options.model ? null : site.model.sha256 },
    kept: loaded.kept,
    downloadBytes: progress.total,
    loadSeconds: seconds,
    warmSeconds: loaded.warmSeconds, // null: the kernels were not warmed
    practised: practice?.tokens ?? 0,
    crossOriginIsolated: globalThis.crossOriginIsolated === true,
    threads: plan.threads,
    notices: plan.notice ? [plan.notice] : [],
  };
  progress.enter("ready", modelPath);
  /** From what is kept, if that is still right, else from the network. */
  const file = async () => {
    if (loaded.kept.state === "kept" && expected.sha256) {
      const whole = new Uint8Array(nbytes);
      let at = 0;
      for await (const piece of (await Kept.open(options.base, modelURL.href, expected.sha256)).pieces(nbytes)) {
        whole.set(piece, at);
        at += piece.length;
      }
      if (at === nbytes && hex(await crypto.subtle.digest("SHA-256", whole)) === expected.sha256) return whole;
    }
    return fetchBytes(modelURL, { ...expected, bytes: nbytes }, {});
  };
  return { bridge, pyodide, info, memory, threads, prefixes: await prefixes, practice, trapped, file };
}

/** Unpacks a file on a thread of its own. */
class Unpacker {
  able = typeof DecompressionStream === "function" && typeof Worker === "function";
  #worker = this.able ? new Worker(new URL("./unpack.js", import.meta.url), { type: "module", name: "areole-unpack" }) : null;

  /**
   * @param {string} url
   * @param {import("./loader.js").Expected} expected
   * @param {boolean} [fresh]
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  unpack(url, expected, fresh) {
    return new Promise((resolve, reject) => {
      const worker = /** @type {Worker} */ (this.#worker);
      worker.onmessage = ({ data }) => (data.error ? reject(AreoleError.fromMessage(data.error)) : resolve(new Uint8Array(data.buffer)));
      worker.onerror = (event) => reject(new AreoleError("worker_failed", `The worker that unpacks failed: ${event.message}`));
      worker.postMessage({ url, expected, fresh });
    });
  }

  end() {
    this.#worker?.terminate();
  }
}

/** @param {number} began */
function since(began) {
  return Math.round(performance.now() - began) / 1000;
}

/**
 * @param {string} base
 * @returns {Promise<Site>}
 */
async function readSite(base) {
  const url = new URL("site.json", base);
  let response;
  try {
    // Always asked anew: it names and hashes everything else, so an old copy would mix two builds.
    response = await fetch(url, { cache: "no-cache" });
  } catch (error) {
    throw networkError(url, error);
  }
  checkResponse(response, url);
  let site;
  try {
    site = await response.json();
  } catch (error) {
    throw new AreoleError("site_manifest", `site.json is not JSON (${error}). Rebuild the site.`, { url: String(url) });
  }
  for (const path of ["model.url", "model.bytes", "model.sha256", "core.relaxed", "core.simd128", "wheel", "pyodide", "files"]) {
    const value = path.split(".").reduce((at, key) => at?.[key], site);
    if (value === undefined || value === null) {
      throw new AreoleError("site_manifest", `site.json has no ${path}. Rebuild the site.`, { url: String(url), needed: path });
    }
  }
  return site;
}

/**
 * Instantiates the core module. Python gets its functions wrapped: a trap passes through Python as an ordinary exception,
 * and only here can it be told from one for certain. The wrapper costs some 20 ns a call, at one call a token.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {string} path
 * @param {number} threadCount
 */
async function startCore(bytes, path, threadCount) {
  const imports = Threads.imports(threadCount);
  let module;
  let instance;
  try {
    module = await WebAssembly.compile(bytes);
    instance = await WebAssembly.instantiate(module, imports);
  } catch (error) {
    throw AreoleError.wrap(error, "core_abi", `${path} could not be instantiated. `);
  }
  const { memory, __heap_base: base } = instance.exports;
  if (!(memory instanceof WebAssembly.Memory) || !(base instanceof WebAssembly.Global)) {
    throw new AreoleError("core_abi", `${path} exports no memory or no __heap_base; rebuild the core.`, { path });
  }
  let heapBase = Number(base.value);
  const threads = threadCount > 1 ? new Threads(module, instance.exports, memory) : null;
  if (threads) heapBase = threads.start(threadCount - 1, Math.ceil(heapBase / 64) * 64);
  /** @type {string | null} */
  let trap = null;
  /** @type {Record<string, unknown>} */
  const exports = {};
  for (const [key, value] of Object.entries({ ...instance.exports, ...threads?.calls() })) {
    if (typeof value !== "function") {
      exports[key] = value;
      continue;
    }
    exports[key] = (/** @type {any[]} */ ...args) => {
      try {
        return /** @type {any} */ (value)(...args);
      } catch (error) {
        // A wrong argument is a TypeError and harmless; after a trap or an exhausted stack the memory is in no known state.
        if (!(error instanceof TypeError)) trap = `${key}: ${error instanceof Error ? error.message : error}`;
        throw error;
      }
    };
  }
  // The helpers' memory lies below what Python manages.
  exports.__heap_base = { value: heapBase };
  return { module, exports, memory, heapBase, threads, trapped: () => trap };
}

/**
 * Starts Pyodide from the site's own folder. Its requests are counted on the way, and a failed one ends the wait: the
 * promise of loadPyodide stays open for ever when its wasm does not arrive.
 * @param {string} base
 * @param {Site} site
 * @param {Progress} progress
 * @param {Promise<Uint8Array | undefined>} [snapshot] memory to begin with
 */
async function startPyodide(base, site, progress, snapshot) {
  const folder = new URL(site.pyodide, base).href;
  const original = globalThis.fetch;
  const { instantiateStreaming } = WebAssembly;
  /** @type {(error: unknown) => void} */
  let fail = () => {};
  const failed = new Promise((_, reject) => {
    fail = reject;
  });
  failed.catch(() => {}); // it also rejects when nobody waits any more
  globalThis.fetch = async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (!url.startsWith(folder)) return original(input, init);
    try {
      const response = await original(input, init);
      checkResponse(response, url);
      countBytes(response.clone(), (n) => progress.add(site.pyodide + url.slice(folder.length), n));
      return response;
    } catch (error) {
      fail(error instanceof AreoleError ? error : networkError(url, error));
      throw error;
    }
  };
  try {
    // Compiled while its script and the snapshot still come: other threads do that.
    const binary = globalThis.fetch(`${folder}pyodide.asm.wasm`);
    const compiled = WebAssembly.compileStreaming(binary);
    compiled.catch(() => {}); // it is awaited where it is used
    const counting = globalThis.fetch;
    globalThis.fetch = (input, init) => (String(input) === `${folder}pyodide.asm.wasm` ? binary : counting(input, init));
    WebAssembly.instantiateStreaming = async (_, imports) => {
      const module = await compiled;
      const instance = await WebAssembly.instantiate(module, imports);
      const memory = /** @type {WebAssembly.Memory} */ (instance.exports.memory);
      const missing = ((await snapshot)?.length ?? 0) - memory.buffer.byteLength;
      if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
      return { module, instance };
    };
    const start = async () => {
      const { loadPyodide } = await import(new URL("pyodide.mjs", folder).href);
      progress.done(`${site.pyodide}pyodide.mjs`);
      return loadPyodide({ indexURL: folder, packages: [], ...(snapshot ? { _loadSnapshot: snapshot } : {}) });
    };
    const pyodide = await Promise.race([start(), failed]);
    for (const file of PYODIDE_FILES) progress.done(site.pyodide + file);
    return pyodide;
  } catch (error) {
    throw AreoleError.wrap(error, "python_failed", `Pyodide did not start from ${site.pyodide}. `);
  } finally {
    globalThis.fetch = original;
    WebAssembly.instantiateStreaming = instantiateStreaming;
  }
}

/**
 * @param {Response} response
 * @param {(n: number) => void} onBytes
 */
async function countBytes(response, onBytes) {
  try {
    const reader = response.body?.getReader();
    for (;;) {
      const step = await reader?.read();
      if (!step || step.done) return;
      onBytes(step.value.length);
    }
  } catch {
    // The same body fails for its real reader too, which reports it; here it is only counted.
  }
}

/**
 * Rejects when a part is still awaited and no byte has come for `limit` seconds of this thread's own time: seconds in
 * which the thread is busy (Pyodide compiles and starts on it) do not tick.
 * @param {Progress} progress
 * @param {number} limit
 * @param {Set<string>} waiting
 */
function stallWatch(progress, limit, waiting) {
  let idle = 0;
  let seen = progress.activity;
  /** @type {(error: AreoleError) => void} */
  let reject = () => {};
  const failed = new Promise((_, no) => {
    reject = no;
  });
  const timer = setInterval(() => {
    idle = progress.activity === seen ? idle + 1 : 0;
    seen = progress.activity;
    if (idle < limit) return;
    reject(
      new AreoleError(
        "load_stalled",
        `Nothing has arrived for ${limit} seconds while waiting for ${[...waiting].join(" and ")}. Check the network and ` +
          "try again.",
        { waiting: [...waiting], seconds: limit },
      ),
    );
  }, 1000);
  return { failed, stop: () => clearInterval(timer) };
}

/**
 * SHA-256 of the weights where the page is not in a secure context and so has no crypto.subtle (plain http on another
 * host): Python's hashlib, a piece at a time, so that its heap does not grow by a copy of the weights.
 * @param {any} pyodide
 * @param {WebAssembly.Memory} memory
 * @param {number} address
 * @param {number} nbytes
 * @param {string} needed
 * @param {URL} url
 */
function checkHashInPython(pyodide, memory, address, nbytes, needed, url) {
  const hashlib = pyodide.pyimport("hashlib");
  const hash = hashlib.sha256();
  try {
    for (let at = 0; at < nbytes; at += HASH_CHUNK) {
      const piece = new Uint8Array(memory.buffer, address + at, Math.min(HASH_CHUNK, nbytes - at));
      const copy = pyodide.toPy(piece);
      hash.update(copy);
      copy.destroy();
    }
    const got = hash.hexdigest();
    if (got !== needed) throw hashError(url, got, needed);
  } finally {
    hash.destroy();
    hashlib.destroy();
  }
}
