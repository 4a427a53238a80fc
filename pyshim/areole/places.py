"""Where compact JSON stands, a byte at a time: in which call, at which argument, and how its value begins.

Owns the bookkeeping and nothing else: it takes for granted that the bytes are what the grammar allows.
"""

from __future__ import annotations

import json

_VALUE, _KEY, _COLON, _AFTER, _STRING, _SCALAR = range(6)
_QUOTE, _BACKSLASH, _COMMA, _BEGIN, _END, _OPEN, _CLOSE = b'"\\,[]{}'

Steps = tuple[str | int, ...]


class Place:
    """A place in a list of calls. `value`: the bytes of the value without parts that is being written, quotes included;
    b"" at its beginning, None elsewhere. `tools`: the name of each call so far."""

    __slots__ = ("_stack", "_state", "_escaped", "_is_key", "value", "tools", "closed")

    def __init__(self) -> None:
        self._stack: list[str | int] = []
        self._state = _VALUE
        self._escaped = self._is_key = False
        self.value: bytes | None = b""
        self.tools: tuple[str, ...] = ()
        self.closed = False  # the byte before this place ended a value without parts

    def copy(self) -> Place:
        other = Place.__new__(Place)
        other._stack = list(self._stack)
        other._state, other._escaped, other._is_key = self._state, self._escaped, self._is_key
        other.value, other.tools, other.closed = self.value, self.tools, self.closed
        return other

    @property
    def steps(self) -> Steps:
        """The call's place, "name" or "arguments", and the keys and places below; "" for a key that is not whole."""
        return tuple(self._stack)

    @property
    def in_string(self) -> bool:
        """Whether a string that is a value is open."""
        return self._state == _STRING and not self._is_key

    def step(self, byte: int) -> None:
        self.closed = False
        state = self._state
        if state == _STRING:
            self._in_string(byte)
        elif state == _SCALAR and byte not in b",]}":
            self.value = (self.value or b"") + bytes([byte])
        elif byte == _COMMA:
            last = self._stack[-1]
            if isinstance(last, int):
                self._stack[-1] = last + 1
                self._begin_value()
            else:
                self._stack[-1], self._state, self.value = "", _KEY, None
        elif byte in b"]}":
            self._stack.pop()
            self._state, self.value = _AFTER, None
        elif state == _KEY:
            self._state, self._is_key, self.value = _STRING, True, b'"'
        elif state == _COLON:
            self._begin_value()
        elif byte == _BEGIN:
            self._stack.append(0)
            self._begin_value()
        elif byte == _OPEN:
            self._stack.append("")
            self._state, self.value = _KEY, None
        elif byte == _QUOTE:
            self._state, self._is_key, self.value = _STRING, False, b'"'
        else:
            self._state, self.value = _SCALAR, bytes([byte])

    def _begin_value(self) -> None:
        self._state, self.value = _VALUE, b""

    def _in_string(self, byte: int) -> None:
        self.value = (self.value or b"") + bytes([byte])
        if self._escaped:
            self._escaped = False
        elif byte == _BACKSLASH:
            self._escaped = True
        elif byte == _QUOTE:
            text = json.loads(self.value)
            if self._is_key:
                self._stack[-1], self._state, self.value = text, _COLON, None
                return
            if len(self._stack) == 2 and self._stack[1] == "name":
                self.tools = (*self.tools, text)
            self._state, self.closed = _AFTER, True
