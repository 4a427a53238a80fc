/**
 * The weights as the browser keeps them between visits: pieces of 4 MiB in Cache Storage, so that a download that was cut
 * goes on where it broke. Owns the names, the order and the states; refuses nothing: where the browser keeps no data, or
 * has no room, `state` says so and the load goes on without. What is read here is unchecked until its hash is.
 */

/**
 * @typedef {"kept" | "partial" | "denied" | "full" | "off"} KeptState kept: all of it; denied: the browser refuses to
 *   keep data for this page; full: no room; off: not asked to
 */

export const PIECE = 4 << 20;
/** How many pieces are read at once. */
const AHEAD = 2;

/** Caches of this site only; others may live at the same origin. @param {string} base @param {string} kind */
export const cacheName = (base, kind) => `areole-${kind} ${new URL("./", base).pathname}`;

let keeping = true;
/** Names of the caches that were opened here. @type {Set<string>} */
const opened = new Set();

/** Whether this page or worker may keep anything. */
export const keeps = () => keeping;

/**
 * The one place where a page or a worker opens a cache, for opening one makes it: after `keepNothing` it throws.
 * @param {string} base address of the site
 * @param {"site" | "weights" | "prefixes" | "own"} kind
 */
export async function openCache(base, kind) {
  const name = cacheName(base, kind);
  if (keeping) {
    opened.add(name);
    const cache = await caches.open(name);
    if (keeping) return cache;
    await caches.delete(name); // told while it was opened
  }
  throw new Error("Everything was removed, and nothing is kept any more. Load the page anew first.");
}

/** For as long as this page or worker lives nothing more is kept, and what it has opened is removed. */
export function keepNothing() {
  keeping = false;
  for (const name of opened) caches.delete(name).catch(() => {}); // denied: then nothing was kept
}

export class Kept {
  /** @type {KeptState} */
  state = "partial";
  #cache;
  #url;
  #hash;
  /** One write at a time, so that at most one piece is held twice. @type {Promise<void>} */
  #writing = Promise.resolve();
  #queued = 0;

  /**
   * @param {Cache | null} cache null: nothing can be kept
   * @param {string} url
   * @param {string} hash SHA-256 of all of it: another build's weights have other names
   */
  constructor(cache, url, hash) {
    this.#cache = cache;
    this.#url = url;
    this.#hash = hash;
    if (!cache) this.state = "denied";
  }

  /**
   * @param {string} base address of the site
   * @param {string} url
   * @param {string} hash
   */
  static async open(base, url, hash) {
    try {
      return new Kept(await openCache(base, "weights"), url, hash);
    } catch {
      return new Kept(null, url, hash); // no secure context, a private window, storage is blocked, or nothing is to be kept
    }
  }

  /** @param {number} index */
  #name(index) {
    const name = new URL(this.#url);
    name.search = `?sha256=${this.#hash}&piece=${index}`;
    return name.href;
  }

  /**
   * What is there, from the first byte on, up to the first piece that is missing or has a wrong length.
   * @param {number} total
   * @returns {AsyncGenerator<Uint8Array<ArrayBuffer>>}
   */
  async *pieces(total) {
    /** @type {Promise<Uint8Array<ArrayBuffer> | undefined>[]} */
    const asked = [];
    for (let index = 0; this.#cache && index * PIECE < total; index++) {
      // Some at a time: a thread that is busy with other things gets to each of them late.
      while (asked.length < index + AHEAD && asked.length * PIECE < total) asked.push(this.#read(asked.length));
      const piece = await asked[index];
      delete asked[index]; // its bytes are the caller's now
      const end = Math.min((index + 1) * PIECE, total);
      if (piece?.length !== end - index * PIECE) return;
      this.#queued = index + 1;
      if (end === total) this.state = "kept";
      yield piece;
    }
  }

  /** Unreadable is as good as gone: it is fetched and written again. @param {number} index */
  async #read(index) {
    try {
      const found = await this.#cache?.match(this.#name(index));
      return found && new Uint8Array(await found.arrayBuffer());
    } catch {
      return undefined;
    }
  }

  /** Forgets how far it came: the download starts at its first byte. */
  rewind() {
    this.#queued = 0;
  }

  /**
   * Keeps the pieces that are whole now.
   * @param {(start: number, end: number) => Uint8Array<ArrayBuffer>} read a copy of those bytes
   * @param {number} have
   * @param {number} total
   */
  note(read, have, total) {
    while (this.state === "partial" && this.#queued * PIECE < have) {
      const start = this.#queued * PIECE;
      const end = Math.min(start + PIECE, total);
      if (end > have) return;
      const index = this.#queued++;
      this.#writing = this.#writing.then(() => this.#put(index, () => read(start, end), end === total));
    }
  }

  /** @param {number} index @param {() => Uint8Array<ArrayBuffer>} read @param {boolean} last */
  async #put(index, read, last) {
    if (this.state !== "partial" || !this.#cache) return;
    try {
      await this.#cache.put(this.#name(index), new Response(read()));
      if (last) this.state = "kept";
    } catch (error) {
      this.state = error instanceof DOMException && error.name === "QuotaExceededError" ? "full" : "denied";
      await this.#remove(() => true).catch(() => {}); // a part without the rest only takes room
    }
  }

  /** Resolves when all that was noted is written. */
  async settled() {
    await this.#writing;
  }

  /** Removes it, damaged as it is. */
  async clear() {
    await this.#writing;
    await this.#remove(() => true).catch(() => {});
    this.#queued = 0;
    if (this.state === "kept") this.state = "partial";
  }

  /** Removes the weights of other builds, now that these are known to be right. */
  async removeOthers() {
    await this.#remove((url) => !url.includes(this.#hash)).catch(() => {});
  }

  /** @param {(url: string) => boolean} which */
  async #remove(which) {
    for (const { url } of (await this.#cache?.keys()) ?? []) if (which(url)) await this.#cache?.delete(url);
  }
}
