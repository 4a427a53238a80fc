"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def raw_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents answer with what the model wrote, for tests whose models write a script and not an answer."""
    monkeypatch.setattr("areole.agent.DEFAULT", "raw")
