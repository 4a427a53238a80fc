/**
 * The tools that are in use, as the page's one piece of shared state: their text, the facts beside them, the rules for the
 * answer, and what can run. Owns the events `tools` (other tools or facts: another conversation), `rules` and `runnable`.
 */

/**
 * @typedef {{run: (args: any, context: {signal?: AbortSignal}) => unknown, kind: "demo" | "javascript" | "python"}} Runnable
 * @typedef {{text: string, system: string, contract: import("../client.js").Contract, depth?: number}} Declared
 */

class Toolset extends EventTarget {
  text = "[]";
  system = "";
  /** @type {import("../client.js").Contract} */
  contract = "areole";
  /** Blocks of the model that run; all if not set. @type {number | undefined} */
  depth = undefined;
  /** What a call's name runs; a tool that is declared and not here has its result typed by hand. @type {Map<string, Runnable>} */
  runnable = new Map();

  /** @returns {Declared} */
  get declared() {
    return { text: this.text, system: this.system, contract: this.contract, depth: this.depth };
  }

  /** @param {Partial<Declared>} change */
  set(change) {
    const { text, system, contract, depth } = this;
    Object.assign(this, change);
    if (text !== this.text || system !== this.system) this.dispatchEvent(new Event("tools"));
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
