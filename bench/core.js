/**
 * The core in a page of the benchmarks' own, without Python: its memory, an archive in it, and the clock. Owned by
 * bench/_page.py, which writes the page.
 */

/**
 * @typedef {object} ModelSpec
 * @property {string} address of the archive
 * @property {string} geometry its areole_geometry, base64
 * @property {string} tensors its areole_tensor records, base64
 * @property {number} tensorCount
 * @property {number} vocab columns of the logits
 * @property {number[]} prefix token ids to pin; may be empty
 * @property {number[]} turn token ids to feed after it
 *
 * @typedef {object} Race a tile of tokens through the first projection of a model
 * @property {string} name
 * @property {string} model
 * @property {number} pairs 0 dots, 1 pairs
 *
 * @typedef {object} Feed tokens through a whole model, from the end of its prefix on
 * @property {string} name
 * @property {string} model
 * @property {number} pairs
 * @property {number} tokens in one call
 * @property {number} flags of areole_prefill
 * @property {number} repeats calls in a slice
 *
 * @typedef {object} Case
 * @property {string} name
 * @property {() => number} call one call; gives the core's status
 * @property {() => void} [before] done before each slice, outside its time
 * @property {number} [repeats] calls in a slice; found out when not given
 */

const PAGE = 65536;
/** The core touches weights a little ahead of where it reads. */
const ROOM_AFTER = 4096;
/** Of a session, beyond the prefix. */
const ROOM = 64;

/** The module's memory as a heap that only grows. */
export class Core {
  /** @param {WebAssembly.Exports} exports */
  constructor(exports) {
    /** @type {any} */
    this.f = exports;
    /** @type {WebAssembly.Memory} */
    this.memory = this.f.memory;
    this.end = this.f.__heap_base.value;
  }

  /** @param {number} nbytes @returns {number} address, a multiple of 64 */
  take(nbytes) {
    const address = Math.ceil(this.end / 64) * 64;
    this.end = address + nbytes;
    const missing = Math.ceil((this.end + ROOM_AFTER - this.memory.buffer.byteLength) / PAGE);
    if (missing > 0) this.memory.grow(missing);
    return address;
  }

  /** @param {Uint8Array | Float32Array | Uint32Array} values @returns {number} address of a copy */
  put({ buffer, byteOffset, byteLength }) {
    const address = this.take(byteLength);
    new Uint8Array(this.memory.buffer, address, byteLength).set(new Uint8Array(buffer, byteOffset, byteLength));
    return address;
  }

  /** What a *_size call writes to its last argument. @param {string} name @param {number[]} args */
  size(name, ...args) {
    const out = this.take(4);
    succeed(name, this.f[name](...args, out));
    return new DataView(this.memory.buffer).getUint32(out, true);
  }
}

/** @param {string} name @param {number} status */
export function succeed(name, status) {
  if (status < 0) throw new Error(`${name} gave status ${status}; see areole.h`);
}

/** Numbers from -1 to 1, the same every time. @param {number} count */
export function values(count) {
  let state = 1;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

/** @param {string} text */
function fromBase64(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export const breathe = () => new Promise((resolve) => setTimeout(resolve, 0));

/** The next tick of the clock: a slice that starts there is cut short by less than one tick, at its end. */
export function tick() {
  const before = performance.now();
  for (;;) {
    const now = performance.now();
    if (now > before) return now;
  }
}

/** Milliseconds between two ticks. */
export function resolution() {
  let best = Infinity;
  for (let i = 0; i < 20; i++) {
    const first = tick();
    best = Math.min(best, tick() - first);
  }
  return best;
}

/** An archive in the core, and a session at the end of its prefix. */
export class Model {
  /**
   * @param {Core} core
   * @param {ModelSpec} spec
   * @param {ArrayBuffer} weights
   */
  constructor(core, spec, weights) {
    const f = (this.f = core.f);
    const archive = core.put(new Uint8Array(weights));
    const geometry = core.put(fromBase64(spec.geometry));
    const tensors = core.put(fromBase64(spec.tensors));
    const described = [geometry, tensors, spec.tensorCount, archive, weights.byteLength];
    const size = core.size("areole_model_size", ...described);
    const arena = (this.arena = core.take(size));
    succeed("areole_model_init", f.areole_model_init(arena, size, ...described));
    this.raceSize = core.size("areole_kernel_race_size", arena);
    this.race = core.take(this.raceSize);

    const pinned = spec.prefix.length;
    const sizes = [pinned, pinned + spec.turn.length + ROOM, 256];
    const sessionSize = core.size("areole_session_size", arena, ...sizes);
    const session = (this.session = core.take(sessionSize));
    succeed("areole_session_init", f.areole_session_init(session, sessionSize, arena, ...sizes));
    const prefix = core.put(Uint32Array.from(spec.prefix));
    if (pinned) succeed("areole_prefill", f.areole_prefill(session, prefix, pinned, 1, 0));
    this.turn = core.put(Uint32Array.from(spec.turn));
    this.logits = core.take(spec.turn.length * spec.vocab * 4);
    this.savedSize = core.size("areole_snapshot_size", session);
    this.saved = core.take(this.savedSize);
    succeed("areole_snapshot_save", f.areole_snapshot_save(session, this.saved, this.savedSize));
  }

  /** @param {number} pairs @param {number} rounds @returns {number} */
  raceOnce(pairs, rounds) {
    return this.f.areole_kernel_race(this.arena, pairs, rounds, this.race, this.raceSize);
  }

  /** @param {Race} race @returns {Case} */
  raceCase({ name, pairs }) {
    return { name, call: () => this.raceOnce(pairs, 1) };
  }

  /** @param {Feed} feed @returns {Case} */
  feedCase({ name, pairs, tokens, flags, repeats }) {
    const { f, session, turn, logits } = this;
    return {
      name,
      repeats,
      before: () => {
        f.areole_model_use_pairs(this.arena, pairs);
        succeed("areole_snapshot_load", f.areole_snapshot_load(session, this.saved, this.savedSize));
      },
      call: () => f.areole_prefill(session, turn, tokens, flags, flags ? logits : 0),
    };
  }
}

/** One slice: milliseconds of one call. @param {Case} one @param {number} repeats @param {number} tickMs */
export function slice({ call, before }, repeats, tickMs) {
  before?.();
  const start = tick();
  for (let i = 0; i < repeats; i++) call();
  // Half a tick is what the clock has swallowed on average.
  return (performance.now() - start + tickMs / 2) / repeats;
}

/** @param {string} address @returns {Promise<ArrayBuffer>} */
export async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: the server answered ${response.status}`);
  return response.arrayBuffer();
}
