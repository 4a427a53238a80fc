/**
 * Which of the page's views is shown: the address's fragment says so, and links change it, so that the browser's own
 * history works. A fragment that names something inside a view shows that view.
 */

import { byId } from "./ui.js";

const views = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".view")]);
const links = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll("#views a")]);

/** Calls `show` whenever the view of that name comes up. @param {string} name @param {() => void} show */
export function onView(name, show) {
  byId(name).addEventListener("view", show);
}

/** @param {string} name */
export function goTo(name) {
  if (location.hash === `#${name}`) showView();
  else location.hash = name;
}

export function showView() {
  const named = document.getElementById(location.hash.slice(1));
  const view = /** @type {HTMLElement} */ (named?.closest(".view") ?? views[0]);
  for (const one of views) one.hidden = one !== view;
  for (const link of links) {
    if (link.hash === `#${view.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (named && named !== view) {
    named.focus();
  } else if (named) {
    scrollTo(0, 0);
  }
  view.dispatchEvent(new Event("view"));
}

addEventListener("hashchange", () => {
  showView();
  // What had the focus may be hidden now, and then the browser has let go of it: the next Tab begins in the new view.
  if (document.activeElement === document.body) views.find((view) => !view.hidden)?.focus({ preventScroll: true });
});
