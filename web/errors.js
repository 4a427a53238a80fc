/**
 * The one class that every failure reaches the page as, whether it began here, in Python or in the core. The codes are
 * those of `ERROR_CODES` in areole/errors.py, the one list that C, Python and JavaScript share; a test compares.
 */

/** The exact policy a site needs; the page carries it as a <meta> and shows it when a host's own policy is in the way. */
export const CSP =
  "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'";

/** A failure with a stable `code`, a full sentence (`message`) and the numbers behind it (`details`). */
export class AreoleError extends Error {
  /**
   * @param {string} code
   * @param {string} message what was got, what was needed, what to do
   * @param {Record<string, unknown>} [details] plain data: it crosses from the worker to the page
   */
  constructor(code, message, details = {}) {
    super(message);
    this.name = "AreoleError";
    this.code = code;
    this.details = details;
  }

  /** The plain object that crosses a message port. */
  toMessage() {
    return { type: "error", code: this.code, message: this.message, details: this.details };
  }

  /**
   * @param {{code?: string, message?: string, details?: Record<string, unknown>}} message
   * @returns {AreoleError}
   */
  static fromMessage(message) {
    return new AreoleError(message.code ?? "internal", message.message ?? "no message", message.details ?? {});
  }

  /**
   * Any thrown value as an AreoleError; what is not one already becomes `internal`, its text cut to something readable.
   * @param {unknown} error
   * @param {string} [code]
   * @param {string} [prefix] a sentence before the text
   */
  static wrap(error, code = "internal", prefix = "") {
    if (error instanceof AreoleError) return error;
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return new AreoleError(code, prefix + tail(text), {});
  }
}

/** The last 1,500 characters: a Python traceback carries its point at the end. @param {string} text */
function tail(text) {
  const trimmed = text.trim();
  return trimmed.length > 1500 ? `… ${trimmed.slice(-1500)}` : trimmed;
}
