"""`areole`: ask for a call, look into an archive, embed a text, from a shell, without a browser.

Owns arguments, where the weights are looked for, and what is printed. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .archive_commands import add_commands
from .contract import CONTRACTS, DEFAULT
from .errors import AreoleError, CoreError, RequestError, ToolsError

MODEL_NAME = "needle3.cact"
OK, UNUSABLE, REFUSED, FAILED = 0, 1, 2, 3
EXIT_CODES = """exit codes: 0 done; 1 the model gave no usable answer; 2 an argument, the tools, the request or the file
was refused; 3 something areole needs is missing or failed"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code, see EXIT_CODES."""
    try:
        args = _parser().parse_args(arguments)
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except AreoleError as error:
        print(f"areole: {error.message} [{error.code}]", file=sys.stderr)
        return FAILED if isinstance(error, CoreError) or error.code == "internal" else REFUSED
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Nothing is left to say; Python must not try at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("areole: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="areole", description="The Needle tool-calling model.", epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"areole {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    ask = commands.add_parser("ask", help="which calls a request comes to", epilog=EXIT_CODES)
    ask.add_argument("request", metavar="REQUEST", help="what is wanted, in words")
    ask.add_argument("--tools", required=True, metavar="FILE", help="JSON list of tools; - reads them from stdin")
    ask.add_argument("--system", default="", metavar="TEXT", help="facts, as text or a JSON object")
    ask.add_argument("--max-new-tokens", type=int, default=512, metavar="N", help="longest answer (default: 512)")
    ask.add_argument("--json", action="store_true", help="print the whole result, as the official engine shapes it")
    ask.add_argument("--contract", default=DEFAULT, choices=tuple(CONTRACTS), help=f"rules (default: {DEFAULT})")
    ask.add_argument("--explain", action="store_true", help="with --json: why calls and arguments were withheld")
    ask.set_defaults(run=_ask)

    embed = commands.add_parser("embed", help="a text as a vector", epilog=EXIT_CODES)
    embed.add_argument("text", metavar="TEXT")
    embed.set_defaults(run=_embed)
    for command in (ask, embed):
        command.add_argument("--model", metavar="FILE", help="weights (default: $AREOLE_MODEL, then the cache's)")
        command.add_argument(
            "--core", default="auto", choices=("auto", "native", "wasmtime", "wasmtime-simd128"),
            help="how to run the compiled core (default: the first that is there)",
        )  # fmt: skip
        command.add_argument("--depth", type=int, metavar="N", help="run N of the model's blocks (default: all)")

    add_commands(commands, EXIT_CODES)
    return parser


def _ask(args: argparse.Namespace) -> int:
    from .agent import Needle, envelope_text
    from .core import load_core
    from .model import Model

    tools = _read_text(args.tools)
    with (
        Model.load(find_model(args.model), load_core(args.core), depth=args.depth) as model,
        Needle(model, tools, args.system, contract=args.contract, explain=args.explain) as needle,
    ):
        answer = needle.answer(args.request, args.max_new_tokens)
    print(envelope_text(answer.envelope) if args.json else _readable(answer.function_calls, answer.envelope))
    return OK if answer.envelope["success"] else UNUSABLE


def _readable(calls: list[dict[str, object]], envelope: dict[str, object]) -> str:
    """A line a call, or a line that says why there is none."""
    if not envelope["success"]:
        return f"no usable answer: {envelope['error']}"
    lines = []
    for call in calls:
        given = call["arguments"]
        values = given.items() if isinstance(given, dict) else ()
        shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values)
        lines.append(f"{call['name']}({shown})")
    return "\n".join(lines) or f"no call: {envelope['reasoning'] or 'the model gave no reason'}"


def _embed(args: argparse.Namespace) -> int:
    from .agent import embed
    from .core import load_core
    from .model import Model

    with Model.load(find_model(args.model), load_core(args.core), depth=args.depth) as model:
        print(json.dumps(embed(model, args.text)))
    return OK


def find_model(named: str | None = None) -> Path:
    """The weights: `named`, else $AREOLE_MODEL, else the cache that build.py fills. RequestError if there are none."""
    if named or os.environ.get("AREOLE_MODEL"):
        path = Path(named or os.environ["AREOLE_MODEL"])
    elif os.environ.get("AREOLE_CACHE"):
        path = Path(os.environ["AREOLE_CACHE"], "model", MODEL_NAME)
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "areole", "model", MODEL_NAME)
    if not path.is_file():
        raise RequestError(
            "request_option", f"The weights are not at {path}. Name them with --model FILE or $AREOLE_MODEL.",
            got=str(path), needed="a .cact file",
        )  # fmt: skip
    return path


def _read_text(name: str) -> str:
    """The text of a file, or of stdin for -."""
    data = sys.stdin.buffer.read() if name == "-" else _read_bytes(name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ToolsError("tools_json", f"{name} is not UTF-8 text (byte {error.start}).", offset=error.start) from error


def _read_bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise RequestError("request_option", f"{name} cannot be read: {error.strerror}.", got=name) from error


if __name__ == "__main__":
    sys.exit(main())
