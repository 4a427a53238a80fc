/**
 * `<areole-assistant>`: a request box, answers and calls for any page.
 *
 *     <script type="module" src="areole/areole-assistant.js"></script>
 *     <areole-assistant placeholder="Ask for a light"></areole-assistant>
 *     document.querySelector("areole-assistant").tools = [{ name, description, parameters, run }];
 *
 * Attributes: base, contract, system, placeholder, label. Property `tools`. Loads at the first request. Events, which
 * bubble: `areole-answer` {answer}, `areole-call` {call} (preventDefault: it is not run), `areole-ran` {ran},
 * `areole-error` {error}. What the model or a user wrote is text here, never markup.
 */

import { Areole } from "./areole.js";
import { AreoleError } from "./errors.js";

const STYLE = `
:host { display: block; font: inherit; color: inherit; }
:host([hidden]) { display: none; }
.log { display: grid; gap: .6rem; margin: 0; padding: 0; list-style: none; }
.log:not(:empty) { margin-bottom: .75rem; }
.said { justify-self: end; max-width: 85%; padding: .4rem .8rem; border-radius: 10px; background: color-mix(in srgb, currentColor 10%, transparent); }
.call { padding: .5rem .8rem; border: 1px solid; border-left-width: 4px; border-radius: 8px; overflow-wrap: anywhere; }
.call code { font-weight: 600; }
.fault { border-left: 4px solid #c0392b; padding-left: .6rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem; }
textarea { flex: 1 1 14rem; font: inherit; padding: .5rem .7rem; border-radius: 8px; }
button { font: inherit; min-height: 2.75rem; padding: .3rem 1rem; border-radius: 8px; }
.state { flex: 1 0 100%; margin: 0; min-height: 1.4em; font-size: .875em; opacity: .85; }
`;

const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);

/** @param {string} tag @param {string} className @param {string | Node[]} content */
function make(tag, className, content) {
  const made = document.createElement(tag);
  made.className = className;
  if (typeof content === "string") made.textContent = content;
  else made.append(...content);
  return made;
}

export class AreoleAssistant extends HTMLElement {
  static observedAttributes = ["placeholder", "label"];

  /** @type {import("./areole.js").Tool[]} */
  #tools = [];
  /** @type {Promise<Areole> | null} */
  #loading = null;
  /** @type {AbortController | null} */
  #asking = null;
  #log = make("ol", "log", "");
  #box = /** @type {HTMLTextAreaElement} */ (make("textarea", "", ""));
  #send = /** @type {HTMLButtonElement} */ (make("button", "", "Ask"));
  #state = make("p", "state", "");

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    this.#box.rows = 2;
    this.#state.setAttribute("role", "status");
    const form = make("form", "", [this.#box, this.#send, this.#state]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#asking) this.#asking.abort();
      else this.ask(this.#box.value);
    });
    this.#box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.#asking) this.ask(this.#box.value);
    });
    root.append(this.#log, form);
    this.attributeChangedCallback();
  }

  attributeChangedCallback() {
    this.#box.placeholder = this.getAttribute("placeholder") ?? "";
    this.#box.setAttribute("aria-label", this.getAttribute("label") ?? "Request");
    this.#log.setAttribute("aria-label", "Conversation");
  }

  disconnectedCallback() {
    this.#loading?.then((areole) => areole.close()).catch(() => {});
    this.#loading = null;
  }

  get tools() {
    return this.#tools;
  }

  /** Other tools begin a new conversation. */
  set tools(tools) {
    this.#tools = tools;
    this.#log.replaceChildren();
    this.#loading = this.#loading?.then(async (areole) => (await this.#declare(areole), areole)) ?? null;
    this.#loading?.catch(() => {}); // told at the next request
  }

  /** @param {Areole} areole */
  #declare(areole) {
    return areole.use(this.#tools, { system: this.getAttribute("system") ?? "" });
  }

  /** The session behind it, loaded now if it is not yet. @returns {Promise<Areole>} */
  get session() {
    this.#loading ??= this.#load();
    return this.#loading;
  }

  async #load() {
    try {
      const areole = await Areole.load({
        base: this.getAttribute("base") ?? undefined,
        contract: /** @type {any} */ (this.getAttribute("contract") ?? undefined),
        onProgress: ({ loaded, total }) => {
          this.#state.textContent = `Loading the model: ${Math.round((100 * loaded) / Math.max(total, 1))} %`;
        },
      });
      await this.#declare(areole);
      return areole;
    } catch (error) {
      this.#loading = null; // the next request tries again
      throw error;
    }
  }

  /** Asks as if it had been typed. @param {string} text */
  async ask(text) {
    if (!text.trim() || this.#asking) return;
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    this.#send.textContent = "Stop";
    this.#box.value = "";
    this.#log.append(make("li", "said", text));
    try {
      const areole = await this.session;
      signal.throwIfAborted();
      this.#state.textContent = "Thinking …";
      const { text: said, answer } = await areole.run(text, {
        signal,
        confirm: (call) => this.#tell("areole-call", { call }),
        onRan: (ran) => {
          this.#log.append(callItem(ran));
          this.#tell("areole-ran", { ran });
        },
      });
      const words = said || (answer.withheld.length ? `Withheld: ${answer.withheld.map((call) => call.name).join(", ")}.` : "");
      if (words) this.#log.append(make("li", "", words));
      this.#state.textContent = words || this.#log.lastElementChild?.className !== "said" ? "Done." : "No tool fits this request.";
      this.#tell("areole-answer", { answer });
    } catch (thrown) {
      const error = AreoleError.wrap(thrown);
      const stopped = signal.aborted;
      this.#state.textContent = stopped ? "Stopped." : "";
      if (!stopped) {
        const item = make("li", "fault", `${error.message} (${error.code})`);
        item.setAttribute("role", "alert");
        this.#log.append(item);
        this.#tell("areole-error", { error });
      }
    } finally {
      this.#asking = null;
      this.#send.textContent = "Ask";
    }
  }

  /** @param {string} name @param {Record<string, unknown>} detail @returns {boolean} whether it may go on */
  #tell(name, detail) {
    return this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable: true }));
  }
}

/** @param {import("./running.js").Ran} ran */
function callItem({ call, error, told }) {
  const shown = Object.entries(call.arguments).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const outcome = error ? `failed: ${error.message}` : told === null ? "done" : JSON.stringify(told);
  return make("li", "call", [make("code", "", call.name), make("div", "", shown.join(", ")), make("div", "", `→ ${outcome}`)]);
}

customElements.define("areole-assistant", AreoleAssistant);
