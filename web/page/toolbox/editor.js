/**
 * The tools, facts and rules that are in use, as fields; the toolset is what they say. Owns reading them while they are
 * typed, and where they are wrong.
 */

import { readTools, withoutMark } from "../../tools.js";
import { toolset } from "../toolset.js";
import { byId, showError } from "../ui.js";
import { layOut, toolItem } from "./list.js";

const tools = /** @type {HTMLTextAreaElement} */ (byId("tools"));
const system = /** @type {HTMLTextAreaElement} */ (byId("system"));
const contract = /** @type {HTMLSelectElement} */ (byId("contract"));
const TYPING_MS = 400;

/** What each contract means, in a line. @type {Record<string, string>} */
const CONTRACTS = {
  areole: "A call keeps to its schema, and one that the request does not support is withheld.",
  needle: "What the official engine does, its faults included; for comparing with it.",
  raw: "What the model writes, unchecked.",
};

let typing = 0;

/** Shows what is in the editor, or what is wrong with it and where. */
function showTools() {
  const { tools: list, fault } = readTools(toolset.text);
  tools.setAttribute("aria-invalid", String(fault !== null));
  showError(byId("tools-error"), fault && `Line ${fault.line}, column ${fault.column}: ${fault.message}`);
  if (list) {
    byId("tools-count").textContent = String(list.length);
    byId("tool-list").replaceChildren(...list.map(toolItem));
  }
}

/** Puts what is typed into use now. */
function take() {
  clearTimeout(typing);
  toolset.set({ text: withoutMark(tools.value), system: system.value });
}

/** Puts the caret where the tools' text is wrong. */
function goToFault() {
  const { fault } = readTools(tools.value);
  if (fault) tools.setSelectionRange(fault.offset, fault.offset + 1);
}

/**
 * Other tools than before.
 * @param {unknown[] | string} list
 * @param {string} [facts]
 * @param {import("../toolset.js").Origin | null} [origin]
 */
export function edit(list, facts = "", origin = null) {
  clearTimeout(typing);
  tools.value = typeof list === "string" ? list : layOut(list);
  system.value = facts;
  toolset.set({ text: withoutMark(tools.value), system: facts, origin });
}

/** @param {string | null} asked the contract that the address names */
export function startEditor(asked) {
  if (asked !== null && asked in CONTRACTS) toolset.contract = /** @type {any} */ (asked);
  toolset.addEventListener("tools", () => {
    if (tools.value !== toolset.text) tools.value = toolset.text;
    if (system.value !== toolset.system) system.value = toolset.system;
    showTools();
  });
  for (const field of [tools, system]) {
    field.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(take, TYPING_MS);
    });
    field.addEventListener("change", take);
  }
  let left = true; // by the page's own focus: a window that comes back must not move the caret
  tools.addEventListener("blur", () => {
    left = document.hasFocus();
  });
  tools.addEventListener("focus", () => {
    if (left) goToFault();
  });
  const showContract = () => {
    contract.value = toolset.contract;
    byId("contract-note").textContent = CONTRACTS[toolset.contract];
  };
  contract.addEventListener("change", () => toolset.set({ contract: /** @type {any} */ (contract.value) }));
  toolset.addEventListener("rules", showContract);
  showContract();
}
