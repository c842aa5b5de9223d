"""Names taken over from XGrammar mean what they mean there: the same calls on the same grammar, side by side."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from shmcache.grammar.key import Source
from shmcache.matcher.batch import BatchGrammarMatcher
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_source
from tests.differential.engines import HAS_XGRAMMAR, Xgrammar, bits_of
from tests.differential.vocabulary import VOCABULARY, by_bytes
from tests.matcher.test_draft_tree import random_tree

pytestmark = pytest.mark.skipif(not HAS_XGRAMMAR, reason="XGrammar is not installed: pip install -e '.[differential]'")

GRAMMAR = 'root ::= "a" ("b" "c" | "c" tail) | "[" [ab] [ab]* "]"\ntail ::= "" | "b" | "a" "b" "c"'
PIECES = [b"a", b"b", b"c", b"[", b"]", b"ab", b"x"]
UNTOUCHED = 0x55
WORDS = -(-VOCABULARY.width // 32)


def tokens() -> list[int]:
    return [by_bytes()[piece] for piece in PIECES] + [VOCABULARY.stop_token_ids[0], VOCABULARY.width + 5, -1]


@pytest.fixture(scope="module")
def compiled_twice() -> tuple[Any, Any]:
    engine = Xgrammar(VOCABULARY)
    return compile_source(Source.ebnf(GRAMMAR), VOCABULARY), engine.compiler.compile_grammar(GRAMMAR)


def pair(compiled: tuple[Any, Any], **options: Any) -> tuple[GrammarMatcher, Any]:
    import xgrammar

    return GrammarMatcher(compiled[0], **options), xgrammar.GrammarMatcher(compiled[1], **options)


def rows() -> tuple[Any, Any]:
    return tuple(np.full((12, WORDS), UNTOUCHED, dtype=np.int32) for _ in range(2))  # type: ignore[return-value]


def text_bits(row: Any) -> frozenset[int]:
    """Without the surplus, which XGrammar leaves as it comes."""
    return frozenset(token for token in bits_of(row) if token < VOCABULARY.width)


@pytest.mark.parametrize("seed", range(5))
def test_draft_trees(seed: int, compiled_twice: tuple[Any, Any]) -> None:
    rng = Random(seed)
    untouched = 0
    for _ in range(20):
        ours, theirs = pair(compiled_twice, terminate_without_stop_token=rng.random() < 0.2)
        for token in rng.choice([(), (0,), (3,), (3, 0, 1)]):
            assert ours.accept_token(tokens()[token])
            assert theirs.accept_token(tokens()[token])
        tree = random_tree(rng, [rng.choice(tokens()) for _ in range(12)])
        mine, other = rows()
        arrays = [np.array(part, dtype=np.int64) for part in tree]
        assert ours.traverse_draft_tree(*arrays, mine) == theirs.traverse_draft_tree(*arrays, other)
        for row, another in zip(mine, other, strict=True):
            assert (row == UNTOUCHED).all() == (another == UNTOUCHED).all()
            assert text_bits(row) == text_bits(another)
            untouched += bool((row == UNTOUCHED).all())
    assert untouched > 20


def test_what_is_no_tree_is_an_error_in_both(compiled_twice: tuple[Any, Any]) -> None:
    wrong = [
        ([2, -1], [-1, -1]),
        ([-2, -1], [-1, -1]),
        ([1, 0], [-1, -1]),
        ([0, -1], [-1, -1]),
        ([-1, -1], [1, -1]),
        ([1, -1, -1], [-1, 2, 1]),
    ]
    for children, siblings in wrong:
        ours, theirs = pair(compiled_twice)
        bitmask = np.zeros((len(children), WORDS), dtype=np.int32)
        arrays = [np.array(part, dtype=np.int64) for part in (children, siblings, [0] * len(children))]
        with pytest.raises(ValueError, match=r"retrieve|root"):
            ours.traverse_draft_tree(*arrays, bitmask)
        with pytest.raises(RuntimeError):
            theirs.traverse_draft_tree(*arrays, bitmask)


def test_batches(compiled_twice: tuple[Any, Any]) -> None:
    import xgrammar

    rng = Random(1)
    ours, theirs = map(list, zip(*(pair(compiled_twice) for _ in range(8)), strict=True))
    mine, other = BatchGrammarMatcher(2), xgrammar.BatchGrammarMatcher(2)
    for _ in range(12):
        taken = [rng.choice(tokens()) for _ in range(8)]
        accepted = mine.batch_accept_token(ours, taken)
        assert accepted == other.batch_accept_token(theirs, taken)
        strings = [rng.choice(["a", b"c", "[a", "", "b]"]) for _ in range(8)]
        also = mine.batch_accept_string(ours, strings)
        assert also == other.batch_accept_string(theirs, strings)
        back = [rng.randint(0, one + another) for one, another in zip(accepted, also, strict=True)]
        mine.batch_rollback(ours, back)
        other.batch_rollback(theirs, back)
        order = rng.sample(range(12), 8)
        running = [at for at, one in enumerate(ours) if not one.is_terminated()]
        assert running == [at for at, one in enumerate(theirs) if not one.is_terminated()]
        one, another = rows()
        mine.batch_fill_next_token_bitmask([ours[at] for at in running], one, [order[at] for at in running])
        other.batch_fill_next_token_bitmask([theirs[at] for at in running], another, [order[at] for at in running])
        assert [text_bits(row) for row in one] == [text_bits(row) for row in another]
    for error, batch, group in ((ValueError, mine, ours), (RuntimeError, other, theirs)):
        with pytest.raises(error):
            batch.batch_accept_token(group, [1])
        with pytest.raises(error):
            batch.batch_rollback(group, [1])
        with pytest.raises(error):
            batch.batch_rollback(group, 1_000)


def test_jumps(compiled_twice: tuple[Any, Any]) -> None:
    """The same text must come. Of its tokens XGrammar guesses the longest; only what is certain is told here."""
    for taken in ("", "a", "[a", "ac", "ab", "aca", "acab"):
        ours, theirs = pair(compiled_twice)
        assert ours.accept_string(taken)
        assert theirs.accept_string(taken)
        forced = ours.find_jump_forward_string()
        assert forced == theirs.find_jump_forward_string()
        assert all(ours.fork().accept_token(token) for token in theirs.find_jump_forward_tokens()[:1])
        certain = b"".join(map(VOCABULARY.token_bytes, ours.find_jump_forward_tokens()))
        assert forced.encode().startswith(certain)
