/**
 * Small things that the page remembers in this browser: settings, the conversation. Owns their names and refuses nothing:
 * where the browser keeps no data, they last as long as the tab.
 */

import { cacheName } from "../kept.js";

const site = new URL("./", document.baseURI).pathname;
const prefix = `areole ${site} `;
/** @type {Map<string, string>} what stands in for storage where there is none */
const memory = new Map();
let stopped = false;
/** Tells the page's other tabs that everything was removed, so that none of them puts it back. */
const tabs = new BroadcastChannel(`${prefix}removed`);
tabs.addEventListener("message", forget);

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

/** Whether it will be there at the next visit. @param {string} name @param {unknown} value */
export function remember(name, value) {
  const text = JSON.stringify(value);
  memory.set(name, text);
  if (stopped) return false;
  try {
    localStorage.setItem(prefix + name, text);
    return true;
  } catch {
    return false;
  }
}

/** Whether this tab may keep anything: not after everything was removed. */
export function keeps() {
  return !stopped;
}

/** Keeps nothing more until the page is opened anew. */
function forget() {
  stopped = true;
  memory.clear();
  dispatchEvent(new Event("areole-removed"));
}

/** Removes all that the page keeps in this browser. */
export async function removeEverything() {
  forget();
  tabs.postMessage("removed");
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(prefix)) localStorage.removeItem(key);
  } catch {
    // Nothing can be kept here, so nothing was.
  }
  const registration = await navigator.serviceWorker?.getRegistration(site);
  await registration?.unregister();
  if (!globalThis.caches) return;
  for (const kind of ["site", "weights", "prefixes", "own"]) await caches.delete(cacheName(document.baseURI, kind)).catch(() => false);
}

/** Bytes and number of what is kept in one of the page's caches. @param {"site" | "weights" | "prefixes"} kind */
export async function keptIn(kind) {
  try {
    const name = cacheName(document.baseURI, kind);
    if (!(await caches.has(name))) return { count: 0, bytes: 0 };
    const cache = await caches.open(name);
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
