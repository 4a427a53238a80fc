"""A tokenizer's vocabulary as bytes: which tokens may stand in an answer, and how few of them a text takes.

Owns the trie of the pieces. Markers and control pieces are in it never; byte pieces are their byte.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from .automaton import State
from .tokenizer import BYTE, Tokenizer

Trie = tuple[dict[int, "Trie"], list[int]]
"""What follows by its first byte, and the tokens that end here."""


class Pieces:
    def __init__(self, tokenizer: Tokenizer) -> None:
        special = {*tokenizer.markers.values(), tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk}
        self._kinds = tokenizer.vocabulary.kinds
        self.texts = [b"" if i in special else tokenizer.piece_bytes(i) for i in range(tokenizer.vocab_size)]
        self._trie: Trie | None = None
        self._known: dict[bytes, int] = {}
        self._longest = 0
        self._single = [0] * 256  # tokens of one byte, by the byte
        self._plans: dict[bytes, list[int]] = {}

    def _build(self) -> Trie:
        if self._trie is None:
            root: Trie = ({}, [])
            for token, text in enumerate(self.texts):
                if not text:
                    continue
                here = root
                for byte in text:
                    here = here[0].setdefault(byte, ({}, []))
                here[1].append(token)
                self._single[text[0]] += len(text) == 1
                if text not in self._known or self._kinds[token] != BYTE:  # the model writes a byte as its piece
                    self._known[text] = token
            self._longest = max(map(len, self._known), default=0)
            self._trie = root
        return self._trie

    def after(self, state: State, token: int) -> State | None:
        """The state after a token; None if it is not legal."""
        try:
            return state.tokens[token]
        except KeyError:
            text = self.texts[token] if 0 <= token < len(self.texts) else b""
            found = state.tokens[token] = state.feed(text) if text else None
            return found

    def legal(self, state: State) -> list[int]:
        """Every token that may come next."""
        if state.legal is None:
            state.legal = []
            waiting: list[tuple[Trie, State]] = [(self._build(), state)]
            while waiting:
                (children, _), here = waiting.pop()
                for byte, child in children.items():
                    after = here.step(byte)
                    if after is not None:
                        for token in child[1]:
                            state.tokens[token] = after
                        state.legal += child[1]
                        waiting.append((child, after))
            state.legal.sort()
        return state.legal

    def only(self, state: State, token: int) -> bool:
        """Whether a legal token is the only one that may come next. As a rule its first byte alone is another."""
        if state.only is None:
            self._build()
            text = self.texts[token]
            others = self._single[text[0]] - (len(text) == 1)
            state.only = not others and self.legal(state) == [token]
        return state.only

    def known(self, text: bytes) -> int | None:
        """The token that is just this text."""
        self._build()
        return self._known.get(text)

    def prefixes(self, text: bytes) -> list[int]:
        """The tokens that `text` can begin with."""
        self._build()
        ends = range(1, min(len(text), self._longest) + 1)
        return [self._known[text[:end]] for end in ends if text[:end] in self._known]

    def plan(self, text: bytes) -> list[int]:
        """The fewest tokens that make a text."""
        if text in self._plans:
            return self._plans[text]
        self._build()
        best: list[tuple[int, int]] = [(0, -1)] * (len(text) + 1)  # tokens from here on, and the first of them
        for at in range(len(text) - 1, -1, -1):
            options = (
                (best[end][0] + 1, self._known[text[at:end]])
                for end in range(at + 1, min(len(text), at + self._longest) + 1)
                if text[at:end] in self._known
            )
            best[at] = min(options, default=(len(text) * 2, -1))
        out, at = [], 0
        while at < len(text) and best[at][1] >= 0:
            out.append(best[at][1])
            at += len(self.texts[out[-1]])
        if len(self._plans) > 4096:
            self._plans.clear()
        self._plans[text] = out
        return out


_PIECES: WeakKeyDictionary[Tokenizer, Pieces] = WeakKeyDictionary()


def pieces_of(tokenizer: Tokenizer) -> Pieces:
    """The pieces of a tokenizer, made once."""
    found = _PIECES.get(tokenizer)
    if found is None:
        found = _PIECES[tokenizer] = Pieces(tokenizer)
    return found
