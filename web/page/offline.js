/**
 * The page as an app: the service worker that lets it open without a network, the notice of a new build, installing, what
 * is kept in this browser, and how to be rid of it. Owns the view "This device".
 */

import { announce, button, byId, megabytes, notice, showRows } from "./ui.js";
import { keeps } from "../kept.js";
import { keptIn, removeEverything, unregister } from "./saved.js";
import { onView } from "./views.js";

const CHECK_MS = 60 * 60 * 1000;

/** What the state of the kept weights means. @type {Record<string, string>} */
const KEPT = {
  kept: "kept; checked by SHA-256 each time they are read",
  partial: "not kept yet",
  denied: "not kept: the browser keeps no data for this page (a private window, or storage is blocked)",
  full: "not kept: this browser has no room left for them",
  off: "not kept: they are not the site's own, or their hash cannot be checked here",
};
/** The same where it costs the visitor something, as advice. @type {Record<string, string>} */
const ADVICE = {
  denied:
    "This browser keeps no data for the page (a private window, or storage is blocked). Everything works; the weights are " +
    "downloaded again on each visit.",
  full:
    "There is no room in this browser's storage for the weights. Everything works; they are downloaded again on each " +
    "visit. Free some space to change that.",
};

const facts = byId("device-facts");
const install = /** @type {HTMLButtonElement} */ (byId("install"));
const persist = /** @type {HTMLButtonElement} */ (byId("persist"));
const remove = /** @type {HTMLButtonElement} */ (byId("remove"));
const sure = /** @type {HTMLDialogElement} */ (byId("remove-sure"));
const result = byId("device-result");

const REMOVED = "Everything was removed in another tab. This one goes on without what it had kept, and keeps nothing more.";
let weights = "not loaded yet";
let offline = "not ready for use without a network yet";

async function showDevice() {
  const estimate = await navigator.storage?.estimate?.().catch(() => null);
  const persisted = (await navigator.storage?.persisted?.().catch(() => false)) ?? false;
  const [site, model, tools] = [await keptIn("site"), await keptIn("weights"), await keptIn("prefixes")];
  /** @type {[string, string][]} */
  const rows = [
    ["Weights", `${weights}${model.bytes ? ` (${megabytes(model.bytes)} MB)` : ""}`],
    ["Page and Python", `${offline}${site.bytes ? ` (${site.count} files, ${megabytes(site.bytes)} MB)` : ""}`],
  ];
  if (tools.count) {
    rows.push(["Tools that were read", `${tools.count} ${tools.count === 1 ? "set" : "sets"} (${megabytes(tools.bytes)} MB): they are not read again`]);
  }
  if (estimate?.quota) {
    rows.push(["Storage of this site", `${megabytes(estimate.usage ?? 0)} MB used, ${megabytes(estimate.quota)} MB allowed`]);
  }
  rows.push(["May the browser clear it?", persisted ? "no, it is marked as lasting" : "yes, when the disk is full or after long disuse"]);
  persist.hidden = persisted || !navigator.storage?.persist;
  showRows(facts, rows);
}

/** Whether the new build came because this tab asked for it. */
let asked = false;

/** @param {ServiceWorkerRegistration} registration */
function watchForUpdate(registration) {
  const offer = () => {
    const waiting = registration.waiting;
    if (!waiting || !navigator.serviceWorker.controller) return;
    const reload = button("Reload now", () => {
      asked = true;
      waiting.postMessage({ type: "activate" });
    });
    notice("update", "A new version of this page is ready.", [reload]);
  };
  offer();
  registration.addEventListener("updatefound", () => {
    const worker = registration.installing;
    worker?.addEventListener("statechange", () => {
      if (worker.state === "installed") offer();
    });
  });
  const check = () => registration.update().catch(() => {}); // without a network there is nothing to find
  setInterval(check, CHECK_MS);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") check();
  });
}

let controlled = Boolean(navigator.serviceWorker?.controller);

/** Another build answers this tab's requests from now on, unless this is the first one that does. */
function changed() {
  if (!controlled) {
    controlled = true;
    return;
  }
  if (asked) {
    location.reload();
    return;
  }
  const reload = button("Reload now", () => location.reload());
  notice("update", "This page was updated in another tab. Reload it before you go on.", [reload]);
}

/** @param {string} text */
function sayOffline(text) {
  if (keeps()) offline = text;
  showDevice();
}

/** @param {ServiceWorker | null} worker an active one */
function askWhetherKept(worker) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data: whole }) => sayOffline(whole ? "kept; works without a network" : "not kept: storing it failed");
  worker?.postMessage({ type: "keep" }, [port2]);
}

async function startServiceWorker() {
  if (!navigator.serviceWorker) {
    offline = "not kept: this browser or address allows no service worker";
    return;
  }
  try {
    const registration = await navigator.serviceWorker.register(new URL("../sw.js", import.meta.url));
    if (!registration) throw new Error("the browser registered no service worker");
    if (!keeps()) {
      await unregister(registration); // everything was removed meanwhile
      return;
    }
    watchForUpdate(registration);
    offline = "being stored …";
    const worker = registration.active ?? registration.waiting ?? registration.installing;
    if (worker === registration.active) askWhetherKept(worker);
    worker?.addEventListener("statechange", () => {
      if (worker.state === "activated") askWhetherKept(worker);
      if (worker.state === "redundant" && !registration.active) sayOffline("not kept: storing it failed");
    });
  } catch (error) {
    offline = `not kept: ${error instanceof Error ? error.message : error}`;
  }
}

/** @param {import("../client.js").AreoleClient} client */
export function startOffline(client) {
  const onState = async () => {
    if (client.state !== "ready") return;
    const { kept } = await client.ready;
    if (!keeps()) return;
    weights = KEPT[kept.state] ?? kept.state;
    if (ADVICE[kept.state]) notice("storage", ADVICE[kept.state]);
    if (kept.repaired) announce("The kept weights were damaged and have been replaced.");
    await startServiceWorker(); // after the model: storing the rest must not slow the first load down
    showDevice();
  };
  client.addEventListener("state", onState);
  onState(); // the worker began before this

  addEventListener("areole-removed", (event) => {
    client.keepNothing();
    if (/** @type {CustomEvent} */ (event).detail.elsewhere) notice("removed", REMOVED);
    weights = "removed";
    offline = "removed";
    showDevice();
  });
  navigator.serviceWorker?.addEventListener("controllerchange", changed);
  addEventListener("beforeinstallprompt", (/** @type {any} */ event) => {
    event.preventDefault();
    install.hidden = false;
    install.onclick = async () => {
      install.hidden = true; // the browser lets it be used once
      await event.prompt();
    };
  });
  addEventListener("appinstalled", () => {
    install.hidden = true;
    result.textContent = "Installed: it opens from your apps now, also without a network.";
  });
  byId("install-ios").hidden = /** @type {any} */ (navigator).standalone !== false;

  persist.addEventListener("click", async () => {
    const granted = await navigator.storage.persist();
    result.textContent = granted ? "The browser will keep it." : "The browser declined; it often agrees once the page is installed or used more.";
    showDevice();
  });
  remove.addEventListener("click", () => sure.showModal());
  sure.addEventListener("close", async () => {
    if (sure.returnValue !== "remove") return;
    await removeEverything();
    result.textContent = "Everything was removed. What is open here goes on until you close it, and keeps nothing more.";
    announce("Everything was removed.");
    showDevice();
  });
  onView("device", showDevice);
}
