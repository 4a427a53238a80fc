/**
 * The page: shows what loads, what is asked, what is written and what came of it. Owns the document and nothing else; the
 * worker's side of everything is `client.js`, which is also what `window.areole` is. Whatever the model or a user wrote
 * goes into the page as text, never as markup. Text that streams stays outside live regions; states and results are
 * announced once, by one polite node.
 */

import { AreoleClient } from "./client.js";
import { AreoleError } from "./errors.js";
import { readTools } from "./tools.js";

/** @typedef {{id: string, title: string, note: string, system: string, text: string, tools: unknown[]}} Preset */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @returns {T}
 */
const byId = (id) => /** @type {T} */ (document.getElementById(id));

const page = {
  load: byId("load"),
  loadText: byId("load-text"),
  loadProgress: /** @type {HTMLProgressElement} */ (byId("load-progress")),
  loadError: byId("load-error"),
  loadButton: /** @type {HTMLButtonElement} */ (byId("load-button")),
  presets: byId("presets"),
  presetNote: byId("preset-note"),
  form: /** @type {HTMLFormElement} */ (byId("form")),
  request: /** @type {HTMLTextAreaElement} */ (byId("request")),
  requestError: byId("request-error"),
  ask: /** @type {HTMLButtonElement} */ (byId("ask")),
  stop: /** @type {HTMLButtonElement} */ (byId("stop")),
  answer: byId("answer"),
  answerText: byId("answer-text"),
  answerError: byId("answer-error"),
  calls: byId("calls"),
  reasons: byId("reasons"),
  writing: byId("writing"),
  reasoningBox: byId("reasoning-box"),
  reasoning: byId("reasoning"),
  figures: byId("figures"),
  envelopeBox: byId("envelope-box"),
  envelope: byId("envelope"),
  toolsCount: byId("tools-count"),
  toolList: byId("tool-list"),
  toolsEditor: /** @type {HTMLDetailsElement} */ (byId("tools-editor")),
  tools: /** @type {HTMLTextAreaElement} */ (byId("tools")),
  toolsError: byId("tools-error"),
  factsEditor: /** @type {HTMLDetailsElement} */ (byId("facts-editor")),
  system: /** @type {HTMLTextAreaElement} */ (byId("system")),
  contract: /** @type {HTMLSelectElement} */ (byId("contract")),
  contractNote: byId("contract-note"),
  about: byId("about-text"),
  announce: byId("announce"),
};

const query = new URLSearchParams(location.search);
const client = new AreoleClient({
  core: /** @type {any} */ (query.get("core") ?? undefined),
  model: query.get("model") ?? undefined,
  stallSeconds: query.has("stall") ? Number(query.get("stall")) : undefined,
  trace: query.has("trace"),
});
/** The same client for scripts, the console and the tests. */
/** @type {any} */ (window).areole = client;

/** @param {string} text */
function announce(text) {
  page.announce.textContent = text;
}

// ---------------------------------------------------------------------------------------------------------------------
// Small pieces of document
// ---------------------------------------------------------------------------------------------------------------------

/**
 * @param {string} tag
 * @param {string} [className]
 * @param {string | Node[]} [content] text, or children
 * @returns {HTMLElement}
 */
function element(tag, className = "", content = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (typeof content === "string") made.textContent = content;
  else made.append(...content);
  return made;
}

/**
 * Shows an error where it belongs; null clears the place. A live node must be there before its text, so it is never hidden.
 * @param {HTMLElement} place
 * @param {AreoleError | string | null} error
 */
function showError(place, error) {
  place.replaceChildren();
  if (error === null) return;
  place.append(typeof error === "string" ? error : error.message);
  if (error instanceof AreoleError) place.append(element("span", "code", error.code));
}

/** @param {number} bytes */
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

/** @param {unknown} value */
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// ---------------------------------------------------------------------------------------------------------------------
// Loading
// ---------------------------------------------------------------------------------------------------------------------

/** What each phase of loading is called. @type {Record<string, string>} */
const PHASES = { download: "Downloading", verify: "Checking", start: "Starting", ready: "Ready" };
let announcedPhase = "";

client.addEventListener("progress", (event) => {
  const { loaded, total, phase } = /** @type {CustomEvent} */ (event).detail;
  page.loadProgress.max = Math.max(total, 1);
  page.loadProgress.value = loaded;
  const name = PHASES[phase] ?? phase;
  page.loadText.textContent = phase === "download" ? `${megabytes(loaded)} of ${megabytes(total)} MB` : `${name} …`;
  if (phase === announcedPhase || phase === "ready") return;
  announcedPhase = phase;
  announce(`${name} the model.`);
});

client.addEventListener("state", (event) => {
  const { state, error } = /** @type {CustomEvent} */ (event).detail;
  page.load.dataset.state = state;
  page.loadButton.hidden = state !== "failed";
  showError(page.loadError, state === "failed" ? error : null);
  if (state === "loading") {
    announcedPhase = "";
    page.loadText.textContent = "starting …";
    page.loadProgress.value = 0;
  } else if (state === "failed") {
    page.loadText.textContent = "could not be loaded";
    page.loadButton.textContent = "Try again";
  } else if (state === "dead") {
    page.loadText.textContent = "stopped; starts again with the next request";
  } else if (state === "ready") {
    client.ready.then(showInfo);
  }
});

page.loadButton.addEventListener("click", () => load());

function load() {
  client.start().catch(() => {}); // shown by the state event
}

/** @param {Record<string, any>} info */
function showInfo({ core, model, loadSeconds, pyodide, version, downloadBytes }) {
  page.loadText.textContent = `ready in ${loadSeconds.total.toFixed(1)} s`;
  const checked = model.verified === "SHA-256" ? "checked by SHA-256" : "hash not checked";
  page.about.textContent =
    `areole ${version}: ${core === "relaxed" ? "relaxed SIMD" : "SIMD128"} core, Pyodide ${pyodide}, ` +
    `${model.name} (${megabytes(model.bytes)} MB, ${checked}); ${megabytes(downloadBytes)} MB in all.`;
  announce("The model is ready.");
}

// ---------------------------------------------------------------------------------------------------------------------
// Tools and examples
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Reads the editor and shows what is in it, or what is wrong with it and where.
 * @returns {boolean} whether the tools can be declared
 */
function showTools() {
  const { tools, fault } = readTools(page.tools.value);
  page.tools.setAttribute("aria-invalid", String(fault !== null));
  showError(page.toolsError, fault && `Line ${fault.line}, column ${fault.column}: ${fault.message}`);
  if (tools) {
    page.toolsCount.textContent = String(tools.length);
    page.toolList.replaceChildren(...tools.map(toolItem));
  }
  return tools !== null;
}

/** @param {import("./tools.js").Tool} tool */
function toolItem(tool) {
  const item = element("li", "", [element("div", "name", tool.name)]);
  if (typeof tool.description === "string") item.append(element("div", "what", tool.description));
  const parameters = /** @type {any} */ (tool.parameters);
  const required = Array.isArray(parameters?.required) ? parameters.required : [];
  const entries = Object.entries(parameters?.properties ?? {});
  if (entries.length) {
    const list = element("ul", "parameters");
    list.setAttribute("aria-label", `Parameters of ${tool.name}`);
    for (const [name, schema] of entries) {
      const optional = !required.includes(name);
      list.append(element("li", optional ? "optional" : "", name + (optional ? "?" : "") + kind(/** @type {any} */ (schema))));
    }
    item.append(list);
  }
  return item;
}

/** What a parameter takes, in a few characters. @param {any} schema */
function kind(schema) {
  if (Array.isArray(schema?.enum)) {
    const text = schema.enum.map(shown).join(" | ");
    return `: ${text.length > 40 ? `${text.slice(0, 38)}…` : text}`;
  }
  return typeof schema?.type === "string" && schema.type !== "string" ? `: ${schema.type}` : "";
}

/**
 * Tools as a person would lay them out: one parameter a line, so that a fault's line says something.
 * @param {unknown} value
 * @param {string} [indent]
 * @returns {string}
 */
function layOut(value, indent = "") {
  const flat = JSON.stringify(value);
  if (typeof value !== "object" || value === null || flat.length + indent.length <= 60) return spaced(flat);
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const rows = isList
    ? value.map((item) => layOut(item, inner))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${layOut(item, inner)}`);
  return `${isList ? "[" : "{"}\n${inner}${rows.join(`,\n${inner}`)}\n${indent}${isList ? "]" : "}"}`;
}

/** A blank after each colon and comma that is not inside a string. @param {string} flat */
const spaced = (flat) => flat.replace(/"(?:[^"\\]|\\.)*"|[:,]/g, (part) => (part.length === 1 ? `${part} ` : part));

/** @param {Preset[]} presets */
function showPresets(presets) {
  for (const preset of presets) {
    const button = element("button", "", preset.title);
    button.setAttribute("type", "button");
    button.setAttribute("aria-pressed", "false");
    button.dataset.preset = preset.id;
    button.addEventListener("click", () => choose(preset));
    page.presets.append(element("li", "", [button]));
  }
  if (page.request.value === "" && page.tools.value === "") choose(presets[0]);
}

/** @param {Preset} preset */
function choose(preset) {
  for (const button of page.presets.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.preset === preset.id));
  }
  page.presetNote.textContent = preset.note;
  page.request.value = preset.text;
  page.tools.value = layOut(preset.tools);
  page.system.value = preset.system;
  showError(page.requestError, null);
  showTools();
  if (!asking) clearAnswer("empty", "The calls will appear here.");
}

/** Marks that the fields no longer are the example. */
function touched() {
  for (const button of page.presets.querySelectorAll("button")) button.setAttribute("aria-pressed", "false");
  page.presetNote.textContent = "";
}

let typing = 0;
page.tools.addEventListener("input", () => {
  touched();
  clearTimeout(typing);
  typing = setTimeout(showTools, 400);
});

// ---------------------------------------------------------------------------------------------------------------------
// Asking
// ---------------------------------------------------------------------------------------------------------------------

/** @type {AbortController | null} */
let asking = null;

page.form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
page.stop.addEventListener("click", () => asking?.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
    event.preventDefault();
    ask();
  }
});

async function ask() {
  if (asking) return;
  const text = page.request.value;
  showError(page.requestError, text.trim() === "" ? "Write a request first." : null);
  if (text.trim() === "") {
    page.request.focus();
    return;
  }
  clearTimeout(typing);
  if (!showTools()) {
    goToToolsFault();
    return;
  }
  asking = new AbortController();
  begin();
  try {
    const contract = /** @type {import("./client.js").Contract} */ (page.contract.value);
    await client.prepare(page.tools.value, page.system.value, { contract, explain: true });
    asking.signal.throwIfAborted();
    page.answerText.textContent = "Reading …";
    showResult(await client.complete(text, { onEvent: showEvent, signal: asking.signal }));
  } catch (error) {
    const stopped = asking.signal.aborted || (error instanceof AreoleError && error.code === "cancelled");
    showFailure(stopped ? null : AreoleError.wrap(error));
  } finally {
    asking = null;
    page.ask.setAttribute("aria-disabled", "false");
    if (document.activeElement === page.stop) page.ask.focus(); // a disabled button would lose it to nowhere
    page.stop.disabled = true;
  }
}

/** Puts the caret where the tools' text is wrong. */
function goToToolsFault() {
  clearAnswer("empty", "The tools cannot be read; mend them first.");
  const { fault } = readTools(page.tools.value);
  page.toolsEditor.open = true;
  page.tools.focus();
  if (fault) page.tools.setSelectionRange(fault.offset, fault.offset + 1);
}

function begin() {
  page.ask.setAttribute("aria-disabled", "true"); // not `disabled`: the focus may be on it
  page.stop.disabled = false;
  clearAnswer("working", client.state === "ready" ? "Reading the tools …" : "Waiting for the model …");
  announce("Working on the request.");
  showAnswer();
}

/** On a small screen the answer is further down than a visitor sees. */
function showAnswer() {
  if (page.answer.getBoundingClientRect().top > window.innerHeight * 0.8) page.answer.scrollIntoView({ block: "center" });
}

/** @param {string} state @param {string} text */
function clearAnswer(state, text) {
  page.answer.dataset.state = state;
  page.answerText.textContent = text;
  showError(page.answerError, null);
  page.calls.replaceChildren();
  page.reasons.replaceChildren();
  page.writing.textContent = "";
  page.reasoning.textContent = "";
  for (const part of [page.writing, page.reasons, page.reasoningBox, page.figures, page.envelopeBox]) part.hidden = true;
}

/** @param {Record<string, any>} event */
function showEvent(event) {
  if (event.type !== "token" || !event.delta) return;
  const reasoning = event.phase === "reasoning";
  const [box, place] = reasoning ? [page.reasoningBox, page.reasoning] : [page.writing, page.writing];
  page.answerText.textContent = reasoning ? "Thinking …" : "Writing the call …";
  // Blank lines before the text say nothing; inside it they stay. Appended, not rewritten: long texts stay cheap.
  place.append(place.hasChildNodes() ? event.delta : event.delta.trimStart());
  if (place.firstChild?.textContent === "") place.replaceChildren();
  box.hidden = !place.hasChildNodes();
}

/** @param {import("./client.js").Answer} answer */
function showResult({ result, json, tokens, timings, text, failure }) {
  const calls = result.function_calls ?? [];
  const withheld = result.suppressed_calls ?? [];
  page.answer.dataset.state = result.success ? "done" : "failed";
  page.writing.hidden = result.success;
  const items = (/** @type {any[]} */ list, held = false) => list.map((call) => callItem(call, held));
  page.calls.replaceChildren(...items(calls), ...items(withheld, true));
  showReasons(result.areole?.reasons ?? []);
  page.reasoning.textContent = result.reasoning ?? "";
  page.reasoningBox.hidden = !result.reasoning;
  page.envelope.textContent = pretty(json);
  page.envelopeBox.hidden = false;
  showFigures(result, tokens, timings);
  page.answerText.textContent = text || summary(calls, withheld, result.success);
  if (result.success) announce(page.answerText.textContent);
  else showError(page.answerError, AreoleError.fromMessage(failure ?? { code: result.error_code, message: result.error }));
}

/** @param {any[]} calls @param {any[]} withheld @param {boolean} success */
function summary(calls, withheld, success) {
  if (!success) return "No usable call.";
  const names = (/** @type {any[]} */ list) => list.map((call) => call.name).join(", ");
  const some = calls.length ? `${calls.length} ${calls.length === 1 ? "call" : "calls"}: ${names(calls)}.` : "";
  const held = withheld.length ? `Withheld: ${names(withheld)}.` : "";
  return `${some} ${held}`.trim() || "No call: none of the tools fits this request.";
}

/** @param {{name: string, arguments: Record<string, unknown>}} call @param {boolean} [withheld] */
function callItem(call, withheld = false) {
  const head = element("div", "", [element("span", "name", call.name)]);
  if (withheld) head.append(element("span", "tag", "withheld"));
  const item = element("li", withheld ? "call withheld" : "call", [head]);
  const entries = Object.entries(call.arguments ?? {});
  if (entries.length) {
    const list = element("dl");
    for (const [name, value] of entries) list.append(element("dt", "", name), element("dd", "", shown(value)));
    item.append(list);
  }
  return item;
}

/** What the rules withheld or changed. @param {{gate: string, tool: string, argument: string | null, why: string}[]} reasons */
function showReasons(reasons) {
  page.reasons.replaceChildren(
    ...reasons.map(({ gate, tool, argument, why }) =>
      element("li", "", [
        element("span", "name", argument === null ? tool : `${tool}.${argument}`),
        element("span", "", `: ${why} `),
        element("span", "code", gate),
      ]),
    ),
  );
  page.reasons.hidden = reasons.length === 0;
}

/** @param {Record<string, any>} result @param {number} tokens @param {Record<string, number>} timings */
function showFigures(result, tokens, timings) {
  /** @type {[string, (string | Node)[]][]} */
  const rows = [];
  if (typeof result.confidence === "number") {
    const meter = /** @type {HTMLMeterElement} */ (document.createElement("meter"));
    meter.value = result.confidence;
    meter.setAttribute("aria-label", "Confidence");
    rows.push(["Confidence", [`${Math.round(result.confidence * 100)} %`, meter]]);
  }
  if (result.decode_tps) rows.push(["Decoding", [`${Math.round(result.decode_tps)} tokens/s`]]);
  if (result.prefill_tps) rows.push(["Prefill", [`${Math.round(result.prefill_tps)} tokens/s`]]);
  if (tokens !== undefined) rows.push(["Length", [`${tokens} tokens`]]);
  const spent = (timings.prefill_s ?? 0) + (timings.decode_s ?? 0);
  if (spent) rows.push(["Time", [`${spent.toFixed(2)} s`]]);
  page.figures.replaceChildren(
    ...rows.map(([name, content]) => {
      const value = element("dd");
      value.append(...content);
      return element("div", "", [element("dt", "", name), value]);
    }),
  );
  page.figures.hidden = rows.length === 0;
}

/** Line breaks and indents for JSON text whose numbers must stay as they are written. @param {string} json */
function pretty(json) {
  let indent = "";
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g) ?? [];
  return tokens
    .map((token, i) => {
      if (token === "{" || token === "[") {
        if (tokens[i + 1] === "}" || tokens[i + 1] === "]") return token;
        indent += "  ";
        return `${token}\n${indent}`;
      }
      if (token === "}" || token === "]") {
        if (tokens[i - 1] === "{" || tokens[i - 1] === "[") return token;
        indent = indent.slice(2);
        return `\n${indent}${token}`;
      }
      return token === "," ? `,\n${indent}` : token === ":" ? ": " : token;
    })
    .join("");
}

/** @param {AreoleError | null} error null: stopped by the user */
function showFailure(error) {
  page.answer.dataset.state = error ? "failed" : "stopped";
  page.answerText.textContent = error ? "No answer." : "Stopped.";
  showError(page.answerError, error);
  if (!error) announce("Stopped.");
}

for (const field of [page.request, page.system]) field.addEventListener("input", touched);

/** What each contract means, in a line. @type {Record<string, string>} */
const CONTRACTS = {
  areole: "A call keeps to its schema, and one that the request does not support is withheld.",
  needle: "What the official engine does, its faults included; for comparing with it.",
  raw: "What the model writes, unchecked.",
};
function showContract() {
  page.contractNote.textContent = CONTRACTS[page.contract.value] ?? "";
}
page.contract.addEventListener("change", showContract);
const asked = query.get("contract");
if (asked !== null && asked in CONTRACTS) page.contract.value = asked;
showContract();

// ---------------------------------------------------------------------------------------------------------------------
// Start: first the page, then everything that is heavy
// ---------------------------------------------------------------------------------------------------------------------

async function start() {
  try {
    const response = await fetch("presets.json");
    if (!response.ok) throw new Error(`presets.json: status ${response.status}`);
    showPresets(await response.json());
  } catch {
    page.toolsEditor.open = true;
    page.presets.replaceChildren(element("li", "hint", "The examples could not be loaded; write your own tools below."));
  }
  const saving = /** @type {any} */ (navigator).connection?.saveData === true;
  if (!saving) load();
  else page.loadButton.hidden = false; // tens of megabytes are the user's to spend
}

// After the first frame; in a tab that is not shown no frame comes, so time decides there.
const paint = new Promise((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, 300);
});
paint.then(start);
