// Two things to know: the site's files (weights, Pyodide, core, wheel) are served as they are, so they lie in public/areole;
// and the worker is a module worker.
import { cpSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const site = process.env.AREOLE_SITE ?? fileURLToPath(new URL("../../build/site", import.meta.url));
cpSync(site, new URL("public/areole", import.meta.url), { recursive: true });

export default defineConfig({
  base: "./",
  worker: { format: "es" },
  resolve: { alias: { areole: `${site}/areole.js` } },
});
