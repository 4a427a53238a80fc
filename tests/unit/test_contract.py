"""The table of contracts, and that each rule can be switched off by name."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from areole.contract import CONTRACTS, GATE_RULES, RULES, Contract, contract_of
from areole.errors import RequestError
from areole.gates import GATES


def test_the_three_contracts() -> None:
    assert set(CONTRACTS) == {"raw", "needle", "areole"}
    assert all(contract.name == name for name, contract in CONTRACTS.items())
    assert CONTRACTS["raw"].rules == {"capitals"}
    assert CONTRACTS["needle"].forgeable and CONTRACTS["needle"].by_turn and CONTRACTS["needle"].objects_doubted
    areole = CONTRACTS["areole"]
    assert not (areole.forgeable or areole.by_turn or areole.objects_doubted or areole.exact_ranges or areole.literal)


def test_every_gate_is_a_rule() -> None:
    assert set(GATES) <= GATE_RULES <= RULES == {item.name for item in fields(Contract)} - {"name"}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rules_are_switched_off_by_name(rule: str) -> None:
    for contract in CONTRACTS.values():
        assert contract.without([rule]).rules == contract.rules - {rule}


def test_names_that_are_no_rule_or_contract_are_refused() -> None:
    with pytest.raises(RequestError, match="'grammer' is no rule"):
        CONTRACTS["areole"].without(["grammer"])
    with pytest.raises(RequestError, match="areole, needle, raw"):
        contract_of("neddle")
    assert contract_of("needle") is CONTRACTS["needle"] is contract_of(CONTRACTS["needle"])


def test_the_docs_name_every_rule() -> None:
    text = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.M))
    assert named == RULES
    for name, contract in CONTRACTS.items():
        column = ["needle", "areole", "raw"].index(name)
        for rule, *marks in re.findall(r"^\| `([a-z_]+)` \| *(\S*) *\| *(\S*) *\| *(\S*) *\|", text, re.M):
            assert (marks[column] == "yes") is getattr(contract, rule), (rule, name)
