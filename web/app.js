/**
 * The page's start: the client of the worker, which is also `window.areole`, and the views over it. First the page, then
 * everything that is heavy.
 */

import { AreoleClient } from "./client.js";
import { startAssistant } from "./page/assistant/assistant.js";
import { DEMO, startDemo } from "./page/demo/demo.js";
import { showLoading } from "./page/loading.js";
import { startOffline } from "./page/offline.js";
import { edit, startEditor } from "./page/toolbox/editor.js";
import { layOut } from "./page/toolbox/list.js";
import { startImport } from "./page/toolbox/import_view.js";
import { startJavaScript } from "./page/toolbox/javascript.js";
import { choose, showPresets, startPresets } from "./page/toolbox/presets.js";
import { startPython } from "./page/toolbox/python.js";
import { startReport } from "./page/toolbox/report.js";
import { startTheme } from "./page/theme.js";
import { toolset } from "./page/toolset.js";
import { byId, element } from "./page/ui.js";
import { goTo, showView } from "./page/views.js";
import { startArchive } from "./page/workbench/archive.js";
import { startCases } from "./page/workbench/cases.js";
import { startDepth } from "./page/workbench/depth.js";
import { startTokens } from "./page/workbench/tokens.js";

const query = new URLSearchParams(location.search);
const client = new AreoleClient({
  core: /** @type {any} */ (query.get("core") ?? undefined),
  model: query.get("model") ?? undefined,
  stallSeconds: query.has("stall") ? Number(query.get("stall")) : undefined,
  threads: query.has("threads") ? Number(query.get("threads")) : undefined,
  trace: query.has("trace"),
});
/** The same client for scripts, the console and the tests. */
/** @type {any} */ (window).areole = client;

startTheme();
const loading = showLoading(client);
startOffline(client);
startEditor(query.get("contract"));
startDemo();
startPresets();
startReport(client);
startPython(client);
startJavaScript();
startImport();
startTokens(client);
startDepth(client);
startCases(client);
startArchive(client);
const assistant = startAssistant(client);
showView();

/** @param {string} name */
async function fetchList(name) {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name}: status ${response.status}`);
  return response.json();
}

async function start() {
  loading.begin();
  const saved = await assistant.open();
  /** @type {import("./page/toolbox/presets.js").Preset[]} */
  let presets = [];
  try {
    const [first, fields] = await Promise.all([fetchList("presets.json"), fetchList("domains.json")]);
    presets = [...first, DEMO, ...fields];
    showPresets(byId("presets"), [...first, DEMO]);
    showPresets(byId("domains"), fields);
  } catch {
    byId("presets").replaceChildren(element("li", "hint", "The examples could not be loaded; write your own tools."));
    if (!saved) goTo("toolbox");
  }
  if (saved && !query.has("contract")) toolset.set({ contract: saved.declared.contract });
  const example = presets.find(({ tools }) => layOut(tools) === saved?.declared.text);
  if (saved && (saved.turns.length || !example)) {
    edit(saved.declared.text, saved.declared.system, saved.declared.origin);
    assistant.restore(saved.turns);
  } else if (example) {
    choose(example);
  } else if (presets.length) {
    choose(presets[0]);
  }
}

// After the first frame; in a tab that is not shown no frame comes, so time decides there.
const paint = new Promise((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, 300);
});
paint.then(start);
