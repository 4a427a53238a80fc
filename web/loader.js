/**
 * Fetching: small files as checked bytes, the weights straight into the core module's memory. Owns the typed errors of a
 * bad download (an error status, an HTML page, a wrong length, a wrong hash, a dead network) and refuses an archive that
 * cannot be right as soon as its first bytes are there, before the other 35 MB arrive. A connection that breaks is taken up
 * where it broke. Keeps no second copy of the weights.
 */

import { AreoleError } from "./errors.js";

/**
 * @typedef {{bytes?: number, sha256?: string}} Expected what the site's manifest says; a missing field is not checked
 * @typedef {(n: number) => void} OnBytes called with the number of bytes that just arrived
 * @typedef {object} FetchOptions
 * @property {OnBytes} [onBytes]
 * @property {OnBytes} [onSize] called once with the length of the weights, as soon as it is known
 * @property {boolean} [fresh] go past the HTTP cache
 * @property {AbortSignal} [signal]
 * @property {import("./kept.js").Kept} [kept] where the weights are taken from and kept
 *
 * @typedef {{bytes: number, restored: number, resumed: boolean}} Streamed restored: that many came from what was kept;
 *   resumed: the rest came over more than one connection
 */

const PAGE = 65536;
const CHUNK = 1 << 20;
/** Growth step in bytes when neither the manifest nor the server says how long the weights are. */
const STEP = 4 << 20;
const RETRY_MS = 300;
/** Attempts in a row that may get no further. */
const RETRIES = 3;

/** First word of an archive, little endian. */
const NEEDLE_3 = 0x05e12a84;
const NEEDLE_2 = 0x05e12a83;

/**
 * A response whose status and type are those of a real file.
 * @param {string | URL} url
 * @param {FetchOptions} options
 * @param {number} [from] first byte that is wanted; a server may send all of it nevertheless
 * @returns {Promise<Response>}
 */
async function open(url, { fresh = false, signal, kept } = {}, from = 0) {
  let response;
  try {
    const headers = from ? { Range: `bytes=${from}-` } : undefined;
    // What Cache Storage keeps need not be in the HTTP cache too.
    const cache = fresh ? "reload" : kept?.state === "partial" ? "no-store" : "default";
    response = await fetch(url, { signal, cache, headers });
  } catch (error) {
    throw networkError(url, error);
  }
  const usable = response.status !== 206 || (firstByte(response) === from && !response.headers.get("content-encoding"));
  if (from && (response.status === 416 || !usable)) {
    response.body?.cancel().catch(() => {});
    return open(url, { fresh, signal, kept });
  }
  checkResponse(response, url);
  return response;
}

/** @param {Response} response */
function firstByte(response) {
  const range = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "");
  return range ? Number(range[1]) : -1;
}

/**
 * Throws unless the response can be the file that was asked for.
 * @param {Response} response
 * @param {string | URL} url
 */
export function checkResponse(response, url) {
  if (!response.ok) {
    throw new AreoleError(
      "fetch_failed",
      `${name(url)}: the server answered ${response.status} ${response.statusText}`.trimEnd() +
        "; expected the file. Is the site complete at this address?",
      { url: String(url), got: response.status, needed: 200 },
    );
  }
  if (/^\s*text\/html/i.test(response.headers.get("content-type") ?? "")) throw htmlError(url);
}

/**
 * @param {string | URL} url
 * @param {unknown} cause
 */
export function networkError(url, cause) {
  const text = cause instanceof Error ? cause.message : String(cause);
  return new AreoleError(
    "fetch_failed",
    `${name(url)} could not be fetched (${text}). Is the network up, and does connect-src allow this address?`,
    { url: String(url) },
  );
}

/** @param {string | URL} url */
function htmlError(url) {
  return new AreoleError(
    "fetch_html",
    `${name(url)}: the server sent an HTML page instead of the file. Usually the file is missing there and the server ` +
      "answers every address with its start page, or a login or network portal is in between.",
    { url: String(url), got: "text/html" },
  );
}

/**
 * A whole small file, its length and hash checked against the manifest; a copy of the browser's that is damaged is passed
 * over.
 * @param {string | URL} url
 * @param {Expected} expected
 * @param {FetchOptions} [options]
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export function fetchBytes(url, expected, options = {}) {
  return pastDamage(options, async (these) => readChecked(await open(url, these), url, expected, these));
}

/**
 * A gzipped file, checked as it was sent and unpacked while it comes.
 * @param {string | URL} url
 * @param {Expected} expected of the file as it was sent
 * @param {FetchOptions} [options]
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export function fetchUnpacked(url, expected, options = {}) {
  return pastDamage(options, async (these) => {
    const response = await open(url, these);
    const copy = response.clone();
    const plain = new Response(copy.body?.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
    plain.catch(() => {}); // what is damaged is told by its hash
    await readChecked(response, url, expected, these);
    return new Uint8Array(await plain);
  });
}

/**
 * @template T
 * @param {FetchOptions} options
 * @param {(options: FetchOptions) => Promise<T>} get
 * @returns {Promise<T>}
 */
async function pastDamage(options, get) {
  try {
    return await get(options);
  } catch (error) {
    const damaged = error instanceof AreoleError && (error.code === "fetch_hash" || error.code === "fetch_size");
    if (!damaged || options.fresh) throw error;
    return get({ ...options, fresh: true });
  }
}

/**
 * @param {Response} response
 * @param {string | URL} url
 * @param {Expected} expected
 * @param {FetchOptions} options
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function readChecked(response, url, expected, options) {
  let bytes;
  try {
    bytes = new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    throw networkError(url, error);
  }
  options.onBytes?.(bytes.length);
  if (expected.bytes !== undefined && bytes.length !== expected.bytes) {
    throw lengthError(url, bytes.length, expected.bytes);
  }
  if (expected.sha256 && globalThis.crypto?.subtle) {
    const got = hex(await crypto.subtle.digest("SHA-256", bytes));
    if (got !== expected.sha256) throw hashError(url, got, expected.sha256);
  }
  return bytes;
}

/** A connection that broke after `have` bytes. */
class Cut extends Error {
  /** @param {number} have @param {unknown} cause */
  constructor(have, cause) {
    super("cut", { cause });
    this.have = have;
  }
}

/**
 * Fills `memory` from `address` on, growing it as needed: from what is kept, then over the network.
 * @param {WebAssembly.Memory} memory
 * @param {number} address first byte, a multiple of 64
 * @param {string | URL} url
 * @param {Expected} expected
 * @param {FetchOptions} [options]
 * @returns {Promise<Streamed>}
 */
export async function streamInto(memory, address, url, expected, options = {}) {
  const { bytes: total } = expected;
  let have = 0;
  if (total !== undefined) {
    options.onSize?.(total);
    reserve(memory, address + total);
    for await (const piece of options.kept?.pieces(total) ?? []) {
      new Uint8Array(memory.buffer, address + have, piece.length).set(piece);
      have += piece.length;
      options.onBytes?.(piece.length);
    }
  }
  const restored = have;
  let resumed = false;
  for (let futile = 0; have !== total; ) {
    try {
      have = await download(memory, address, url, expected, options, have);
      break;
    } catch (error) {
      if (!(error instanceof Cut)) throw error;
      // Without a length and a hash nothing would tell a mixture of two files.
      const goesOn = total !== undefined && expected.sha256 && !options.signal?.aborted;
      futile = error.have > have ? 0 : futile + 1;
      if (!goesOn || futile > RETRIES) throw cutError(url, error, total);
      have = error.have;
      resumed = true;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  if (have === 0 || (total !== undefined && have !== total)) throw lengthError(url, have, total);
  return { bytes: have, restored, resumed };
}

/**
 * One connection's worth, from byte `from` on, or from the first where the server sends no ranges.
 * @param {WebAssembly.Memory} memory
 * @param {number} address
 * @param {string | URL} url
 * @param {Expected} expected
 * @param {FetchOptions} options
 * @param {number} from
 * @returns {Promise<number>} bytes that are there now
 */
async function download(memory, address, url, expected, options, from) {
  const response = await open(url, options, from);
  const start = response.status === 206 ? from : 0;
  if (start === 0) options.kept?.rewind();
  const announced = announcedLength(response, start);
  const known = expected.bytes ?? announced;
  if (expected.bytes === undefined && known !== undefined) {
    options.onSize?.(known);
    reserve(memory, address + known);
  }
  let written = start;
  try {
    for await (const chunk of chunks(response)) {
      // At most 1 MiB has come: enough to know an error page or another format, early enough to spare the rest.
      if (written === 0) checkStart(chunk, url);
      if (written === start && expected.bytes !== undefined && announced !== undefined && announced !== expected.bytes) {
        throw lengthError(url, announced, expected.bytes);
      }
      const end = written + chunk.length;
      if (expected.bytes !== undefined && end > expected.bytes) throw lengthError(url, end, expected.bytes, "at least ");
      if (known === undefined || end > known) reserve(memory, address + Math.ceil(end / STEP) * STEP);
      // The view is made anew each time: a growth in between would have detached an older one.
      new Uint8Array(memory.buffer, address + written, chunk.length).set(chunk);
      written = end;
      options.onBytes?.(chunk.length);
      if (expected.bytes !== undefined) {
        options.kept?.note((at, to) => new Uint8Array(memory.buffer, address + at, to - at).slice(), written, expected.bytes);
      }
    }
  } catch (error) {
    throw error instanceof AreoleError ? error : new Cut(written, error);
  }
  return written;
}

/** @param {string | URL} url @param {Cut} cut @param {number} [needed] */
function cutError(url, cut, needed) {
  const failure = networkError(url, cut.cause);
  failure.message =
    `${name(url)}: the connection broke after ${count(cut.have)} bytes. Try again; it goes on where it stopped, if the ` +
    `browser and the server let it. ${failure.message}`;
  failure.details = { ...failure.details, got: cut.have, needed };
  return failure;
}

/**
 * The body as views that are valid until the next step. Reads into one buffer of our own where the browser can; a loop
 * that is left early ends the download.
 * @param {Response} response
 * @returns {AsyncGenerator<Uint8Array>}
 */
async function* chunks(response) {
  if (!response.body) return;
  let byob;
  try {
    byob = response.body.getReader({ mode: "byob" });
  } catch {
    byob = null; // not a byte stream in this browser: its own chunks will do
  }
  /** @type {any} */
  const plain = byob ? null : response.body.getReader();
  /** @type {any} the memory that is lent to the stream and comes back in each answer */
  let buffer = new ArrayBuffer(byob ? CHUNK : 0);
  try {
    for (;;) {
      const { value, done } = await (byob ? byob.read(new Uint8Array(buffer)) : plain.read());
      if (done || value === undefined) return;
      if (value.length) yield value;
      buffer = value.buffer;
    }
  } finally {
    (byob ?? plain).cancel().catch(() => {});
  }
}

/**
 * Makes bytes [0, end) exist. Memory only ever grows, and to no more than what is asked.
 * @param {WebAssembly.Memory} memory
 * @param {number} end
 */
function reserve(memory, end) {
  const missing = Math.ceil((end - memory.buffer.byteLength) / PAGE);
  if (missing <= 0) return;
  try {
    memory.grow(missing);
  } catch {
    throw new AreoleError(
      "core_memory",
      `The browser gave the core ${count(memory.buffer.byteLength)} bytes of memory and refused to go on to ` +
        `${count(end)}. Close other tabs, or use a device with more memory.`,
      { got: memory.buffer.byteLength, needed: end },
    );
  }
}

/**
 * Refuses what cannot be an archive by its first bytes. The full check is Python's, once all is there.
 * @param {Uint8Array} chunk
 * @param {string | URL} url
 */
function checkStart(chunk, url) {
  const text = new TextDecoder("utf-8").decode(chunk.subarray(0, 64)).trimStart().toLowerCase();
  if (text.startsWith("<!doctype") || text.startsWith("<html") || text.startsWith("<?xml")) throw htmlError(url);
  if (chunk.length < 4) return; // a shorter file fails by its length
  const tag = new DataView(chunk.buffer, chunk.byteOffset, 4).getUint32(0, true);
  if (tag === NEEDLE_3 || tag === NEEDLE_2) return;
  const got = `0x${tag.toString(16).toUpperCase().padStart(8, "0")}`;
  const details = { what: "tag", offset: 0, got, needed: "0x05E12A84 or 0x05E12A83", url: String(url) };
  throw new AreoleError(
    "archive_tag",
    `${name(url)} starts with tag ${got}; areole reads 0x05E12A84 (Needle 3) and 0x05E12A83 (Needle 2). Is this a .cact file?`,
    details,
  );
}

/**
 * The whole file's length by Content-Length, when that counts the same bytes as the body will.
 * @param {Response} response
 * @param {number} start first byte of the body
 * @returns {number | undefined}
 */
function announcedLength(response, start) {
  const header = response.headers.get("content-length");
  if (header === null || response.headers.get("content-encoding")) return undefined;
  const length = Number(header) + start;
  return Number.isSafeInteger(length) && length >= 0 ? length : undefined;
}

/**
 * @param {string | URL} url
 * @param {number} got
 * @param {number} [needed]
 * @param {string} [qualifier]
 */
function lengthError(url, got, needed, qualifier = "") {
  const has = got === 0 ? "is empty" : `has ${qualifier}${count(got)} bytes`;
  const want = needed === undefined ? "" : `; the site's manifest says ${count(needed)}`;
  return new AreoleError(
    "fetch_size",
    `${name(url)} ${has}${want}. The download was cut, or the file on the server is another one: load it again, or ` +
      "rebuild the site.",
    { url: String(url), got, needed },
  );
}

/**
 * @param {string | URL} url
 * @param {string} got
 * @param {string} needed
 */
export function hashError(url, got, needed) {
  return new AreoleError(
    "fetch_hash",
    `${name(url)} is damaged, or not the file this site was built with: its SHA-256 is ${got.slice(0, 16)}…, the ` +
      `manifest says ${needed.slice(0, 16)}…. Load it again; if that does not help, rebuild the site.`,
    { url: String(url), got, needed },
  );
}

/** @param {ArrayBuffer | Uint8Array} bytes */
export function hex(bytes) {
  return Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** The file's name in a message: its path within the site, or the whole address elsewhere. @param {string | URL} url */
function name(url) {
  const { origin, pathname, href } = new URL(url, globalThis.location?.href);
  return origin === globalThis.location?.origin ? pathname.replace(/^.*\/(?=[^/]+\/[^/]+$)/, "") : href;
}

/** @param {number} n */
function count(n) {
  return n.toLocaleString("en");
}
