/**
 * Makes the memory of a Pyodide in which the package is imported already: node snapshot.mjs PYODIDE WHEEL OUT. Loading it
 * takes a tenth of starting Python and compiling the package's modules. Gzipped, since most of 30 MB are zeros. Run by
 * build.py. It rests on options of Pyodide that are not public, so boot.js starts without it where that fails.
 */

import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const IMPORTS = `
import importlib, pkgutil
import areole
for found in pkgutil.walk_packages(areole.__path__, "areole."):
    if found.name not in LEFT_OUT:
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if (error.name or "areole").partition(".")[0] == "areole":
                raise
            # It stands on a library that only the command line's tools need.
`;
/** What a tab has no use for: the command line, and the cores that other hosts run. */
const LEFT_OUT = ["areole.cli", "areole.__main__", "areole.core.native", "areole.core.wasmtime"];

const [pyodideFolder, wheel, out] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(resolve(pyodideFolder), "pyodide.mjs")).href);
const pyodide = await loadPyodide({ packages: [], _makeSnapshot: true });
const bytes = await readFile(wheel);
pyodide.unpackArchive(new Uint8Array(bytes).buffer, "wheel");
pyodide.runPython(IMPORTS.replace("LEFT_OUT", JSON.stringify(LEFT_OUT)));
await writeFile(out, gzipSync(pyodide.makeMemorySnapshot(), { level: 9 }));
