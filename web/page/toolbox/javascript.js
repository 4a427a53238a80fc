/**
 * Tools in JavaScript, in the page: a module whose default export is a list of tools with functions. The page's policy
 * allows no code but the site's own, and none is evaluated: the source is put where the service worker serves it from, as
 * own/tools.js of this site, and imported from there. Owns the editor; refuses to work without the service worker.
 */

import { openCache } from "../../kept.js";
import { recall, remember } from "../saved.js";
import { toolset } from "../toolset.js";
import { announce, byId, showError } from "../ui.js";
import { edit } from "./editor.js";

const SAVED = "javascript";
const EXAMPLE = `export default [
  {
    name: "set_title",
    description: "Change the title of this tab.",
    parameters: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
    run({ title }) {
      document.title = title;
      return { title };
    },
  },
];
`;
/** How long the service worker may take to answer for this page. */
const CLAIM_MS = 5000;

const source = /** @type {HTMLTextAreaElement} */ (byId("javascript"));
const fault = byId("javascript-error");

/** Resolves when the service worker answers this page's requests. */
async function controlled() {
  if (!navigator.serviceWorker) throw new Error("This browser or address allows no service worker, which serves the module.");
  if (navigator.serviceWorker.controller) return;
  const registration = await Promise.race([navigator.serviceWorker.ready, new Promise((resolve) => setTimeout(resolve, CLAIM_MS))]);
  if (!registration) throw new Error("The service worker is not there yet; it comes once the model has been loaded. Try again.");
  const taken = new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
  /** @type {ServiceWorkerRegistration} */ (registration).active?.postMessage({ type: "claim" });
  await taken;
}

async function define() {
  showError(fault, null);
  try {
    const open = () => openCache(document.baseURI, "own");
    await open(); // where nothing may be kept, no service worker is waited for
    await controlled();
    const address = new URL("own/tools.js", document.baseURI).href;
    await (await open()).put(address, new Response(source.value, { headers: { "Content-Type": "text/javascript" } }));
    const { default: list } = await import(`${address}?${crypto.randomUUID()}`); // a module is imported once an address
    if (!Array.isArray(list) || !list.length) throw new Error("The module's default export is no list of tools.");
    /** @type {Record<string, any>} */
    const functions = {};
    const declarations = list.map(({ run, ...declaration }) => {
      if (typeof declaration.name !== "string") throw new Error("A tool has no name.");
      if (typeof run === "function") functions[declaration.name] = run;
      return declaration;
    });
    toolset.setRunnable("javascript", functions);
    edit(declarations);
    announce(`${list.length} JavaScript tools are in use.`);
    byId("javascript-state").textContent = `In use: ${declarations.map(({ name }) => name).join(", ")}.`;
  } catch (error) {
    showError(fault, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  }
}

export function startJavaScript() {
  source.value = recall(SAVED, EXAMPLE);
  source.addEventListener("input", () => remember(SAVED, source.value));
  byId("javascript-run").addEventListener("click", define);
}
