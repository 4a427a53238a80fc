/** The import box: paste or drop a list of tools, and use what is in it. */

import { AreoleError } from "../../errors.js";
import { announce, byId, element, onSendKeys, readText, showError } from "../ui.js";
import { edit } from "./editor.js";
import { importTools } from "./importing.js";

const box = /** @type {HTMLTextAreaElement} */ (byId("import"));
const file = /** @type {HTMLInputElement} */ (byId("import-file"));
const notes = byId("import-notes");

/** @param {string | File} given */
async function take(given) {
  notes.replaceChildren();
  try {
    const { tools, from, notes: said } = importTools(typeof given === "string" ? given : await readText(given));
    showError(byId("import-error"), null);
    edit(tools);
    const first = `${tools.length} ${tools.length === 1 ? "tool" : "tools"} in use (${from}).`;
    notes.replaceChildren(...[first, ...said].map((line) => element("li", "", line)));
    announce(first);
  } catch (error) {
    showError(byId("import-error"), AreoleError.wrap(error));
  }
}

export function startImport() {
  byId("import-use").addEventListener("click", () => take(box.value));
  onSendKeys(box, () => take(box.value));
  file.addEventListener("change", () => {
    const [chosen] = file.files ?? [];
    if (chosen) take(chosen);
    file.value = "";
  });
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    const [dropped] = event.dataTransfer?.files ?? [];
    if (!dropped) return;
    event.preventDefault();
    take(dropped);
  });
}
