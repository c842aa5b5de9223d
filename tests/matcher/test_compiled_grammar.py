"""A compiled grammar belongs to one vocabulary and says what it is."""

from __future__ import annotations

import gc
import mmap
from dataclasses import replace

import pytest

from shmcache.errors import SegmentError
from shmcache.grammar import ir
from shmcache.image.image import open_image
from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.matcher.token_table import TokenTable
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import compiled, image_bytes
from tests.reference.masks import mask_bits

pytestmark = pytest.mark.reference

VOCABULARY = Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2])
GRAMMAR = ir.Grammar({"root": ir.Literal(b"ab")}, "root", warnings=(ir.Warning("format", "/a", "ignored"),))


def test_it_says_what_it_is() -> None:
    grammar = compiled(GRAMMAR, VOCABULARY)
    assert grammar.key == bytes(range(32))
    assert grammar.memory_size_bytes == len(image_bytes(GRAMMAR, VOCABULARY))
    assert grammar.generation == 0
    assert grammar.vocabulary is VOCABULARY
    assert grammar.warnings == GRAMMAR.warnings
    assert grammar.key.hex()[:12] in repr(grammar)
    assert grammar.arena() is grammar.arena()


@pytest.mark.parametrize(
    "other",
    [
        Vocabulary([b"a", b"c", b"</s>"], stop_token_ids=[2]),
        Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2], width=4),
        Vocabulary([b"a", b"b", b"</s>"], special_token_ids=[2]),
    ],
)
def test_another_vocabulary_is_refused(other: Vocabulary) -> None:
    image = open_image(image_bytes(GRAMMAR, VOCABULARY))
    with pytest.raises(SegmentError, match="vocabulary"):
        CompiledGrammar(image, other, generation=0, memory_size_bytes=0)
    equal = Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2])
    CompiledGrammar(image, equal, generation=0, memory_size_bytes=0)


@pytest.mark.parametrize("wrong", [{"width": 99}, {"vocabulary_size": 99}])
def test_an_image_that_disagrees_with_its_vocabulary_is_refused(wrong: dict[str, int]) -> None:
    """Its indices were checked against these numbers, so they must be the vocabulary's own."""
    image = open_image(image_bytes(GRAMMAR, VOCABULARY))
    with pytest.raises(SegmentError, match="vocabulary"):
        CompiledGrammar(replace(image, **wrong), VOCABULARY, generation=0, memory_size_bytes=0)


def test_the_table_of_tokens_is_made_once_for_equal_vocabularies() -> None:
    first = Vocabulary([b"a", b"", None, b"<s>", b"long"], special_token_ids=[3], width=70)
    table = TokenTable.of(first)
    assert TokenTable.of(first) is table
    assert table.is_text.tolist() == [True, False, False, False, True]
    assert mask_bits(table.text_bitmask) == {0, 4}
    assert len(table.text_bitmask) == 3
    assert table.longest_token_bytes == 4
    narrow = TokenTable.of(Vocabulary([b"a", b"b", b"c"], width=2))
    assert narrow.is_text.tolist() == [True, True, False]
    assert mask_bits(narrow.text_bitmask) == {0, 1}


def test_its_bytes_are_let_go_without_waiting_for_the_collector() -> None:
    """Engines switch the collector off; a cleared grammar must be unmapped all the same."""
    loop = ir.Grammar({"root": ir.Repeat(ir.Choice((ir.Literal(b"a"), ir.Literal(b"b"))), 0, None)}, "root")
    data = image_bytes(loop, VOCABULARY)
    pages = mmap.mmap(-1, len(data))
    pages[:] = data
    gc.disable()
    try:
        grammar = CompiledGrammar(open_image(memoryview(pages)), VOCABULARY, generation=0, memory_size_bytes=len(data))
        matcher = GrammarMatcher(grammar)
        bitmask = allocate_token_bitmask(1, VOCABULARY.width)
        for token in (0, 1, 0):
            matcher.fill_next_token_bitmask(bitmask)
            assert matcher.accept_token(token)
        forked = matcher.fork()
        del grammar, matcher
        assert forked.accept_token(1)
        del forked
        pages.close()  # raises BufferError while a view of it is left
    finally:
        gc.enable()
