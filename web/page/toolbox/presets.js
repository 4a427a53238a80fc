/** The examples to start from: buttons that fill in tools, facts and a request. */

import { toolset } from "../toolset.js";
import { byId, element } from "../ui.js";
import { edit } from "./editor.js";

/** @typedef {{id: string, title: string, note: string, system: string, text: string, tools: unknown[]}} Preset */

const note = byId("preset-note");
const request = /** @type {HTMLTextAreaElement} */ (byId("request"));

/** @param {Preset | null} preset null: what is in the fields is no example any more */
function mark(preset) {
  for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".presets button"))) {
    button.setAttribute("aria-pressed", String(button.dataset.preset === preset?.id));
  }
  note.textContent = preset?.note ?? "";
}

/** @param {Preset} preset */
export function choose(preset) {
  request.value = preset.text;
  edit(preset.tools, preset.system);
  mark(preset);
}

/** @param {HTMLElement} list @param {Preset[]} presets */
export function showPresets(list, presets) {
  for (const preset of presets) {
    const button = element("button", "", preset.title);
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.dataset.preset = preset.id;
    button.addEventListener("click", () => choose(preset));
    list.append(element("li", "", [button]));
  }
}

export function startPresets() {
  toolset.addEventListener("tools", () => mark(null));
  request.addEventListener("input", () => mark(null));
}
