/** What was seen of the answers while they were written, for the workbench; it lasts as long as the tab. */

/** @typedef {import("./assistant/conversation.js").Turn} Turn */

class Trace extends EventTarget {
  /** @type {WeakMap<Turn, Record<string, any>[]>} */
  #events = new WeakMap();
  /** @type {Turn | null} the one to look at */
  turn = null;

  /** A list for the events of a turn that begins. @param {Turn} turn @returns {Record<string, any>[]} */
  begin(turn) {
    /** @type {Record<string, any>[]} */
    const events = [];
    this.#events.set(turn, events);
    this.turn = turn;
    return events;
  }

  /** @param {Turn} turn */
  show(turn) {
    this.turn = turn;
    this.dispatchEvent(new Event("turn"));
  }

  /** @param {Turn | null} turn */
  eventsOf(turn) {
    return (turn && this.#events.get(turn)) ?? [];
  }
}

export const trace = new Trace();
