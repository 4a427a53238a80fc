/**
 * Warms the core's kernels while the weights come in: a small model of zeros (rehearsal.py describes it) is fed, decoded
 * and asked until the browser has begun to compile the kernels for good, which other threads then do. The code belongs to
 * the module, so an instance of its own will do; nothing of it stays. Owns when it has been enough; it never fails a load.
 */

/**
 * @typedef {object} Rehearsal
 * @property {string} geometry the small model's areole_geometry, base64
 * @property {string} tensors its areole_tensor records, base64
 * @property {number} count of them
 * @property {number} bytes of its archive
 * @property {number} vocab
 * @property {number} tokens that a session may hold
 * @property {{at: number, codes: string}} manifest what is not zero in it
 */

const PAGE = 65536;
const ALIGN = 64;
/** Tokens of a batch, of a draft, and decoded one by one in a round. */
const BATCH = 24;
const DRAFT = 8;
const SINGLE = 6;
/** A kernel is compiled for good after it has run for some milliseconds; this is enough for all of them. */
const MILLISECONDS = 80;
const PIN = 1;
const LOGITS_LAST = 2;

/**
 * @param {WebAssembly.Module} module the core
 * @param {Rehearsal} rehearsal
 * @param {WebAssembly.Imports} imports the threaded core's memory, one for this alone
 * @returns {Promise<number>} seconds that it took of this thread
 */
export async function warm(module, rehearsal, imports) {
  const { exports } = await WebAssembly.instantiate(module, imports);
  const run = rehearse(/** @type {any} */ (exports), rehearsal);
  let spent = 0;
  while (spent < MILLISECONDS) {
    const began = performance.now();
    run.next();
    spent += performance.now() - began;
    await new Promise((resolve) => setTimeout(resolve)); // what came meanwhile goes first
  }
  return spent / 1000;
}

/**
 * Calls of a model of zeros, one a step, for as long as it is asked to go on.
 * @param {any} core its exports
 * @param {Rehearsal} rehearsal
 * @returns {Generator<void, void>}
 */
function* rehearse(core, { geometry, tensors, count, bytes, vocab, tokens, manifest }) {
  let end = Number(core.__heap_base.value);
  /** @param {number} nbytes */
  const take = (nbytes) => {
    const address = Math.ceil(end / ALIGN) * ALIGN;
    end = address + nbytes;
    const missing = Math.ceil((end + PAGE - core.memory.buffer.byteLength) / PAGE);
    if (missing > 0) core.memory.grow(missing);
    return address;
  };
  /** @param {string} text @param {number} [address] */
  const put = (text, address) => {
    const data = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const at = address ?? take(data.length);
    new Uint8Array(core.memory.buffer, at, data.length).set(data);
    return at;
  };
  const out = take(ALIGN);
  /** @param {string} name @param {number[]} args what a *_size call says */
  const size = (name, ...args) => {
    ask(core[name](...args, out));
    return new DataView(core.memory.buffer).getUint32(out, true);
  };

  const archive = take(bytes);
  put(manifest.codes, archive + manifest.at);
  const described = [put(geometry), put(tensors), count, archive, bytes];
  const modelBytes = size("areole_model_size", ...described);
  const model = take(modelBytes);
  ask(core.areole_model_init(model, modelBytes, ...described));
  yield;
  const sizes = [BATCH, tokens, 0];
  const sessionBytes = size("areole_session_size", model, ...sizes);
  const session = take(sessionBytes);
  ask(core.areole_session_init(session, sessionBytes, model, ...sizes));
  const ids = take(4 * BATCH);
  new Uint32Array(core.memory.buffer, ids, BATCH).set(Array.from({ length: BATCH }, (_, i) => i + 1));
  const logits = take(4 * DRAFT * vocab);
  const best = take(ALIGN);
  yield;
  for (let pairs = 1; ; pairs = 1 - pairs) {
    core.areole_model_use_pairs(model, pairs); // a browser uses one of the two, and which is not known yet
    ask(core.areole_session_reset(session));
    ask(core.areole_prefill(session, ids, BATCH, PIN, 0));
    yield;
    ask(core.areole_prefill(session, ids, BATCH, LOGITS_LAST, logits));
    yield;
    for (let i = 0; i < SINGLE; i++) {
      ask(core.areole_decode(session, 1, logits));
      ask(core.areole_top(logits, vocab, 1, best, best + 4));
      ask(core.areole_log_sum_exp(logits, vocab, out));
    }
    yield;
    ask(core.areole_draft(session, ids, DRAFT, logits));
    ask(core.areole_accept(session, DRAFT));
    yield;
  }
}

/** @param {number} status */
function ask(status) {
  if (status < 0) throw new Error(`the core answered ${status} to the rehearsal`);
}
