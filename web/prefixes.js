/**
 * Tools that were read at an earlier visit: the state after them, in Cache Storage, so that a page that comes back answers
 * without reading them again. Owns the names, the order and the bound, `BYTES` in all, the least recently used going first.
 * A state belongs to one build of the core and one file of weights and is used with no other; what does not have its
 * SHA-256 is removed. Refuses nothing: where nothing can be kept, the tools are read again.
 */

import { openCache } from "./kept.js";
import { hex } from "./loader.js";

/** Room for some twenty sets of tools of a usual size. */
export const BYTES = 32 << 20;
/** Fewer than Python keeps in any case. */
const RECENT = 4;

/** @typedef {{tools: string, system: string, options?: {depth?: number}}} Declaration */

export class Prefixes {
  #cache;
  #base;
  #maker;
  #limit;
  /** Those that Python was told last, and still has. @type {string[]} */
  #recent = [];

  /**
   * @param {Cache} cache
   * @param {string} base address of the site
   * @param {string} maker what the states depend on besides the tools
   * @param {number} limit
   */
  constructor(cache, base, maker, limit) {
    this.#cache = cache;
    this.#base = base;
    this.#maker = maker;
    this.#limit = limit;
  }

  /**
   * Null where the browser keeps nothing. What other builds left is removed.
   * @param {string} base address of the site
   * @param {string[]} hashes of the weights and of the core
   * @param {number} [limit] bytes in all
   */
  static async open(base, hashes, limit = BYTES) {
    try {
      const made = new Prefixes(await openCache(base, "prefixes"), base, hashes.join("-"), limit);
      await made.#trim(({ pathname }) => !pathname.includes(made.#maker));
      return made;
    } catch {
      return null; // no secure context, a private window, storage is blocked, or nothing is to be kept
    }
  }

  /**
   * Brings Python what was kept for these tools, if that is there and whole.
   * @param {any} bridge
   * @param {Declaration} declaration
   * @returns {Promise<string>} the declaration's name, for `keep`
   */
  async offer(bridge, { tools, system, options }) {
    const text = new TextEncoder().encode(JSON.stringify([tools, system, options?.depth ?? null]));
    const name = `${this.#base}prefix/${this.#maker}/${hex(await crypto.subtle.digest("SHA-256", text))}`;
    const has = this.#recent.includes(name);
    this.#recent = [name, ...this.#recent.filter((other) => other !== name)].slice(0, RECENT);
    if (has) return name;
    try {
      const keys = await this.#cache.keys();
      const key = keys.find(({ url }) => url.startsWith(name));
      const found = key && (await this.#cache.match(key));
      if (!key || !found) return name;
      const bytes = new Uint8Array(await found.arrayBuffer());
      const whole = hex(await crypto.subtle.digest("SHA-256", bytes)) === new URL(key.url).searchParams.get("sha256");
      if (whole && JSON.parse(bridge.offer(bytes)).taken) {
        if (key !== keys.at(-1)) this.#put(name, bytes); // now it is the one used last
      } else {
        await this.#cache.delete(key);
      }
    } catch {
      // unreadable is as good as gone
    }
    return name;
  }

  /**
   * Keeps what Python has read for the tools it was told last.
   * @param {any} bridge
   * @param {string} name
   */
  keep(bridge, name) {
    const record = bridge.prefix();
    if (!record) return; // no tools, or none that are read before the request
    const view = record.getBuffer("u8");
    const bytes = view.data.slice();
    view.release();
    record.destroy();
    this.#put(name, bytes);
  }

  /** @param {string} name @param {Uint8Array<ArrayBuffer>} bytes */
  async #put(name, bytes) {
    if (bytes.length > this.#limit) return; // and drives nothing out
    try {
      const hash = hex(await crypto.subtle.digest("SHA-256", bytes));
      await this.#trim(({ href }) => href.startsWith(name), bytes.length);
      await this.#cache.put(`${name}?bytes=${bytes.length}&sha256=${hash}`, new Response(bytes));
    } catch {
      // no room: the tools will be read again
    }
  }

  /**
   * Removes some, then the oldest until `room` bytes are free.
   * @param {(url: URL) => boolean} which
   * @param {number} [room]
   */
  async #trim(which, room = 0) {
    const urls = (await this.#cache.keys()).map(({ url }) => new URL(url));
    const rest = urls.filter((url) => !which(url));
    let total = rest.reduce((sum, url) => sum + Number(url.searchParams.get("bytes")), room);
    const old = rest.filter((url) => {
      const drop = total > this.#limit;
      if (drop) total -= Number(url.searchParams.get("bytes"));
      return drop;
    });
    for (const { href } of [...urls.filter(which), ...old]) await this.#cache.delete(href);
  }
}
