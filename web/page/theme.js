/** How the page looks: light, dark, or as the system has it. Owns the field for it at the page's foot, and keeping it. */

import { recall, remember } from "./saved.js";
import { byId } from "./ui.js";

export const THEMES = ["light", "dark", "system"];

const SAVED = "theme";
const field = /** @type {HTMLSelectElement} */ (byId("theme"));

/** @param {string} theme one of THEMES */
function show(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  field.value = theme;
}

/** @param {string} theme one of THEMES */
export function setTheme(theme) {
  show(theme);
  remember(SAVED, theme);
}

export function startTheme() {
  const saved = recall(SAVED);
  show(THEMES.includes(saved) ? saved : "system");
  field.addEventListener("change", () => setTheme(field.value));
}
