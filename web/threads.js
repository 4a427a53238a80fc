/**
 * Threads, where a page asks for them and is cross-origin isolated: helper workers over the core's memory, and the choice,
 * call by call, whether they take part. Owns the helpers' life and that choice; how work is shared is the core's business
 * (core_c/threads.h). Refuses nothing: without isolation, or with a helper that fails, there is one thread and a notice.
 */

import { AreoleError } from "./errors.js";

/** As the threaded build declares its memory: in pages of 64 KiB. */
const MEMORY = { initial: 16, maximum: 16384, shared: true };
/** Tokens that the core runs at once; a call of more is cut, to decide anew at each piece. The same bits for any cut. */
const BATCH = 48;
/** More are of no use to a core of this size. */
export const MOST_THREADS = 8;
/** Flags of areole_prefill. */
const LOGITS_LAST = 2;
const LOGITS_ALL = 4;

/** @typedef {{code: string, message: string, details: Record<string, unknown>}} Notice why there is only one thread */

/**
 * How many threads there will be, and why not more.
 * @param {unknown} asked
 * @param {string} core the build that is loaded otherwise
 * @param {string | undefined} threaded address of the threaded build
 * @returns {{threads: number, notice: Notice | null}}
 */
export function planThreads(asked, core, threaded) {
  if (asked === undefined || asked === 1) return { threads: 1, notice: null };
  if (!Number.isInteger(asked) || Number(asked) < 1 || Number(asked) > MOST_THREADS) {
    throw new AreoleError("request_option", `threads is a whole number from 1 to ${MOST_THREADS}; got ${asked}.`, {
      got: asked,
      needed: [1, MOST_THREADS],
    });
  }
  const missing =
    globalThis.crossOriginIsolated !== true
      ? "the page is not cross-origin isolated. Send the headers Cross-Origin-Opener-Policy: same-origin and " +
        "Cross-Origin-Embedder-Policy: require-corp with the page and its scripts"
      : core !== "relaxed"
        ? "they need the core with relaxed SIMD, which this browser lacks or the page did not ask for"
        : threaded === undefined
          ? "this site has no threaded core. Rebuild it"
          : null;
  if (missing === null) return { threads: Number(asked), notice: null };
  return { threads: 1, notice: notice(`${asked} threads were asked for, but ${missing}. There is one thread.`, { got: asked }) };
}

/** @param {string} message @param {Record<string, unknown>} [details] @returns {Notice} */
function notice(message, details = {}) {
  return { code: "threads_unavailable", message, details };
}

/**
 * How calls of a kind are tried. trial: calls the other way that make one. recheck: calls with helpers between two trials;
 * pause: calls without, doubled by each trial that fails.
 * @typedef {{trial: number, recheck: number, pause: number}} Rhythm
 */

/** A token a call: short, and many of them. @type {Rhythm} */
export const ONE = { trial: 3, recheck: 32, pause: 64 };
/** Batches: few, but each long enough to tell. @type {Rhythm} */
export const MANY = { trial: 2, recheck: 8, pause: 16 };

/**
 * Whether the helpers take part in the next call. Times both ways: a few calls the other way now and then, rarely where that
 * was slower. Calls are compared by milliseconds a token with calls nearby, since a token's cost grows with the context.
 */
export class Choice {
  /** The first calls of all are the compiler's. */
  static WARM = 4;
  static LONGEST_PAUSE = 4096;
  /** Helpers that pay make a call shorter than this; what is gained less may be noise. */
  static GAIN = 0.9;
  /** Nearby calls that are compared with. */
  static NEAR = 6;

  helped = false;
  /** @type {number[]} milliseconds a token of the newest calls without helpers, and with */
  alone = [];
  /** @type {number[]} */
  together = [];
  #left = Choice.WARM;
  #trying = false;
  #rhythm;
  #pause;

  /** @param {Rhythm} rhythm */
  constructor(rhythm) {
    this.#rhythm = rhythm;
    this.#pause = rhythm.pause;
  }

  /** What the next call is to do. */
  next() {
    return this.helped !== this.#trying;
  }

  /** What it took. @param {number} ms a token */
  took(ms) {
    const withHelpers = this.next();
    const list = withHelpers ? this.together : this.alone;
    list.push(ms);
    if (list.length > Choice.NEAR) list.shift();
    this.#left -= 1;
    if (this.#trying) {
      // A trial that goes badly is not gone through with.
      if (withHelpers && ms > 2 * mean(this.alone)) this.#left = 0;
      if (this.#left <= 0) this.#decide();
    } else if (this.#left <= 0 || (this.helped && this.#worse())) {
      this.#trying = true;
      this.#left = this.#rhythm.trial;
      (this.helped ? this.alone : this.together).length = 0;
    }
  }

  /** Whether the newest calls with helpers were slower than those without, which are tried again at once then. */
  #worse() {
    const newest = this.together.slice(-this.#rhythm.trial);
    return newest.length === this.#rhythm.trial && mean(newest) > mean(this.alone) * 1.05;
  }

  #decide() {
    this.#trying = false;
    if (mean(this.together) < mean(this.alone) * Choice.GAIN) {
      this.helped = true;
      this.#left = this.#rhythm.recheck;
      this.#pause = this.#rhythm.pause;
    } else {
      this.helped = false;
      this.#left = this.#pause;
      this.#pause = Math.min(this.#pause * 2, Choice.LONGEST_PAUSE);
    }
  }
}

/** @param {number[]} values */
function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

export class Threads {
  /** @type {Worker[]} */
  #helpers = [];
  /** Of the helpers' memory. */
  address = 0;
  #exports;
  #module;
  /** Calls that feed one token, and that feed many. */
  #one = new Choice(ONE);
  #many = new Choice(MANY);
  /** "auto", or for tests and the bench "on" and "off". @type {"auto" | "on" | "off"} */
  mode = "auto";
  /** @type {Notice | null} */
  notice = null;

  /** @param {WebAssembly.Module} module @param {any} exports @param {WebAssembly.Memory} memory */
  constructor(module, exports, memory) {
    this.#module = module;
    this.#exports = exports;
    this.memory = memory;
  }

  /** A memory for the threaded build. */
  static memory() {
    return new WebAssembly.Memory(MEMORY);
  }

  /** What an instance of the core imports. @param {number} threads @returns {WebAssembly.Imports} */
  static imports(threads) {
    return threads > 1 ? { env: { memory: Threads.memory() } } : {};
  }

  /**
   * Takes the memory for the helpers at `address` and starts them; their scripts load meanwhile, and what is asked of the
   * core before they run is done without them.
   * @param {number} helpers
   * @param {number} address a multiple of 64
   * @returns {number} where the memory behind it begins
   */
  start(helpers, address) {
    const f = this.#exports;
    this.#grow(address + 64);
    must(f.areole_threads_size(helpers, address));
    const size = new Uint32Array(this.memory.buffer, address, 1)[0];
    this.#grow(address + size);
    must(f.areole_threads_init(address, size, helpers));
    this.address = address;
    for (let helper = 0; helper < helpers; helper++) {
      const worker = new Worker(new URL("./helper.js", import.meta.url), { type: "module", name: "areole-helper" });
      worker.onerror = (event) => {
        event.preventDefault();
        this.fail(event.message || "its script could not be fetched");
      };
      worker.onmessage = ({ data }) => this.fail(data.message);
      const stack = f.areole_threads_stack(address, helper);
      worker.postMessage({ module: this.#module, memory: this.memory, threads: address, helper, stack });
      this.#helpers.push(worker);
    }
    return address + size;
  }

  /** Goes on with one thread. @param {string} why */
  fail(why) {
    this.notice = notice(`A helper thread failed (${why}). There is one thread from here on.`);
    this.stop();
  }

  /** Ends the helpers. */
  stop() {
    if (this.address) this.#exports.areole_threads_stop(this.address);
    for (const helper of this.#helpers) helper.terminate();
    this.#helpers = [];
  }

  /** The calls that feed tokens, in place of the core's own. */
  calls() {
    const f = this.#exports;
    return {
      areole_prefill: (/** @type {number[]} */ ...args) => this.#prefill(args[0], args[1], args[2], args[3], args[4]),
      areole_decode: (/** @type {number} */ session, /** @type {number} */ token, /** @type {number} */ logits) =>
        this.#timed(this.#one, session, 1, () => f.areole_decode(session, token, logits)),
      areole_draft: (
        /** @type {number} */ session,
        /** @type {number} */ ids,
        /** @type {number} */ count,
        /** @type {number} */ logits,
      ) => this.#timed(this.#many, session, count, () => f.areole_draft(session, ids, count, logits)),
    };
  }

  /** @param {number} session @param {number} ids @param {number} count @param {number} flags @param {number} logits */
  #prefill(session, ids, count, flags, logits) {
    const f = this.#exports;
    const feed = (/** @type {number} */ at, /** @type {number} */ some, /** @type {number} */ wanted) =>
      this.#timed(some === 1 ? this.#one : this.#many, session, some, () =>
        f.areole_prefill(session, ids + 4 * at, some, wanted, logits),
      );
    if (count <= BATCH || flags & LOGITS_ALL) return feed(0, count, flags);
    let status = f.areole_prefill_check(session, ids, count, flags, logits);
    for (let at = 0; at < count && status >= 0; at += BATCH) {
      const last = at + BATCH >= count;
      status = feed(at, last ? count - at : BATCH, last ? flags : flags & ~LOGITS_LAST);
    }
    return status;
  }

  /** @param {Choice} choice @param {number} session @param {number} tokens @param {() => number} call */
  #timed(choice, session, tokens, call) {
    const wanted = this.mode === "auto" ? choice.next() : this.mode === "on";
    const helped = wanted && this.#helpers.length > 0;
    const status = this.#exports.areole_session_use_threads(session, helped ? this.address : 0);
    if (status < 0 && helped) {
      // A session that does not fit a helper's room stays without; the call itself says what is wrong with a bad one.
      this.notice ??= notice("This model or session is too large for the helper threads. There is one thread.", { status });
    }
    const began = performance.now();
    const result = call();
    // A few tokens cost as much as a tile of six.
    if (this.mode === "auto") choice.took((performance.now() - began) / (tokens === 1 ? 1 : Math.ceil(tokens / 6) * 6));
    return result;
  }

  /** What is so, for `info` and `stats`. */
  state() {
    const helped = this.#helpers.length > 0;
    const [finished, redone] = [0, 1].map((which) => this.#exports.areole_threads_count(this.address, which));
    return {
      threads: this.#helpers.length + 1,
      decoding: helped && this.#one.helped,
      prefilling: helped && this.#many.helped,
      parts: { finished, redone },
      notice: this.notice,
    };
  }

  /** @param {number} end */
  #grow(end) {
    const missing = Math.ceil((end - this.memory.buffer.byteLength) / 65536);
    if (missing > 0) this.memory.grow(missing);
  }
}

/** @param {number} status */
function must(status) {
  if (status < 0) throw new AreoleError("internal", `The core refused to make threads (${status}).`, { status });
}
