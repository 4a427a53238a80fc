/** Tools as a list to read, and as text to edit. Pure functions. */

import { element, shown } from "../ui.js";

/** @param {import("../../tools.js").Tool} tool */
export function toolItem(tool) {
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
export function layOut(value, indent = "") {
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
