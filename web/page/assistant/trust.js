/**
 * How sure the model must be: from one confidence on a call runs by itself, below another it is refused, and between the
 * two the visitor is asked. Owns the two sliders and keeps the one above the other.
 */

import { recall, remember } from "../saved.js";
import { byId } from "../ui.js";

const SAVED = "trust";
/** In percent. The rules use 50 and 10 as well; see docs/contract.md. */
const DEFAULT = { act: 50, refuse: 10 };

export class Trust extends EventTarget {
  #act = /** @type {HTMLInputElement} */ (byId("act-from"));
  #refuse = /** @type {HTMLInputElement} */ (byId("refuse-below"));

  constructor() {
    super();
    const { act, refuse } = { ...DEFAULT, ...recall(SAVED, {}) };
    this.#act.value = String(act);
    this.#refuse.value = String(refuse);
    this.#act.addEventListener("input", () => this.#changed(this.#act));
    this.#refuse.addEventListener("input", () => this.#changed(this.#refuse));
    this.#show();
  }

  /** @param {HTMLInputElement} moved */
  #changed(moved) {
    if (this.#act.valueAsNumber < this.#refuse.valueAsNumber) {
      (moved === this.#act ? this.#refuse : this.#act).value = moved.value;
    }
    remember(SAVED, { act: this.#act.valueAsNumber, refuse: this.#refuse.valueAsNumber });
    this.#show();
    this.dispatchEvent(new Event("change"));
  }

  #show() {
    byId("act-shown").textContent = `${this.#act.value} %`;
    byId("refuse-shown").textContent = `${this.#refuse.value} %`;
  }

  /** @param {unknown} confidence 0 to 1 @returns {import("./cards.js").Verdict} */
  of(confidence) {
    if (typeof confidence !== "number") return "unsure";
    const percent = confidence * 100;
    return percent >= this.#act.valueAsNumber ? "act" : percent < this.#refuse.valueAsNumber ? "refuse" : "confirm";
  }
}
