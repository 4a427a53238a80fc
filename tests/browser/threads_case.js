/**
 * The same calls of the core with one thread and with more, for test_threads.py: prefill, decode and drafts, both ways to
 * the products, and the hash of all logits and of the state at the end.
 */

import { Core, Model, fetched, succeed } from "./core.js";
import { Threads } from "./threads.js";

const LOGITS_ALL = 4;
const DRAFT = 8;

/** @type {Promise<{module: WebAssembly.Module, memory: WebAssembly.Memory, core: Core, model: Model}> | undefined} */
let starting;

/** @param {any} spec */
async function start(spec) {
  const module = await WebAssembly.compile(await fetched(spec.core));
  const memory = Threads.memory();
  const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
  const core = new Core(exports);
  return { module, memory, core, model: new Model(core, spec.model, await fetched(spec.model.address)) };
}

/** @param {Core} core @param {Model} model @param {any} calls @param {any} spec @param {number} pairs */
async function hashOf(core, model, calls, spec, pairs) {
  const { f, session, turn, logits } = model;
  const tokens = spec.model.turn;
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const seen = [];
  const see = (/** @type {number} */ address, /** @type {number} */ nbytes) => {
    seen.push(new Uint8Array(core.memory.buffer, address, nbytes).slice());
  };
  const row = spec.model.vocab * 4;
  succeed("areole_model_use_pairs", f.areole_model_use_pairs(model.arena, pairs));
  succeed("areole_snapshot_load", f.areole_snapshot_load(session, model.saved, model.savedSize));
  succeed("areole_prefill", calls.areole_prefill(session, turn, 2 * DRAFT + 1, LOGITS_ALL, logits));
  see(logits, row * (2 * DRAFT + 1));
  for (let i = 0; i < 3; i++) {
    succeed("areole_decode", calls.areole_decode(session, tokens[i], logits));
    see(logits, row);
  }
  for (const kept of [3, 0, DRAFT]) {
    succeed("areole_draft", calls.areole_draft(session, turn, DRAFT, logits));
    see(logits, row * DRAFT);
    succeed("areole_accept", f.areole_accept(session, kept));
  }
  succeed("areole_prefill", calls.areole_prefill(session, turn, tokens.length, 0, 0));
  succeed("areole_decode", calls.areole_decode(session, tokens[0], logits));
  see(logits, row);
  const size = core.size("areole_snapshot_size", session);
  const mark = core.end;
  const saved = core.take(size);
  succeed("areole_snapshot_save", f.areole_snapshot_save(session, saved, size));
  see(saved, size);
  core.end = mark;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await new Blob(seen).arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {any} spec {core, model, threads, hinder?: [turns, every]}
 * @returns {Promise<{alone: string[], together: string[], idle: string[], parts: any, idleParts: any, notice: any}>}
 *   idle: with memory for helpers, of which none ever runs
 */
async function compare(spec) {
  const { module, memory, core, model } = await (starting ??= start(spec));
  const f = core.f;
  const threads = new Threads(module, f, memory);
  core.end = threads.start(spec.threads - 1, core.take(0));
  if (spec.hinder) succeed("areole_threads_hinder", f.areole_threads_hinder(threads.address, ...spec.hinder));
  const calls = threads.calls();
  /** @type {Record<string, string[]>} */
  const result = { alone: [], together: [], idle: [] };
  threads.mode = "off";
  for (const pairs of [0, 1]) result.alone.push(await hashOf(core, model, calls, spec, pairs));
  threads.mode = "on";
  for (const pairs of [0, 1, 0, 1]) {
    await new Promise((resolve) => setTimeout(resolve, 200)); // helpers need a moment to start
    result.together.push(await hashOf(core, model, calls, spec, pairs));
  }
  const { parts, notice } = threads.state();
  threads.stop();
  const size = core.size("areole_threads_size", spec.threads - 1);
  const nobody = core.take(size);
  succeed("areole_threads_init", f.areole_threads_init(nobody, size, spec.threads - 1));
  succeed("areole_session_use_threads", f.areole_session_use_threads(model.session, nobody));
  for (const pairs of [0, 1]) result.idle.push(await hashOf(core, model, f, spec, pairs));
  const idleParts = f.areole_threads_count(nobody, 0) + f.areole_threads_count(nobody, 1);
  return /** @type {any} */ ({ ...result, parts, idleParts, notice });
}

/** @type {any} */ (window).measure = compare;
