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
    """Every turn of an entry, whichever of the two shapes it has."""
    for case in entry.get("cases") or [entry]:
        yield from case.get("turns") or [case]


def pieces_of(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Callable[[dict[str, Any]], None]]]:
    """An entry cut into entries of one case each, and what puts each answer back in its place.

    One call a case, so that progress shows, a limit of time is one case's, and a case that fails costs only itself;
    the page keeps the prefilled tools while the next piece declares the same ones.
    """
    cases = entry.get("cases")
    if not cases:
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
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise AskError(f"{args.file} is not a list of entries (objects with tools and turns or cases).")
        return entries
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
        entry["tools"] = read_json(args.tools)
    if args.request is None:
        raise AskError('what to ask? build.py ask "REQUEST", or --preset NAME, or --file CASES.json.')
    entry["turns"] = [{"text": args.request, "max_new_tokens": args.max_new_tokens}]
    return [entry]


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
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
