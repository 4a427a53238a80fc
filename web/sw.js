/**
 * The service worker: keeps one whole build of the site, so that the page opens without a network. Files are kept under
 * their SHA-256 and checked when they come and whenever they are read, so two builds share what did not change and never
 * mix, and what was damaged on the disk is fetched again. Refuses to answer for anything that is not in the list, which
 * `build.py` writes into precache.js: the weights are the page's own business (kept.js), and other addresses are the
 * network's.
 */

/** @type {any} the scope of a service worker, which the page's types do not know */
const worker = self;
worker.importScripts("precache.js");
/** Path in the site -> SHA-256 in hex. @type {Record<string, string>} */
const FILES = worker.PRECACHE;
const scope = worker.registration.scope;
const CACHE = `areole-site ${new URL(scope).pathname}`;
const OWN = `${scope}own/tools.js`;
/** What the page checks by its hash itself, and asks for afresh if it is damaged: see fetchBytes in loader.js. */
const CHECKED = /^(core|py)\//;
/** How many files are fetched at once. */
const LANES = 6;

/** False from when a page says that everything was removed until one that is opened later wants it kept. */
let keeping = true;

/** The cache if an install has made it: what was removed while a page is open does not come back by that page's requests. */
async function stored() {
  if (!keeping || !(await caches.has(CACHE))) return undefined;
  const cache = await caches.open(CACHE);
  if (keeping) return cache;
  await caches.delete(CACHE); // told while it was opened
  return undefined;
}

/** @param {string} hash */
const keyOf = (hash) => `${scope}sha256/${hash}`;

/** The name in the list that an address has, or undefined. @param {string} address */
function nameOf(address) {
  const { origin, pathname } = new URL(address);
  const root = new URL(scope);
  if (origin !== root.origin || !pathname.startsWith(root.pathname)) return undefined;
  const name = decodeURIComponent(pathname.slice(root.pathname.length)) || "index.html";
  return Object.hasOwn(FILES, name) ? name : undefined;
}

/** Fetches a file past the HTTP cache's memory, checked by its hash. @param {string} name */
async function fetchChecked(name) {
  const bytes = FILES[name].match(/../g)?.map((pair) => parseInt(pair, 16)) ?? [];
  const integrity = `sha256-${btoa(String.fromCharCode(...bytes))}`;
  const response = await fetch(new URL(name === "index.html" ? "./" : name, scope), { cache: "no-cache", integrity });
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  // A copy: a response that came by a redirect may not answer a navigation.
  return new Response(await response.arrayBuffer(), { headers: response.headers });
}

/**
 * What is kept of a file, if it still has its hash or the page looks for itself; what has another one is removed.
 * @param {string} name @returns {Promise<Response | undefined>}
 */
async function sound(name) {
  const key = keyOf(FILES[name]);
  try {
    const cache = await stored();
    const kept = await cache?.match(key);
    if (!cache || !kept || CHECKED.test(name)) return kept;
    const bytes = await kept.arrayBuffer().catch(() => new ArrayBuffer(0)); // unreadable is damaged
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const hash = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    // Read anew, not made of the bytes: only as it lies in the cache does the browser keep compiled code with it.
    if (hash === FILES[name]) return await cache.match(key);
    await cache.delete(key);
  } catch {
    // Storage that does not answer is as good as empty.
  }
  return undefined;
}

async function install() {
  const cache = await caches.open(CACHE);
  const names = Object.keys(FILES);
  const lane = async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      if (!(await sound(name))) await cache.put(keyOf(FILES[name]), await fetchChecked(name));
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/**
 * Where pages are open that it answers for, a browser may take a worker that was to go into service again, without
 * installing it: then what was removed is fetched anew. Says whether all is there.
 * @param {MessagePort} port
 */
async function keep(port) {
  keeping = true;
  try {
    if (!(await caches.has(CACHE))) await install();
    port.postMessage(true);
  } catch {
    await caches.delete(CACHE).catch(() => {});
    port.postMessage(false);
  }
}

/** What only an older build had. */
async function prune() {
  const cache = await stored();
  const wanted = new Set(Object.values(FILES).map(keyOf));
  for (const { url } of (await cache?.keys()) ?? []) if (!wanted.has(url)) await cache?.delete(url);
}

/**
 * From what is kept; a file that is gone or damaged, or that the page asks for afresh, is fetched and kept.
 * @param {Request} request @param {string} name
 */
async function answer(request, name) {
  const kept = request.cache === "reload" ? undefined : await sound(name);
  if (kept) return kept;
  let response;
  try {
    response = await fetchChecked(name);
  } catch {
    return fetch(request); // the server may have another build by now: then its own file is better than none
  }
  const copy = response.clone();
  const cache = await stored().catch(() => undefined);
  await cache?.put(keyOf(FILES[name]), copy).catch(() => {}); // no room now: it is fetched again the next time
  return response;
}

/** The module that the visitor wrote in the page's editor; the page put it there. */
async function ownModule() {
  return (await caches.match(OWN, { cacheName: `areole-own ${new URL(scope).pathname}` })) ?? new Response("no module was written", { status: 404 });
}

worker.addEventListener("install", (/** @type {any} */ event) => event.waitUntil(install()));
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(prune()));
worker.addEventListener("fetch", (/** @type {any} */ event) => {
  if (event.request.url.split("?")[0] === OWN) {
    event.respondWith(ownModule());
    return;
  }
  const name = event.request.method === "GET" ? nameOf(event.request.url) : undefined;
  if (name !== undefined) event.respondWith(answer(event.request, name));
});
worker.addEventListener("message", (/** @type {any} */ event) => {
  if (event.data?.type === "activate") worker.skipWaiting(); // the page said so: its user wants the new build
  if (event.data?.type === "keep-nothing") {
    keeping = false;
    event.waitUntil(caches.delete(CACHE));
  }
  if (event.data?.type === "keep") event.waitUntil(keep(event.ports[0]));
  if (event.data?.type === "claim") event.waitUntil(worker.clients.claim());
});
