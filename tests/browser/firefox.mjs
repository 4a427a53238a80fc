/**
 * Asks the page in Firefox: node firefox.mjs ADDRESS with {"firefox", "entry", "text"} on standard input; what came of it
 * goes to standard output. Playwright drives only a Firefox of its own, this one is whatever is installed.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.AREOLE_NODE_MODULES ?? "node_modules";
const resolved = createRequire(join(modules, "here.js")).resolve("puppeteer-core");
const { default: puppeteer } = await import(pathToFileURL(resolved).href);
const { firefox, entry, text } = JSON.parse(readFileSync(0, "utf8"));

const options = { headless: true, protocolTimeout: 600_000 };
const browser = await puppeteer.launch({ browser: "firefox", executablePath: firefox, ...options });
try {
  const page = await browser.newPage();
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (/** @type {unknown} */ error) => errors.push(String(error)));
  await page.goto(process.argv[2]);
  const told = await page.evaluate(
    async (/** @type {any} */ asked, /** @type {string} */ words) => {
      const client = /** @type {any} */ (globalThis).areole;
      while (client.state === "idle") await new Promise((resolve) => setTimeout(resolve, 50));
      const info = await client.ready;
      return { info, entry: await client.askEntry(asked), embedding: await client.embed(words) };
    },
    entry,
    text,
  );
  console.log(JSON.stringify({ ...told, errors }));
} finally {
  await browser.close();
}
