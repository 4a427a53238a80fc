/**
 * Reads the tools editor: says where JSON is wrong in words that are the same in every browser, and what a list of tools
 * lacks. Refuses nothing that areole accepts: an entry may be bare or wrapped as {"type": "function", "function": {...}}.
 */

import { AreoleError } from "./errors.js";

/**
 * @typedef {{message: string, offset: number, line: number, column: number}} Fault line and column from 1, in characters
 * @typedef {{name: string, description?: unknown, parameters?: unknown}} Tool
 */

const MAX_DEPTH = 256;

/** Without the mark that some editors put before a text: JSON has none. @param {string} text */
export const withoutMark = (text) => text.replace(/^\ufeff/, "");

/** A fault with its place in the text, in characters from 0. */
class Misfit extends Error {
  /** @param {string} message @param {number} offset */
  constructor(message, offset) {
    super(message);
    this.offset = offset;
  }
}

/**
 * @param {string} text
 * @returns {{tools: Tool[], fault: null} | {tools: null, fault: Fault}}
 */
export function readTools(text) {
  try {
    const { value, starts } = parse(text);
    if (!Array.isArray(value)) throw new Misfit("The tools are a list: start with [ and end with ].", starts[0] ?? 0);
    return { tools: value.map((entry, i) => readTool(entry, i + 1, starts[i])), fault: null };
  } catch (error) {
    if (!(error instanceof Misfit)) throw error;
    return { tools: null, fault: faultIn(text, error) };
  }
}

/**
 * Any JSON text; throws `tools_json` with the place where it is wrong.
 * @param {string} given
 * @returns {unknown}
 */
export function readJSON(given) {
  const text = withoutMark(given);
  try {
    return parse(text).value;
  } catch (error) {
    if (!(error instanceof Misfit)) throw error;
    const { line, column, message } = faultIn(text, error);
    throw new AreoleError("tools_json", `That is not JSON: line ${line}, column ${column}: ${message}`, { line, column });
  }
}

/** @param {string} text @param {Misfit} misfit @returns {Fault} */
function faultIn(text, { message, offset }) {
  const before = text.slice(0, offset).split("\n");
  return { message, offset, line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

/**
 * @param {any} entry
 * @param {number} number
 * @param {number} offset
 * @returns {Tool}
 */
function readTool(entry, number, offset) {
  const isObject = (/** @type {any} */ x) => typeof x === "object" && x !== null && !Array.isArray(x);
  if (!isObject(entry)) throw new Misfit(`Tool ${number} is not an object: write {"name": ..., "parameters": ...}.`, offset);
  const tool = isObject(entry.function) ? entry.function : entry;
  if (typeof tool.name !== "string" || tool.name.trim() === "") {
    throw new Misfit(`Tool ${number} has no name: add "name": "what_it_does".`, offset);
  }
  return tool;
}

/**
 * JSON.parse plus the places that matter: of the first fault, and of each entry of the outer list.
 * @param {string} text
 * @returns {{value: unknown, starts: number[]}}
 */
function parse(text) {
  let at = 0;
  /** @type {number[]} */
  const starts = [];

  const found = () => {
    if (at >= text.length) return "the text ends";
    const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
    return `found “${character < " " ? JSON.stringify(character).slice(1, -1) : character}”`;
  };
  const fail = (/** @type {string} */ needed, offset = at) => {
    throw new Misfit(`Expected ${needed}; ${found()}.`, offset);
  };
  const space = () => {
    while (at < text.length && " \t\n\r".includes(text[at])) at += 1;
  };

  const string = () => {
    const start = at++;
    for (;;) {
      const c = text[at];
      if (c === undefined) throw new Misfit("A string has no closing quote.", start);
      if (c === '"') break;
      if (c < " ") throw new Misfit("A string cannot hold a line break or control character; write \\n.", at);
      if (c === "\\") {
        const escape = /^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.exec(text.slice(at, at + 6));
        if (!escape) throw new Misfit("A string holds a backslash that escapes nothing; write \\\\ for one.", at);
        at += escape[0].length;
      } else {
        at += 1;
      }
    }
    at += 1;
  };

  const value = (/** @type {number} */ depth) => {
    if (depth > MAX_DEPTH) throw new Misfit(`Nested more than ${MAX_DEPTH} deep.`, at);
    space();
    if (depth <= 1) starts.push(at);
    const c = text[at];
    if (c === '"') string();
    else if (c === "{") members("}", depth);
    else if (c === "[") members("]", depth);
    else {
      const rest = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])/.exec(text.slice(at, at + 400));
      if (!rest) fail("a value");
      else at += rest[0].length;
    }
  };

  const members = (/** @type {string} */ close, /** @type {number} */ depth) => {
    at += 1;
    space();
    if (text[at] === close) {
      at += 1;
      return;
    }
    for (;;) {
      if (close === "}") {
        space();
        if (text[at] !== '"') fail("a name in double quotes");
        string();
        space();
        if (text[at] !== ":") fail("a colon after the name");
        at += 1;
      }
      value(depth + 1);
      space();
      if (text[at] === close) break;
      if (text[at] !== ",") fail(`a comma or ${close}`);
      at += 1;
    }
    at += 1;
  };

  value(0);
  space();
  if (at < text.length) fail("nothing more after the list");
  return { value: JSON.parse(text), starts: text.trimStart().startsWith("[") ? starts.slice(1) : starts };
}
