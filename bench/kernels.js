/**
 * Times the core's kernels one by one, for bench/kernels.py. What the times mean is worked out there. Every case is
 * measured in slices of a few milliseconds, one slice of each case in turn, so that a busy moment hits all of them and
 * not one.
 */

import { Core, Model, breathe, fetched, resolution, slice, succeed, values } from "./core.js";

/** @typedef {import("./core.js").Case} Case */

/**
 * @typedef {object} Spec what kernels.py asks for
 * @property {string} core address of the module
 * @property {Record<string, import("./core.js").ModelSpec>} models by name
 * @property {import("./core.js").Race[]} races
 * @property {import("./core.js").Feed[]} feeds
 * @property {number} slices
 *
 * @typedef {{name: string, repeats: number, ms: number[]}} Times milliseconds of one call, slice by slice
 */

/** A slice is as many ticks of the clock, for a tick may be a tenth of a millisecond; and at least a millisecond. */
const TICKS = 30;
/** V8 compiles a function to the end some time after its first calls, on another thread. */
const WARM_MS = 60;
const VOCAB = 8192;
const POSITIONS = [256, 1024];

/** Six heads of the shipped model's sizes over so many positions. @param {Core} core @param {number} count @returns {Case} */
function attention(core, count) {
  const f = core.f;
  const [heads, qk, v] = [6, 48, 64];
  const size = core.size("areole_kernel_attention_size", count, heads, qk, v);
  const work = core.take(size);
  const queries = core.put(values(heads * qk));
  const out = core.take(heads * v * 4);
  const keys = core.put(values(count * qk));
  const stored = core.put(values(count * v));
  const rest = [count, 0, queries, heads, qk, v, out, work, size];
  succeed("areole_kernel_attention", f.areole_kernel_attention(keys, stored, ...rest));
  return { name: `attention, 6 heads, ${count} positions`, call: () => f.areole_kernel_attention(0, 0, ...rest) };
}

/** @param {Core} core @returns {Case[]} */
function elementwise(core) {
  const f = core.f;
  const x = core.put(values(VOCAB));
  const scale = core.put(values(1024));
  const out = core.take(VOCAB * 4);
  const work = core.take(8 * 768 + 64 * 6 + 4096);
  const quantised = core.take(768 * 4);
  const sums = core.take(24);
  const scales = core.take(24);
  const square = core.put(values(1024));
  const ids = core.take(4);
  const stream = core.put(values(4 * 768));
  const mix = core.put(new Float32Array(16).fill(0.25)); // the stream neither grows nor dies
  return [
    {
      name: "rotate 768",
      call: () => f.areole_kernel_rotate(x, 768, 128, quantised, sums, scales, work, 8 * 768 + 64 * 6 + 4096),
    },
    { name: "kron 32x32", call: () => f.areole_kernel_kron(square, scale, x, 32, 32, work, out) },
    { name: "exp 768", call: () => f.areole_kernel_exp(x, 768, out) },
    { name: "sigmoid 768", call: () => f.areole_kernel_sigmoid(x, 768, out) },
    { name: "norm 768", call: () => f.areole_kernel_norm(x, scale, 768, out) },
    { name: "sinkhorn 4x4", call: () => f.areole_kernel_sinkhorn(x, 4, out) },
    { name: "lanes 4x768", call: () => f.areole_kernel_lanes(stream, mix, mix, mix, x, 4, 768, out, quantised) },
    ...POSITIONS.map((count) => attention(core, count)),
    { name: `top 1 of ${VOCAB}`, call: () => f.areole_top(x, VOCAB, 1, ids, out) },
  ];
}

/**
 * @param {Spec} spec
 * @returns {Promise<{flavor: number, tickMs: number, sliceMs: number, cases: Times[]}>}
 */
async function measureKernels(spec) {
  const { instance } = await WebAssembly.instantiate(await fetched(spec.core), {});
  const core = new Core(instance.exports);
  /** @type {Record<string, Model>} */
  const models = {};
  for (const [name, one] of Object.entries(spec.models)) models[name] = new Model(core, one, await fetched(one.address));
  const cases = [
    ...elementwise(core),
    ...spec.races.map((race) => models[race.model].raceCase(race)),
    ...spec.feeds.map((feed) => models[feed.model].feedCase(feed)),
  ];
  const tickMs = resolution();
  const sliceMs = Math.max(1, TICKS * tickMs);

  for (const one of cases) {
    one.before?.();
    succeed(one.name, one.call());
    for (let spent = 0; spent < WARM_MS; ) {
      spent += slice(one, one.repeats ?? 1, tickMs) * (one.repeats ?? 1);
    }
    await breathe();
  }
  const plan = cases.map((one) => {
    let repeats = one.repeats ?? 1;
    while (!one.repeats && slice(one, repeats, tickMs) * repeats < sliceMs) repeats *= 2;
    return { one, repeats, ms: /** @type {number[]} */ ([]) };
  });
  for (let round = 0; round < spec.slices; round++) {
    for (const { one, repeats, ms } of plan) ms.push(slice(one, repeats, tickMs));
    await breathe();
  }
  return {
    flavor: core.f.areole_flavor(),
    tickMs,
    sliceMs,
    cases: plan.map(({ one, repeats, ms }) => ({ name: one.name, repeats, ms })),
  };
}

/** @type {any} */ (window).measure = measureKernels;
