"""Images: the way there and back, and every way in which bytes can be damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError, SegmentError, ShmCacheError
from shmcache.grammar import ir
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Regular, Repeat, Sequence
from shmcache.image import image as image_module
from shmcache.image.image import Image, open_image, write_image
from shmcache.limits import Budget
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.regular.dfa import Dfa
from shmcache.regular.operations import repeat
from shmcache.rows.build import build_rows
from shmcache.vocabulary.sections import checksum
from shmcache.vocabulary.vocabulary import Vocabulary

pytestmark = pytest.mark.reference

A, B = Literal(b"a"), Literal(b"b")
GRAMMAR = Grammar(
    {
        "root": Choice((Sequence((A, Reference("inner"), A)), Sequence((Literal(b"["), Reference("root"))), B)),
        "inner": Choice((Sequence((B, Reference("inner"), B)), Repeat(Literal(b"c"), 1, 2))),
    },
    "root",
    frozenset({"inner"}),
    warnings=(ir.Warning("format", "/properties/é", "ignored"),),
)
VOCABULARY = Vocabulary(
    [b"a", b"b", b"c", b"[", b"bc", b"cb", b"ca", b"[a", b"cba", b"</s>"], stop_token_ids=[9], width=40
)
KEY = bytes(range(100, 132))


def image_of(tested: Grammar = GRAMMAR, vocabulary: Vocabulary = VOCABULARY) -> Image:
    automaton = build_automaton(tested, Budget())
    rows = build_rows(automaton, vocabulary, None, Budget())
    return Image(
        key=KEY,
        vocabulary_fingerprint=vocabulary.fingerprint,
        vocabulary_size=vocabulary.size,
        width=vocabulary.width,
        automaton=automaton,
        rows=rows,
        warnings=tested.warnings,
    )


def all_arrays(image: Image) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]:
    return (*image.automaton.arrays(), *image.rows.arrays())


def same(one: Image, other: Image) -> bool:
    plain = [
        (i.key, i.vocabulary_fingerprint, i.vocabulary_size, i.width, i.automaton.root_nullable, i.warnings)
        for i in (one, other)
    ]
    arrays = zip(all_arrays(one), all_arrays(other), strict=True)
    return plain[0] == plain[1] and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)


def with_checksum(data: bytearray) -> bytes:
    """The bytes with the checksum that belongs to them."""
    data[28:32] = checksum(memoryview(data)).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    "tested", [GRAMMAR, Grammar({"root": Sequence(())}, "root"), Grammar({"root": Repeat(A, 0, None)}, "root")]
)
def test_there_and_back(tested: Grammar) -> None:
    image = image_of(tested)
    data = write_image(image)
    assert write_image(image) == data, "the same image is the same bytes"
    again = open_image(data, expected_key=KEY)
    assert same(again, image)
    assert write_image(again) == data


def test_arrays_lie_in_the_bytes_themselves() -> None:
    data = bytearray(write_image(image_of()))
    opened = open_image(memoryview(data).toreadonly())
    place = np.frombuffer(data, dtype=np.uint8)
    for array in all_arrays(opened):
        assert not array.flags.writeable
        assert not len(array) or np.shares_memory(array, place)


def test_a_mapping_may_be_longer_than_the_image() -> None:
    data = write_image(image_of())
    assert same(open_image(data + b"\xaa" * (4096 - len(data) % 4096)), open_image(data))


def test_bytes_that_kernels_cannot_read_in_place_are_refused() -> None:
    """Mappings and bytes objects are aligned; a slice of one need not be."""
    data = write_image(image_of())
    for shift in (1, 2, 4, 12):
        with pytest.raises(SegmentError, match="multiple"):
            open_image(memoryview(b"\0" * shift + data)[shift:])
    assert same(open_image(memoryview(b"\0" * 64 + data)[64:]), open_image(data))


def test_another_key_version_or_magic_is_refused() -> None:
    data = write_image(image_of())
    open_image(data, expected_key=KEY)
    with pytest.raises(SegmentError, match="another grammar"):
        open_image(data, expected_key=bytes(32))
    with pytest.raises(SegmentError, match="version"):
        open_image(with_checksum(bytearray(data[:8] + b"\x63\0\0\0" + data[12:])))
    with pytest.raises(SegmentError, match="magic"):
        open_image(with_checksum(bytearray(b"SHMCtri\0" + data[8:])))
    with pytest.raises(SegmentError):
        open_image(VOCABULARY.trie.to_bytes())


def test_truncated_bytes_are_refused() -> None:
    data = write_image(image_of())
    for length in range(len(data)):
        with pytest.raises(SegmentError):
            open_image(data[:length])


def test_every_damaged_byte_is_found() -> None:
    data = write_image(image_of())
    for at in range(len(data)):
        for bits in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= bits
            with pytest.raises(SegmentError):
                open_image(damaged)


def use(image: Image) -> None:
    """Everything a request does. The grammar may be another one by now, so only crashes count."""
    row = np.zeros(2, dtype=np.int32)
    with suppress(SegmentError):
        grammar = CompiledGrammar(image, VOCABULARY, generation=0, memory_size_bytes=0)
        for tokens in ((), (0, 1, 2), (3, 3, 4), (7, 5)):
            with suppress(LimitError):
                matcher = GrammarMatcher(grammar)
                for token in tokens:
                    matcher.fill_next_token_bitmask(row)
                    matcher.accept_token(token)
                matcher.find_jump_forward_string()
                matcher.accept_string(b"cba")


def damaged_with_checksum(data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(len(data)):
        if 28 <= at < 32:
            continue  # the checksum itself
        for bits in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= bits
            yield at, with_checksum(damaged)


LETTERS = Dfa((((97, 99, 1),), ()), (False, True))
PAIRED = Grammar(
    {
        "root": Sequence((Choice((A, Literal(b"["))), Reference("short"))),
        "short": Regular(repeat(LETTERS, 0, 8, Budget())),
        "long": Regular(repeat(LETTERS, 0, None, Budget())),
    },
    "root",
    frozenset({"short", "long"}),
    frozenset({"long"}),
)
"""Masks inside of ``short`` are worked out beside ``long``."""


def test_one_of_the_grammars_has_masks_beside_others() -> None:
    """That what follows is about these, too."""
    image = image_of(PAIRED)
    matcher = GrammarMatcher(CompiledGrammar(image, VOCABULARY, generation=0, memory_size_bytes=0))
    for token in (0, 0, 1):
        assert matcher.accept_token(token)
        matcher.fill_next_token_bitmask(np.zeros(2, dtype=np.int32))
    assert matcher._arena._masks._lazy._differences


@pytest.mark.parametrize("tested", [GRAMMAR, PAIRED], ids=["calls", "paired"])
def test_damage_under_a_right_checksum_cannot_crash(tested: Grammar) -> None:
    """Refused, or another grammar within the same bounds. Without compilation an index out of bounds is an error."""
    intact = open_image(write_image(image_of(tested)))
    refused = used = 0
    for _, data in damaged_with_checksum(write_image(intact)):
        try:
            image = open_image(data)
        except SegmentError:
            refused += 1
            continue
        if not same(image, intact):
            use(image)
            used += 1
    assert refused > 500
    assert used > 100


def test_indices_out_of_bounds_are_never_written() -> None:
    """An image may be opened without the check, as its checksum says that the writer made it."""
    image = image_of()
    beyond = image.rows.state_accepted.copy()
    beyond[int(np.flatnonzero(beyond >= 0)[0])] = len(image.rows.form)
    target = image.automaton.edge_target.copy()
    target[0] = image.automaton.state_count
    for damaged in (
        replace(image, rows=replace(image.rows, state_accepted=beyond)),
        replace(image, automaton=replace(image.automaton, edge_target=target)),
        replace(image, width=9),
    ):
        with pytest.raises(SegmentError, match="bounds"):
            write_image(damaged)


def test_the_check_of_indices_can_be_left_out_and_nothing_else() -> None:
    data = write_image(image_of())
    assert same(open_image(data, check_bounds=False), image_of())
    with pytest.raises(SegmentError, match="checksum"):
        open_image(data[:-1] + b"x", check_bounds=False)
    # Any byte under a right checksum: what is refused now is refused for its layout alone.
    for _, damaged in damaged_with_checksum(data):
        with suppress(SegmentError):
            open_image(damaged, check_bounds=False)


@pytest.mark.parametrize("warnings", ["{", "[1]", '[["a"]]', "null", '[["a", "b", 3]]'])
def test_warnings_that_cannot_be_read_are_refused(warnings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = image_of()
    with monkeypatch.context() as other:
        other.setattr(image_module.json, "dumps", lambda _: warnings)
        data = write_image(image)
    with pytest.raises(SegmentError, match="warnings"):
        open_image(data)


def test_an_image_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "IMAGE_BYTES_MAX", 100)
    with pytest.raises(LimitError) as caught:
        write_image(image_of())
    assert caught.value.limit == "image_bytes"
    assert isinstance(caught.value, ShmCacheError)
