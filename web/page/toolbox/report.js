/** What becomes of the tools in the editor: which rules hold while a call is written, what is refused, what is dropped. */

import { AreoleError } from "../../errors.js";
import { readTools } from "../../tools.js";
import { toolset } from "../toolset.js";
import { byId, element, showError } from "../ui.js";
import { onView } from "../views.js";

const place = byId("report");
const fault = byId("report-error");
const state = byId("report-state");

/** What each kind of support is called, and its mark. @type {Record<string, string>} */
const SUPPORT = { enforced: "kept while the call is written", refused: "refused", "no rule": "for the reader only" };

/** @param {any[]} findings @param {string} title */
function findingList(findings, title) {
  const list = element("ul", "findings", findings.map(({ message }) => element("li", "", message)));
  return [element("h4", "", title), list];
}

/** @param {any} tool */
function toolReport({ name, exposed, rules, refused, dropped }) {
  const rows = rules
    .filter((/** @type {any} */ { keyword }) => keyword !== "description" && keyword !== "properties")
    .map((/** @type {any} */ { path, keyword, value, support, remark }) => {
      const row = element("tr", "", [
        element("td", "mono", path || "(all)"),
        element("td", "mono", value ? `${keyword}: ${value}` : keyword),
        element("td", "", [SUPPORT[support] ?? support, ...(remark ? [element("span", "hint", ` ${remark}`)] : [])]),
      ]);
      row.dataset.support = support;
      return row;
    });
  const body = element("tbody", "", rows);
  const head = element("thead", "", [element("tr", "", ["Where", "Rule", "What becomes of it"].map((text) => element("th", "", text)))]);
  const table = element("table", "rules", [element("caption", "unseen", `Rules of ${name}`), head, body]);
  const wrap = element("div", "scroll", [table]);
  wrap.tabIndex = 0;
  wrap.setAttribute("role", "region");
  wrap.setAttribute("aria-label", `Rules of ${name}`);
  const title = exposed === name ? name : `${name}, which the model sees as ${exposed}`;
  const parts = /** @type {Node[]} */ ([]);
  if (refused.length) parts.push(...findingList(refused, "Refused under the contract areole"));
  if (dropped.length) parts.push(...findingList(dropped, "The official engine goes on without"));
  if (rows.length) parts.push(wrap);
  else parts.push(element("p", "hint", "No rules: any arguments may be written."));
  const box = element("details", "", [element("summary", refused.length ? "bad" : "", title), ...parts]);
  box.open = refused.length > 0 || dropped.length > 0;
  return box;
}

/** @param {import("../../client.js").AreoleClient} client */
export function startReport(client) {
  let asked = 0;
  /** The text that the report is of; empty where there is none, or a later one that cannot be read. */
  let shown = "";

  async function check() {
    const { text } = toolset;
    if (byId("toolbox").hidden || text === shown) return;
    const mine = ++asked;
    if (readTools(text).fault) {
      shown = "";
      state.textContent = place.hasChildNodes() ? "The list cannot be read; what stands here is of the last one that could." : "The list cannot be read.";
      return;
    }
    state.textContent = client.state === "ready" ? "Checking …" : "Is checked when the model is there …";
    try {
      const found = await client.check(text);
      if (mine !== asked) return; // typed on meanwhile
      shown = text;
      showError(fault, found.problem ? AreoleError.fromMessage(found.problem) : null);
      place.replaceChildren(...found.tools.map(toolReport));
      const refused = found.tools.filter((/** @type {any} */ tool) => tool.refused.length).length;
      const some = refused ? `${refused} of ${found.tools.length} tools would be refused.` : "All rules can be kept.";
      const verdict = found.problem ? "None of them can be declared." : some;
      state.textContent = `${verdict} The model reads ${found.prompt_tokens} tokens of tools; compiled in ${Math.round(found.compile_seconds * 1000)} ms.`;
      byId("prompt-text").textContent = found.prompt;
    } catch (error) {
      if (mine !== asked) return;
      showError(fault, AreoleError.wrap(error));
      state.textContent = "";
    }
  }

  toolset.addEventListener("tools", check);
  onView("toolbox", check);
}
