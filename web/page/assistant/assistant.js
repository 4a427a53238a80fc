/**
 * The view "Assistant": requests in, turns out, calls run or asked about, results told to the model, until there is
 * nothing more to call. Owns the composer and the log; one request at a time.
 */

import { AreoleError } from "../../errors.js";
import { runOne } from "../../running.js";
import { readTools } from "../../tools.js";
import { Conversation } from "./conversation.js";
import { openAIMessage, pythonCalls } from "./formats.js";
import { Trust } from "./trust.js";
import { TurnView, summary } from "./turn.js";
import { Written, pretty, write } from "./written.js";
import { toolset } from "../toolset.js";
import { trace } from "../trace.js";
import { edit } from "../toolbox/editor.js";
import { announce, button, byId, notice, onSendKeys, saveFile, showError } from "../ui.js";
import { goTo } from "../views.js";

/** @typedef {import("./conversation.js").Turn} Turn */

/** How often results go back by themselves after one request. */
const MAX_ROUNDS = 8;
/** From this request on a conversation that was meant as several is worth a word. */
const LONG = 5;

const NO_ROOM =
  "There is no room in this browser's storage for the conversation, so it lasts as long as this tab. Export saves it in a " +
  "file; a new conversation takes less room.";

const log = byId("log");
const empty = byId("log-empty");
const talk = /** @type {HTMLElement} */ (log.closest(".talk"));
const request = /** @type {HTMLTextAreaElement} */ (byId("request"));
const fault = byId("request-error");
const askButton = /** @type {HTMLButtonElement} */ (byId("ask"));
const stopButton = /** @type {HTMLButtonElement} */ (byId("stop"));
const again = /** @type {HTMLButtonElement} */ (byId("retry"));
const fresh = /** @type {HTMLButtonElement} */ (byId("new-conversation"));
const exported = /** @type {HTMLButtonElement} */ (byId("export"));
const long = byId("log-long");
const aside = byId("log-earlier");
const bringBack = /** @type {HTMLButtonElement} */ (byId("bring-back"));

/** @param {import("../../client.js").AreoleClient} client */
export function startAssistant(client) {
  const trust = new Trust();
  /** Whether the visitor knows that there is no room. */
  let full = false;
  const conversation = new Conversation(client, (how) => {
    if (full === (how === "full")) return;
    full = !full;
    notice("conversation", full ? NO_ROOM : null);
  });
  /** @type {Map<Turn, TurnView>} */
  const views = new Map();
  /** @type {AbortController | null} */
  let asking = null;
  /** While functions run. @type {AbortController | null} */
  let acting = null;
  let following = false;

  /** @type {import("./turn.js").Context} */
  const context = {
    verdict: ({ result }) => trust.of(result.confidence),
    runs: (name) => toolset.runnable.has(name),
    deeds: (turn, index) => ({
      run: () => act(turn, [index]),
      decline: () => settle(turn, index, { told: { error: "the user declined" }, declined: true }),
      give: (text) => {
        let told;
        try {
          told = JSON.parse(text);
        } catch (error) {
          return `Not JSON: ${error instanceof Error ? error.message : error}`;
        }
        settle(turn, index, { told });
        return null;
      },
    }),
    copy: (turn, format) => copy(conversation.turns.indexOf(turn), format),
    inspect: (turn) => {
      trace.show(turn);
      goTo("workbench");
    },
  };

  // ---- showing

  function showAll() {
    views.clear();
    log.replaceChildren(...conversation.turns.map((turn) => viewOf(turn).node));
    showState();
  }

  /** @param {Turn} turn */
  function viewOf(turn) {
    let view = views.get(turn);
    if (!view) views.set(turn, (view = new TurnView(turn, context)));
    return view;
  }

  function showState() {
    const { turns, earlier } = conversation;
    empty.hidden = turns.length > 0;
    aside.hidden = !earlier;
    const same = earlier?.declared.text === toolset.text && earlier.declared.system === toolset.system;
    byId("log-earlier-text").textContent = same ? "This is a new conversation." : "The tools changed, so this is a new conversation.";
    const busy = asking !== null || acting !== null;
    if (busy && (document.activeElement === again || document.activeElement === fresh)) stopButton.focus();
    for (const one of [again, fresh, exported]) one.disabled = turns.length === 0 || busy;
    again.disabled ||= !conversation.canAskAgain;
    long.hidden = turns.filter(({ isResult }) => !isResult).length < LONG;
  }

  /** A disabled button would lose the focus to nowhere. */
  function nothingToStop() {
    if (document.activeElement === stopButton) askButton.focus();
    stopButton.disabled = true;
  }

  // ---- asking

  /** @param {string} text @param {boolean} [isResult] */
  async function ask(text, isResult = false) {
    asking = new AbortController();
    askButton.setAttribute("aria-disabled", "true"); // not `disabled`: the focus may be on it
    stopButton.disabled = false;
    const turn = conversation.add(text, isResult);
    const view = viewOf(turn);
    // Who asks wants to see the answer; what goes on by itself moves the page only for those who are at its end.
    follow(() => {
      log.append(view.node);
      view.status(client.state === "ready" ? "Reading …" : "Waiting for the model …");
      showState();
    }, !isResult);
    conversation.save(); // so that a request survives a reload in the middle of its answer
    announce(isResult ? "Telling the model the result." : "Working on the request.");
    const { signal } = asking;
    const events = trace.begin(turn);
    try {
      const onEvent = (/** @type {any} */ event) => {
        events.push(event);
        follow(() => view.stream(event));
      };
      const answer = await conversation.ask(turn, { onEvent, signal });
      if (!answer.result.success) {
        const { error_code: code, error: message } = answer.result;
        turn.error = answer.failure ?? { code, message };
      } else {
        const { function_calls: calls = [], suppressed_calls: withheld = [] } = answer.result;
        announce(answer.text || summary(calls, withheld, true));
      }
    } catch (error) {
      const failure = AreoleError.wrap(error);
      turn.state = signal.aborted || failure.code === "cancelled" ? "stopped" : "failed";
      turn.error = turn.state === "stopped" ? null : { code: failure.code, message: failure.message };
      if (turn.state === "stopped") announce("Stopped.");
    } finally {
      asking = null;
      askButton.setAttribute("aria-disabled", "false");
      nothingToStop();
      follow(() => {
        view.show();
        showState();
      });
      conversation.save();
    }
    if (turn.state === "done") await goOn(turn);
  }

  /** Runs by itself what is sure enough, and tells the model, at most so often in a row. @param {Turn} turn */
  async function goOn(turn) {
    const calls = turn.answer?.result.function_calls ?? [];
    if (!turn.answer || context.verdict(turn.answer) !== "act" || !calls.length) return;
    const since = conversation.turns.findLastIndex(({ isResult }) => !isResult);
    if (conversation.turns.length - since > MAX_ROUNDS) return;
    const runs = calls.flatMap((/** @type {any} */ call, /** @type {number} */ index) => (context.runs(call.name) ? [index] : []));
    if (runs.length) await act(turn, runs);
  }

  /** Runs calls; the stop button ends what runs. @param {Turn} turn @param {number[]} indexes */
  async function act(turn, indexes) {
    if (acting || asking) return;
    const calls = turn.answer?.result.function_calls ?? [];
    acting = new AbortController();
    stopButton.disabled = false;
    showState();
    const { signal } = acting;
    for (const index of indexes) {
      if (turn.outcomes[index] || signal.aborted) continue;
      const call = calls[index];
      const runnable = toolset.runnable.get(call.name);
      // What runs in the worker ends only with the worker.
      const end = () => runnable?.kind === "python" && client.restart();
      signal.addEventListener("abort", end, { once: true });
      const { told, error } = await runOne(call, runnable && { ...runnable, name: call.name }, { signal });
      signal.removeEventListener("abort", end);
      turn.outcomes[index] = { told, ...(error ? { error: error.message } : {}) };
      refreshed(turn);
    }
    acting = null;
    nothingToStop();
    showState();
    if (signal.aborted) announce("Stopped.");
    else await tell(turn);
    conversation.save();
  }

  /** @param {Turn} turn @param {number} index @param {import("./conversation.js").Outcome} outcome */
  function settle(turn, index, outcome) {
    turn.outcomes[index] = outcome;
    refreshed(turn);
    tell(turn);
  }

  /** Shows a turn anew, and keeps the focus in it if a button that had it is gone. @param {Turn} turn */
  function refreshed(turn) {
    const view = viewOf(turn);
    const inside = view.node.contains(document.activeElement);
    view.show();
    if (inside && !view.node.contains(document.activeElement)) view.node.focus({ preventScroll: true });
  }

  /** Tells the model what came of the last answer's calls, once that is known of all. @param {Turn} turn */
  async function tell(turn) {
    conversation.save();
    const isLast = conversation.turns.at(-1) === turn;
    if (!isLast || asking || turn.outcomes.some((outcome) => outcome === null)) return;
    if (turn.outcomes.every((outcome) => outcome?.declined)) return; // nothing happened that would need words
    await ask(JSON.stringify(turn.outcomes.map((outcome) => outcome?.told ?? null)), true);
  }

  async function submit() {
    if (asking || acting) return;
    const text = request.value;
    showError(fault, text.trim() === "" ? "Write a request first." : null);
    if (text.trim() === "") {
      request.focus();
      return;
    }
    if (readTools(toolset.text).fault) {
      showError(fault, "The tools cannot be read; mend them first.");
      goTo("tools");
      return;
    }
    request.value = "";
    await ask(text);
  }

  /**
   * Keeps the end of the conversation in sight for those who are there, one frame at a time.
   * @param {() => void} change
   * @param {boolean} [always] goes there from wherever they are
   */
  function follow(change, always = false) {
    const below = () => talk.getBoundingClientRect().bottom - innerHeight;
    const goes = !following && (always || Math.abs(below()) < 120);
    change();
    if (!goes) return;
    following = true;
    const from = scrollY;
    requestAnimationFrame(() => {
      following = false;
      if (scrollY < from) return; // scrolled up meanwhile: to read what is there
      scrollBy(0, Math.max(below() + 8, 0));
    });
  }

  // ---- copying and keeping

  /** @param {number} place @param {"json" | "openai" | "python"} format */
  async function copy(place, format) {
    const { answer } = conversation.turns[place];
    if (!answer) return;
    const text =
      format === "json"
        ? pretty(answer.json)
        : format === "openai"
          ? JSON.stringify(openAIMessage(answer, place), null, 2)
          : pythonCalls(answer);
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied.");
    } catch {
      const box = /** @type {HTMLDialogElement} */ (byId("copy-by-hand"));
      byId("copy-text").textContent = text;
      box.showModal();
    }
  }

  exported.addEventListener("click", () => {
    const { text, system, contract } = toolset.declared;
    const turns = conversation.turns.map(({ said, isResult, answer, error, outcomes }) => {
      return { said, is_result: isResult, answer: answer && new Written(answer.json), text: answer?.text ?? "", error, outcomes };
    });
    const whole = pretty(write({ tools: new Written(text), system, contract, turns }));
    saveFile("areole-conversation.json", new Blob([whole], { type: "application/json" }));
  });

  fresh.addEventListener("click", () => {
    conversation.begin();
    showAll();
    announce("A new conversation.");
    request.focus();
  });

  bringBack.addEventListener("click", () => {
    const { earlier } = conversation;
    if (!earlier) return;
    (asking ?? acting)?.abort();
    conversation.earlier = null;
    conversation.begin();
    const { text, system, origin } = earlier.declared;
    edit(text, system, origin);
    conversation.go(earlier.turns);
    showAll();
    announce("The earlier conversation is back.");
    request.focus();
  });

  again.addEventListener("click", async () => {
    const text = conversation.takeBack();
    showAll();
    if (text) await ask(text);
  });

  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  stopButton.addEventListener("click", () => (asking ?? acting)?.abort());
  onSendKeys(request, submit);

  toolset.addEventListener("tools", (event) => {
    (asking ?? acting)?.abort();
    if (conversation.turns.length) announce("The tools changed, so this is a new conversation. The earlier one can be brought back.");
    conversation.begin(/** @type {CustomEvent} */ (event).detail);
    showAll();
  });
  addEventListener("areole-removed", () => {
    (asking ?? acting)?.abort();
    conversation.clear();
    showAll();
  });
  const refresh = () => {
    for (const view of views.values()) view.show();
  };
  toolset.addEventListener("rules", () => conversation.desync());
  toolset.addEventListener("runnable", refresh);
  trust.addEventListener("change", refresh);

  const copied = button("Close", () => /** @type {HTMLDialogElement} */ (byId("copy-by-hand")).close());
  byId("copy-close").append(copied);

  return {
    open: () => conversation.open(),
    /** Shows the conversation that was kept, if the tools that are in use now are its own. @param {Turn[]} turns */
    restore(turns) {
      conversation.go(turns);
      showAll();
    },
  };
}
