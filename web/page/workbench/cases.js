/**
 * A case file in the page: every case asked in a fresh conversation, judged, timed and plotted. Owns the run and what is
 * shown of it; what a file may hold and what counts as right is judging.js's.
 */

import { AreoleError } from "../../errors.js";
import { readJSON } from "../../tools.js";
import { toolset } from "../toolset.js";
import { announce, byId, element, readText, saveFile, showError, showRows } from "../ui.js";
import { bars, stacked } from "./chart.js";
import { acted, judge, readCases, turnsOf } from "./judging.js";

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {string} group cases of a kind
 * @property {boolean | null} pass null: nothing is wanted
 * @property {string} text
 * @property {string} got
 * @property {string} wanted
 * @property {number} seconds
 * @property {number} tokens
 */

const file = /** @type {HTMLInputElement} */ (byId("cases-file"));
const own = /** @type {HTMLButtonElement} */ (byId("cases-examples"));
const stop = /** @type {HTMLButtonElement} */ (byId("cases-stop"));
const save = /** @type {HTMLButtonElement} */ (byId("cases-save"));
const fault = byId("cases-error");
const state = byId("cases-state");

/** @param {import("./judging.js").Call[]} calls */
const shortly = (calls) =>
  calls.map((call) => `${call.name}(${Object.values(call.arguments ?? {}).map((value) => JSON.stringify(value)).join(", ")})`).join("; ") ||
  "no call";

/**
 * @param {Record<string, any>} turn an answered one
 * @param {Record<string, any>} wanting
 * @param {import("./judging.js").Piece} piece
 * @returns {Row}
 */
function rowOf(turn, wanting, { name, group }) {
  const { pass, wanted } = judge(turn, wanting);
  const { prefill_s: prefill = 0, decode_s: decode = 0, gates_s: gates = 0 } = turn.timings ?? {};
  const calls = acted(turn.response);
  const flagged = !calls.length && turn.response?.function_calls?.length ? `flagged: ${shortly(turn.response.function_calls)}` : null;
  return {
    name,
    group,
    pass,
    text: turn.text ?? "",
    got: turn.error ? `${turn.error.code}: ${turn.error.message}` : (flagged ?? shortly(calls)),
    wanted: wanted.map(shortly).join(" – or – "),
    seconds: prefill + decode + gates,
    tokens: turn.tokens ?? 0,
  };
}

/** @param {import("./judging.js").Piece} piece one that cannot be asked @returns {Row} */
const failedRow = ({ name, group, fault: why }) => {
  return { name, group, pass: false, text: "", got: `request_option: ${why}`, wanted: "", seconds: 0, tokens: 0 };
};

/** @param {Row} row */
function lineOf({ name, pass, text, got, wanted, seconds }) {
  const line = element("tr", "", [
    element("td", "", pass === null ? "–" : pass ? "pass" : "FAIL"),
    element("td", "", name),
    element("td", "", text),
    element("td", "mono", got),
    element("td", "mono", pass === false ? wanted : ""),
    element("td", "number", seconds.toFixed(2)),
  ]);
  if (pass === false) line.dataset.support = "refused";
  return line;
}

/** How many of each verdict, as parts of a bar. @param {Row[]} rows */
function verdicts(rows) {
  const count = (/** @type {boolean | null} */ pass) => rows.filter((row) => row.pass === pass).length;
  return [
    { name: "passed", value: count(true), className: "part-0" },
    { name: "failed", value: count(false), className: "part-bad" },
    { name: "not judged", value: count(null), className: "part-4" },
  ];
}

/** @param {Row[]} rows */
const tally = (rows) =>
  verdicts(rows)
    .filter(({ value }) => value)
    .map(({ name, value }) => `${value} ${name}`)
    .join(", ");

/** The figures and the plots. @param {Row[]} rows */
function summarise(rows) {
  const [passed, failed] = verdicts(rows).map(({ value }) => value);
  const asked = rows.map(({ seconds }) => seconds).filter((seconds) => seconds > 0); // the others were not
  const times = asked.sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0;
  showRows(byId("cases-summary"), [
    ["Passed", passed + failed ? `${passed} of ${passed + failed}` : "the file says of no case what it wants"],
    ["Median", `${at(0.5).toFixed(2)} s`],
    ["Slowest tenth from", `${at(0.9).toFixed(2)} s`],
    ["Slowest", `${at(1).toFixed(2)} s`],
    ["Tokens", String(rows.reduce((sum, { tokens }) => sum + tokens, 0))],
  ]);
  const groups = [...new Set(rows.map(({ group }) => group))];
  const charts = groups.length > 1 && groups.length < rows.length ? ["all", ...groups] : ["all"]; // a bar for one case says little
  showRows(
    byId("cases-groups"),
    charts.map((group, index) => {
      const members = index === 0 ? rows : rows.filter((row) => row.group === group);
      const said = tally(members);
      return [group, [stacked(verdicts(members), `${group}: ${said}`), said]];
    }),
  );
  byId("cases-verdicts").hidden = passed + failed === 0;
  byId("cases-chart").replaceChildren(
    bars(
      rows.map(({ name, seconds, pass }) => ({ name, value: seconds, className: pass === false ? "part-bad" : pass ? "part-0" : "part-4" })),
      `Seconds of ${rows.length} cases, ${failed} of them failed`,
      (value) => `${value.toFixed(2)} s`,
    ),
  );
  byId("cases-result").hidden = rows.length === 0;
}

/** @param {import("../../client.js").AreoleClient} client */
export function startCases(client) {
  /** While a run goes on. @type {AbortController | null} */
  let running = null;
  /** @type {Row[]} */
  let rows = [];
  /** @type {unknown[]} */
  let answers = [];
  let drawing = false;

  /** The plots once a frame at most: a file may have thousands of cases. */
  function draw() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      summarise(rows);
    });
  }

  /** @param {unknown} entries */
  async function run(entries) {
    if (running) return;
    const pieces = readCases(entries);
    showError(fault, pieces ? null : "A case file is a list of entries, each with tools and with turns or cases.");
    if (!pieces) return;
    running = new AbortController();
    const { signal } = running;
    [rows, answers] = [[], []];
    byId("case-rows").replaceChildren();
    byId("cases-result").hidden = true;
    stop.disabled = false;
    if (document.activeElement === file || document.activeElement === own) stop.focus(); // disabled, they would lose it
    for (const one of [file, own, save]) one.disabled = true;
    const { contract, depth } = toolset;
    const options = { contract, explain: true, signal, ...(depth === undefined ? {} : { depth }) };
    try {
      for (const [index, piece] of pieces.entries()) {
        state.textContent = `${index + 1} of ${pieces.length}: ${piece.name}`;
        const answer = piece.fault ? piece.entry : await client.askEntry(piece.entry, options);
        answers.push(answer);
        const more = piece.fault ? [failedRow(piece)] : turnsOf(answer).map(({ turn, wanting }) => rowOf(turn, wanting, piece));
        rows.push(...more);
        byId("case-rows").append(...more.map(lineOf));
        draw();
      }
    } catch (error) {
      if (!signal.aborted) showError(fault, AreoleError.wrap(error));
    } finally {
      running = null;
      if (rows.length) summarise(rows); // also where no frame comes: in a tab that is not shown
      for (const one of [file, own]) one.disabled = false;
      save.disabled = rows.length === 0;
      if (document.activeElement === stop) own.focus();
      stop.disabled = true;
      state.textContent = `${signal.aborted ? "Stopped after" : "Done:"} ${rows.length} answers, under the contract ${contract}.`;
      announce(`${state.textContent} ${tally(rows)}`);
    }
  }

  file.addEventListener("change", async () => {
    const [chosen] = file.files ?? [];
    if (!chosen) return;
    let entries;
    try {
      entries = readJSON(await readText(chosen));
    } catch (error) {
      showError(fault, `${chosen.name}: ${AreoleError.wrap(error).message}`);
      return;
    } finally {
      file.value = ""; // so that the same file can be chosen again
    }
    await run(entries);
  });
  own.addEventListener("click", async () => {
    try {
      const presets = await (await fetch("presets.json")).json();
      await run(presets.map((/** @type {any} */ { id, system, text, tools }) => ({ id, system, tools, turns: [{ text }] })));
    } catch (error) {
      showError(fault, AreoleError.wrap(error, "fetch_failed", "The examples could not be loaded. "));
    }
  });
  stop.addEventListener("click", () => running?.abort());
  save.addEventListener("click", () => {
    saveFile("areole-answers.json", new Blob([JSON.stringify(answers, null, 1)], { type: "application/json" }));
  });
}
