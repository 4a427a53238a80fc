/**
 * The demo: tools that really do something on the page. Owns its panel (timer, notes, to-do list, calculator,
 * drawing) and what the model is told of it; what it keeps is in this browser only.
 */

import { recall, remember } from "../saved.js";
import { setTheme, THEMES } from "../theme.js";
import { toolset } from "../toolset.js";
import { announce, byId, button, element } from "../ui.js";
import { draw, wipe } from "./drawing.js";

const SAVED = "demo";
const panel = byId("demo");
const state = { notes: /** @type {string[]} */ ([]), tasks: /** @type {{task: string, done: boolean}[]} */ ([]) };

/** @param {string[]} values @param {string} [description] */
const oneOf = (values, description) => ({ type: "string", ...(description ? { description } : {}), enum: values });
const text = (description = "") => ({ type: "string", ...(description ? { description } : {}) });
/** @param {string} name @param {string} description @param {Record<string, unknown>} properties @param {string[]} [required] */
const tool = (name, description, properties, required = Object.keys(properties)) => {
  return { name, description, parameters: { type: "object", properties, required } };
};

const COLORS = ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "gray"];

/** The example that goes with it. */
export const DEMO = {
  id: "demo",
  title: "Live demo",
  note: "These tools run: watch the panel.",
  system: "",
  text: "switch to the dark theme and draw a big red circle",
  tools: [
    tool("set_theme", "Change how the page looks.", { theme: oneOf(THEMES) }),
    tool("start_timer", "Start a countdown.", { seconds: { type: "number", minimum: 1, maximum: 86400 }, label: text("What for.") }, ["seconds"]),
    tool("add_note", "Write a note down.", { text: text("The note.") }),
    tool("add_task", "Put a task on the to-do list.", { task: text("What to do.") }),
    tool("finish_task", "Tick a task off the to-do list.", { task: text("Which one.") }),
    tool("calculate", "Compute with two numbers.", {
      a: { type: "number" },
      operation: oneOf(["plus", "minus", "times", "divided by", "to the power of"]),
      b: { type: "number" },
    }),
    tool(
      "draw",
      "Draw a shape on the canvas.",
      { shape: oneOf(["circle", "square", "triangle", "line", "star"]), color: oneOf(COLORS), size: oneOf(["small", "medium", "big"]) },
      ["shape", "color"],
    ),
    tool("clear_canvas", "Wipe the canvas.", {}),
  ],
};

/** @type {Record<string, (a: number, b: number) => number>} */
const OPERATIONS = {
  plus: (a, b) => a + b,
  minus: (a, b) => a - b,
  times: (a, b) => a * b,
  "divided by": (a, b) => a / b,
  "to the power of": (a, b) => a ** b,
};

/** @param {number} seconds @param {string} label */
function startTimer(seconds, label) {
  const left = element("output", "mono");
  const item = element("li", "", [element("span", "", label), " ", left, " ", button("Stop", () => end(), "quiet")]);
  const due = performance.now() + 1000 * seconds;
  const end = () => {
    clearInterval(ticking);
    item.remove();
  };
  const tick = () => {
    const rest = Math.max(0, Math.ceil((due - performance.now()) / 1000));
    left.textContent = `${Math.floor(rest / 60)}:${String(rest % 60).padStart(2, "0")}`;
    if (rest > 0) return;
    clearInterval(ticking);
    left.textContent = "over";
    announce(`The timer ${label} is over.`);
  };
  const ticking = setInterval(tick, 250);
  tick();
  byId("demo-timers").append(item);
}

function show() {
  const controls = () => /** @type {HTMLElement[]} */ ([...panel.querySelectorAll(".lines button, .lines input")]);
  const focused = controls().indexOf(/** @type {HTMLElement} */ (document.activeElement));
  byId("demo-notes").replaceChildren(
    ...state.notes.map((note, index) => element("li", "", [note, " ", button("Remove", () => change(() => state.notes.splice(index, 1)), "quiet")])),
  );
  byId("demo-tasks").replaceChildren(
    ...state.tasks.map((one, index) => {
      const box = element("input");
      box.type = "checkbox";
      box.checked = one.done;
      box.addEventListener("change", () => change(() => (one.done = box.checked)));
      const remove = button("Remove", () => change(() => state.tasks.splice(index, 1)), "quiet");
      return element("li", "", [element("label", "", [box, ` ${one.task}`]), " ", remove]);
    }),
  );
  if (focused >= 0) (controls()[focused] ?? controls().at(-1))?.focus(); // the lists were made anew
}

/** @param {() => unknown} act */
function change(act) {
  act();
  remember(SAVED, state);
  show();
}

/** @type {Record<string, (args: any) => unknown>} */
const RUN = {
  set_theme: ({ theme }) => {
    setTheme(theme);
    return { theme };
  },
  start_timer: ({ seconds, label = "Timer" }) => {
    startTimer(seconds, label);
    return { running: label, seconds };
  },
  add_note: ({ text: note }) => {
    change(() => state.notes.push(note));
    return { notes: state.notes.length };
  },
  add_task: ({ task }) => {
    change(() => state.tasks.push({ task, done: false }));
    return { open: state.tasks.filter(({ done }) => !done).length };
  },
  finish_task: ({ task }) => {
    const wanted = task.toLowerCase();
    const found = state.tasks.find((one) => !one.done && one.task.toLowerCase().includes(wanted));
    if (!found) throw new Error(`no open task ${JSON.stringify(task)}`);
    change(() => (found.done = true));
    return { done: found.task };
  },
  calculate: ({ a, operation, b }) => {
    const result = OPERATIONS[operation](a, b);
    if (!Number.isFinite(result)) throw new Error("that has no finite result");
    byId("demo-result").textContent = `${a} ${operation} ${b} = ${result}`;
    return { result };
  },
  draw: ({ shape, color, size = "medium" }) => draw(shape, color, size),
  clear_canvas: () => {
    wipe();
    return { canvas: "empty" };
  },
};

/** Whether the tools in use are the demo's. */
function isInUse() {
  return [...toolset.runnable.values()].some(({ kind }) => kind === "demo");
}

export function startDemo() {
  const saved = recall(SAVED, {});
  Object.assign(state, saved);
  show();
  const names = new Set(DEMO.tools.map(({ name }) => name));
  toolset.addEventListener("tools", () => {
    const declared = /** @type {any[]} */ (tryParse(toolset.text) ?? []);
    const demo = Array.isArray(declared) && declared.length > 0 && declared.every((one) => names.has(one?.name));
    toolset.setRunnable("demo", demo ? RUN : {});
    panel.hidden = !isInUse();
  });
}

/** @param {string} json */
function tryParse(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}
