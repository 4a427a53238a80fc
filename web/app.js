/**
 * The page's start: the client of the worker, which is also `window.areole`, and the views over it. First the page, then
 * everything that is heavy.
 */

import { AreoleClient } from "./client.js";
import { startAssistant } from "./page/assistant/assistant.js";
import { Conversation } from "./page/assistant/conversation.js";
import { showLoading } from "./page/loading.js";
import { startOffline } from "./page/offline.js";
import { edit, startEditor } from "./page/toolbox/editor.js";
import { choose, showPresets } from "./page/toolbox/presets.js";
import { toolset } from "./page/toolset.js";
import { byId, element } from "./page/ui.js";
import { goTo, showView } from "./page/views.js";

const query = new URLSearchParams(location.search);
const client = new AreoleClient({
  core: /** @type {any} */ (query.get("core") ?? undefined),
  model: query.get("model") ?? undefined,
  stallSeconds: query.has("stall") ? Number(query.get("stall")) : undefined,
  trace: query.has("trace"),
});
/** The same client for scripts, the console and the tests. */
/** @type {any} */ (window).areole = client;

const loading = showLoading(client);
startOffline(client);
startEditor(query.get("contract"));
const saved = Conversation.saved();
const assistant = startAssistant(client);
showView();

async function start() {
  /** @type {import("./page/toolbox/presets.js").Preset[]} */
  let presets = [];
  try {
    const response = await fetch("presets.json");
    if (!response.ok) throw new Error(`presets.json: status ${response.status}`);
    presets = await response.json();
    showPresets(presets);
  } catch {
    byId("presets").replaceChildren(element("li", "hint", "The examples could not be loaded; write your own tools."));
    if (!saved) goTo("toolbox");
  }
  if (saved) {
    if (!query.has("contract")) toolset.set({ contract: saved.declared.contract });
    edit(saved.declared.text, saved.declared.system);
    assistant.restore(saved.turns);
  } else if (presets.length) {
    choose(presets[0]);
  }
  loading.begin();
}

// After the first frame; in a tab that is not shown no frame comes, so time decides there.
const paint = new Promise((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, 300);
});
paint.then(start);
