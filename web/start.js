/**
 * The page's start: the client of the worker, which is also `window.areole`. First the page is shown, then the worker
 * begins with what is heavy, and only then do the views' modules come (app.js): they need not be there before it.
 */

import { AreoleClient } from "./client.js";

const query = new URLSearchParams(location.search);
const client = new AreoleClient({
  core: /** @type {any} */ (query.get("core") ?? undefined),
  model: query.get("model") ?? undefined,
  stallSeconds: query.has("stall") ? Number(query.get("stall")) : undefined,
  threads: query.has("threads") ? Number(query.get("threads")) : undefined,
  trace: query.has("trace"),
});
/** The same client for the views, scripts, the console and the tests. */
/** @type {any} */ (window).areole = client;

/** A visitor who saves data is asked first: tens of megabytes are theirs to spend. */
export const savesData = () => /** @type {any} */ (navigator).connection?.saveData === true;

// After the first frame; in a tab that is not shown no frame comes, so time decides there.
const paint = new Promise((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, 300);
});
paint.then(() => {
  if (!savesData()) client.start().catch(() => {}); // shown by the views
});
