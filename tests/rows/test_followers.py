"""What may follow a rule, two bytes deep: against growing sets, and never less than what really may."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.errors import LimitError
from shmcache.grammar.ir import Choice, Expression, Grammar, Literal, Reference, Repeat, Sequence
from shmcache.limits import Budget
from shmcache.rows.followers import FollowedAutomaton, followed
from tests.reference.configurations import TooAmbiguousError
from tests.reference.grammars import random_grammar
from tests.reference.rows import followers, is_possible
from tests.rows.support import A, B, C, automaton_of

pytestmark = pytest.mark.reference


def edges_of(found: FollowedAutomaton, state: int) -> list[tuple[int, int, int]]:
    arrays = found.arrays
    part = slice(int(arrays.edge_offset[state]), int(arrays.edge_offset[state + 1]))
    return list(
        zip(*(array[part].tolist() for array in (arrays.edge_low, arrays.edge_high, arrays.edge_target)), strict=True)
    )


def pairs_of(found: FollowedAutomaton, rule: int) -> dict[int, set[int]]:
    """The bytes that the state behind the rule admits, and those behind them; a third may be any, for ever."""
    pairs: dict[int, set[int]] = {}
    for low, high, target in edges_of(found, found.state_behind[rule]):
        seconds: set[int] = set()
        for first, last, anything in edges_of(found, target):
            seconds |= set(range(first, last + 1))
            assert edges_of(found, anything) == [(0, 255, anything)]
        for byte in range(low, high + 1):
            assert byte not in pairs, "each byte is on one edge"
            pairs[byte] = seconds
    return pairs


def check_arrays(automaton: GrammarAutomaton, found: FollowedAutomaton) -> None:
    """The automaton's own states are as they were; others neither call nor end, and have sorted edges."""
    arrays = found.arrays
    count = automaton.state_count
    assert np.array_equal(arrays.edge_offset[: count + 1], automaton.edge_offset)
    assert np.array_equal(arrays.call_offset[: count + 1], automaton.call_offset)
    assert np.array_equal(arrays.final[:count], automaton.final)
    assert not arrays.final[count:].any()
    assert set(arrays.call_offset[count:].tolist()) == {len(automaton.call_rule)}
    assert len(arrays.edge_offset) == len(arrays.call_offset) == len(arrays.final) + 1
    assert int(arrays.edge_offset[-1]) == len(arrays.edge_low) == len(arrays.edge_high) == len(arrays.edge_target)
    assert arrays.edge_target.max(initial=0) < len(arrays.final)
    for state in range(count, len(arrays.final)):
        edges = edges_of(found, state)
        assert all(one[1] < other[0] for one, other in pairwise(edges))
    for name in arrays._fields:
        array = getattr(arrays, name)
        assert not array.flags.writeable, "one type for kernels"
        assert array.dtype == getattr(automaton, name).dtype


@pytest.mark.parametrize("seed", range(6))
def test_two_bytes_behind_rules(seed: int) -> None:
    rng = Random(seed)
    met = {"nothing": 0, "more": 0}
    for _ in range(40):
        automaton = automaton_of(random_grammar(rng))
        if automaton is None:
            continue
        rules = rng.sample(range(automaton.rule_count), rng.randint(1, automaton.rule_count))
        alike = {rule: frozenset((rule, rng.randrange(automaton.rule_count))) for rule in rules}
        found = followed(automaton, alike, Budget())
        check_arrays(automaton, found)
        assert list(found.state_behind) == rules
        for rule in rules:
            expected = followers(automaton, alike[rule])
            assert pairs_of(found, rule) == expected
            met["nothing"] += not expected
            met["more"] += any(expected.values())
    assert min(met.values()) > 3, met


@pytest.mark.parametrize("seed", range(4))
def test_never_less_than_what_may_follow(seed: int) -> None:
    """From the last state of a rule a token of one byte and more is possible only if these bytes follow."""
    rng = Random(seed)
    met = 0
    for _ in range(30):
        automaton = automaton_of(random_grammar(rng))
        if automaton is None:
            continue
        pairs = [
            pairs_of(followed(automaton, {rule: frozenset((rule,))}, Budget()), rule)
            for rule in range(automaton.rule_count)
        ]
        for state in range(automaton.state_count):
            for low, _, target in automaton.edges_of(state):
                if not automaton.final[target] or automaton.edges_of(target) or automaton.calls_of(target):
                    continue
                rule = int(automaton.rule_of_state[state])
                for rest in (b"a", b"b", b"\xff", b"ab", b"aa", b"ba", b"\xc3\xa9", b"\xffa"):
                    try:
                        is_so = is_possible(automaton, state, bytes([low]) + rest)
                    except TooAmbiguousError:
                        continue
                    if is_so:
                        assert rest[0] in pairs[rule]
                        assert len(rest) == 1 or rest[1] in pairs[rule][rest[0]]
                        met += 1
    assert met > 10


def of(root: Expression, **rules: Expression) -> GrammarAutomaton:
    return build_automaton(Grammar({"root": root, **rules}, "root", frozenset(rules)), Budget())


def test_calls_at_the_end_and_rules_that_end_at_once() -> None:
    """What follows a caller follows what it ends with; behind an optional rest, too."""
    tail = of(Sequence((Reference("outer"), B, C)), outer=Sequence((A, Reference("inner"))), inner=Literal(b"xy"))
    assert tail.rule_count == 3
    for rule in (1, 2):
        assert pairs_of(followed(tail, {rule: frozenset((rule,))}, Budget()), rule) == {98: {99}}
    optional = of(
        Sequence((Reference("outer"), B)),
        outer=Sequence((A, Reference("inner"), Repeat(C, 0, 1))),
        inner=Literal(b"xy"),
    )
    inner = 2
    assert pairs_of(followed(optional, {inner: frozenset((inner,))}, Budget()), inner) == {98: set(), 99: {98}}
    assert pairs_of(followed(optional, {0: frozenset((0,))}, Budget()), 0) == {}, "nothing follows the root"
    recursive = of(Choice((Sequence((A, Reference("inner"), Reference("root"), B)), C)), inner=Literal(b"xy"))
    assert pairs_of(followed(recursive, {0: frozenset((0,))}, Budget()), 0) == {98: {98}}
    assert pairs_of(followed(recursive, {1: frozenset((1,))}, Budget()), 1) == {97: {120}, 99: {98}}


def test_what_follows_any_of_several() -> None:
    automaton = of(Sequence((Reference("one"), B, A, Reference("two"), C)), one=Literal(b"xy"), two=Literal(b"xyz"))
    found = followed(automaton, {1: frozenset((1, 2)), 2: frozenset((2,))}, Budget())
    assert pairs_of(found, 1) == {98: {97}, 99: set()}
    assert pairs_of(found, 2) == {99: set()}


def test_rules_that_are_followed_alike_share_a_state() -> None:
    """A grammar of thousands of strings has one question to ask, not one for each of them."""
    names = [f"rule{number}" for number in range(40)]
    parts = [part for name in names for part in (Reference(name), B)]
    automaton = of(Sequence((*parts, C)), **dict.fromkeys(names, Literal(b"xy")))
    together = frozenset(range(1, automaton.rule_count))
    found = followed(automaton, dict.fromkeys(together, together), Budget())
    assert len(together) == 40
    assert len(set(found.state_behind.values())) == 1
    assert len(found.arrays.final) == len(followed(automaton, {1: together}, Budget()).arrays.final)
    assert pairs_of(found, 7) == followers(automaton, sorted(together)) == {98: {99, 120}}


def test_following_takes_time_from_the_budget() -> None:
    automaton = of(Sequence((Reference("one"), B)), one=Literal(b"xy"))
    now = iter(range(1_000))
    budget = Budget(seconds_max=1, clock=lambda: float(next(now)))
    with pytest.raises(LimitError) as caught:
        followed(automaton, {1: frozenset((1,))}, budget)
    assert caught.value.limit == "seconds"
