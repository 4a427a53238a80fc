/** How many of the model's blocks run, and the archive of those. */

import { AreoleError } from "../../errors.js";
import { toolset } from "../toolset.js";
import { announce, byId, megabytes, saveFile, showError } from "../ui.js";

const depth = /** @type {HTMLInputElement} */ (byId("depth"));
const said = byId("depth-shown");
const cut = /** @type {HTMLButtonElement} */ (byId("slice"));

/** @param {import("../../client.js").AreoleClient} client */
export function startDepth(client) {
  let cutting = false;
  const show = () => {
    const all = depth.value === depth.max;
    said.textContent = all ? `all ${depth.max}` : `${depth.value} of ${depth.max}`;
    cut.disabled = all || cutting || client.state !== "ready";
  };
  const onState = async () => {
    cut.disabled = true;
    if (client.state !== "ready") return;
    const { geometry, generation } = (await client.ready).archive ?? {};
    if (!geometry || generation < 3) return; // Needle 2 has no shorter models
    depth.max = String(geometry.layers);
    depth.value = String(toolset.depth ?? geometry.layers);
    depth.disabled = false;
    show();
  };
  client.addEventListener("state", onState);
  onState(); // the worker began before this
  depth.addEventListener("input", show);
  depth.addEventListener("change", () => toolset.set({ depth: depth.value === depth.max ? undefined : depth.valueAsNumber }));
  cut.addEventListener("click", async () => {
    cutting = true;
    show();
    showError(byId("slice-error"), null);
    try {
      const { name, blob } = await client.slice(depth.valueAsNumber);
      saveFile(name, blob);
      announce(`${name}: ${megabytes(blob.size)} MB.`);
    } catch (error) {
      showError(byId("slice-error"), AreoleError.wrap(error));
    } finally {
      cutting = false;
      show();
    }
  });
}
