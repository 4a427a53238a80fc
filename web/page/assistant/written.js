/**
 * JSON as it is written: JavaScript has one kind of number, for which 2.0 is 2 and 9007199254740993 is another one, and
 * objects that put keys made of digits first. Pure functions over text that is JSON; owns no reading of anything else.
 */

/** A piece of JSON text that goes out as it came. */
export class Written {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/** @typedef {null | boolean | string | Written | any[] | Map<string, any>} Value numbers are Written; parts are Values too */

/** @param {string} json */
const tokensOf = (json) => json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g) ?? [];

/** A text's value; SyntaxError for what is no JSON. @param {string} json @returns {any} a Value */
export function read(json) {
  JSON.parse(json);
  const tokens = tokensOf(json);
  let at = 0;

  /** @returns {Value} */
  const value = () => {
    const token = tokens[at++];
    if (token === "[" || token === "{") {
      const items = [];
      for (; tokens[at] !== "]" && tokens[at] !== "}"; at += tokens[at] === "," ? 1 : 0) items.push(token === "[" ? value() : member());
      at += 1;
      return token === "[" ? /** @type {Value[]} */ (items) : new Map(/** @type {[string, Value][]} */ (items));
    }
    return /^[-\d]/.test(token) ? new Written(token) : JSON.parse(token);
  };

  /** @returns {[string, Value]} */
  const member = () => {
    const key = JSON.parse(tokens[at]);
    at += 2; // the colon too
    return [key, value()];
  };

  return value();
}

/** JSON text, compact, of values and of JavaScript's own that have some in them. @param {any} value @returns {string} */
export function write(value) {
  if (value instanceof Written) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value ?? null);
  const entries = value instanceof Map ? [...value] : Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${write(item)}`).join(",")}}`;
}

/** Line breaks and indents for JSON text. @param {string} json */
export function pretty(json) {
  let indent = "";
  const tokens = tokensOf(json);
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
