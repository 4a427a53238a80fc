"""The archive's SentencePiece BPE tokenizer: its blob, text to ids, ids to text.

Owns the vocabulary and the merging. The ids are those of the reference encoder for every text; trusted text may hold
the prompt's markers (`<think>`, `<|im_end|>`, ...), untrusted text never yields one, whatever it contains. Lone
surrogates, which no UTF-8 text can hold, become U+FFFD or are refused, as the caller says. Refuses a damaged blob
(ArchiveError) and ids or markers outside the vocabulary (TokenizerError).
"""

from __future__ import annotations

import codecs
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import Literal, NoReturn

from .errors import ArchiveError, TokenizerError

BLOB_HEADER = struct.Struct("<IIIIIBBH")
PIECE = struct.Struct("<fBH")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = range(5)
SPACE = "▁"
"""Stands for a space inside pieces."""

Surrogates = Literal["replace", "refuse"]

_BYTE_SURFACE = re.compile(r"<0x([0-9A-F]{2})>\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
# A heap entry is rank << _PLACE_BITS | place, so that one comparison of integers orders by rank, then leftmost.
_PLACE_BITS = 32
_PLACE_MASK = (1 << _PLACE_BITS) - 1
_CACHED_WORDS = 16384
_CACHED_LENGTH = 32


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer blob's contents, checked. `pieces`, `scores` and `kinds` are indexed by token id."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    kinds: bytes
    pad: int
    eos: int
    bos: int
    unk: int
    add_dummy_prefix: bool
    byte_fallback: bool


def read_vocabulary(blob: bytes) -> Vocabulary:
    """Check and read a tokenizer blob. ArchiveError ("archive_tokenizer"; offset counts from the blob's start)."""

    def refuse(what: str, got: object, needed: object, offset: int) -> NoReturn:
        message = f"tokenizer: {what} (byte {offset} of the blob): got {got}, needed {needed}."
        raise ArchiveError("archive_tokenizer", message, what=what, got=got, needed=needed, offset=offset)

    if len(blob) < BLOB_HEADER.size:
        refuse("the blob's length", f"{len(blob)} bytes", f"at least {BLOB_HEADER.size} bytes", len(blob))
    count, pad, eos, bos, unk, dummy, fallback, padding = BLOB_HEADER.unpack_from(blob)
    room = (len(blob) - BLOB_HEADER.size) // PIECE.size
    if not 1 <= count <= room:
        refuse("the number of pieces", count, f"1 to {room}, which is what the blob has room for", 0)
    specials = {"pad": pad, "eos": eos, "bos": bos, "unk": unk}
    for index, (name, value) in enumerate(specials.items()):
        if value >= count or value in list(specials.values())[:index]:
            refuse(f"the {name} id", value, f"an id below {count} that no other special token has", 4 + 4 * index)
    if dummy > 1:
        refuse("the dummy-prefix flag", dummy, "0 or 1", 20)
    if fallback > 1:
        refuse("the byte-fallback flag", fallback, "0 or 1", 21)
    if padding:
        refuse("the padding", padding, 0, 22)

    pieces: list[str] = []
    scores: list[float] = []
    kinds = bytearray(count)
    ids: dict[str, int] = {}
    at = BLOB_HEADER.size
    for index in range(count):
        if len(blob) - at < PIECE.size:
            refuse(f"piece {index}", f"{len(blob) - at} bytes left", f"{PIECE.size} bytes", at)
        score, kind, length = PIECE.unpack_from(blob, at)
        if not math.isfinite(score):
            refuse(f"the score of piece {index}", score, "a finite number", at)
        if kind > BYTE:
            refuse(f"the kind of piece {index}", kind, "0 to 4", at + 4)
        start = at + PIECE.size
        at = start + length
        if not length or at > len(blob):
            refuse(f"the length of piece {index}", length, f"1 to {len(blob) - start}", start - 2)
        try:
            surface = blob[start:at].decode("utf-8")
        except UnicodeDecodeError as error:
            refuse(f"the text of piece {index}", blob[start:at], "UTF-8", start + error.start)
        if ids.setdefault(surface, index) != index:
            refuse(f"the text of piece {index}", repr(surface), f"one that piece {ids[surface]} does not have", start)
        if kind == BYTE and not _BYTE_SURFACE.match(surface):
            refuse(f"the text of byte piece {index}", repr(surface), "<0x00> to <0xFF>", start)
        pieces.append(surface)
        scores.append(score)
        kinds[index] = kind
    if at != len(blob):
        refuse("the blob's length", f"{len(blob)} bytes", f"{at} bytes, where its last piece ends", at)
    for name, value in specials.items():
        wanted = UNKNOWN if name == "unk" else CONTROL
        if kinds[value] != wanted:
            refuse(f"the kind of the {name} piece, {value}", kinds[value], wanted, 4 + 4 * list(specials).index(name))
    bytes_given = kinds.count(BYTE)
    if fallback and bytes_given != 256:
        refuse("the byte pieces", bytes_given, "256, because byte fallback is on", 21)
    return Vocabulary(tuple(pieces), tuple(scores), bytes(kinds), pad, eos, bos, unk, bool(dummy), bool(fallback))


class Tokenizer:
    """Encodes and decodes with one vocabulary. It never changes after it was made, but for a bounded word cache."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = len(vocabulary.pieces)
        self.pad, self.eos, self.bos, self.unk = vocabulary.pad, vocabulary.eos, vocabulary.bos, vocabulary.unk
        pieces, kinds = vocabulary.pieces, vocabulary.kinds
        self._ids = {surface: index for index, surface in enumerate(pieces)}
        # Equal scores share a rank, so that the leftmost of them goes first.
        order = {score: rank for rank, score in enumerate(sorted(set(vocabulary.scores), reverse=True))}
        self._ranks = {surface: order[vocabulary.scores[index]] for surface, index in self._ids.items()}
        self._bytes = [b""] * self.vocab_size
        self._byte_ids = [self.unk] * 256
        for index, surface in enumerate(pieces):
            if kinds[index] == BYTE:
                value = int(surface[3:5], 16)
                self._bytes[index] = bytes((value,))
                self._byte_ids[value] = index
            elif kinds[index] in (NORMAL, USER_DEFINED):
                self._bytes[index] = surface.replace(SPACE, " ").encode("utf-8")
        self.markers: Mapping[str, int] = MappingProxyType(
            {surface: index for index, surface in enumerate(pieces) if kinds[index] == USER_DEFINED}
        )
        longest_first = sorted(self.markers, key=len, reverse=True)
        self._marker = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._special = {surface for index, surface in enumerate(pieces) if kinds[index] != NORMAL}
        # Whether merging alone could ever make a special piece. In shipped vocabularies it cannot, and then trust
        # matters only for whole markers.
        self._special_mergeable = any(self._mergeable(surface) for surface in self._special)
        # Where no piece has a space mark after its first character, no merge crosses into a new word.
        self._words_part = not any(SPACE in surface[1:] for surface in pieces)
        self._longest = max(map(len, pieces))
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def from_blob(cls, blob: bytes) -> Tokenizer:
        """From an archive's tokenizer blob; ArchiveError if it is damaged."""
        return cls(read_vocabulary(bytes(blob)))

    def marker(self, name: str) -> int:
        """Id of a marker such as "<think>"; TokenizerError if the vocabulary has no such marker."""
        index = self.markers.get(name)
        if index is None:
            known = " ".join(self.markers) or "none"
            raise TokenizerError(
                "tokenizer_marker", f"The vocabulary has no marker {name!r}; it has {known}.", name=name, known=known
            )
        return index

    def encode(self, text: str, markers: bool = True, *, surrogates: Surrogates = "replace") -> list[int]:
        """Ids of `text`, without BOS. With `markers`, marker strings in it become their ids; without, plain text.

        A surrogate pair is read as the character it stands for. A lone surrogate becomes U+FFFD, as in JavaScript's
        toWellFormed, or with surrogates="refuse" raises TokenizerError.
        """
        return self.encode_segments([(text, markers)], surrogates=surrogates)

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, surrogates: Surrogates = "replace", goes_on: bool = False
    ) -> list[int]:
        """Ids of the joined texts of (text, trusted) segments. goes_on: they follow other text, so a tokenizer that
        puts a space before a text does not do it here.

        Merges run across borders as in one text. A marker is recognised only where all of it lies in trusted text, and
        no special piece is ever made from a character of untrusted text.
        """
        runs = self._runs(segments, surrogates, goes_on)
        ids: list[int] = []
        plain: list[tuple[str, bool]] = []
        for text, trusted in runs:
            at = 0
            if trusted and self._marker is not None:
                for match in self._marker.finditer(text):
                    if match.start() > at:
                        plain.append((text[at : match.start()], True))
                    at = match.end()
                    self._encode_plain(plain, ids)
                    plain.clear()
                    ids.append(self._ids[match.group()])
            if at < len(text):
                plain.append((text[at:], trusted))
        self._encode_plain(plain, ids)
        return ids

    def at_least(self, segments: Sequence[tuple[str, bool]]) -> int:
        """As many tokens as the segments take at the least, without encoding them: a guard against texts that could
        never fit, whose encoding would take long. A token stands for no more characters than the longest piece has."""
        if not self.vocabulary.byte_fallback:
            return 0  # an unknown token stands for any number of characters
        # Two halves of a surrogate pair become one character.
        texts = [text for text, _ in segments if isinstance(text, str)]  # encoding refuses the others
        characters = sum(len(text) - len(_SURROGATE.findall(text)) // 2 for text in texts)
        return -(-characters // self._longest)

    def piece_bytes(self, token: int) -> bytes:
        """UTF-8 bytes that an id adds to the text: none for control pieces, one for a byte piece, spaces as spaces."""
        return self._bytes[self._check_id(token)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD. TokenizerError for an id out of range."""
        decoder = self.incremental()
        return "".join([decoder.feed(token) for token in ids]) + decoder.finish()

    def incremental(self) -> IncrementalDecoder:
        """A decoder that is fed one id at a time."""
        return IncrementalDecoder(self)

    def _check_id(self, token: int) -> int:
        if not 0 <= token < self.vocab_size:
            raise TokenizerError(
                "tokenizer_id", f"Token id {token} is outside the vocabulary; needed 0 to {self.vocab_size - 1}.",
                got=token, needed=f"0 to {self.vocab_size - 1}",
            )  # fmt: skip
        return token

    def _mergeable(self, surface: str) -> bool:
        """Whether `surface` is one character, or two parts that merging could have made."""
        if len(surface) == 1:
            return True
        splits = ((surface[:cut], surface[cut:]) for cut in range(1, len(surface)))
        return any(all(len(part) == 1 or part in self._ids for part in split) for split in splits)

    def _runs(
        self, segments: Sequence[tuple[str, bool]], surrogates: Surrogates, goes_on: bool
    ) -> list[tuple[str, bool]]:
        """The segments as well-formed text with neighbours of equal trust joined, spaces marked, prefix added."""
        runs: list[tuple[str, bool]] = []
        for text, trusted in segments:
            if not isinstance(text, str):
                raise TokenizerError(
                    "tokenizer_text", f"The text to encode is of type {type(text).__name__}; needed str.",
                    got=type(text).__name__, needed="str",
                )  # fmt: skip
            if not text:
                continue
            if runs and runs[-1][1] == trusted:
                runs[-1] = (runs[-1][0] + text, trusted)
            else:
                runs.append((text, trusted))
        runs = [(self._well_formed(text, surrogates).replace(" ", SPACE), trusted) for text, trusted in runs]
        if runs and self.vocabulary.add_dummy_prefix and not goes_on:
            runs[0] = (SPACE + runs[0][0], runs[0][1])
        return runs

    @staticmethod
    def _well_formed(text: str, surrogates: Surrogates) -> str:
        found = _SURROGATE.search(text)
        if found is None:
            return text
        # UTF-16 knows pairs from lone halves: pairs come back as one character, lone halves as U+FFFD each.
        units = text.encode("utf-16-le", "surrogatepass")
        if surrogates == "replace":
            return units.decode("utf-16-le", "replace")
        try:
            return units.decode("utf-16-le")
        except UnicodeDecodeError as error:
            place = len(units[: error.start].decode("utf-16-le"))
            raise TokenizerError(
                "tokenizer_text",
                f"The text has a lone surrogate at character {place}; needed text that UTF-8 can hold.",
                got="a lone surrogate", needed="text without lone surrogates", place=place,
            ) from error  # fmt: skip

    def _encode_plain(self, parts: list[tuple[str, bool]], ids: list[int]) -> None:
        """Append the ids of marker-free text to `ids`."""
        if not parts:
            return
        if self._special_mergeable and not all(trusted for _, trusted in parts):
            symbols = [character for text, _ in parts for character in text]
            trust = [trusted for text, trusted in parts for _ in text]
            ids += self._merge(symbols, trust)
            return
        text = "".join([text for text, _ in parts])
        if not self._words_part:
            ids += self._merge(list(text))
            return
        cache = self._cache
        # Each word with the mark before it; what stands before the first mark is a word if there is anything.
        head, *rest = text.split(SPACE)
        words = [SPACE + word for word in rest]
        for word in [head, *words] if head else words:
            known = cache.get(word)
            if known is None:
                known = tuple(self._merge(list(word)))
                if len(word) <= _CACHED_LENGTH:
                    if len(cache) >= _CACHED_WORDS:
                        cache.clear()
                    cache[word] = known
            ids += known

    def _merge(self, symbols: list[str], trust: list[bool] | None = None) -> list[int]:
        """Join neighbours, best score first and leftmost among equals, until no two make a piece; then the ids.

        `symbols` are single characters and are used up. `trust` says for each whether it may take part in a special
        piece; None: all may. Each merge adds at most two heap entries, so the whole is O(n log n).
        """
        rank_of, special = self._ranks.get, self._special
        free = trust is None
        count = len(symbols)
        after = list(range(1, count + 1))
        before = list(range(-1, count - 1))
        # Rank of the pair that starts at each place, -1 for none; a heap entry that disagrees is out of date.
        pair = [-1] * count
        heap = []

        def allowed(surface: str, left: int, right: int) -> bool:
            return trust is None or surface not in special or (trust[left] and trust[right])

        for place in range(count - 1):
            surface = symbols[place] + symbols[place + 1]
            rank = rank_of(surface)
            if rank is not None and (free or allowed(surface, place, place + 1)):
                pair[place] = rank
                heap.append(rank << _PLACE_BITS | place)
        heapify(heap)
        while heap:
            entry = heappop(heap)
            place = entry & _PLACE_MASK
            if pair[place] != entry >> _PLACE_BITS:
                continue
            right = after[place]
            merged = symbols[place] + symbols[right]
            symbols[place], symbols[right] = merged, ""
            pair[place] = pair[right] = -1
            if trust is not None:
                trust[place] = trust[place] and trust[right]
            following = after[place] = after[right]
            if following < count:
                before[following] = place
                surface = merged + symbols[following]
                rank = rank_of(surface)
                if rank is not None and (free or allowed(surface, place, following)):
                    pair[place] = rank
                    heappush(heap, rank << _PLACE_BITS | place)
            previous = before[place]
            if previous >= 0:
                surface = symbols[previous] + merged
                rank = rank_of(surface)
                if rank is not None and (free or allowed(surface, previous, place)):
                    pair[previous] = rank
                    heappush(heap, rank << _PLACE_BITS | previous)
                else:
                    pair[previous] = -1

        ids: list[int] = []
        for place, symbol in enumerate(symbols):
            if not symbol:
                continue
            index = self._ids.get(symbol)
            if index is not None and (free or allowed(symbol, place, place)):
                ids.append(index)
            elif self.vocabulary.byte_fallback:
                ids += [self._byte_ids[value] for value in symbol.encode("utf-8")]
            else:
                ids.append(self.unk)
        return ids


class IncrementalDecoder:
    """Turns ids into text one at a time; bytes of a character that is not complete yet are held back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = tokenizer.vocabulary.add_dummy_prefix

    def feed(self, token: int) -> str:
        """The text that is certain now and was not before; TokenizerError for an id out of range."""
        return self._clean(self._utf8.decode(self._tokenizer.piece_bytes(token)))

    def finish(self) -> str:
        """What was held back, as U+FFFD where it is not complete. The decoder is ready for a new text afterwards."""
        text = self._clean(self._utf8.decode(b"", True))
        self._utf8.reset()
        self._strip = self._tokenizer.vocabulary.add_dummy_prefix
        return text

    def _clean(self, text: str) -> str:
        text = text.replace(SPACE, " ")
        if text and self._strip:
            self._strip = False
            return text.removeprefix(" ")
        return text
