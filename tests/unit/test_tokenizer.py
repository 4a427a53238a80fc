"""Text to ids and back: golden texts of the reference, a naive twin of its algorithm, SentencePiece itself, and the
promise that untrusted text never yields a marker."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from archive_writer import MARKERS, tokenizer_blob
from hypothesis import example, given, settings
from hypothesis import strategies as st

from areole.archive import parse
from areole.errors import TokenizerError
from areole.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Tokenizer, Vocabulary

DATA = Path(__file__).parents[1] / "data"
SHIPPED = Tokenizer.from_blob((DATA / "needle3_tokenizer.bin").read_bytes())
TINY = Tokenizer(parse((DATA / "needle3_tiny.cact").read_bytes()).vocabulary)
GOLDEN = json.loads((DATA / "tokenizer_golden.json").read_text(encoding="utf-8"))["cases"]
BYTES = [(f"<0x{value:02X}>", 0.0, BYTE) for value in range(256)]

# A vocabulary in which merging alone would reach markers, control pieces and byte pieces, scores are equal, and pieces
# have spaces inside: nothing that a shortcut could rely on holds here.
HOSTILE_PIECES = [
    ("<a>", 0.0, USER_DEFINED), ("<ab>", 0.0, USER_DEFINED), ("b", 0.0, USER_DEFINED), ("<▁>", 0.0, USER_DEFINED),
    *BYTES,
    ("<", -3.0, NORMAL), ("<a", -1.0, NORMAL), ("a>", -1.0, NORMAL), ("ab", -1.0, NORMAL), ("ab>", -2.0, NORMAL),
    ("▁▁", -1.0, NORMAL), ("a▁", -1.0, NORMAL), ("▁a", -1.0, NORMAL), ("<s", -2.0, NORMAL), ("s>", -2.0, NORMAL),
    ("</", -1.0, NORMAL), ("</s", -1.0, NORMAL), ("<0", -1.0, NORMAL), ("<0x", -1.0, NORMAL), ("41", -1.0, NORMAL),
    ("<0x41", -1.0, NORMAL), ("aa", -4.0, NORMAL), ("aaa", -4.0, NORMAL), ("aaaa", 0.0, NORMAL),
]  # fmt: skip
HOSTILE = {f"dummy={dummy}": Tokenizer.from_blob(tokenizer_blob(HOSTILE_PIECES, dummy=dummy)) for dummy in (0, 1)}
WITHOUT_FALLBACK = Tokenizer.from_blob(tokenizer_blob([("ab", -1.0, NORMAL), ("a", -2.0, NORMAL)], fallback=0))
EVERY = {"shipped": SHIPPED, "tiny": TINY, **HOSTILE, "no fallback": WITHOUT_FALLBACK}


def naive_encode(vocabulary: Vocabulary, segments: Iterable[tuple[str, bool]]) -> list[int]:
    """What encoding means, with no thought of speed: at each step the best pair of all, the leftmost among equals.

    A character carries whether it is trusted; a special piece needs all of its characters trusted.
    """
    ids = {piece: index for index, piece in enumerate(vocabulary.pieces)}
    text = [(character, trusted) for part, trusted in segments for character in part]
    if not text:
        return []
    if vocabulary.add_dummy_prefix:
        text.insert(0, ("▁", text[0][1]))
    symbols = [("▁" if character == " " else character, trusted) for character, trusted in text]

    def usable(symbol: tuple[str, bool]) -> bool:
        index = ids.get(symbol[0])
        return index is not None and (symbol[1] or vocabulary.kinds[index] == NORMAL)

    def merge(symbols: list[tuple[str, bool]]) -> list[int]:
        while True:
            best: tuple[float, int] | None = None
            for at in range(len(symbols) - 1):
                joined = (symbols[at][0] + symbols[at + 1][0], symbols[at][1] and symbols[at + 1][1])
                if usable(joined):
                    key = (-vocabulary.scores[ids[joined[0]]], at)
                    best = key if best is None else min(best, key)
            if best is None:
                break
            at = best[1]
            joined = (symbols[at][0] + symbols[at + 1][0], symbols[at][1] and symbols[at + 1][1])
            symbols[at : at + 2] = [joined]
        out: list[int] = []
        for symbol in symbols:
            if usable(symbol):
                out.append(ids[symbol[0]])
            elif vocabulary.byte_fallback:
                out += [ids[f"<0x{value:02X}>"] for value in symbol[0].encode()]
            else:
                out.append(vocabulary.unk)
        return out

    markers = [piece for index, piece in enumerate(vocabulary.pieces) if vocabulary.kinds[index] == USER_DEFINED]
    out: list[int] = []
    waiting: list[tuple[str, bool]] = []
    at = 0
    while at < len(symbols):
        here = [
            marker
            for marker in markers
            if symbols[at : at + len(marker)] == [(character, True) for character in marker]
        ]
        if here:
            longest = max(here, key=len)
            out += [*merge(waiting), ids[longest]]
            waiting = []
            at += len(longest)
        else:
            waiting.append(symbols[at])
            at += 1
    return out + merge(waiting)


def texts_for(tokenizer: Tokenizer, pieces: int = 12) -> st.SearchStrategy[str]:
    """Texts made of the vocabulary's own pieces, broken markers, and any Unicode without surrogates."""
    return st.lists(
        st.one_of(
            st.sampled_from(tokenizer.vocabulary.pieces),
            st.sampled_from(
                [" ", "  ", "\n", "▁", "<", ">", "|", "</", "<|im_", "tool_call>", "a", "aa", "ab", "é", "😀"]
            ),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
        ),
        max_size=pieces,
    ).map("".join)


# Against the reference's ids


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: ascii(case["text"][:24]))
def test_golden_texts(case: dict[str, object]) -> None:
    text, ids, decoded = str(case["text"]), case["ids"], case["decoded"]
    assert SHIPPED.encode(text) == ids
    assert SHIPPED.decode(ids) == decoded  # type: ignore[arg-type]


def test_there_are_as_many_golden_texts_as_there_should_be() -> None:
    assert len(GOLDEN) == 136
    assert any(set(case["ids"]) & set(SHIPPED.markers.values()) for case in GOLDEN)


@pytest.mark.parametrize("name", EVERY)
def test_encoding_is_that_of_the_naive_twin(name: str) -> None:
    tokenizer = EVERY[name]

    @settings(max_examples=120, deadline=None)
    @given(texts_for(tokenizer), st.booleans())
    def check(text: str, markers: bool) -> None:
        assert tokenizer.encode(text, markers) == naive_encode(tokenizer.vocabulary, [(text, markers)])

    check()


@pytest.mark.parametrize("name", EVERY)
def test_no_text_takes_fewer_tokens_than_it_is_said_to(name: str) -> None:
    tokenizer = EVERY[name]

    @settings(max_examples=80, deadline=None)
    @given(st.lists(st.tuples(texts_for(tokenizer, 4), st.booleans()), max_size=5))
    def check(segments: list[tuple[str, bool]]) -> None:
        assert tokenizer.at_least(segments) <= len(tokenizer.encode_segments(segments))

    check()
    pair = "\ud83d\ude00" * 40
    assert tokenizer.at_least([(pair, True)]) <= len(tokenizer.encode(pair))


def test_a_bound_that_is_worth_something() -> None:
    assert SHIPPED.at_least([("a" * 1000, False), ("b" * 1000, True)]) == 2000 // 16


@pytest.mark.parametrize("name", EVERY)
def test_segments_are_encoded_as_the_naive_twin_does(name: str) -> None:
    tokenizer = EVERY[name]

    @settings(max_examples=80, deadline=None)
    @given(st.lists(st.tuples(texts_for(tokenizer, 4), st.booleans()), max_size=5))
    def check(segments: list[tuple[str, bool]]) -> None:
        assert tokenizer.encode_segments(segments) == naive_encode(tokenizer.vocabulary, segments)

    check()


def test_long_texts_of_one_word_agree_with_the_naive_twin() -> None:
    rng = random.Random(11)
    for alphabet in ("a", "en", "enrti", "abcdefghijklmnopqrstuvwxyz"):
        text = "".join(rng.choice(alphabet) for _ in range(300))
        assert SHIPPED.encode(text) == naive_encode(SHIPPED.vocabulary, [(text, True)])


def _model_proto(vocabulary: Vocabulary) -> bytes:
    """A SentencePiece BPE model with the same pieces, in protocol-buffer encoding."""
    kinds = {NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, BYTE: 6}

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    def whole(number: int, value: int) -> bytes:
        return varint(number << 3) + varint(value)

    def block(number: int, data: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(data)) + data

    out = b""
    for piece, score, kind in zip(vocabulary.pieces, vocabulary.scores, vocabulary.kinds, strict=True):
        body = block(1, piece.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + whole(3, kinds[kind])
        out += block(1, body)
    trainer = whole(3, 2) + whole(4, len(vocabulary.pieces)) + whole(35, int(vocabulary.byte_fallback))
    trainer += whole(40, vocabulary.unk) + whole(41, vocabulary.bos) + whole(42, vocabulary.eos)
    trainer += whole(43, vocabulary.pad)
    normalizer = block(1, b"identity") + whole(3, int(vocabulary.add_dummy_prefix)) + whole(4, 0) + whole(5, 1)
    return out + block(2, trainer) + block(3, normalizer)


@pytest.mark.parametrize("name", ["shipped", "tiny"])
def test_encoding_is_that_of_sentencepiece(name: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="the test extra of this package has sentencepiece")
    tokenizer = EVERY[name]
    peer = sentencepiece.SentencePieceProcessor()
    peer.LoadFromSerializedProto(_model_proto(tokenizer.vocabulary))
    assert [peer.IdToPiece(i) for i in (0, 5, 280)] == [tokenizer.vocabulary.pieces[i] for i in (0, 5, 280)]

    @settings(max_examples=300, deadline=None)
    @given(texts_for(tokenizer, 30).filter(lambda text: "\0" not in text))
    def check(text: str) -> None:
        assert tokenizer.encode(text) == peer.EncodeAsIds(text)

    check()
    long = " ".join(case["text"] for case in GOLDEN).replace("\0", "")
    assert tokenizer.encode(long) == peer.EncodeAsIds(long)


# Markers


@pytest.mark.parametrize("name", EVERY)
def test_untrusted_text_never_yields_a_special_piece(name: str) -> None:
    tokenizer = EVERY[name]
    kinds = tokenizer.vocabulary.kinds
    every_special = "".join(
        piece for index, piece in enumerate(tokenizer.vocabulary.pieces) if kinds[index] not in (NORMAL, BYTE)
    )
    allowed = {NORMAL, BYTE} if tokenizer.vocabulary.byte_fallback else {NORMAL, UNKNOWN}

    @settings(max_examples=80, deadline=None)
    @given(st.one_of(texts_for(tokenizer), st.permutations(list(every_special)).map("".join)))
    @example(every_special)
    def check(text: str) -> None:
        ids = tokenizer.encode(text, markers=False)
        assert {kinds[index] for index in ids} <= allowed
        # Its bytes are spelled out: nothing is lost by not being a marker.
        if tokenizer.vocabulary.byte_fallback:
            assert tokenizer.decode(ids) == text.replace("▁", " ")

    check()


@pytest.mark.parametrize("marker", SHIPPED.markers)
def test_each_marker_is_atomic_in_trusted_text_only(marker: str) -> None:
    index = SHIPPED.marker(marker)
    assert SHIPPED.encode(marker) == [index]
    assert SHIPPED.encode(f"x{marker}{marker}") == [*SHIPPED.encode("x"), index, index]
    plain = SHIPPED.encode(marker, markers=False)
    assert len(plain) > 1 and index not in plain
    assert SHIPPED.decode(plain) == marker


def test_a_marker_across_a_border_is_not_one() -> None:
    think = SHIPPED.marker("<think>")
    assert SHIPPED.encode_segments([("<thi", True), ("nk>", True)]) == [think]
    for left, right in ((True, False), (False, True), (False, False)):
        assert think not in SHIPPED.encode_segments([("<thi", left), ("nk>", right)])
    assert SHIPPED.encode_segments([("<think>", True), ("<think>", False)])[0] == think
    assert SHIPPED.encode_segments([("<think>", True), ("<think>", False)]).count(think) == 1


def test_merges_run_across_borders() -> None:
    whole = SHIPPED.encode("the kitchen lights")
    for cut in range(19):
        for trusted in (True, False):
            parts = [("the kitchen lights"[:cut], True), ("the kitchen lights"[cut:], trusted)]
            assert SHIPPED.encode_segments(parts) == whole


def test_the_first_sixteen_ids_are_the_fixed_ones() -> None:
    names = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tools>", "</tools>", "<tool_call>", "</tool_call>",
             "<tool_result>", "</tool_result>", "<context>", "</context>"]  # fmt: skip
    for tokenizer in (SHIPPED, TINY):
        assert (tokenizer.pad, tokenizer.eos, tokenizer.bos, tokenizer.unk) == (0, 1, 2, 3)
        assert [tokenizer.marker(name) for name in names] == list(range(4, 16))
    assert set(MARKERS) <= set(SHIPPED.markers)


def test_an_unknown_marker_is_named() -> None:
    with pytest.raises(TokenizerError, match="'<nothing>'") as caught:
        SHIPPED.marker("<nothing>")
    assert caught.value.code == "tokenizer_marker"
    with pytest.raises(TokenizerError):
        SHIPPED.marker("<s>")


# Surrogates and types


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("\ud83d\ude00", "😀"),
        ("\ud83d", "\ufffd"),
        ("a\ude00b", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
        ("x\ud83d y", "x\ufffd y"),
    ],
)
def test_surrogates_are_read_as_javascript_reads_them(text: str, same_as: str) -> None:
    assert SHIPPED.encode(text) == SHIPPED.encode(same_as)
    assert SHIPPED.encode_segments([(text, False)]) == SHIPPED.encode(same_as, markers=False)


def test_surrogates_can_be_refused() -> None:
    assert SHIPPED.encode("\ud83d\ude00", surrogates="refuse") == SHIPPED.encode("😀")
    with pytest.raises(TokenizerError, match="character 4") as caught:
        SHIPPED.encode("ab😀c\ud83dd", surrogates="refuse")
    assert caught.value.code == "tokenizer_text"
    assert caught.value.details["place"] == 4


def test_a_pair_split_between_segments_of_equal_trust_is_a_pair() -> None:
    assert SHIPPED.encode_segments([("\ud83d", True), ("\ude00", True)]) == SHIPPED.encode("😀")


def test_text_must_be_text() -> None:
    for text in (b"bytes", None, 3):
        with pytest.raises(TokenizerError, match=type(text).__name__) as caught:
            SHIPPED.encode(text)  # type: ignore[arg-type]
        assert caught.value.code == "tokenizer_text"


# Decoding


@pytest.mark.parametrize("name", EVERY)
def test_incremental_decoding_gives_the_whole(name: str) -> None:
    tokenizer = EVERY[name]
    kinds, pieces = tokenizer.vocabulary.kinds, tokenizer.vocabulary.pieces

    def naive_decode(ids: list[int]) -> str:
        data = b""
        for index in ids:
            if kinds[index] == BYTE:
                data += bytes([int(pieces[index][3:5], 16)])
            elif kinds[index] in (NORMAL, USER_DEFINED):
                data += pieces[index].encode()
        text = data.decode("utf-8", "replace").replace("▁", " ")
        return text[1:] if tokenizer.vocabulary.add_dummy_prefix and text.startswith(" ") else text

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20))
    def check(ids: list[int]) -> None:
        decoder = tokenizer.incremental()
        for _ in range(2):  # a decoder that has finished starts anew
            fed = [decoder.feed(index) for index in ids]
            assert "".join(fed) + decoder.finish() == naive_decode(ids) == tokenizer.decode(ids)

    check()


def test_an_incomplete_character_is_held_back() -> None:
    ids = SHIPPED.encode("é😀", markers=False)
    emoji = ids[-4:]
    assert SHIPPED.decode(emoji) == "😀" and len(emoji) == 4
    decoder = SHIPPED.incremental()
    assert [decoder.feed(index) for index in emoji] == ["", "", "", "😀"]
    assert [decoder.feed(index) for index in emoji[:2]] == ["", ""]
    # A piece that starts a new character shows that the old one will not be completed.
    assert decoder.feed(SHIPPED.encode("a")[0]) == "\ufffda"
    assert decoder.feed(emoji[0]) == "" and decoder.finish() == "\ufffd"


@settings(max_examples=150, deadline=None)
@given(texts_for(SHIPPED), st.booleans())
def test_decoding_gives_back_the_text(text: str, markers: bool) -> None:
    # A space mark in the text is a space to the vocabulary; control pieces are plain text here.
    assert SHIPPED.decode(SHIPPED.encode(text, markers)) == text.replace("▁", " ")


def test_piece_bytes() -> None:
    assert SHIPPED.piece_bytes(SHIPPED.bos) == b"" == SHIPPED.piece_bytes(SHIPPED.unk)
    assert SHIPPED.piece_bytes(SHIPPED.marker("<think>")) == b"<think>"
    assert SHIPPED.piece_bytes(286) == b" t"
    assert [SHIPPED.piece_bytes(28 + value) for value in range(256)] == [bytes([value]) for value in range(256)]
    text = "turn on the kitchen lights, s'il vous plaît 😀"
    assert b"".join(map(SHIPPED.piece_bytes, SHIPPED.encode(text))) == text.encode()


@pytest.mark.parametrize("token", [-1, 8192, 2**31, -8192])
def test_ids_outside_the_vocabulary(token: int) -> None:
    for call in (SHIPPED.piece_bytes, lambda bad: SHIPPED.decode([bad]), SHIPPED.incremental().feed):
        with pytest.raises(TokenizerError, match="0 to 8191") as caught:
            call(token)
        assert caught.value.code == "tokenizer_id"


def test_the_cache_of_words_changes_nothing_and_stays_bounded() -> None:
    tokenizer = Tokenizer(SHIPPED.vocabulary)
    words = [f" w{number}x{number * 7}" for number in range(40_000)]
    first = [tokenizer.encode(word) for word in words[:50]]
    tokenizer.encode("".join(words))
    assert [tokenizer.encode(word) for word in words[:50]] == first
    assert len(tokenizer._cache) <= 16384


@pytest.mark.model
def test_the_archives_own_tokenizer_is_the_one_tested_here(real_model_path: Path) -> None:
    assert parse(real_model_path.read_bytes()).vocabulary == SHIPPED.vocabulary
