/**
 * Python practises while nobody waits for it: it answers recorded requests without the model (areole.practice), so that
 * the browser compiles its interpreter for good before the first request, and keeps that code for later visits. Owns when,
 * and how much is enough; what else is to be done goes first, and it never fails a load.
 */

import { openCache } from "./kept.js";

/** Tokens after which Chromium has compiled the megabyte of code that it takes to keep any of it, and half as many again. */
const ENOUGH = 1500;
const SLICE_MS = 8;
/**
 * Between two slices. V8 compiles a function again for each time that it gets twice as hot, though it is being compiled
 * already: of Python's main loop, a third of a second each, three at a time where Python runs on meanwhile.
 */
const PAUSE_MS = 100;
/** After a load or a request: what comes next comes soon. */
const REST_MS = 1000;

export class Practice {
  #practice;
  #mark;
  tokens = 0;

  /**
   * @param {any} pyodide
   * @param {string} digest SHA-256 of the weights
   * @param {Mark | null} mark null: nothing is done for later visits
   */
  constructor(pyodide, digest, mark) {
    this.#mark = mark;
    try {
      this.#practice = pyodide.pyimport("areole.practice").practise(digest) ?? null;
    } catch {
      this.#practice = null; // an older snapshot
    }
  }

  /** Until something has settled, unless the browser has the code already. @param {Promise<unknown>} there */
  async until(there) {
    if (await this.#mark?.set()) return;
    let over = false;
    const end = () => {
      over = true;
    };
    there.then(end, end);
    while (!over && this.#some()) await Promise.race([pause(PAUSE_MS), there]).catch(() => {});
  }

  /** Where no visit before has practised enough, in the pauses between requests. @param {() => boolean} busy */
  async between(busy) {
    if (this.#practice && this.#mark && !(await this.#mark.set())) {
      await pause(REST_MS);
      while (this.tokens < ENOUGH) {
        if (busy()) await pause(REST_MS);
        else if (this.#some()) await pause(0);
        else return;
      }
      await this.#mark.put(this.tokens);
    }
    this.#end();
  }

  /** As many tokens as fit into a slice; false if there is nothing to practise. */
  #some() {
    try {
      const end = performance.now() + SLICE_MS;
      while (this.#practice && performance.now() < end) {
        this.#practice.step();
        this.tokens += 1;
      }
    } catch {
      this.#end();
    }
    return this.#practice !== null;
  }

  #end() {
    this.#practice?.destroy();
    this.#practice = null;
  }
}

/** That this browser has seen enough of it, kept beside the weights. */
export class Mark {
  #cache;
  #url;

  /** @param {Cache} cache @param {string} url */
  constructor(cache, url) {
    this.#cache = cache;
    this.#url = url;
  }

  /**
   * Null where nothing can be kept.
   * @param {string} base address of the site
   * @param {string[]} of hashes of the weights and of Pyodide
   */
  static async open(base, of) {
    try {
      const url = new URL(`practised?sha256=${of.join("-")}`, base);
      return new Mark(await openCache(base, "weights"), url.href);
    } catch {
      return null; // no secure context, a private window, storage is blocked, or nothing is to be kept
    }
  }

  async set() {
    return (await this.#cache.match(this.#url).catch(() => undefined)) !== undefined;
  }

  /** @param {number} tokens */
  async put(tokens) {
    await this.#cache.put(this.#url, new Response(`${tokens} tokens`)).catch(() => {}); // no room: another visit tries again
  }
}

/** @param {number} ms @returns {Promise<void>} */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
