/**
 * Tools in Python, in the page: an editor, what the source printed or raised, and calls that run in the same Pyodide as the
 * model. An endless loop is stopped by ending the worker; a new one starts with the same tools.
 */

import { AreoleError } from "../../errors.js";
import { announce, byId, onSendKeys, showError } from "../ui.js";
import { startOwn } from "./own.js";

const EXAMPLE = `from typing import Literal

shopping: dict[str, int] = {}

@tool
def add_to_list(item: str, quantity: int = 1) -> dict:
    """Put something on the shopping list.

    Args:
        item: what to buy
        quantity: how many
    """
    shopping[item] = shopping.get(item, 0) + quantity
    print(f"{item}: {shopping[item]}")
    return {"item": item, "quantity": shopping[item]}

@tool
def sort_list(order: Literal["name", "quantity"]) -> list:
    """Show the shopping list in an order."""
    key = (lambda row: row[0]) if order == "name" else (lambda row: -row[1])
    return sorted(shopping.items(), key=key)
`;

/** A fault of the visitor's own source. */
class SourceError extends Error {
  /** @param {{message: string, line: number | null, trace: string}} fault */
  constructor(fault) {
    super(told(fault));
    this.line = fault.line;
  }
}

const source = /** @type {HTMLTextAreaElement} */ (byId("python"));
const run = /** @type {HTMLButtonElement} */ (byId("python-run"));
const stop = /** @type {HTMLButtonElement} */ (byId("python-stop"));
const fault = byId("python-error");
const output = byId("python-output");

/** @param {string} text */
function print(text) {
  if (!text) return;
  output.textContent = `${output.textContent ?? ""}${text}`.slice(-20_000);
  output.hidden = false;
  output.scrollTop = output.scrollHeight;
}

/** @param {{message: string, line: number | null, trace: string}} error */
const told = ({ message, line }) => (line === null ? message : `Line ${line}: ${message}`);

/** @param {import("../../client.js").AreoleClient} client */
export function startPython(client) {
  let busy = 0;

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async function guarded(work) {
    busy += 1;
    stop.disabled = false;
    try {
      return await work();
    } finally {
      busy -= 1;
      if (busy === 0 && document.activeElement === stop) run.focus(); // a disabled button would lose it to nowhere
      stop.disabled = busy === 0;
    }
  }

  /** @param {string} name */
  const caller = (name) => (/** @type {Record<string, unknown>} */ args) =>
    guarded(async () => {
      const { value, output: printed, error } = await client.invoke(name, args);
      print(printed);
      if (error) {
        print(`${error.trace}\n`);
        throw new Error(told(error));
      }
      return value;
    });

  /** @param {string} text */
  async function define(text) {
    const { tools, output: printed, error } = await guarded(() => client.define(text));
    print(printed);
    if (error) {
      print(`${error.trace}\n`);
      throw new SourceError(error);
    }
    const declarations = tools ?? [];
    return { declarations, functions: Object.fromEntries(declarations.map((/** @type {any} */ { name }) => [name, caller(name)])) };
  }

  const use = startOwn("python", { field: source, state: byId("python-state"), example: EXAMPLE, define });

  async function runAndUse() {
    showError(fault, null);
    output.textContent = "";
    run.setAttribute("aria-disabled", "true");
    try {
      const tools = await use();
      announce(`${tools.length} Python tools are in use.`);
    } catch (thrown) {
      const own = thrown instanceof SourceError;
      showError(fault, own ? thrown.message : AreoleError.wrap(thrown));
      if (own) goToLine(thrown.line);
    } finally {
      run.setAttribute("aria-disabled", "false");
    }
  }

  /** Puts the caret on a line of the source. @param {number | null} line */
  function goToLine(line) {
    if (line === null) return;
    const lines = source.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    source.focus();
    source.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  }

  const ask = () => {
    if (run.getAttribute("aria-disabled") !== "true") runAndUse();
  };
  run.addEventListener("click", ask);
  onSendKeys(source, ask);
  stop.addEventListener("click", () => {
    client.restart();
    announce("Stopped. The model starts again.");
  });
}
