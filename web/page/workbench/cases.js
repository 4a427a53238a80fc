/**
 * A case file in the page: every case asked in a fresh conversation, compared with what it wants, timed and plotted. Owns
 * the comparison; the shape of a file is that of `build.py ask --file`.
 */

import { AreoleError } from "../../errors.js";
import { toolset } from "../toolset.js";
import { announce, byId, element, showError, showRows } from "../ui.js";
import { bars } from "./chart.js";

/** @typedef {{name: string, pass: boolean | null, text: string, got: string, wanted: string, seconds: number, tokens: number}} Row */

const file = /** @type {HTMLInputElement} */ (byId("cases-file"));
const own = /** @type {HTMLButtonElement} */ (byId("cases-examples"));
const stop = /** @type {HTMLButtonElement} */ (byId("cases-stop"));
const save = /** @type {HTMLButtonElement} */ (byId("cases-save"));
const fault = byId("cases-error");
const state = byId("cases-state");

/** Equal as JSON, whatever the order of keys. @param {unknown} a @param {unknown} b @returns {boolean} */
export function same(a, b) {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => same(item, b[index]));
  if (typeof a === "object" && typeof b === "object" && a !== null && b !== null && !Array.isArray(a) && !Array.isArray(b)) {
    const [left, right] = [Object.entries(a), /** @type {any} */ (b)];
    return left.length === Object.keys(right).length && left.every(([key, value]) => key in right && same(value, right[key]));
  }
  return a === b;
}

/** What of a call is compared. @param {any} call */
const bare = ({ name, arguments: given }) => ({ name, arguments: given ?? {} });

/** The calls that a case wants, or undefined where it wants nothing in particular. @param {any} turn @returns {any[] | undefined} */
function wanted(turn) {
  const want = turn.want ?? turn.expect;
  if (want === undefined) return undefined;
  const list = Array.isArray(want) ? want : (want?.function_calls ?? want?.calls ?? [want]);
  return list.map(bare);
}

/** @param {any[]} calls */
const shortly = (calls) =>
  calls.map((call) => `${call.name}(${Object.values(call.arguments).map((value) => JSON.stringify(value)).join(", ")})`).join("; ") ||
  "no call";

/** @param {any} turn an answered one @param {string} name @returns {Row} */
function rowOf(turn, name) {
  const calls = /** @type {any[]} */ (turn.response?.function_calls ?? []).map(bare);
  const want = wanted(turn);
  const { prefill_s: prefill = 0, decode_s: decode = 0, gates_s: gates = 0 } = turn.timings ?? {};
  return {
    name,
    pass: turn.error ? false : want === undefined ? null : same(calls, want),
    text: turn.text ?? "",
    got: turn.error ? `${turn.error.code}: ${turn.error.message}` : shortly(calls),
    wanted: want ? shortly(want) : "",
    seconds: prefill + decode + gates,
    tokens: turn.tokens ?? 0,
  };
}

/** @param {Row[]} rows */
function show(rows) {
  const judged = rows.filter(({ pass }) => pass !== null);
  const passed = judged.filter(({ pass }) => pass).length;
  const times = rows.map(({ seconds }) => seconds).sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0;
  showRows(byId("cases-summary"), [
    ["Passed", judged.length ? `${passed} of ${judged.length}` : "the file says of no case what it wants"],
    ["Median", `${at(0.5).toFixed(2)} s`],
    ["Slowest tenth", `${at(0.9).toFixed(2)} s`],
    ["Tokens", String(rows.reduce((sum, { tokens }) => sum + tokens, 0))],
  ]);
  byId("cases-chart").replaceChildren(
    bars(
      rows.map(({ name, seconds, pass }) => ({ name, value: seconds, className: pass === false ? "part-bad" : "part-0" })),
      `Seconds of ${rows.length} cases, ${judged.length - passed} of them failed`,
      (value) => `${value.toFixed(2)} s`,
    ),
  );
  byId("case-rows").replaceChildren(
    ...rows.map(({ name, pass, text, got, wanted: want, seconds }) => {
      const line = element("tr", "", [
        element("td", "", pass === null ? "–" : pass ? "pass" : "FAIL"),
        element("td", "", name),
        element("td", "", text),
        element("td", "mono", got),
        element("td", "mono", pass === false ? want : ""),
        element("td", "number", seconds.toFixed(2)),
      ]);
      if (pass === false) line.dataset.support = "refused";
      return line;
    }),
  );
  byId("cases-result").hidden = rows.length === 0;
}

/** Entries cut into entries of one case each. @param {any[]} entries */
function pieces(entries) {
  return entries.flatMap((entry, index) => {
    const name = entry.id ?? `entry ${index + 1}`;
    if (!Array.isArray(entry.cases)) return [{ name, entry }];
    const { cases, ...shared } = entry;
    return cases.map((/** @type {any} */ one, /** @type {number} */ place) => ({
      name: one.id ?? `${name} ${place + 1}`,
      entry: { ...shared, cases: [one] },
    }));
  });
}

/** @param {import("../../client.js").AreoleClient} client */
export function startCases(client) {
  let stopped = true;
  /** @type {any[]} */
  let answers = [];

  /** @param {unknown} entries */
  async function run(entries) {
    showError(fault, null);
    if (!stopped) return;
    if (!Array.isArray(entries) || !entries.every((entry) => typeof entry === "object" && entry !== null && (entry.turns || entry.cases))) {
      showError(fault, "A case file is a list of entries, each with tools and with turns or cases.");
      return;
    }
    const all = pieces(entries);
    /** @type {Row[]} */
    const rows = [];
    answers = [];
    stopped = false;
    stop.disabled = false;
    const { contract, depth } = toolset;
    try {
      for (const [index, { name, entry }] of all.entries()) {
        if (stopped) break;
        state.textContent = `${index + 1} of ${all.length}: ${name}`;
        const answer = await client.askEntry(entry, { contract, explain: true, ...(depth === undefined ? {} : { depth }) });
        answers.push(answer);
        for (const one of answer.cases ?? [answer]) for (const turn of one.turns ?? [one]) rows.push(rowOf(turn, name));
        show(rows);
      }
      state.textContent = `${stopped ? "Stopped after" : "Done:"} ${rows.length} answers, under the contract ${contract}.`;
      announce(state.textContent);
    } catch (error) {
      showError(fault, AreoleError.wrap(error));
    } finally {
      stopped = true;
      stop.disabled = true;
      save.disabled = rows.length === 0;
    }
  }

  file.addEventListener("change", async () => {
    const [chosen] = file.files ?? [];
    file.value = "";
    if (!chosen) return;
    let entries;
    try {
      entries = JSON.parse(await chosen.text());
    } catch (error) {
      showError(fault, `${chosen.name} is not JSON: ${error instanceof Error ? error.message : error}`);
      return;
    }
    await run(entries);
  });
  own.addEventListener("click", async () => {
    const presets = await (await fetch("presets.json")).json();
    await run(presets.map((/** @type {any} */ { id, system, text, tools }) => ({ id, system, tools, turns: [{ text }] })));
  });
  stop.addEventListener("click", () => {
    stopped = true;
  });
  save.addEventListener("click", () => {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(answers, null, 1)], { type: "application/json" }));
    link.download = "areole-answers.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
}
