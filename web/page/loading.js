/** What loads, how far it is, and what went wrong with it; and the button that tries again. */

import { savesData } from "../start.js";
import { announce, byId, megabytes, showError } from "./ui.js";

const panel = byId("load");
const text = byId("load-text");
const bar = /** @type {HTMLProgressElement} */ (byId("load-progress"));
const fault = byId("load-error");
const again = /** @type {HTMLButtonElement} */ (byId("load-button"));

/** What each phase of loading is called. @type {Record<string, string>} */
const PHASES = {
  download: "Downloading the model",
  repair: "What was kept is damaged; downloading it again",
  verify: "Checking the model",
  start: "Starting the model",
};

/** @param {import("../client.js").AreoleClient} client */
export function showLoading(client) {
  let announced = "";

  client.addEventListener("progress", (event) => {
    const { loaded, total, phase } = /** @type {CustomEvent} */ (event).detail;
    bar.max = Math.max(total, 1);
    bar.value = loaded;
    const name = PHASES[phase] ?? phase;
    text.textContent = phase === "download" ? `${megabytes(loaded)} of ${megabytes(total)} MB` : `${name} …`;
    if (phase === announced || phase === "ready") return;
    announced = phase;
    announce(`${name}.`);
  });

  /** @param {string} state @param {import("../errors.js").AreoleError} [error] */
  const show = (state, error) => {
    panel.dataset.state = state;
    again.hidden = state !== "failed" && !(state === "idle" && savesData());
    showError(fault, state === "failed" && error ? error : null);
    if (state === "loading") {
      announced = "";
      text.textContent = "starting …";
      bar.value = 0;
    } else if (state === "failed") {
      text.textContent = "could not be loaded";
      again.textContent = "Try again";
    } else if (state === "dead") {
      text.textContent = "stopped; starts again with the next request";
    } else if (state === "ready") {
      client.ready.then(showInfo);
    }
  };
  client.addEventListener("state", (event) => {
    const { state, error } = /** @type {CustomEvent} */ (event).detail;
    show(state, error);
  });
  if (client.state === "failed") client.ready.catch((error) => show("failed", error)); // before this was here
  else show(client.state);

  again.addEventListener("click", () => {
    client.start().catch(() => {}); // shown by the state event
  });
}

/** @param {Record<string, any>} info */
function showInfo({ core, model, loadSeconds, pyodide, version, downloadBytes, threads, notices }) {
  text.textContent = `ready in ${loadSeconds.total.toFixed(1)} s`;
  const checked = model.verified === "SHA-256" ? "checked by SHA-256" : "hash not checked";
  const build = `${core === "relaxed" ? "relaxed SIMD" : "SIMD128"} core${threads > 1 ? ` with ${threads} threads` : ""}`;
  const told = notices.map((/** @type {{message: string}} */ { message }) => ` ${message}`).join("");
  byId("about-text").textContent =
    `areole ${version}: ${build}, Pyodide ${pyodide}, ${model.name} (${megabytes(model.bytes)} MB, ${checked}); ` +
    `${megabytes(downloadBytes)} MB in all.${told}`;
  announce("The model is ready.");
}
