/**
 * Tools in JavaScript, in the page: a module whose default export is a list of tools with functions. The page's policy
 * allows no code but the site's own, and none is evaluated: the source is put where the service worker serves it from, as
 * own/tools.js of this site, and imported from there. Owns the editor; refuses to work without the service worker.
 */

import { AreoleError } from "../../errors.js";
import { openCache } from "../../kept.js";
import { announce, byId, onSendKeys, showError } from "../ui.js";
import { startOwn } from "./own.js";

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

/**
 * The module's tools, their functions apart.
 * @param {unknown} list its default export
 * @returns {import("./own.js").Defined}
 */
function readList(list) {
  const bad = (/** @type {string} */ message) => new AreoleError("tools_shape", message);
  if (list === undefined) throw bad("The module has no default export; write: export default [ … ].");
  if (!Array.isArray(list)) throw bad(`The module's default export is no list of tools, but ${list === null ? "null" : `a ${typeof list}`}.`);
  if (!list.length) throw bad("The module's list of tools is empty.");
  /** @type {Map<string, import("../toolset.js").Runnable["run"]>} */
  const functions = new Map();
  const names = new Set();
  const declarations = list.map((entry, index) => {
    if (typeof entry !== "object" || entry === null || Array.isArray(entry)) {
      throw bad(`Tool ${index + 1} is not an object: write { name, description, parameters, run }.`);
    }
    const { run, ...declaration } = entry;
    const { name } = declaration.function ?? declaration;
    if (typeof name !== "string" || !name.trim()) throw bad(`Tool ${index + 1} has no name: add name: "what_it_does".`);
    if (names.has(name)) throw bad(`Two tools have the name ${name}.`);
    names.add(name);
    if (run !== undefined && typeof run !== "function") throw bad(`${name}: run is no function, but a ${typeof run}.`);
    if (run) functions.set(name, run);
    try {
      return JSON.parse(JSON.stringify(declaration));
    } catch (error) {
      throw bad(`${name} cannot be written as JSON: ${error instanceof Error ? error.message : error}`);
    }
  });
  return { declarations, functions: Object.fromEntries(functions) };
}

/** @param {string} text */
async function define(text) {
  const open = () => openCache(document.baseURI, "own");
  await open(); // where nothing may be kept, no service worker is waited for
  await controlled();
  const address = new URL("own/tools.js", document.baseURI).href;
  await (await open()).put(address, new Response(text, { headers: { "Content-Type": "text/javascript" } }));
  return readList((await import(`${address}?${crypto.randomUUID()}`)).default); // a module is imported once an address
}

export function startJavaScript() {
  const use = startOwn("javascript", { field: source, state: byId("javascript-state"), example: EXAMPLE, define });
  const runAndUse = async () => {
    showError(fault, null);
    try {
      const tools = await use();
      announce(`${tools.length} JavaScript tools are in use.`);
    } catch (error) {
      const own = error instanceof AreoleError || !(error instanceof Error);
      showError(fault, own ? AreoleError.wrap(error) : `${error.name}: ${error.message}`);
    }
  };
  byId("javascript-run").addEventListener("click", runAndUse);
  onSendKeys(source, runAndUse);
}
