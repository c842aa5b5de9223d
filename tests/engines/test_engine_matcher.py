"""The matcher of the engine adapters: as ours, but for what is wrong with one request alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shmcache
from shmcache.errors import LimitError
from shmcache.matcher.matcher import GrammarMatcher
from shmcache_workers.engine_matcher import EngineMatcher
from tests.client.support import VOCABULARY

STOP = 257


@pytest.fixture(scope="module")
def grammar() -> shmcache.CompiledGrammar:
    """Of two letters, in any number."""
    return shmcache.compile_regex("[ab]+c", VOCABULARY)


def test_it_says_what_the_matcher_says(grammar: shmcache.CompiledGrammar) -> None:
    ours, plain = EngineMatcher(grammar), GrammarMatcher(grammar)
    rows = shmcache.allocate_token_bitmask(2, VOCABULARY.width)
    for token in (*b"ab", 256, *b"xc", STOP, STOP):
        assert ours.accept(token) == plain.accept_token(token)
        assert ours.is_terminated() == plain.is_terminated()
        ours.write(rows[0])
        plain.fill_next_token_bitmask(rows, 1)
        assert (rows[0] == rows[1]).all()
        assert ours.forced_text() == plain.find_jump_forward_string()
    ours.rollback(3)
    plain.rollback(3)
    assert ours.accepted_prefix([*b"ac", STOP, 1]) == [*b"ac", STOP]
    ours.reset()
    assert ours.accepted_prefix([*b"c"]) == []


def test_stop_tokens_can_be_the_requests(grammar: shmcache.CompiledGrammar) -> None:
    ours = EngineMatcher(grammar, [100])
    assert ours.accepted_prefix([*b"ac", STOP]) == [*b"ac"]
    assert ours.accepted_prefix([*b"ac", 100]) == [*b"ac", 100]
    assert EngineMatcher(grammar, []).accepted_prefix([*b"ac", STOP]) == [*b"ac", STOP]


def _refuse(*_: object) -> None:
    raise LimitError("too ambiguous", limit="configuration_entries", value=1)


def bits(row: np.ndarray) -> list[int]:
    """The tokens of a mask."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def test_a_request_without_a_mask_accepts_nothing_more(
    grammar: shmcache.CompiledGrammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = EngineMatcher(grammar)
    assert ours.accept(ord("a"))
    row = np.full(9, -1, dtype=np.int32)
    with monkeypatch.context() as patch:
        patch.setattr(GrammarMatcher, "write_next_token_bitmask", _refuse)
        ours.write(row)
    assert bits(row) == [STOP]
    assert ours.failure == "too ambiguous"
    assert not ours.accept(STOP)
    assert not ours.accept(ord("c"))
    assert ours.accepted_prefix(b"c") == []
    assert ours.forced_text() == ""
    ours.rollback(0)
    assert ours.failure is not None
    ours.rollback(1)
    assert ours.failure is None
    assert ours.accept(ord("b"))


@pytest.mark.parametrize(
    ("take_back", "allowed_then"),
    [(lambda ours: ours.rollback(1), "abc"), (lambda ours: ours.rollback(2), "ab"), (EngineMatcher.reset, "ab")],
    ids=["one", "two", "all"],
)
def test_a_step_behind_which_nothing_can_be_followed_is_the_last(
    grammar: shmcache.CompiledGrammar,
    monkeypatch: pytest.MonkeyPatch,
    take_back: Callable[[EngineMatcher], None],
    allowed_then: str,
) -> None:
    ours = EngineMatcher(grammar)
    assert ours.accept(ord("a"))
    with monkeypatch.context() as patch:
        patch.setattr(GrammarMatcher, "accept_token", _refuse)
        assert ours.accepted_prefix(b"a") == []
        assert ours.failure is None  # a draft that is only looked at is no step
        assert ours.accept(ord("a"))
    assert ours.failure == "too ambiguous"
    assert not ours.is_terminated()
    row = np.full(9, -1, dtype=np.int32)
    ours.write(row)
    assert bits(row) == [STOP]
    assert not ours.accept(ord("a"))
    take_back(ours)
    assert ours.failure is None
    ours.write(row)
    assert bits(row) == [*map(ord, allowed_then), 256]  # 256 is "ab"
    assert ours.accept(ord("b"))


def test_the_only_token_of_a_failed_request_is_one_that_no_draft_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = shmcache.Vocabulary([b"a", b"</s>", b"<s>", b"<pad>"], [2, 3], [1])
    grammar = shmcache.compile_regex("a+", vocabulary)
    monkeypatch.setattr(GrammarMatcher, "write_next_token_bitmask", _refuse)
    for stops, token in (([1], 2), ([2], 1), ([1, 2], 3), ([1, 2, 3], 1)):
        row = np.full(1, -1, dtype=np.int32)
        ours = EngineMatcher(grammar, stops)
        ours.write(row)
        assert bits(row) == [token]
        assert not ours.accept(token)
