/**
 * Times whole tokens of the shipped model as it grows, for bench/scale.py: with the context, with the tools, with the
 * depth. What the times mean is worked out there.
 */

import { Core, Model, breathe, fetched, succeed } from "./core.js";

/**
 * @typedef {object} Spec what scale.py asks for
 * @property {string} core address of the module
 * @property {import("./core.js").ModelSpec} model its prefix is pinned for the depths
 * @property {number[]} contexts ascending; the last is the session's length
 * @property {{count: number, tokens: number[]}[]} tools a prefix of so many tools each
 * @property {{depth: number, layers: number[]}[]} depths
 * @property {number} decoded tokens one by one at each point
 *
 * @typedef {{prefilled: number, prefillMs: number, decodeMs: number[]}} Point
 */

const PIN = 1;
const WINDOW = 256;
const WARM_TOKENS = 64;
const RACES = 40;

/** Milliseconds. @param {() => number} call */
function timed(call) {
  const start = performance.now();
  succeed("a call", call());
  return performance.now() - start;
}

/** A model or a rung of one, with sessions of any length. */
class Timed {
  /** @param {Core} core @param {number} arena @param {number[]} turn */
  constructor(core, arena, turn) {
    this.core = core;
    this.f = core.f;
    this.arena = arena;
    this.turn = turn;
    this.logits = core.take(65536 * 4);
  }

  /** @param {number} capacity of the prefix @param {number} most tokens */
  open(capacity, most) {
    const sizes = [capacity, most, WINDOW];
    const size = this.core.size("areole_session_size", this.arena, ...sizes);
    const session = this.core.take(size);
    succeed("areole_session_init", this.f.areole_session_init(session, size, this.arena, ...sizes));
    return session;
  }

  /** Pins tokens, then decodes some. @param {number} session @param {number[]} tokens @param {number} decoded */
  point(session, tokens, decoded) {
    let prefillMs = 0;
    if (tokens.length) {
      const ids = this.core.put(Uint32Array.from(tokens));
      prefillMs = timed(() => this.f.areole_prefill(session, ids, tokens.length, PIN, 0));
    }
    const decodeMs = [];
    for (let i = 0; i < decoded; i++) {
      const token = this.turn[i % this.turn.length];
      decodeMs.push(timed(() => this.f.areole_decode(session, token, this.logits)));
    }
    return { prefilled: tokens.length, prefillMs, decodeMs };
  }
}

/**
 * @param {Spec} spec
 * @returns {Promise<{kernels: string, contexts: Point[], tools: Point[], depths: Point[]}>}
 */
async function measureScale(spec) {
  const { instance } = await WebAssembly.instantiate(await fetched(spec.core), {});
  const core = new Core(instance.exports);
  const model = new Model(core, spec.model, await fetched(spec.model.address));
  const { prefix, turn } = spec.model;
  const whole = new Timed(core, model.arena, turn);

  /** @param {number} pairs */
  const race = (pairs) => timed(() => model.raceOnce(pairs, RACES));
  for (let i = 0; i < 3; i++) race(0), race(1), await breathe();
  const pairs = core.f.areole_model_use_pairs(model.arena, race(1) < race(0) ? 1 : 0);
  for (let i = 0; i < 3; i++) whole.point(whole.open(prefix.length, prefix.length + WARM_TOKENS), prefix, WARM_TOKENS);

  const filler = [...prefix, ...turn];
  const longest = spec.contexts[spec.contexts.length - 1];
  const session = whole.open(longest, longest);
  const contexts = [];
  const savedAt = core.take(0);
  for (let at = 0, i = 0; i < spec.contexts.length; i++) {
    const end = spec.contexts[i] - spec.decoded;
    const tokens = Array.from({ length: end - at }, (_, k) => filler[(at + k) % filler.length]);
    contexts.push(whole.point(session, tokens, 0));
    at = end;
    // Nothing can be pinned after a token that is not, so the session goes back to where it was.
    const size = core.size("areole_snapshot_size", session);
    const saved = core.take(size);
    succeed("areole_snapshot_save", core.f.areole_snapshot_save(session, saved, size));
    contexts[i].decodeMs = whole.point(session, [], spec.decoded).decodeMs;
    succeed("areole_snapshot_load", core.f.areole_snapshot_load(session, saved, size));
    core.end = savedAt;
    await breathe();
  }

  const tools = [];
  for (const { tokens } of spec.tools) {
    const room = core.end;
    tools.push(whole.point(whole.open(tokens.length, tokens.length + spec.decoded), tokens, spec.decoded));
    core.end = room;
    await breathe();
  }

  const depths = [];
  for (const { layers } of spec.depths) {
    const room = core.end;
    const chosen = core.put(Uint32Array.from(layers));
    const size = core.size("areole_rung_size", model.arena, chosen, layers.length);
    const arena = core.take(size);
    succeed("areole_rung_init", core.f.areole_rung_init(arena, size, model.arena, chosen, layers.length));
    const rung = new Timed(core, arena, turn);
    depths.push(rung.point(rung.open(prefix.length, prefix.length + spec.decoded), prefix, spec.decoded));
    core.end = room;
    await breathe();
  }
  return { kernels: pairs ? "pairs" : "dots", contexts, tools, depths };
}

/** @type {any} */ (window).measure = measureScale;
