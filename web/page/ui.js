/**
 * Small pieces of document that every view uses. Whatever the model or a user wrote goes in as text, never as markup. Text
 * that streams stays outside live regions; states and results are announced once, by one polite node.
 */

import { AreoleError } from "../errors.js";

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @returns {T}
 */
export const byId = (id) => /** @type {T} */ (document.getElementById(id));

/** Offers a file for download. @param {string} name @param {Blob} blob */
export function saveFile(name, blob) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The text of a file in UTF-8, or in UTF-16 with its mark. @param {File} file */
export async function readText(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = (bytes[0] << 8) | bytes[1];
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    throw new AreoleError("tools_json", `${file.name} is no text in UTF-8 or UTF-16. Save it as UTF-8.`);
  }
}

/** @param {string} text */
export function announce(text) {
  byId("announce").textContent = text;
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} [className]
 * @param {string | (Node | string)[]} [content] text, or children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, className = "", content = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (typeof content === "string") made.textContent = content;
  else made.append(...content);
  return made;
}

/**
 * @param {string} text
 * @param {() => void} act
 * @param {string} [className]
 */
export function button(text, act, className = "") {
  const made = element("button", className, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/**
 * Shows an error where it belongs; null clears the place. A live node must be there before its text, so it is never hidden.
 * @param {HTMLElement} place
 * @param {AreoleError | string | null} error
 */
export function showError(place, error) {
  place.replaceChildren();
  if (error === null) return;
  place.append(typeof error === "string" ? error : error.message);
  if (error instanceof AreoleError) place.append(element("span", "code", error.code));
}

/**
 * A line at the top with what can be done about it; one of each kind.
 * @param {string} kind
 * @param {string | null} text null: it does not hold any more
 * @param {HTMLElement[]} [actions]
 */
export function notice(kind, text, actions = []) {
  const notices = byId("notices");
  notices.querySelector(`[data-kind="${kind}"]`)?.remove();
  if (text === null) return;
  const close = button("Close", () => line.remove(), "quiet");
  const line = element("div", "notice", [element("p", "", text), element("div", "actions", [...actions, close])]);
  line.dataset.kind = kind;
  notices.append(line);
}

/**
 * Terms and what is said of them.
 * @param {HTMLElement} list a dl
 * @param {[string, string | (Node | string)[]][]} rows
 */
export function showRows(list, rows) {
  list.replaceChildren(...rows.map(([term, content]) => element("div", "", [element("dt", "", term), element("dd", "", content)])));
}

/** What Ctrl or ⌘ and Enter do in a field: they send what is in it. @param {HTMLElement} field @param {() => void} send */
export function onSendKeys(field, send) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    event.preventDefault();
    send();
  });
}

/** @param {number} bytes */
export const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

/** @param {unknown} value */
export const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
