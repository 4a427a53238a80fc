/** The views over the client, which start.js has made. */

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
/** @type {import("./client.js").AreoleClient} */
const client = /** @type {any} */ (window).areole;

startTheme();
showLoading(client);
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

// A file that misses its field must not take the page's place.
for (const kind of ["dragover", "drop"]) {
  addEventListener(kind, (event) => {
    if (/** @type {DragEvent} */ (event).dataTransfer?.types.includes("Files")) event.preventDefault();
  });
}

start();
