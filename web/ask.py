"""Requests in, answers out: the shapes of a case file, and what `build.py ask` makes of its arguments.

An entry is {id, system, tools} with either `turns` (one conversation) or `cases` (each from a fresh conversation; a
case is one turn, or has `turns`). Pure functions over JSON values; headless.py does the asking.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


class AskError(Exception):
    """The request cannot be put together: what is wrong with it, and what would do."""


def turns_of(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every turn of an entry, whichever of the two shapes it has. What has no shape counts as one turn."""
    cases = entry.get("cases")
    for case in cases if isinstance(cases, list) and cases else [entry]:
        turns = case.get("turns") if isinstance(case, dict) else None
        for turn in turns if isinstance(turns, list) and turns else [case]:
            yield turn if isinstance(turn, dict) else {}


def fault_of(entry: dict[str, Any]) -> str | None:
    """What is wrong with the shape of an entry or of one of its pieces, if anything is."""

    def turns_fault(holder: dict[str, Any]) -> str | None:
        turns = holder["turns"]
        if not isinstance(turns, list) or not turns:
            return "`turns` is a list of one turn or more"
        for turn in turns:
            if not isinstance(turn, dict) or not isinstance(turn.get("text"), str):
                return 'a turn is an object with a `text`: {"text": "dim the lights"}'
        return None

    if ("turns" in entry) == ("cases" in entry):
        return "an entry is an object with either `turns` (one conversation) or `cases` (each from a fresh one)"
    if "turns" in entry:
        return turns_fault(entry)
    cases = entry["cases"]
    if not isinstance(cases, list) or not cases:
        return "`cases` is a list of one case or more"
    for case in cases:
        if isinstance(case, dict) and "turns" in case:
            fault = turns_fault(case)
            if fault:
                return fault
        elif not isinstance(case, dict) or not isinstance(case.get("text"), str):
            return "a case is an object with a `text` or with `turns`"
    return None


def well_formed(value: Any) -> Any:
    """The value with each lone surrogate as U+FFFD: no such text can be sent or written as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [well_formed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in value.items()}
    return value


def pieces_of(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Callable[[dict[str, Any]], None]]]:
    """An entry cut into entries of one case each, and what puts each answer back in its place.

    One call a case, so that progress shows, a limit of time is one case's, and a case that fails costs only itself;
    the page keeps the prefilled tools while the next piece declares the same ones.
    """
    cases = entry.get("cases")
    if not isinstance(cases, list) or not cases:
        yield entry, entry.update
        return
    shared = {key: value for key, value in entry.items() if key != "cases"}
    for index, case in enumerate(cases):

        def put(answer: dict[str, Any], index: int = index) -> None:
            cases[index] = answer["cases"][0]
            entry.update({key: value for key, value in answer.items() if key != "cases"})

        yield {**shared, "cases": [case]}, put


def entries_to_ask(args: argparse.Namespace, presets_file: Path) -> list[dict[str, Any]]:
    """What the arguments of `ask` mean, as a list of entries."""
    if bool(args.file) != bool(args.out):
        raise AskError("--file CASES.json and --out ANSWERS.json go together.")
    if args.file:
        entries = read_json(args.file)
        if not isinstance(entries, list):
            raise AskError(f"{args.file} is not a list of entries (objects with tools and turns or cases).")
        folder = Path(args.out).absolute().parent
        if not folder.is_dir() or Path(args.out).is_dir():
            raise AskError(f"cannot write {args.out}: name a file in a folder that exists.")
        # What is no object is told in its place, as every other entry that cannot be asked.
        return [entry if isinstance(entry, dict) else {"entry": entry} for entry in well_formed(entries)]
    if args.preset and args.tools:
        raise AskError("--preset or --tools, not both.")
    entry: dict[str, Any] = {"id": "ask", "system": args.system or "", "tools": []}
    if args.preset:
        presets = read_json(presets_file)
        named = {preset["id"].removeprefix("preset/"): preset for preset in presets}
        preset = named.get(args.preset.removeprefix("preset/"))
        if preset is None:
            raise AskError(f"no preset {args.preset!r}; there are {', '.join(named)}.")
        entry["tools"] = preset["tools"]
        entry["system"] = preset.get("system", "") if args.system is None else args.system
        if args.request is None:
            args.request = (preset.get("turns") or [preset])[0]["text"]
    elif args.tools:
        entry["tools"] = declared(read_json(args.tools), args.tools)
    if args.request is None:
        raise AskError('what to ask? build.py ask "REQUEST", or --preset NAME, or --file CASES.json.')
    # A shell's bytes that are not UTF-8 arrive as lone surrogates.
    args.request = args.request.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not args.request.strip():
        raise AskError("the request is empty: say what to do.")
    if args.max_new_tokens is not None and args.max_new_tokens < 1:
        raise AskError(f"--max-new-tokens is at least 1, not {args.max_new_tokens}.")
    entry["turns"] = [{"text": args.request, "max_new_tokens": args.max_new_tokens}]
    return [well_formed(entry)]


def declared(tools: Any, path: str | Path) -> list[Any]:
    """A tools file's list, refused where the page's editor refuses it. A case file's tools go through as they are."""
    if isinstance(tools, dict):
        raise AskError(f"{path} holds a single tool: put square brackets round it.")
    if not isinstance(tools, list):
        raise AskError(f"{path} holds {json.dumps(tools)[:40]}, not a list of tools.")
    for index, tool in enumerate(tools):
        named = tool.get("function", tool) if isinstance(tool, dict) else None
        if not isinstance(named, dict) or not isinstance(named.get("name"), str) or not named["name"]:
            raise AskError(f"tool {index + 1} in {path} is not an object with a name.")
    return tools


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except RecursionError as error:
        raise AskError(f"{path} is nested too deeply to read.") from error
    except OSError as error:
        raise AskError(f"cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise AskError(f"{path} is not JSON: {error}.") from error


def show_answer(turn: Mapping[str, Any]) -> str:
    """An answer for a person: one line a call, or what was said instead of one."""
    response = turn["response"]
    lines = []
    for call in response.get("function_calls") or []:
        values = (call.get("arguments") or {}).items()
        shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values)
        lines.append(f"{call['name']}({shown})")
    if response.get("error"):
        lines.append(f"error: {response['error']}")
    return "\n".join(lines or [str(response.get("response") or response.get("text") or "no call")])
