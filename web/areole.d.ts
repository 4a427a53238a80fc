/** Types of areole.js. The codes are those of docs/errors.md; a test compares. */

export type ErrorCode =
  | "archive_tag" | "archive_truncated" | "archive_header" | "archive_codebook" | "archive_directory" |
  "archive_tensor" | "archive_norms" | "archive_permutation" | "archive_tokenizer" | "tokenizer_id" |
  "tokenizer_marker" | "tokenizer_text" | "tools_json" | "tools_shape" | "tools_signature" | "tools_duplicate" |
  "tools_schema" | "request_text" | "request_option" | "request_closed" | "request_busy" | "request_unknown" |
  "context_full" | "core_bad_argument" | "core_bad_geometry" | "core_bad_tensor" | "core_bad_token" |
  "core_context_full" | "core_too_small" | "core_no_head" | "core_bad_snapshot" | "core_memory" | "core_missing" |
  "core_abi" | "cancelled" | "call_unparsable" | "truncated" | "call_arguments" | "extract_nothing" |
  "extract_several" | "extract_withheld" | "chat_messages" | "chat_option" | "wasm_blocked" | "python_failed" |
  "load_stalled" | "worker_failed" | "site_manifest" | "fetch_failed" | "fetch_html" | "fetch_size" | "fetch_hash"
  | "browser_unsupported" | "threads_unavailable" | "internal";

/** A failure: a stable code, a full sentence, and the facts in it as values. */
export class AreoleError extends Error {
  readonly code: ErrorCode;
  readonly details: Record<string, unknown>;
}

export interface Progress {
  /** path of the file that moved last */
  file: string;
  /** bytes, over all files; never falling */
  loaded: number;
  total: number;
  phase: "download" | "repair" | "verify" | "start" | "ready";
}

export interface Declaration {
  name: string;
  description?: string;
  /** a JSON Schema of type object */
  parameters?: Record<string, unknown>;
}

export interface RunContext {
  signal?: AbortSignal;
}

export interface RunnableTool extends Declaration {
  /** gets the arguments of a call as one object; what it gives is told to the model as JSON */
  run(args: any, context: RunContext): unknown;
}

export interface OpenAITool {
  type: "function";
  function: Declaration;
  run?: RunnableTool["run"];
}

export type Tool = Declaration | RunnableTool | OpenAITool;

/** What stands between what the model writes and what is returned; see docs/contract.md. */
export type Contract = "areole" | "needle" | "raw";

export interface DeclareOptions {
  /** facts the request may lean on: "date: 2026-09-18 Fri 09:41; location: Paris" */
  system?: string;
  contract?: Contract;
  /** false: nothing is withheld; {negation: false}: not by that rule */
  gates?: boolean | Record<string, boolean>;
}

export interface LoadOptions {
  /** folder of the site that build.py made; that of areole.js when not given */
  base?: string;
  core?: "relaxed" | "simd128";
  /** other weights than the site's, from the same origin; not checked by hash, and not kept */
  model?: string;
  contract?: Contract;
  tools?: Tool[];
  system?: string;
  /** keep the weights in this browser; true when not given */
  keep?: boolean;
  /** 1 when not given, up to 8; more than 1 only where the page is cross-origin isolated: see `info.notices` */
  threads?: number;
  /** give up when nothing arrives for so long */
  stallSeconds?: number;
  onProgress?(progress: Progress): void;
  /** ends the load; the promise rejects with the code `cancelled` */
  signal?: AbortSignal;
}

export interface Call {
  name: string;
  arguments: Record<string, any>;
}

/** Why a call or an argument was withheld or changed. */
export interface Reason {
  gate: string;
  call: number;
  tool: string;
  argument: string | null;
  why: string;
}

export interface Token {
  type: "token";
  id: number;
  delta: string;
  phase: "reasoning" | "call" | "text";
  /** the grammar left no choice */
  forced: boolean;
}

export interface Answer {
  calls: Call[];
  withheld: Call[];
  reasons: Reason[];
  /** what the model says of a tool's result; else empty */
  text: string;
  reasoning: string;
  /** 0 to 1 */
  confidence: number;
  /** generated */
  tokens: number;
  /** read for this turn */
  promptTokens: number;
  /** seconds: prefill_s, decode_s, grammar_s, gates_s */
  timings: Record<string, number>;
  /** the envelope in the official engine's shape */
  result: Record<string, any>;
  /** the same as text, in which 2.0 is not 2 */
  json: string;
}

export interface AskOptions {
  maxNewTokens?: number;
  /** stops at the next token with the code `cancelled`; the conversation is as it was, and the session lives on */
  signal?: AbortSignal;
}

export interface Ran {
  call: Call;
  value?: unknown;
  error?: Error;
  /** what the model was told */
  told: unknown;
}

export interface RunOptions extends AskOptions {
  /** how often results are given back; 8 when not given */
  maxTurns?: number;
  onToken?(token: Token): void;
  onRan?(ran: Ran): void;
  /** asked before each call; false: it is not run, and the model is told so */
  confirm?(call: Call): boolean | Promise<boolean>;
}

export interface RunResult {
  text: string;
  /** the last answer */
  answer: Answer;
  ran: Ran[];
  /** "limit": there still were calls after maxTurns */
  stopped: "done" | "limit";
}

export class Areole {
  static load(options?: LoadOptions): Promise<Areole>;
  readonly info: Record<string, any>;
  readonly state: "idle" | "loading" | "ready" | "failed" | "dead" | "closed";
  /** Declares tools and begins a new conversation. */
  use(tools: Tool[], options?: DeclareOptions): Promise<{ prefixTokens: number }>;
  complete(text: string, options?: AskOptions & { onToken?(token: Token): void }): Promise<Answer>;
  stream(text: string, options?: AskOptions): AsyncGenerator<Token | { type: "answer"; answer: Answer }>;
  /** Runs the functions that are called and gives their results back, until there is no call. */
  run(text: string, options?: RunOptions): Promise<RunResult>;
  /** A vector of length one, to compare texts by. */
  embed(text: string): Promise<Float32Array>;
  /** Forgets the conversation, not the tools. */
  reset(): Promise<void>;
  close(): void;
}

/** A tool of a function, and what it takes said beside it. */
export function tool(run: RunnableTool["run"], declaration?: Partial<Declaration>): RunnableTool;
