/**
 * Makes the memory of a Pyodide in which the package is imported, the archive known and a request answered already:
 * node snapshot.mjs PYODIDE WHEEL CORE WEIGHTS SHA256 PRESETS OUT. Loading it takes a tenth of starting Python, compiling
 * the package's modules, reading the archive and filling the tables that a first request needs. Gzipped, since most of
 * 30 MB are zeros. Run by build.py. It rests on options of Pyodide that are not public, so boot.js starts without it where
 * that fails. CORE is a build that any WebAssembly runs; nothing of it stays in the memory.
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
del found, importlib, pkgutil
`;
/** What a tab has no use for: the command line, and the cores that other hosts run. */
const LEFT_OUT = ["areole.cli", "areole.__main__", "areole.core.native", "areole.core.wasmtime"];
/** A first request and what follows it, as the worker drives them; then nothing is left but what Python keeps of it. */
const REHEARSE = `
def rehearse(exports, memory, address, nbytes, digest, tools, system, said):
    import gc, json
    from areole.bridge import start
    from areole.practice import LESSONS, Lesson

    bridge = start(exports, memory, address, nbytes, "rehearsal", digest)
    if isinstance(bridge, str):
        raise RuntimeError(bridge)
    bridge.info()
    for text in json.loads(said):
        declared = bridge.declare(tools, system, '{"explain": true}')
        run = bridge.begin(text, "{}")
        events = list(iter(run.step, ""))
        answer = tuple(json.loads(event)["id"] for event in events[:-1])
        for message in (declared, events[-1]):
            if json.loads(message)["type"] == "error":
                raise RuntimeError(message)
        LESSONS.append(Lesson(digest, tools, system, text, answer))
        bridge.reset()
    bridge.close()
    del bridge, run
    gc.collect()
`;
const PRESET = "home";
const PAGE = 65536;
const SESSION_PAGES = 600;
const REQUESTS = ["turn on the kitchen lights", "dim the bedroom lights to 20 percent and lock the front door"];

const [pyodideFolder, wheel, core, weights, digest, presets, out] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(resolve(pyodideFolder), "pyodide.mjs")).href);
const pyodide = await loadPyodide({ packages: [], _makeSnapshot: true });
const bytes = await readFile(wheel);
pyodide.unpackArchive(new Uint8Array(bytes).buffer, "wheel");
pyodide.runPython(IMPORTS.replace("LEFT_OUT", JSON.stringify(LEFT_OUT)));

const { instance } = await globalThis.WebAssembly.instantiate(await readFile(core), {});
const { memory, __heap_base: base } = /** @type {any} */ (instance.exports);
const archive = await readFile(weights);
const address = Math.ceil(base.value / 64) * 64;
// All that a session needs is there at once: Python would keep hold of the memory if it had to grow it.
memory.grow(Math.ceil((address + archive.length - memory.buffer.byteLength) / PAGE) + SESSION_PAGES);
new Uint8Array(memory.buffer, address).set(archive);
const { tools, system } = JSON.parse(await readFile(presets, "utf8")).find((/** @type {any} */ one) => one.id === PRESET);
pyodide.runPython(REHEARSE);
const rehearse = pyodide.globals.get("rehearse");
rehearse({ ...instance.exports }, memory, address, archive.length, digest, JSON.stringify(tools), system, JSON.stringify(REQUESTS));
rehearse.destroy();
pyodide.runPython("import gc, sys\nsys.path.append('/areole.whl')\ndel rehearse\ngc.collect()\ndel gc, sys");
wipe(pyodide._module);
await writeFile(out, gzipSync(pyodide.makeMemorySnapshot(), { level: 9 }));

/** Zeros in what was given back: it would only make the file larger. @param {any} python its module */
function wipe(python) {
  const kept = [];
  python._malloc_set_footprint_limit(python._malloc_footprint()); // nothing new is taken
  for (let size = 1 << 22; size >= 32; size >>= 1) {
    for (let at = python._malloc(size); at; at = python._malloc(size)) {
      python.HEAPU8.fill(0, at, at + size);
      kept.push(at);
    }
  }
  for (const at of kept) python._free(at);
  python._malloc_set_footprint_limit(-1);
}
