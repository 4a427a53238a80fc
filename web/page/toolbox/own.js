/**
 * Tools that a visitor wrote, of one kind: the source as it is typed, and the line that says what of it is in use. They are
 * in use while the toolset's origin is theirs, so also in a conversation that was kept: then the source is defined again at
 * the first call, for a page that is opened runs nobody's code unasked.
 */

import { readTools } from "../../tools.js";
import { recall, remember } from "../saved.js";
import { toolset } from "../toolset.js";
import { edit } from "./editor.js";

/**
 * @typedef {Record<string, import("../toolset.js").Runnable["run"]>} Functions
 * @typedef {{declarations: unknown[], functions: Functions}} Defined
 */

/**
 * @param {import("../toolset.js").Origin["kind"]} kind
 * @param {{field: HTMLTextAreaElement, state: HTMLElement, example: string, define: (source: string) => Promise<Defined>}} parts
 * @returns {() => Promise<unknown[]>} puts what is in the field into use; gives the declarations
 */
export function startOwn(kind, { field, state, example, define }) {
  field.value = recall(kind, example);
  field.addEventListener("input", () => remember(kind, field.value));

  /** What was defined last in this tab. @type {{source: string, done: Promise<Defined>} | null} */
  let last = null;

  /** @param {string} source */
  function defineNow(source) {
    const mine = (last = { source, done: define(source) });
    mine.done.catch(() => {
      if (last === mine) last = null;
    });
    return mine.done;
  }

  const origin = () => (toolset.origin?.kind === kind ? toolset.origin : null);

  function bind() {
    const { source, names } = origin() ?? { source: "", names: [] };
    /** @param {string} name @returns {import("../toolset.js").Runnable["run"]} */
    const runner = (name) => async (args, context) => {
      const { functions } = await (last?.source === source ? last.done : defineNow(source));
      return functions[name](args, context);
    };
    toolset.setRunnable(kind, Object.fromEntries(names.map((name) => [name, runner(name)])));
  }

  function show() {
    const declared = new Set(readTools(toolset.text).tools?.map(({ name }) => name));
    const used = (origin()?.names ?? []).filter((name) => declared.has(name));
    state.textContent = used.length ? `In use: ${used.join(", ")}.` : "";
  }

  toolset.addEventListener("origin", bind);
  toolset.addEventListener("origin", show);
  toolset.addEventListener("tools", show);

  return async () => {
    const source = field.value;
    const { declarations, functions } = await defineNow(source);
    edit(declarations, "", { kind, source, names: Object.keys(functions) });
    return declarations;
  };
}
