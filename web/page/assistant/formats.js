/** An answer in the shapes that others read: OpenAI's assistant message, Python calls. Pure functions. */

import { Written, read, write } from "./written.js";

/** @typedef {import("./written.js").Value} Value */
/** @typedef {import("../../client.js").Answer} Answer */

/** An answer's calls, with their numbers as they are written. @param {Answer} answer @returns {Map<string, any>[]} */
const callsOf = ({ json }) => read(json).get("function_calls") ?? [];

/**
 * An assistant's message. The ids say the place of a call, and nothing of the time.
 * @param {Answer} answer
 * @param {number} turn
 */
export function openAIMessage(answer, turn) {
  const calls = callsOf(answer).map((call, index) => ({
    id: `call_${turn}_${index}`,
    type: "function",
    function: { name: call.get("name"), arguments: write(call.get("arguments") ?? {}) },
  }));
  return { role: "assistant", content: answer.text || (calls.length ? null : ""), ...(calls.length ? { tool_calls: calls } : {}) };
}

/** A value as Python writes it. @param {Value} value @returns {string} */
function pythonValue(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value instanceof Written) return value.text;
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (value instanceof Map) return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}: ${pythonValue(item)}`).join(", ")}}`;
  return JSON.stringify(value);
}

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global if " +
    "import in is lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const isName = (/** @type {string} */ name) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) && !KEYWORDS.has(name);

/** An answer's calls as lines of Python; names that Python cannot write go through a dictionary. @param {Answer} answer */
export function pythonCalls(answer) {
  return callsOf(answer)
    .map((call) => {
      const name = call.get("name");
      /** @type {Map<string, Value>} */
      const given = call.get("arguments") ?? new Map();
      const callee = isName(name) ? name : `tools[${JSON.stringify(name)}]`;
      const plain = [...given.keys()].every(isName);
      const inside = plain ? [...given].map(([key, value]) => `${key}=${pythonValue(value)}`).join(", ") : `**${pythonValue(given)}`;
      return `${callee}(${inside})`;
    })
    .join("\n");
}
