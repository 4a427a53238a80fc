/**
 * A worker's worker: fetches Python's memory, checks and unpacks it while the worker itself has other things to do. One
 * message in, {url, expected, fresh}; one out, {buffer} or {error}, and it is done.
 */

import { AreoleError } from "./errors.js";
import { fetchUnpacked } from "./loader.js";

self.onmessage = async ({ data: { url, expected, fresh } }) => {
  try {
    const { buffer } = await fetchUnpacked(url, expected, { fresh });
    self.postMessage({ buffer }, { transfer: [buffer] });
  } catch (error) {
    self.postMessage({ error: AreoleError.wrap(error).toMessage() });
  }
};
