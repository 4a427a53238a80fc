"""Random JSON Schemas out of everything that areole enforces, and a model that knows nothing: for property tests."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

PATTERNS = (
    *(
        "^[a-z]+$",
        "^@[a-z]{2,8}$",
        "^[0-9]{4}$",
        "[A-Z]",
        "^(a|bc)*d?$",
        "^\\d{3}-\\d{2}$",
        "é+",
        '^[^"]{1,4}$',
        "x|y$",
    ),
    *("^\\\\[a-z]$", "^.{2}\\.(txt|md)$", "^$"),
)
FORMATS = ("date", "time", "date-time", "email", "uuid", "uri", "ipv4", "hostname")
WORDS = ("a", "b", "name", "room_type", "on", "größe", "x_1", "level", "to", "date")


class Maker:
    """Schemas from a seed. They may be contradictory; what is then refused is part of the test."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def tool(self, name: str) -> dict[str, Any]:
        parameters = self.record(3)
        if self.chance(0.25):
            parameters["$defs"] = {"tree": self.record(1), "leaf": self.schema(0)}
            parameters["$defs"]["tree"]["properties"]["child"] = {"$ref": "#/$defs/tree"}
            parameters["$defs"]["tree"]["properties"]["children"] = {
                "type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 3,
            }  # fmt: skip
            parameters["properties"]["tree"] = {"$ref": "#/$defs/tree"}
            parameters["properties"]["leaf"] = {"$ref": "#/$defs/leaf", "description": "a reference"}
        return {"name": name, "parameters": parameters}

    def record(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(WORDS, self.random.randint(0, 5))
        schema: dict[str, Any] = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if self.chance(0.7):
            schema["required"] = [name for name in names if self.chance(0.5)]
        if self.chance(0.05):
            schema["required"] = ["undeclared"]
        if self.chance(0.3):
            schema["additionalProperties"] = self.random.choice([True, False, {"type": "integer"}, {"enum": ["a", 1]}])
        if self.chance(0.2):
            schema["minProperties"] = self.random.randint(0, 3)
        if self.chance(0.2):
            schema["maxProperties"] = self.random.randint(1, 5)
        return schema

    def number(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": self.random.choice(["integer", "number"])}
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if self.chance(0.35):
                value: float = self.random.choice([self.random.randint(-50, 500), self.random.randint(-5000, 50000)])
                schema[key] = value / 10 if self.chance(0.3) else value
        if self.chance(0.3):
            schema["multipleOf"] = self.random.choice([1, 2, 5, 7, 10, 100, 0.5, 0.1, 0.25, 1.5, 0.01])
        return schema

    def string(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        if self.chance(0.3):
            schema["minLength"] = self.random.randint(0, 12)
        if self.chance(0.3):
            schema["maxLength"] = self.random.randint(0, 20)
        if self.chance(0.25):
            schema["pattern"] = self.random.choice(PATTERNS)
        elif self.chance(0.2):
            schema["format"] = self.random.choice(FORMATS)
        return schema

    def values(self) -> list[Any]:
        pool: list[Any] = [
            "red",
            "blue",
            "",
            'q"\\',
            "日本",
            1,
            1.0,
            2.5,
            -3,
            True,
            False,
            None,
            [1, "a"],
            {"a": 1},
            "\n",
        ]
        return self.random.sample(pool, self.random.randint(1, 6))

    def items(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        if self.chance(0.85):
            schema["items"] = self.schema(depth - 1)
        if self.chance(0.4):
            schema["minItems"] = self.random.randint(0, 3)
        if self.chance(0.4):
            schema["maxItems"] = self.random.randint(1, 5)
        if self.chance(0.35):
            schema["uniqueItems"] = True
        elif self.chance(0.15):
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]
        return schema

    def schema(self, depth: int) -> dict[str, Any]:
        kind = self.random.random()
        if depth > 0 and kind < 0.45:
            if kind < 0.15:
                return self.record(depth)
            if kind < 0.3:
                return self.items(depth)
            key = self.random.choice(["anyOf", "anyOf", "oneOf", "allOf"])
            branches = [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]
            base = {"type": "object", "properties": {"a": {"type": "string"}}} if self.chance(0.1) else {}
            return {**base, key: branches}
        schema = self.random.choice(
            [
                self.string, self.string, self.number, self.number,
                lambda: {"type": "boolean"}, lambda: {"type": "null"}, lambda: {},
                lambda: {"enum": self.values()}, lambda: {"const": self.random.choice(self.values())},
                lambda: {**self.string(), "enum": self.values()}, lambda: {**self.number(), "enum": self.values()},
                lambda: {"type": ["string", "null"], "minLength": 2},
                lambda: {"type": ["integer", "string"], "minimum": 3}, lambda: {"type": "object"},
                lambda: {"minimum": 2, "enum": self.values()},
            ]
        )()  # fmt: skip
        if self.chance(0.1):
            schema["default"] = 1
        return schema


class RandomSession:
    """Logits without sense. `taste`: some tokens that it likes better than others all along."""

    def __init__(self, seed: int, size: int, end: int) -> None:
        self.random = np.random.default_rng(seed)
        self.taste = self.random.random(size) * self.random.choice([0.0, 0.5, 3.0])
        self.taste[end] += self.random.choice([0.0, 2.0])
        self.step()

    def step(self) -> None:
        self._logits = self.random.random(len(self.taste)) + self.taste
        self._order: np.ndarray | None = None

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        if self._order is None:
            best = np.argpartition(-self._logits, 256)[:256]
            self._order = best[np.argsort(-self._logits[best], kind="stable")]
        return [(int(token), float(self._logits[token])) for token in self._order[:k]]

    def logits(self) -> array[float]:
        return array("f", self._logits.astype(np.float32).tobytes())


def strings_in(value: object) -> Sequence[str]:
    """Every string in a value, keys too."""
    if isinstance(value, dict):
        return [*value, *(text for inner in value.values() for text in strings_in(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in strings_in(inner)]
    return [value] if isinstance(value, str) else []
