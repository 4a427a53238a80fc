/** An answer in the shapes that others read: JSON, OpenAI's assistant message, Python calls. Pure functions. */

/** @typedef {{name: string, arguments: Record<string, unknown>}} Call */

/** Line breaks and indents for JSON text whose numbers must stay as they are written. @param {string} json */
export function pretty(json) {
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

/**
 * An assistant's message. The ids say the place of a call, and nothing of the time.
 * @param {import("../../client.js").Answer} answer
 * @param {number} turn
 */
export function openAIMessage({ result, text }, turn) {
  const calls = /** @type {Call[]} */ (result.function_calls ?? []);
  const toolCalls = calls.map((call, index) => ({
    id: `call_${turn}_${index}`,
    type: "function",
    function: { name: call.name, arguments: JSON.stringify(call.arguments ?? {}) },
  }));
  return { role: "assistant", content: text || (calls.length ? null : ""), ...(calls.length ? { tool_calls: toolCalls } : {}) };
}

/** A JSON value as Python writes it. @param {unknown} value @returns {string} */
export function pythonValue(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}: ${pythonValue(item)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value);
}

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global if " +
    "import in is lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const isName = (/** @type {string} */ name) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) && !KEYWORDS.has(name);

/** Calls as lines of Python; names that Python cannot write go through a dictionary. @param {Call[]} calls */
export function pythonCalls(calls) {
  return calls
    .map(({ name, arguments: given }) => {
      const entries = Object.entries(given ?? {});
      const callee = isName(name) ? name : `tools[${JSON.stringify(name)}]`;
      const plain = entries.every(([key]) => isName(key));
      const inside = plain ? entries.map(([key, value]) => `${key}=${pythonValue(value)}`).join(", ") : `**${pythonValue(given)}`;
      return `${callee}(${inside})`;
    })
    .join("\n");
}
