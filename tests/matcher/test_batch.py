"""Batches: the same as one by one, all or nothing where the call is wrong, and each for itself where a limit is met."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any

import numpy as np
import pytest

import shmcache
from shmcache.errors import BatchLimitError, LimitError
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Repeat, Sequence
from shmcache.matcher.batch import (
    BatchGrammarMatcher,
    batch_accept_string,
    batch_accept_token,
    batch_fill_next_token_bitmask,
    batch_rollback,
)
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.matcher.test_arena import AMBIGUOUS
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.masks import mask_bits

pytestmark = pytest.mark.reference

A, B = Literal(b"a"), Literal(b"b")
NESTED = Grammar(
    {"root": Choice((Sequence((Literal(b"["), Repeat(Reference("root"), 0, None), Literal(b"]"))), A))}, "root"
)
TOKENS = [b"a", b"[", b"]", b"[[", b"]]", b"a]", b"</s>", b"b"]
STOP = 6
VOCABULARY = Vocabulary(TOKENS, stop_token_ids=[STOP])
WIDTH = len(TOKENS)
UNTOUCHED = 0x55

LONG = Vocabulary([b"a", b"b", b"a" * 30, b"</s>"], stop_token_ids=[3])
"""With it the ambiguous grammar has no mask: one of its tokens alone is too ambiguous."""


def nested(*tokens: int, **options: Any) -> GrammarMatcher:
    matcher = GrammarMatcher(compiled(NESTED, VOCABULARY), **options)
    for token in tokens:
        assert matcher.accept_token(token)
    return matcher


def ambiguous() -> GrammarMatcher:
    return GrammarMatcher(compiled(AMBIGUOUS, LONG))


def rows(count: int, words: int = 1) -> Any:
    return np.full((count, words), UNTOUCHED, dtype=np.int32)


def bits(bitmask: Any) -> list[set[int]]:
    return [mask_bits(row) for row in bitmask]


def test_rows_of_a_batch() -> None:
    first, second = nested(), nested(0)
    bitmask = rows(4, 2)
    batch_fill_next_token_bitmask([first, second], bitmask)
    assert bits(bitmask[:2]) == [{0, 1, 3}, {STOP}]
    assert (bitmask[2:] == UNTOUCHED).all()
    bitmask = rows(4, 2)
    batch_fill_next_token_bitmask([first, second], bitmask, [3, 0])
    assert bits(bitmask[[3, 0]]) == [{0, 1, 3}, {STOP}]
    assert (bitmask[1:3] == UNTOUCHED).all()
    for indices in (np.array([2, 1]), (np.int64(2), 1)):
        batch_fill_next_token_bitmask([first, second], bitmask, indices)  # type: ignore[arg-type]
        assert bits(bitmask[[2, 1]]) == [{0, 1, 3}, {STOP}]
    same = rows(2)
    batch_fill_next_token_bitmask([first, first], same)
    assert bits(same) == [{0, 1, 3}] * 2
    ended = rows(2)
    batch_fill_next_token_bitmask([nested(0, STOP), nested(0, terminate_without_stop_token=True)], ended)
    assert bits(ended) == [set(), set()]
    batch_fill_next_token_bitmask([], rows(0))
    batch_fill_next_token_bitmask([], rows(2), [])


@pytest.mark.parametrize(
    ("bitmask", "indices", "error"),
    [
        (rows(1), None, IndexError),
        (rows(0), None, IndexError),
        (rows(4), [1], ValueError),
        (rows(4), [1, 2, 3], ValueError),
        (rows(4), [1, 4], IndexError),
        (rows(4), [1, -1], IndexError),
        (rows(4), [1, 1], ValueError),
        (rows(4), [1, 2.0], TypeError),
        (rows(4)[0], None, ValueError),
        (rows(4).astype(np.int64), None, ValueError),
        (rows(4, 0), None, ValueError),
        (rows(4)[None], None, ValueError),
    ],
)
def test_a_wrong_batch_writes_nothing(bitmask: Any, indices: Any, error: type[Exception]) -> None:
    before = bitmask.copy()
    with pytest.raises(error):
        batch_fill_next_token_bitmask([nested(), nested(0)], bitmask, indices)
    assert np.array_equal(bitmask, before)


def test_one_matcher_over_a_limit_does_not_spoil_the_others() -> None:
    bitmask = rows(4)
    matchers = [nested(), ambiguous(), nested(0), ambiguous()]
    with pytest.raises(LimitError) as caught:
        batch_fill_next_token_bitmask(matchers, bitmask, [3, 2, 1, 0])
    error = caught.value
    assert isinstance(error, BatchLimitError)
    assert sorted(error.failures) == [1, 3]
    assert {one.limit for one in error.failures.values()} == {error.limit} == {"configuration_entries"}
    assert "1, 3" in str(error)
    assert bits(bitmask) == [set(), {STOP}, set(), {0, 1, 3}]
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.limit, again.value) == (LimitError, error.limit, error.value)


def test_tokens_of_a_batch() -> None:
    matchers = [nested(), nested(1), nested(0), nested()]
    assert batch_accept_token(matchers, [2, 2, STOP, 10**9]) == [False, True, True, False]
    assert [allowed(one, WIDTH) for one in matchers] == [{0, 1, 3}, {STOP}, set(), {0, 1, 3}]
    assert batch_accept_token(matchers[:2], np.array([1, STOP])) == [True, True]  # type: ignore[arg-type]
    twice = nested()
    assert batch_accept_token([twice, twice], [1, 2]) == [True, True]
    assert batch_accept_token([], []) == []


def test_strings_of_a_batch() -> None:
    matchers = [nested(), nested(), nested(), nested()]
    assert batch_accept_string(matchers, ["[a", b"]", bytearray(b"[]"), ""]) == [True, False, True, True]
    assert [allowed(one, WIDTH) for one in matchers] == [{0, 1, 2, 3, 4, 5} - {4}, {0, 1, 3}, {STOP}, {0, 1, 3}]
    for one in (matchers[0], matchers[2]):
        one.rollback(1)
        assert allowed(one, WIDTH) == {0, 1, 3}
    for wrong in ("[a", b"[a"):
        with pytest.raises(TypeError, match="sequence"):
            batch_accept_string([nested(), nested()], wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "given", "error"),
    [
        (batch_accept_token, [1], ValueError),
        (batch_accept_token, [1, 1, 1], ValueError),
        (batch_accept_token, [1, "1"], TypeError),
        (batch_accept_token, [1, 1.5], TypeError),
        (batch_accept_string, ["["], ValueError),
        (batch_accept_string, ["[", 1], TypeError),
        (batch_rollback, [1], ValueError),
        (batch_rollback, [1, 2], ValueError),
        (batch_rollback, [1, -1], ValueError),
        (batch_rollback, 2, ValueError),
        (batch_rollback, -1, ValueError),
        (batch_rollback, [1, None], TypeError),
    ],
)
def test_a_wrong_call_moves_nobody(call: Any, given: Any, error: type[Exception]) -> None:
    matchers = [nested(1), nested(1)]
    before = [allowed(one, WIDTH) for one in matchers]
    with pytest.raises(error):
        call(matchers, given)
    assert [allowed(one, WIDTH) for one in matchers] == before
    batch_rollback(matchers)
    with pytest.raises(ValueError, match="roll back"):
        matchers[0].rollback(1)


def test_rollback_of_a_batch() -> None:
    matchers = [nested(1, 0, 2, STOP), nested(1, 0), nested()]
    batch_rollback(matchers, [3, 1, 0])
    assert [allowed(one, WIDTH) for one in matchers] == [allowed(nested(1), WIDTH)] * 2 + [{0, 1, 3}]
    batch_rollback(matchers[:2], 1)
    batch_rollback(matchers, 0)
    batch_rollback([])
    assert [allowed(one, WIDTH) for one in matchers] == [{0, 1, 3}] * 3
    pair = [nested(1, 0), nested(1, 0)]
    batch_rollback(pair, np.array([2, 1]))  # type: ignore[arg-type]
    assert [allowed(one, WIDTH) for one in pair] == [allowed(nested(), WIDTH), allowed(nested(1), WIDTH)]
    batch_rollback(pair[1:], np.int64(1))
    twice = nested(1, 1, 1)
    with pytest.raises(ValueError, match="roll back 4"):
        batch_rollback([twice, twice], [2, 2])
    batch_rollback([twice, twice], [2, 1])
    assert allowed(twice, WIDTH) == {0, 1, 3}


def test_one_that_cannot_move_does_not_keep_the_others() -> None:
    matchers = [ambiguous(), ambiguous(), ambiguous(), nested()]
    before = matchers[0].is_completed()
    with pytest.raises(BatchLimitError) as caught:
        batch_accept_token(matchers, [2, 0, 3, 1])
    assert list(caught.value.failures) == [0]
    assert caught.value.accepted == [False, True, False, True]
    assert matchers[0].is_completed() == before
    with pytest.raises(ValueError, match="roll back"):
        matchers[0].rollback(1)
    batch_rollback([matchers[1], matchers[3]])
    with pytest.raises(BatchLimitError) as caught:
        batch_accept_string(matchers, ["a" * 30, "a", "a" * 40, "["])
    assert sorted(caught.value.failures) == [0, 2]
    assert caught.value.accepted == [False, True, False, True]


@pytest.mark.parametrize("seed", range(3))
def test_batches_are_what_each_does_alone(seed: int) -> None:
    """Several random grammars over one vocabulary, several requests of each, moved on and taken back together."""
    rng = Random(seed)
    vocabulary = random_vocabulary(rng)
    grammars = [found for _ in range(6) if (found := compiled_or_none(random_grammar(rng), vocabulary)) is not None]
    batch = [GrammarMatcher(rng.choice(grammars)) for _ in range(10)]
    alone = [one.fork() for one in batch]
    words = -(-vocabulary.width // 32) + rng.randint(0, 2)
    moved = 0
    for _ in range(8):
        order = rng.sample(range(12), len(batch))
        together, apart = rows(12, words), rows(12, words)
        try:
            for one, row in zip(alone, order, strict=True):
                one.fill_next_token_bitmask(apart, row)
            batch_fill_next_token_bitmask(batch, together, order)
        except LimitError:
            return
        assert np.array_equal(together, apart)
        ways = [sorted(mask_bits(together[row])) or [0] for row in order]
        tokens = [rng.choice(some) if rng.random() < 0.8 else rng.randrange(vocabulary.size) for some in ways]
        try:
            accepted = batch_accept_token(batch, tokens)
        except LimitError:
            return  # all entries together may be too many where each by itself has a mask
        assert accepted == [one.accept_token(token) for one, token in zip(alone, tokens, strict=True)]
        moved += sum(accepted)
        back = [int(did and rng.random() < 0.3) for did in accepted]
        batch_rollback(batch, back)
        for one, count in zip(alone, back, strict=True):
            one.rollback(count)
    assert moved > 5


def test_the_class_of_that_name() -> None:
    batch = BatchGrammarMatcher(max_threads=2)
    matchers = [nested(), nested()]
    assert batch.batch_accept_token(matchers, [1, 0]) == [True, True]
    assert BatchGrammarMatcher.batch_accept_string(matchers, ["a]", "x"]) == [True, False]
    bitmask = rows(2)
    BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
    assert bits(bitmask) == [{STOP}, {STOP}]
    batch.batch_rollback(matchers, [2, 1])
    batch.batch_fill_next_token_bitmask(matchers, bitmask, [1, 0])
    assert bits(bitmask) == [{0, 1, 3}] * 2
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="thread"):
            BatchGrammarMatcher(wrong)
    with pytest.raises(TypeError):
        BatchGrammarMatcher("many")  # type: ignore[arg-type]
    assert shmcache.BatchGrammarMatcher is BatchGrammarMatcher
