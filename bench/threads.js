/**
 * Times whole tokens of the shipped model with one thread and with more, for bench/threads.py. What the times mean is
 * worked out there. One slice of each way in turn, so that a busy moment hits all of them and not one.
 */

import { Core, Model, breathe, fetched, resolution, succeed, tick } from "./core.js";
import { Threads } from "./threads.js";

/**
 * @typedef {object} Way
 * @property {string} name
 * @property {number} threads
 * @property {"on" | "off" | "auto"} mode
 *
 * @typedef {object} Spec what threads.py asks for
 * @property {string} core address of the threaded module
 * @property {import("./core.js").ModelSpec} model
 * @property {Way[]} ways
 * @property {number} decoded tokens one by one in a slice
 * @property {number} prefilled tokens in one call
 * @property {number} seconds of rounds
 *
 * @typedef {{name: string, decodeMs: number[], prefillMs: number[], parts: any}} Times milliseconds of a slice's calls
 */

const WARM_ROUNDS = 6;
const RACES = 40;

/** @typedef {{kernels: string, model: Model, ways: {way: Way, threads: Threads}[]}} Ready */

/** @type {Ready | undefined} */
let ready;

/** @param {Spec} spec @returns {Promise<Ready>} */
async function start(spec) {
  const module = await WebAssembly.compile(await fetched(spec.core));
  const memory = Threads.memory();
  const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
  const core = new Core(exports);
  const ways = spec.ways.map((way) => {
    const threads = new Threads(module, exports, memory);
    threads.mode = way.mode;
    core.end = threads.start(way.threads - 1, core.take(0));
    return { way, threads };
  });
  const model = new Model(core, spec.model, await fetched(spec.model.address));
  /** @param {number} pairs */
  const race = (pairs) => {
    const from = performance.now();
    succeed("areole_kernel_race", model.raceOnce(pairs, RACES));
    return performance.now() - from;
  };
  for (let i = 0; i < 3; i++) race(0), race(1), await breathe();
  const pairs = model.f.areole_model_use_pairs(model.arena, race(1) < race(0) ? 1 : 0);
  return { kernels: pairs ? "pairs" : "dots", model, ways };
}

/**
 * @param {Spec} spec
 * @returns {Promise<{kernels: string, tickMs: number, ways: Times[]}>}
 */
async function measureThreads(spec) {
  ready ??= await start(spec);
  const { kernels, model, ways } = ready;
  const tickMs = resolution();
  const times = ways.map(({ way }) => ({
    name: way.name,
    decodeMs: /** @type {number[]} */ ([]),
    prefillMs: /** @type {number[]} */ ([]),
    parts: /** @type {any} */ (null),
  }));
  let until = Infinity;
  for (let round = 0; round <= WARM_ROUNDS || performance.now() < until; round++) {
    if (round === WARM_ROUNDS) until = performance.now() + spec.seconds * 1000;
    for (const [i, { threads }] of ways.entries()) {
      const calls = threads.calls();
      const { f, session, turn, logits } = model;
      const begin = () => succeed("areole_snapshot_load", f.areole_snapshot_load(session, model.saved, model.savedSize));
      begin();
      let from = tick();
      for (let k = 0; k < spec.decoded; k++) succeed("areole_decode", calls.areole_decode(session, spec.model.turn[k], logits));
      const decodeMs = performance.now() - from + tickMs / 2;
      begin();
      from = tick();
      succeed("areole_prefill", calls.areole_prefill(session, turn, spec.prefilled, 0, 0));
      const prefillMs = performance.now() - from + tickMs / 2;
      if (round < WARM_ROUNDS) continue;
      times[i].decodeMs.push(decodeMs);
      times[i].prefillMs.push(prefillMs);
      times[i].parts = threads.state().parts;
    }
    await breathe();
  }
  return { kernels, tickMs, ways: times };
}

/** @type {any} */ (window).measure = measureThreads;
