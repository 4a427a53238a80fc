/**
 * Tool lists of others as declarations: OpenAI's (chat and responses), MCP's `tools/list`, and JSON Schemas of functions by
 * name. Pure; says what it left out, and refuses what holds no tools.
 */

import { AreoleError } from "../../errors.js";
import { readJSON } from "../../tools.js";

/**
 * @param {string} text
 * @returns {{tools: Record<string, unknown>[], from: string, notes: string[]}}
 */
export function importTools(text) {
  const list = listIn(readJSON(text));
  if (!list) {
    const needed = "OpenAI's and MCP's lists are read, bare or inside a request or answer.";
    throw new AreoleError("tools_shape", `No list of tools in there. ${needed}`);
  }
  if (!list.length) throw new AreoleError("tools_shape", "The list of tools is empty.");
  /** @type {Set<string>} */
  const kinds = new Set();
  const notes = /** @type {string[]} */ ([]);
  const tools = list.map((entry, index) => readEntry(entry, index, kinds, notes)).filter((tool) => tool !== null);
  if (!tools.length) throw new AreoleError("tools_shape", `No tool in there has a name. ${notes.join(" ")}`);
  return { tools, from: [...kinds].join(", "), notes };
}

/** @param {any} value @returns {any[] | null} */
function listIn(value) {
  if (Array.isArray(value)) return value;
  for (const at of [value?.tools, value?.result?.tools, value?.functions]) if (Array.isArray(at)) return at;
  if (typeof value?.name === "string" || typeof value?.function?.name === "string") return [value];
  return null;
}

/**
 * @param {any} entry
 * @param {number} index
 * @param {Set<string>} kinds
 * @param {string[]} notes
 */
function readEntry(entry, index, kinds, notes) {
  const inner = entry?.function ?? entry;
  if (typeof inner?.name !== "string" || !inner.name) {
    const what = typeof entry?.type === "string" ? `“${entry.type}”` : `Entry ${index + 1}`;
    notes.push(`${what} is no function, so it is left out.`);
    return null;
  }
  const isMCP = "inputSchema" in inner;
  kinds.add(isMCP ? "MCP" : entry.function || entry.type === "function" ? "OpenAI" : "plain");
  const { name, description, title, parameters, inputSchema, type: _, strict: __, ...others } = inner;
  const left = Object.keys(others);
  if (left.length) notes.push(`${name}: ${left.join(", ")} left out.`);
  const schema = isMCP ? inputSchema : parameters;
  const said = description ?? title;
  return { name, ...(said ? { description: said } : {}), ...(schema ? { parameters: schema } : {}) };
}
