/**
 * The tools that are in use, as the page's one piece of shared state: their text, the facts beside them, the rules for the
 * answer, and what can run. Owns the events `tools` (other tools or facts: another conversation; its detail is what was
 * declared before), `origin`, `rules` and `runnable`.
 */

/**
 * @typedef {{run: (args: any, context: {signal?: AbortSignal}) => unknown, kind: "demo" | "javascript" | "python"}} Runnable
 * @typedef {{kind: "javascript" | "python", source: string, names: string[]}} Origin a source, and the names of its functions
 * @typedef {{text: string, system: string, contract: import("../client.js").Contract, depth?: number, origin?: Origin | null}} Declared
 */

class Toolset extends EventTarget {
  text = "[]";
  system = "";
  /** @type {import("../client.js").Contract} */
  contract = "areole";
  /** Blocks of the model that run; all if not set. @type {number | undefined} */
  depth = undefined;
  /** The visitor's own source that the tools came from; null where they came from elsewhere. @type {Origin | null | undefined} */
  origin = null;
  /** What a call's name runs; a tool that is declared and not here has its result typed by hand. @type {Map<string, Runnable>} */
  runnable = new Map();

  /** @returns {Declared} */
  get declared() {
    const { text, system, contract, depth, origin } = this;
    return { text, system, contract, depth, origin };
  }

  /** @param {Partial<Declared>} change */
  set(change) {
    const before = this.declared;
    const { text, system, contract, depth, origin } = before;
    Object.assign(this, change);
    if (origin !== this.origin) this.dispatchEvent(new Event("origin"));
    if (text !== this.text || system !== this.system) this.dispatchEvent(new CustomEvent("tools", { detail: before }));
    if (contract !== this.contract || depth !== this.depth) this.dispatchEvent(new Event("rules"));
  }

  /**
   * Replaces what runs of one kind.
   * @param {Runnable["kind"]} kind
   * @param {Record<string, Runnable["run"]>} functions
   */
  setRunnable(kind, functions) {
    for (const [name, { kind: old }] of [...this.runnable]) if (old === kind) this.runnable.delete(name);
    for (const [name, run] of Object.entries(functions)) this.runnable.set(name, { run, kind });
    this.dispatchEvent(new Event("runnable"));
  }
}

export const toolset = new Toolset();
