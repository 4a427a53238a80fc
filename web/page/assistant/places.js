/**
 * Which of the kept conversations is this tab's, so that no two tabs write over each other. Each has a name to be kept
 * under, and the tab that shows it holds the lock of that name until it is closed. A tab that is loaded anew goes on with
 * the one it had; another goes on with the one that was used last of those that no open tab has, or begins one of its own.
 * Where the browser has no locks (it has them wherever the page is served over https) the tabs share one, and the last
 * writer wins.
 */

import { cacheName } from "../../kept.js";
import { inTab, recall, rememberedNames } from "../saved.js";

const MINE = "place";
const PREFIX = "conversation";
/** How long a tab that is loaded anew may take to let go of what it had. */
const RELOAD_MS = 2000;
/** From then on tabs share. */
const MOST_TABS = 100;

/**
 * Holds a place until the tab is closed. False: another tab has it.
 * @param {string} place
 * @param {LockOptions} options
 * @returns {Promise<boolean>}
 */
function hold(place, options) {
  return new Promise((resolve) => {
    const taken = (/** @type {Lock | null} */ lock) => {
      resolve(lock !== null);
      return lock && new Promise(() => {});
    };
    navigator.locks.request(`${cacheName(document.baseURI, PREFIX)} ${place}`, options, taken).catch(() => resolve(false));
  });
}

/** @returns {Promise<string>} the name that this tab's conversation is kept under */
export async function takePlace() {
  const first = `${PREFIX} 1`;
  const works = await globalThis.navigator.locks?.query().then(() => true, () => false); // denied where storage is
  if (!works) return first;
  const mine = inTab.recall(MINE);
  if (mine && (await hold(mine, { signal: AbortSignal.timeout(RELOAD_MS) }))) return mine;
  const kept = rememberedNames(PREFIX).map((place) => ({ place, at: Number(recall(place)?.at ?? 0) }));
  const places = kept.sort((a, b) => b.at - a.at).map(({ place }) => place);
  for (let n = 1; n <= MOST_TABS; n++) if (!places.includes(`${PREFIX} ${n}`)) places.push(`${PREFIX} ${n}`);
  for (const place of places) {
    if (!(await hold(place, { ifAvailable: true }))) continue;
    inTab.remember(MINE, place);
    return place;
  }
  return first;
}
