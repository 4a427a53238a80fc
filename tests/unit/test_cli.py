"""The command: what it prints, where, and with which exit code. The model is a script."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from fakes import DATA, FakeModel

from areole import cli
from areole.archive import parse
from areole.errors import CoreError

TOOLS = (
    '[{"name":"setLights","parameters":{"properties":{"roomName":{"type":"string"},"level":{"type":"number"}}}},'
    '{"name":"lock_door"}]'
)
ASKED = "light the hall to 2 and lock up"
GOOD = (
    '<think>\nboth\n</think>\n<tool_call>[{"name":"set_lights","arguments":{"room_name":"hall","level":2.0}},'
    '{"name":"lock_door","arguments":{}}]</tool_call>'
)


class Loaded(FakeModel):
    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes every loaded model say a script; what was loaded, and with which core, is noted."""
    loaded: list[tuple[Path, str]] = []
    weights = tmp_path / "weights.cact"
    weights.write_bytes(b"x")
    monkeypatch.setenv("AREOLE_MODEL", str(weights))
    (tmp_path / "tools.json").write_text(TOOLS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def script(*turns: str) -> list[tuple[Path, str]]:
        def load(path: Path, core: str, *, depth: int | None = None) -> Loaded:
            loaded.append((path, core))
            return Loaded(*turns)

        monkeypatch.setattr("areole.model.Model.load", load)
        monkeypatch.setattr("areole.core.load_core", lambda kind: kind)
        return loaded

    return script


def test_ask_prints_a_line_a_call(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = scripted(GOOD)
    assert cli.main(["ask", ASKED, "--tools", "tools.json", "--core", "wasmtime"]) == 0
    assert capsys.readouterr() == ('setLights(roomName="hall", level=2.0)\nlock_door()\n', "")
    assert loaded == [(Path("weights.cact").resolve(), "wasmtime")]


def test_ask_json_prints_the_envelope(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(GOOD)
    assert cli.main(["ask", ASKED, "--tools", "tools.json", "--json", "--system", "date: x"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["function_calls"][0]["arguments"] == {"roomName": "hall", "level": 2.0}
    assert '"level":2.0' in out and out.count("\n") == 1 and "areole" not in json.loads(out)


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], 'setLights(roomName="hall", level=2.0)\n'),
        (["--contract", "areole"], 'setLights(roomName="hall", level=2.0)\n'),
        (["--contract", "raw"], 'setLights(roomName="hall", level=2.0)\nlock_door()\n'),
    ],
)
def test_ask_goes_by_the_contract_areole_unless_told_otherwise(
    scripted: Any, capsys: pytest.CaptureFixture[str], options: list[str], printed: str
) -> None:
    scripted(GOOD)
    text = "light the hall to 2, never lock up"
    assert cli.main(["ask", text, "--tools", "tools.json", *options]) == 0
    assert capsys.readouterr() == (printed, "")


def test_ask_explain_gives_the_contract_and_the_reasons(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(GOOD)
    text = "light the hall to 2, never lock up"
    assert cli.main(["ask", text, "--tools", "tools.json", "--json", "--explain"]) == 0
    envelope = json.loads(capsys.readouterr().out)
    (reason,) = envelope["areole"].pop("reasons")
    assert envelope["areole"] == {"contract": "areole"}
    assert (reason["gate"], reason["call"], reason["tool"]) == ("negation", 1, "lock_door")
    assert [call["name"] for call in envelope["suppressed_calls"]] == ["lock_door"]
    scripted(GOOD)
    assert cli.main(["ask", text, "--tools", "tools.json", "--json", "--explain", "--contract", "raw"]) == 0
    assert json.loads(capsys.readouterr().out)["areole"] == {"contract": "raw", "reasons": []}


def test_tools_from_stdin(scripted: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(GOOD)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + TOOLS.encode())))
    assert cli.main(["ask", ASKED, "--tools", "-"]) == 0
    assert capsys.readouterr().out.startswith("setLights(")


@pytest.mark.parametrize(
    ("said", "contract", "printed", "code"),
    [
        ("<think>no tool</think>\n<tool_call>[]</tool_call>", "areole", "no call: no tool\n", 0),
        ("<think></think>\n<tool_call>[]</tool_call>", "areole", "no call: the model gave no reason\n", 0),
        ("<think></think>\n<tool_call>poem</tool_call>", "areole", "no call: the model gave no reason\n", 0),
        ("<think></think>\n<tool_call>poem</tool_call>", "raw", "no usable answer: The model's tool call cannot be", 1),
    ],
)
def test_answers_without_a_call(
    scripted: Any, capsys: pytest.CaptureFixture[str], said: str, contract: str, printed: str, code: int
) -> None:
    scripted(said)
    assert cli.main(["ask", "x", "--tools", "tools.json", "--contract", contract]) == code
    assert capsys.readouterr().out.startswith(printed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "x", "--tools", "missing.json"], "missing.json cannot be read: No such file or directory. ["),
        (["ask", "x", "--tools", "bad.json"], "line 1, column 15. Correct the text; it must be a list of tools. ["),
        (["ask", "x", "--tools", "latin.json"], "latin.json is not UTF-8 text (byte 10). [tools_json]"),
        (["ask", "x", "--tools", "tools.json", "--max-new-tokens", "9000"], "[context_full]"),
        (["ask", "x", "--tools", "tools.json", "--model", "gone.cact"], "The weights are not at gone.cact. Name"),
        (["inspect", "bad.json"], "[archive_"),
        (["inspect", "missing.cact"], "missing.cact cannot be read"),
    ],
)  # fmt: skip
def test_refusals_go_to_stderr_with_code_two(
    scripted: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    scripted(GOOD)
    Path("bad.json").write_text('[{"name": "x",}]', encoding="utf-8")
    Path("latin.json").write_bytes('[{"name":"é"}]'.encode("latin-1"))
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("areole: ") and said in err


def test_a_missing_core_is_code_three(
    scripted: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(GOOD)

    def missing(kind: str) -> None:
        raise CoreError("core_missing", "There is no core.")

    monkeypatch.setattr("areole.core.load_core", missing)
    assert cli.main(["ask", "x", "--tools", "tools.json"]) == 3
    assert capsys.readouterr().err == "areole: There is no core. [core_missing]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["ask"],
        ["ask", "x"],
        ["fly"],
        ["ask", "x", "--tools", "t", "--core", "gpu"],
        ["ask", "x", "--tools", "t", "--contract", "neddle"],
    ],
)
def test_wrong_usage_is_code_two(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert "usage: areole" in capsys.readouterr().err


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["ask", "--help"])
    assert left.value.code == 0
    assert "exit codes: 0 done" in capsys.readouterr().out


def test_embed_prints_the_vector(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted()
    assert cli.main(["embed", "some words"]) == 0
    assert json.loads(capsys.readouterr().out)[:2] == pytest.approx([0.6, 0.8])


def test_inspect_describes_an_archive(capsys: pytest.CaptureFixture[str]) -> None:
    archive = str(DATA / "needle3_tiny.cact")
    assert cli.main(["inspect", archive, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["name"] == "needle3_tiny.cact" and described["geometry"]["d_model"] > 0
    assert cli.main(["inspect", archive]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["d_model", f"{described['geometry']['d_model']:,}"] for line in lines)


def test_where_the_weights_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = {}
    for variable, below in (("HOME", ".cache/areole"), ("XDG_CACHE_HOME", "areole"), ("AREOLE_CACHE", "")):
        monkeypatch.delenv("AREOLE_MODEL", raising=False)
        place = tmp_path / variable
        (place / below / "model").mkdir(parents=True)
        (place / below / "model" / cli.MODEL_NAME).write_bytes(b"x")
        places[variable] = place / below / "model" / cli.MODEL_NAME
    for variable in ("XDG_CACHE_HOME", "AREOLE_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    for variable in places:  # each outranks the one before
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert cli.find_model() == places[variable]
    monkeypatch.setenv("AREOLE_MODEL", str(places["HOME"]))
    assert cli.find_model() == places["HOME"]
    assert cli.find_model(str(places["AREOLE_CACHE"])) == places["AREOLE_CACHE"]


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "areole.cli", "inspect", str(DATA / "needle3_tiny.cact"), "--json"]
    environment = {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        process.wait()
    assert errors == b"" and process.returncode == 0


def test_slice_writes_the_shorter_archive(tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "short.cact"
    assert cli.main(["slice", str(tiny_path), "--depth", "3", "--out", str(out)]) == 0
    made = parse(out.read_bytes())
    assert made.geometry.layers == 3
    assert capsys.readouterr().out == f"{out}: 3 of 5 blocks, {made.nbytes:,} of {tiny_path.stat().st_size:,} bytes\n"
    assert cli.main(["slice", str(tiny_path), "--depth", "9", "--out", str(tmp_path / "no.cact")]) == 2
    assert "2 to 5" in capsys.readouterr().err
    assert cli.main(["slice", str(out), "--depth", "2", "--out", str(tmp_path / "no" / "folder")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["short.cact"]


@pytest.mark.parametrize("command", [["slice", "--depth", "3"], ["dequantize", "--to", "safetensors"], ["pack"]])
def test_nothing_is_written_over_what_it_is_made_from(
    command: list[str], tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "one.cact"
    source.write_bytes(tiny_path.read_bytes())
    if command == ["pack"]:
        assert cli.main(["dequantize", str(source), "--to", "safetensors", "--out", str(tmp_path / "plain")]) == 0
        source = tmp_path / "plain"
    before = source.read_bytes()
    again = tmp_path / "link"
    again.symlink_to(source)
    for name in (source, again):
        assert cli.main([command[0], str(source), *command[1:], "--out", str(name)]) == 2
        assert "is the file that is read" in capsys.readouterr().err
    assert source.read_bytes() == before


def test_inspect_lists_tensors(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(tiny_path), "--tensors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("tensors:")
    assert len(lines) - at - 1 == len(parse(tiny_path.read_bytes()).tensors)
    assert lines[at + 1].split()[:5] == ["embedding", "cq4", "300", "x", "192"]


def test_inspect_json_has_every_tensor(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(tiny_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    archive = parse(tiny_path.read_bytes())
    assert [row["name"] for row in found["tensors"]] == [tensor.name for tensor in archive.tensors]
    rows = {row["name"]: row for row in found["tensors"]}
    taps = list(archive.dense("layers.1.q_taps"))
    assert rows["layers.1.q_taps"]["values"]["max"] == float(f"{max(taps):.6g}")
    assert rows["embedding"]["norms"]["zero"] == 0 and rows["embedding"]["width"] == 4
    assert found["tokenizer"]["kinds"] == {"normal": 28, "unknown": 1, "control": 3, "marker": 12, "byte": 256}
    assert found["head_outputs"] == {"embedding": 128, "confidence": 1} and len(found["sha256"]) == 64


def test_inspect_draws(tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "plot.svg"
    assert cli.main(["inspect", str(tiny_path), "--plot", str(out)]) == 0
    assert b"<svg" in out.read_bytes()[:1000]


def test_verify(tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny_path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    assert cli.main(["verify", str(tiny_path), "--sha256", found.upper()]) == 0
    assert capsys.readouterr().out == f"{tiny_path}: sound, 170 tensors, {len(data):,} bytes, sha256 {found}\n"
    assert cli.main(["verify", str(tiny_path), "--sha256", "0" * 64]) == 2
    damaged = tmp_path / "damaged.cact"
    damaged.write_bytes(data[:-1])
    assert cli.main(["verify", str(damaged)]) == 2
    assert "[archive_truncated]" in capsys.readouterr().err


def test_diff(tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = parse(tiny_path.read_bytes())
    assert cli.main(["diff", str(tiny_path), str(tiny_path)]) == 0
    assert capsys.readouterr().out == "the same in all\n"
    data = bytearray(tiny_path.read_bytes())
    matrix, dense = archive.by_name["layers.0.k_proj"], archive.by_name["final_norm"]
    data[matrix.offset] ^= 0b11
    data[matrix.offset + archive.packed_bytes(matrix)] ^= 1
    data[dense.offset + 2] ^= 1
    other = tmp_path / "other.cact"
    other.write_bytes(data)
    assert cli.main(["diff", str(tiny_path), str(other)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("layers.0.k_proj: codes 1, norms 1, greatest ")
    assert lines[1].startswith("final_norm: values 1, greatest ") and lines[2:] == ["168 tensors are the same"]
    short = tmp_path / "short.cact"
    assert cli.main(["slice", str(tiny_path), "--depth", "4", "--out", str(short)]) == 0
    capsys.readouterr()
    assert cli.main(["diff", str(tiny_path), str(short), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["geometry"]["layers"] == [5, 4] and not found["same"]
    assert all(name.startswith("layers.4.") for name in found["only_in_a"]) and len(found["only_in_a"]) == 27
    assert "heads.confidence.gain" in found["stored"]


def test_dequantize_and_pack(tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")
    dense, again = tmp_path / "dense.safetensors", tmp_path / "again.cact"
    assert cli.main(["dequantize", str(tiny_path), "--out", str(dense)]) == 0
    assert cli.main(["pack", str(dense), "--out", str(again), "--as-stored", "--bits-for", "layers.0.*=ternary"]) == 0
    one, other = parse(tiny_path.read_bytes()), parse(again.read_bytes())
    assert one.geometry == other.geometry and one.tokenizer_blob == other.tokenizer_blob
    changed = [t.name for t in one.tensors if other.by_name[t.name].bits != t.bits]
    assert changed and all(name.startswith("layers.0.") for name in changed)
    assert cli.main(["pack", str(tiny_path), "--out", str(again)]) == 2
    assert "as safetensors" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["pack", str(dense), "--out", str(again), "--bits", "6"])
