/**
 * Small things that the page remembers in this browser: settings, the conversation. Owns their names and refuses nothing:
 * where the browser keeps no data, they last as long as the tab. Owns removing everything, too: once that was asked for,
 * in whichever tab, no open tab keeps anything more (the event `areole-removed`; kept.js has the rule for caches, sw.js
 * its own).
 */

import { cacheName, keepNothing, keeps, openCache } from "../kept.js";

const site = new URL("./", document.baseURI).pathname;
const prefix = `areole ${site} `;
/** @type {Map<string, string>} what stands in for storage where there is none */
const memory = new Map();
/** Tells the page's other tabs that everything was removed, so that none of them puts it back. */
const tabs = new BroadcastChannel(`${prefix}removed`);
tabs.addEventListener("message", () => forget(true));

/**
 * @param {string} name
 * @param {any} [otherwise]
 */
export function recall(name, otherwise = null) {
  try {
    const text = memory.get(name) ?? localStorage.getItem(prefix + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** @typedef {"kept" | "full" | "off"} Remembered whether it will be there at the next visit; full: there is no room for it */

/** @param {string} name @param {unknown} value @returns {Remembered} */
export function remember(name, value) {
  const text = JSON.stringify(value);
  memory.set(name, text);
  if (!keeps()) return "off";
  try {
    localStorage.setItem(prefix + name, text);
    return "kept";
  } catch (error) {
    return error instanceof DOMException && error.name === "QuotaExceededError" ? "full" : "off";
  }
}

/** Names that something is kept under. @param {string} start what they begin with */
export function rememberedNames(start) {
  try {
    return Object.keys(localStorage).flatMap((key) => (key.startsWith(prefix + start) ? [key.slice(prefix.length)] : []));
  } catch {
    return [];
  }
}

/** What only this tab remembers, over a reload. */
export const inTab = {
  /** @param {string} name @returns {string | null} */
  recall(name) {
    try {
      return sessionStorage.getItem(prefix + name);
    } catch {
      return null;
    }
  },
  /** @param {string} name @param {string} text */
  remember(name, text) {
    try {
      if (keeps()) sessionStorage.setItem(prefix + name, text);
    } catch {
      // then it is not remembered
    }
  },
};

/** @param {"localStorage" | "sessionStorage"} kind */
function wipe(kind) {
  try {
    for (const key of Object.keys(window[kind])) if (key.startsWith(prefix)) window[kind].removeItem(key);
  } catch {
    // Nothing can be kept here, so nothing was.
  }
}

/** Keeps nothing more until the page is opened anew. @param {boolean} elsewhere it was asked for in another tab */
function forget(elsewhere) {
  keepNothing();
  memory.clear();
  wipe("sessionStorage");
  dispatchEvent(new CustomEvent("areole-removed", { detail: { elsewhere } }));
}

/** Removes all that the page keeps in this browser. */
export async function removeEverything() {
  forget(false);
  tabs.postMessage("removed");
  wipe("localStorage");
  const registration = await navigator.serviceWorker?.getRegistration(site);
  if (registration) await unregister(registration);
  if (!globalThis.caches) return;
  for (const kind of ["site", "weights", "prefixes", "own"]) await caches.delete(cacheName(document.baseURI, kind)).catch(() => false);
}

/** It answers for the pages that are open until they are closed, and keeps nothing. @param {ServiceWorkerRegistration} registration */
export async function unregister(registration) {
  for (const worker of [registration.active, registration.waiting, registration.installing]) worker?.postMessage({ type: "keep-nothing" });
  await registration.unregister();
}

/** Bytes and number of what is kept in one of the page's caches. @param {"site" | "weights" | "prefixes"} kind */
export async function keptIn(kind) {
  try {
    const name = cacheName(document.baseURI, kind);
    if (!(await caches.has(name))) return { count: 0, bytes: 0 };
    const cache = await openCache(document.baseURI, kind);
    const keys = await cache.keys();
    let bytes = 0;
    for (const key of keys) {
      const response = await cache.match(key);
      bytes += Number(response?.headers.get("content-length")) || (await response?.blob())?.size || 0;
    }
    return { count: keys.length, bytes };
  } catch {
    return { count: 0, bytes: 0 };
  }
}
