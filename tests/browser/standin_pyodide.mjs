// A stand-in for Pyodide and areole.bridge in one, for tests of the page that need neither: it starts at once. A request
// that begins with "=> " is followed by what to answer, as JSON: {calls, withheld, reasons, reasoning, confidence, text,
// success}, or instead of `calls` their `json`, whose numbers stay as they are; JSON alone is taken for the results of calls.

const MARKUP = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>";
const REASON = { gate: "negation", call: 0, tool: "lock", argument: "door", why: "the request <i>forbids</i> it" };
const answering = (value) => JSON.stringify(value);

export async function loadPyodide() {
  let tracing = null;
  return {
    version: "stand-in",
    _module: {
      HEAPU8: new Uint8Array(1),
      enable_pyproxy_allocation_tracing() {
        tracing = new Map();
      },
      get pyproxy_alloc_map() {
        return tracing;
      },
    },
    unpackArchive() {},
    setStdout() {},
    setStderr() {},
    pyimport: () => ({ start: (exports, memory, address, nbytes, name) => new Bridge(nbytes, name), destroy() {} }),
  };
}

class Bridge {
  constructor(nbytes, name) {
    Object.assign(this, { nbytes, name, tools: [], turns: 0, declared: 0, system: "", options: {}, replayed: [] });
  }
  info() {
    return answering({ nbytes: this.nbytes, name: this.name });
  }
  offer(bytes) {
    const taken = bytes.length > 8 && bytes[0] === 7;
    if (taken) this.offered = new TextDecoder().decode(bytes.subarray(8));
    return answering({ type: "offered", taken });
  }
  prefix() {
    const text = new TextEncoder().encode(this.read);
    const data = new Uint8Array(Math.max(8 + text.length, Number(/room (\d+)/.exec(this.system)?.[1] ?? 0)));
    data[0] = 7;
    data.set(text, 8);
    return { getBuffer: () => ({ data, release() {} }), destroy() {} };
  }
  declare(tools, system, options) {
    this.read = tools + system;
    const cached = this.offered !== undefined && this.offered.replace(/\0+$/, "") === this.read;
    this.tools = JSON.parse(tools).map((tool) => (tool.function ?? tool).name);
    Object.assign(this, { system, turns: 0, replayed: [], options: JSON.parse(options) });
    this.declared += 1;
    return answering({ type: "declared", prefix_tokens: tools.length + system.length, prefix_seconds: 0.01, prefix_cached: cached, problem: null });
  }
  begin(text, options) {
    this.turns += 1;
    return new Run(this, text, JSON.parse(options));
  }
  replay(turns) {
    this.replayed = JSON.parse(turns);
    this.turns = this.replayed.length;
    return answering({ type: "replayed", tokens: 3 * this.turns });
  }
  check(text) {
    const tools = JSON.parse(text).map(({ name }) => ({ name, exposed: name, rules: [], refused: [], dropped: [] }));
    return answering({ type: "checked", tools, problem: null, prompt: text, prompt_tokens: 3, compile_seconds: 0.001 });
  }
  embed(text) {
    return answering({ type: "embedding", embedding: [text.length, 0.5] });
  }
  reset() {
    Object.assign(this, { turns: 0, replayed: [] });
    return answering({ type: "reset" });
  }
  close() {}
  destroy() {}
}

function planned(bridge, text) {
  if (text.startsWith("=> ")) {
    const plan = JSON.parse(text.slice(3));
    return plan.json ? { ...plan, calls: JSON.parse(plan.json) } : plan;
  }
  try {
    return { text: `told ${JSON.stringify(JSON.parse(text))}`, calls: [] };
  } catch {
    // a request
  }
  if (text === "markup") return { reasoning: MARKUP, calls: [{ name: "show", arguments: { [MARKUP]: MARKUP } }] };
  if (text === "unparsable") return { success: false };
  const calls = bridge.tools.slice(0, 2).map((name) => ({ name, arguments: { room: "bedroom", level: 2 } }));
  const held = { withheld: [{ name: "lock", arguments: { door: "<b>front</b>" } }], reasons: [REASON] };
  return { calls: text === "none" ? [] : calls, ...(text === "withhold" ? held : {}) };
}

class Run {
  constructor(bridge, text, options) {
    const plan = planned(bridge, text);
    const reasoning = text === "slow" ? Array.from({ length: 1e5 }, (_, i) => `word${i}`).join(" ") : (plan.reasoning ?? "because the words say so");
    const words = reasoning.match(/\s*\S+/g) ?? [];
    this.events = words.map((delta) => ({ delta, phase: "reasoning" }));
    const call = JSON.stringify(plan.calls ?? []);
    if (plan.text) this.events.push({ delta: plan.text, phase: "text" });
    else for (let at = 0; at < call.length; at += 5) this.events.push({ delta: call.slice(at, at + 5), phase: "call" });
    this.events = this.events.map((event, id) => ({
      type: "token",
      id,
      forced: event.phase === "call" && id % 2 === 1,
      ...(options.probabilities ? { probability: 0.75, runner_up: { id: 7, text: " other", probability: 0.2 } } : {}),
      ...event,
    }));
    Object.assign(this, { bridge, text, options, plan, reasoning, at: 0 });
  }
  cancel() {
    this.cancelled = true;
    this.bridge.turns -= 1;
  }
  destroy() {}
  step() {
    if (this.text === "crash") return answering({ type: "error", code: "internal", message: "planted fault", details: {} });
    if (/^full( |$)/.test(this.text)) {
      return answering({ type: "error", code: "context_full", message: "The context is full: 9 tokens needed, 3 free.", details: { needed: 9, available: 3 } });
    }
    if (this.cancelled) return answering({ type: "error", code: "cancelled", message: "Cancelled.", details: {} });
    if (this.text === "slow") for (const end = performance.now() + 3; performance.now() < end; ); // about as a model would
    if (this.at < this.events.length) return answering(this.events[this.at++]);
    const { plan, bridge, options } = this;
    const success = plan.success ?? true;
    const envelope = {
      type: plan.text ? "respond" : "call",
      success,
      error: success ? null : "no valid call",
      error_code: success ? null : "call_unparsable",
      reason: null,
      function_calls: success ? (plan.calls ?? []) : [],
      suppressed_calls: plan.withheld ?? [],
      reasoning: this.reasoning,
      confidence: plan.confidence ?? 0.9,
      prefill_tps: 812.5,
      decode_tps: 243.1,
      peak_ram_mb: 61.2,
      ...(plan.validation ? { validation: plan.validation } : {}),
      areole: { contract: bridge.options.contract ?? "areole", reasons: plan.reasons ?? [] },
    };
    const timings = { prefill_s: 0.2, decode_s: 0.1, grammar_s: 0.03, gates_s: 0.01, tokens: this.events.length, prompt_tokens: 9 };
    return answering({
      type: "result",
      json: JSON.stringify(plan.json ? { ...envelope, function_calls: "@" } : envelope).replace('"@"', () => plan.json),
      result: envelope,
      tokens: this.events.length,
      prompt_tokens: 9,
      timings: { ...timings, turn: bridge.turns },
      text: plan.text ?? "",
      failure: success ? undefined : { code: "call_unparsable", message: "The model wrote no valid call.", details: {} },
      seen: { turns: bridge.turns, declared: bridge.declared, system: bridge.system, replayed: bridge.replayed },
      options,
    });
  }
}
