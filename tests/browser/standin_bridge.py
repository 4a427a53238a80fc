"""The stand-in for areole.bridge, run by the real Pyodide: answers at once, and misbehaves when the request says so."""

from __future__ import annotations

import json
import time
from typing import Any

MARKUP = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"


def start(exports: Any, memory: Any, address: int, nbytes: int, name: str, digest: str | None = None) -> Bridge:
    if exports.echo(7) != 7 or address % 64:
        raise ValueError(f"the core answers wrongly, or the weights are at {address}")
    return Bridge(exports, nbytes, name)


def error(code: str, message: str, **details: Any) -> str:
    return json.dumps({"type": "error", "code": code, "message": message, "details": details})


WITHHELD = {"name": "lock", "arguments": {"door": "<b>front</b>"}}
REASON = {"gate": "negation", "call": 0, "tool": "lock", "argument": "door", "why": "the request <i>forbids</i> it"}


class Bridge:
    def __init__(self, exports: Any, nbytes: int, name: str) -> None:
        self.exports, self.nbytes, self.name = exports, nbytes, name
        self.names: list[str] = []
        self.system = ""
        self.declared = self.turns = 0
        self.options: dict[str, Any] = {}

    def info(self) -> str:
        return json.dumps({"nbytes": self.nbytes, "name": self.name})

    def declare(self, tools: str, system: str, options: str) -> str:
        if tools == "refuse":
            return error("tools_json", "The tools are not JSON.", got=tools)
        self.names = [tool["name"] for tool in json.loads(tools)]
        self.system, self.turns, self.options = system, 0, json.loads(options)
        self.declared += 1
        return json.dumps({"type": "declared", "prefix_tokens": len(tools) + len(system)})

    def begin(self, text: str, options: str) -> Run:
        self.turns += 1
        return Run(self, text, json.loads(options))

    def embed(self, text: str) -> str:
        return json.dumps({"type": "embedding", "embedding": [float(len(text)), 0.5]})

    def golden(self, request: str) -> str:
        return json.dumps({"type": "golden", "got": json.loads(request)})

    def reset(self) -> str:
        self.turns = 0
        return json.dumps({"type": "reset"})

    def close(self) -> None:
        self.names = []


class Run:
    """One token a step; `slow` goes on for minutes."""

    def __init__(self, bridge: Bridge, text: str, options: dict[str, Any]) -> None:
        self.bridge, self.text, self.options = bridge, text, options
        self.cancelled = self.finished = False
        self.calls = [{"name": name, "arguments": {"room": "bedroom", "level": 2.0}} for name in bridge.names[:2]]
        words = ["because", " the", " words", " say", " so"]
        if text == "slow":
            words = [f" word{i}" for i in range(100_000)]
        if text == "markup":
            words = [MARKUP[:10], MARKUP[10:]]
            self.calls = [{"name": "show", "arguments": {MARKUP: MARKUP}}]
        if text == "none":
            self.calls = []
        raw = json.dumps(self.calls)
        self.tokens = [(word, "reasoning") for word in words]
        self.tokens += [(raw[i : i + 5], "call") for i in range(0, len(raw), 5)]
        self.position = 0

    def cancel(self) -> None:
        self.cancelled = True

    def step(self) -> str:
        if self.text == "crash":
            raise ZeroDivisionError("planted fault")
        if self.text == "trap":
            self.bridge.exports.boom()
        if self.text == "full":
            return error("context_full", "The context is full: 9 tokens needed, 3 free.", needed=9, available=3)
        if self.finished:
            return ""
        if self.cancelled:
            self.finished = True
            return error("cancelled", "Cancelled.")
        if self.text == "slow":
            time.sleep(0.003)  # about as a model would
        if self.position < len(self.tokens):
            delta, phase = self.tokens[self.position]
            self.position += 1
            return json.dumps({"type": "token", "id": self.position, "delta": delta, "phase": phase, "forced": False})
        self.finished = True
        return self.result()

    def result(self) -> str:
        good = self.text != "unparsable"
        envelope = {
            "type": "call",
            "success": good,
            "error": None if good else "no valid call",
            "error_code": None if good else "call_unparsable",
            "reason": None,
            "function_calls": self.calls if good else [],
            "suppressed_calls": [WITHHELD] if self.text == "withhold" else [],
            "reasoning": "".join(delta for delta, phase in self.tokens if phase == "reasoning").strip(),
            "confidence": 0.6464,
            "prefill_tps": 812.5,
            "decode_tps": 243.1,
            "peak_ram_mb": 61.2,
        }
        if self.bridge.options.get("explain"):
            reasons = [REASON] if self.text == "withhold" else []
            envelope["areole"] = {"contract": self.bridge.options.get("contract"), "reasons": reasons}
        answer = {
            "type": "result",
            "json": json.dumps(envelope),
            "result": envelope,
            "tokens": self.position,
            "prompt_tokens": 9,
            "timings": {"prefill_s": 0.2, "decode_s": 0.1, "turn": self.bridge.turns, **self.options},
            "text": "",
            # What a real bridge does not tell, for the tests to look at.
            "seen": {"turns": self.bridge.turns, "declared": self.bridge.declared, "system": self.bridge.system},
            "options": self.options,
        }
        if not good:
            answer["failure"] = {"code": "call_unparsable", "message": "The model wrote no valid call.", "details": {}}
        return json.dumps(answer)
