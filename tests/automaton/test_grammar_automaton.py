"""The arrays: what leads out of bounds is refused, and what nothing calls is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import ARRAY_DTYPES, ARRAY_NAMES, GrammarAutomaton, frozen
from shmcache.errors import SegmentError
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Sequence, Tokens
from shmcache.limits import Budget


def automaton() -> GrammarAutomaton:
    rules = {
        "root": Choice((Sequence((Literal(b"a"), Reference("one"), Literal(b"b"))), Reference("one"))),
        "one": Choice((Sequence((Literal(b"("), Reference("root"), Literal(b")"))), Literal(b"c"), Tokens((3, 5)))),
        "unused": Literal(b"d"),
    }
    return build_automaton(Grammar(rules, "root"), Budget())


def test_arrays_survive_the_way_there_and_back() -> None:
    built = automaton()
    built.check_bounds()
    assert built.rule_count == 2
    again = GrammarAutomaton.from_arrays(built.arrays(), built.root_nullable)
    for name, dtype in zip(ARRAY_NAMES, ARRAY_DTYPES, strict=True):
        array = getattr(built, name)
        assert getattr(again, name) is array
        assert array.dtype == dtype
        assert array.ndim == 1
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("edge_offset", 0, 1),
        ("edge_offset", -1, 99),
        ("edge_offset", 1, 99),
        ("edge_target", 0, 99),
        ("edge_target", 0, 4),
        ("edge_target", 0, -1),
        ("call_offset", -1, 0),
        ("call_offset", 1, -1),
        ("call_rule", 0, 2),
        ("call_rule", 0, -1),
        ("call_return", 0, 99),
        ("call_return", 0, -2),
        ("rule_of_state", 0, 2),
        ("rule_of_state", 0, -1),
        ("rule_of_state", 0, 1),
        ("rule_of_state", -1, 0),
        ("rule_start", 0, 1),
        ("rule_start", 1, 0),
        ("rule_start", 1, 99),
        ("rule_start", 1, -1),
        ("whole_offset", -1, 0),
        ("whole_offset", 1, 99),
        ("whole_set", 0, 1),
        ("whole_set", 0, -1),
        ("whole_target", 0, 99),
        ("whole_target", 0, -1),
        ("token_set_offset", -1, 1),
    ],
)
def test_an_index_out_of_bounds_is_refused(name: str, index: int, value: int) -> None:
    built = automaton()
    array = getattr(built, name).copy()
    array[index] = value
    with pytest.raises(SegmentError):
        replace(built, **{name: array}).check_bounds()


@pytest.mark.parametrize("name", ARRAY_NAMES)
def test_an_array_that_is_too_short_is_refused(name: str) -> None:
    built = automaton()
    shorter = getattr(built, name)[:-1]
    # A shorter list of rules alone leaves calls of one that is not there; that of the last array is the only one left.
    with pytest.raises(SegmentError):
        replace(built, **{name: shorter}).check_bounds()


def test_an_automaton_without_states_is_refused() -> None:
    empty = tuple(frozen([], dtype) for dtype in ARRAY_DTYPES)
    with pytest.raises(SegmentError):
        GrammarAutomaton.from_arrays(empty, root_nullable=False).check_bounds()


def test_frozen_arrays_are_of_one_kind() -> None:
    array = frozen(np.arange(10)[::2], np.int32)
    assert array.flags.c_contiguous
    assert not array.flags.writeable
    assert array.tolist() == [0, 2, 4, 6, 8]
