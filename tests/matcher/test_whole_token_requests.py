"""What a request can do, over grammars that take tokens whole: trees, jumps, other stop tokens, ways back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from random import Random
from typing import Any

import numpy as np
import pytest

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Choice, Grammar, Literal, Repeat, Sequence, Tokens
from shmcache.grammar.whole_tokens import with_token_ids
from shmcache.limits import CONFIGURATION_ENTRIES_MAX, Budget
from shmcache.matcher.batch import batch_fill_next_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.matcher.test_draft_tree import UNTOUCHED, expected_rows, random_tree
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.masks import mask_bits
from tests.reference.whole_tokens import Readings, with_random_tokens

pytestmark = pytest.mark.reference


def random_grammars(rng: Random, count: int) -> Iterator[tuple[Grammar, CompiledGrammar]]:
    """Random rules with whole tokens, and what is made of them."""
    for _ in range(count):
        vocabulary = random_vocabulary(rng)
        try:
            tested = with_random_tokens(rng, random_grammar(rng), vocabulary)
            grammar = compiled_or_none(with_token_ids(tested, vocabulary, Budget()), vocabulary)
        except SourceError:
            continue
        if grammar is not None:
            yield tested, grammar


@pytest.mark.parametrize("seed", range(3))
def test_draft_trees(seed: int) -> None:
    rng = Random(seed)
    written = 0
    for _, grammar in random_grammars(rng, 8):
        width = grammar.vocabulary.width
        likely = [*sorted(allowed(GrammarMatcher(grammar), width)), 0, -1]
        tree = random_tree(rng, [rng.choice(likely) if rng.random() < 0.6 else rng.randrange(width) for _ in range(10)])
        bitmask = np.full((10, -(-width // 32)), UNTOUCHED, dtype=np.int32)
        try:
            expected = expected_rows(grammar, [], tree, {})
            assert GrammarMatcher(grammar).traverse_draft_tree(*tree, bitmask)
        except LimitError:
            continue
        for mask, row in zip(expected, bitmask, strict=True):
            assert (row == UNTOUCHED).all() if mask is None else mask_bits(row) == mask, tree
            written += bool(mask)
    assert written > 5


def certain_tokens(readings: Readings, stops: set[int]) -> list[int]:
    """By definition: as long as nothing but one token is allowed, and the text may not end."""
    certain: list[int] = []
    while len(certain) < 6:
        mask = readings.mask(stops)
        if len(mask) != 1 or readings.ended:
            break
        (token,) = mask
        certain.append(token)
        readings = readings.after(token)
    return certain


@pytest.mark.parametrize("seed", range(3))
def test_jumps_along_random_walks(seed: int) -> None:
    rng = Random(seed)
    jumps = 0
    for tested, grammar in random_grammars(rng, 12):
        matcher, readings = GrammarMatcher(grammar), Readings.of(tested, grammar.vocabulary)
        stops = set(matcher.stop_token_ids)
        for _ in range(3):
            try:
                found = matcher.find_jump_forward_tokens()
                ways = sorted(allowed(matcher, grammar.vocabulary.width) - stops)
            except LimitError:
                break
            assert found[:6] == certain_tokens(readings, stops), (readings.texts, tested)
            jumps += bool(found)
            if not ways:
                break
            token = rng.choice(ways)
            try:
                assert matcher.accept_token(token)
            except LimitError:
                break
            readings = readings.after(token)
    assert jumps > 0


@pytest.mark.parametrize("seed", range(3))
def test_other_stop_tokens_and_ways_back(seed: int) -> None:
    """Any token may be a request's stop token: it is then no token of the text, whole or by its bytes."""
    rng = Random(seed)
    compared = 0
    for tested, grammar in random_grammars(rng, 8):
        width = grammar.vocabulary.width
        stops = set(rng.sample(range(width), min(width, rng.randint(0, 3))))
        matcher, readings = (
            GrammarMatcher(grammar, override_stop_tokens=sorted(stops)),
            Readings.of(tested, grammar.vocabulary),
        )
        path: list[tuple[Readings, Any]] = []
        for _ in range(6):
            try:
                mask = allowed(matcher, width)
                accepted = {token for token in range(-1, width + 3) if matcher.fork().accept_token(token)}
            except LimitError:
                break
            assert mask == accepted == readings.mask(stops), (readings.texts, tested, stops)
            compared += 1
            ways = sorted(mask - stops)
            if path and (not ways or rng.random() < 0.3):
                back = rng.randint(1, len(path))
                matcher.rollback(back)
                readings, before = path[-back]
                del path[-back:]
                assert allowed(matcher, width) == before
            elif ways:
                path.append((readings, mask))
                token = rng.choice(ways)
                readings = readings.after(token)
                assert matcher.accept_token(token)
    assert compared > 5


WORDS = Vocabulary(
    [b"a", b"b", b"ab", b"<tool>", b"</s>", b"", b"a", b"<pad>"], special_token_ids=[3, 7], stop_token_ids=[4]
)


def request(root: Any, **options: Any) -> GrammarMatcher:
    tested = Grammar({"root": root}, "root")
    return GrammarMatcher(compiled(with_token_ids(tested, WORDS, Budget()), WORDS), **options)


def test_special_tokens_that_must_follow() -> None:
    matcher = request(Sequence((Tokens((3,)), Tokens((7,)), Choice((Literal(b"b"), Tokens((3,)))))))
    assert matcher.find_jump_forward_tokens() == [3, 7]
    assert matcher.find_jump_forward_string() == ""
    two_ways = request(Sequence((Tokens(("a",)), Tokens((3,)))))
    assert two_ways.find_jump_forward_tokens() == [], "two tokens are spelt alike"


def test_termination_and_batches() -> None:
    early = request(Sequence((Tokens((3,)), Repeat(Tokens((7,)), 0, None))), terminate_without_stop_token=True)
    assert early.accept_token(3)
    assert early.is_terminated()
    assert allowed(early, 8) == set()
    early.rollback(1)
    late = request(Repeat(Tokens((3, 4), is_excluded=True), 1, None))
    bitmask = np.full((2, 1), UNTOUCHED, dtype=np.int32)
    batch_fill_next_token_bitmask([early, late], bitmask)
    assert [mask_bits(row) for row in bitmask] == [{3}, {0, 1, 2, 6, 7}]
    assert late.traverse_draft_tree([1, 2, -1], [-1, -1, -1], [0, 7, 4], np.zeros((3, 1), dtype=np.int32))


@pytest.mark.parametrize("count", [20, CONFIGURATION_ENTRIES_MAX + 1, 12_000])
def test_a_token_in_very_many_sets_is_a_limit(count: int) -> None:
    """One token leads on by an edge for each set that it is in."""
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)])
    sets = islice(combinations(range(1, 256), 2), count)
    ways = tuple(Sequence((Tokens((0, *pair)), Literal(b"%d" % at))) for at, pair in enumerate(sets))
    grammar = compiled(with_token_ids(Grammar({"root": Choice(ways)}, "root"), vocabulary, Budget()), vocabulary)
    matcher = GrammarMatcher(grammar)
    before = allowed(matcher, 256)
    assert 0 in before
    if count <= CONFIGURATION_ENTRIES_MAX:
        assert matcher.accept_token(0)
        assert allowed(matcher, 256) == set(b"0123456789")
        return
    with pytest.raises(LimitError) as caught:
        matcher.accept_token(0)
    assert caught.value.limit == "configuration_entries"
    assert allowed(matcher, 256) == before
