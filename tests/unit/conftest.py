"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest

from areole.contract import DEFAULT


@pytest.fixture
def raw_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents answer with what the model wrote, for tests whose models write a script and not an answer."""
    monkeypatch.setattr("areole.agent.DEFAULT", "raw")


@pytest.fixture
def default_contract(raw_contract: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents answer by the contract that is everybody's default, in files whose other tests use raw_contract."""
    monkeypatch.setattr("areole.agent.DEFAULT", DEFAULT)
