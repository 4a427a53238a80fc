"""The other browser: the page loads there, and a preset is answered with the same bits as in Chromium."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_real import asked, lasting

from headless import Headless

pytestmark = [pytest.mark.browser, pytest.mark.model]


def test_firefox_answers_a_preset_with_the_same_bits(real: Headless, data_dir: Path) -> None:
    firefox = os.environ.get("AREOLE_FIREFOX")
    if not firefox:
        pytest.skip("no Firefox is installed; name one in AREOLE_FIREFOX")
    presets = json.loads((data_dir / "presets.json").read_text(encoding="utf-8"))
    entry = asked(next(one for one in presets if one["id"] == "preset/home"))
    text = "the same to the last bit"
    told = subprocess.run(
        ["node", str(Path(__file__).with_name("firefox.mjs")), real.server.address],
        input=json.dumps({"firefox": firefox, "entry": entry, "text": text}),
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    seen: dict[str, Any] = json.loads(told.stdout)
    assert seen["errors"] == []
    assert seen["info"]["snapshot"] is True and seen["info"]["model"]["verified"] == "SHA-256"
    (turn,) = seen["entry"]["turns"]
    assert turn["response"]["function_calls"]
    assert lasting(turn) == lasting(real.ask_entry(entry)["turns"][0])
    assert seen["embedding"] == real.call("embed", text)
