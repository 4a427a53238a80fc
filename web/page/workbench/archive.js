/** Looking into a `.cact` file: its tensors, their widths and sizes, and how long the norms of their groups are. */

import { AreoleError } from "../../errors.js";
import { announce, byId, element, megabytes, showError, showRows } from "../ui.js";
import { bars, stacked } from "./chart.js";

const file = /** @type {HTMLInputElement} */ (byId("archive-file"));
const drop = byId("archive-drop");
const fault = byId("archive-error");
/** Larger files are no archives of this kind. */
const MOST_BYTES = 1 << 30;

/** @param {number} value */
const norm = (value) => value.toPrecision(3);

/** @param {any} found */
function show(found) {
  const { geometry } = found;
  showRows(byId("archive-facts"), [
    ["File", `${found.name}, ${megabytes(found.bytes)} MB, Needle ${found.generation}`],
    ["Tensors", `${found.records}, in groups of ${found.group}`],
    ["Shape", Object.entries(geometry).map(([key, value]) => `${key} ${Array.isArray(value) ? value.length : value}`).join(", ")],
    ["Heads", found.heads.join(", ") || "none"],
    ["Tokenizer", `${found.pieces} pieces`],
  ]);
  const kinds = Object.entries(found.storage).sort(([, a], [, b]) => b - a);
  const parts = kinds.map(([name, value], index) => ({ name, value, className: `part-${index % 5}` }));
  byId("archive-kinds").replaceChildren(stacked(parts, "Bytes by kind of storage"));
  showRows(
    byId("archive-kind-rows"),
    parts.map(({ name, value, className }) => [name, [element("span", `key ${className}`), `${megabytes(value)} MB`]]),
  );
  const quantised = found.tensors.filter((/** @type {any} */ { norms }) => norms);
  byId("archive-sizes").replaceChildren(
    bars(found.tensors.map((/** @type {any} */ { name, bytes }) => ({ name, value: bytes })), "Bytes of each tensor, in file order", (value) => `${value} bytes`),
  );
  byId("archive-norms").replaceChildren(
    bars(quantised.map((/** @type {any} */ { name, norms }) => ({ name, value: norms.mean, className: "part-2" })), "Mean norm of each quantised tensor's groups, in file order", norm),
  );
  byId("archive-rows").replaceChildren(
    ...found.tensors.map((/** @type {any} */ { name, dtype, bits, shape, bytes, norms }) =>
      element("tr", "", [
        element("td", "mono", name),
        element("td", "", dtype === "cq" ? (bits === 5 ? "ternary" : `${bits} bits`) : dtype),
        element("td", "number", shape.join(" × ")),
        element("td", "number", bytes.toLocaleString("en")),
        element("td", "number", norms ? `${norm(norms.least)} – ${norm(norms.mean)} – ${norm(norms.most)}` : ""),
      ]),
    ),
  );
  byId("archive-result").hidden = false;
  announce(`${found.name}: ${found.records} tensors.`);
}

/** @param {import("../../client.js").AreoleClient} client */
export function startArchive(client) {
  /** @param {File} chosen */
  async function take(chosen) {
    showError(fault, null);
    if (chosen.size > MOST_BYTES) {
      showError(fault, `${chosen.name} has ${megabytes(chosen.size)} MB; at most ${megabytes(MOST_BYTES)} are read.`);
      return;
    }
    byId("archive-state").textContent = `Reading ${chosen.name} …`;
    try {
      show(await client.survey(await chosen.arrayBuffer(), chosen.name));
    } catch (error) {
      byId("archive-result").hidden = true;
      showError(fault, AreoleError.wrap(error));
    } finally {
      byId("archive-state").textContent = "";
    }
  }
  file.addEventListener("change", () => {
    const [chosen] = file.files ?? [];
    if (chosen) take(chosen);
    file.value = "";
  });
  drop.addEventListener("dragover", (event) => event.preventDefault());
  drop.addEventListener("drop", (event) => {
    const [dropped] = event.dataTransfer?.files ?? [];
    if (!dropped) return;
    event.preventDefault();
    take(dropped);
  });
}
