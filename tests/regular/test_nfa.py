"""The subset construction against simulation, and its result against Brzozowski's."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.errors import LimitError
from shmcache.limits import Budget
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa
from shmcache.regular.nfa import NfaBuilder, determinise
from tests.reference.dfa import (
    ReferenceNfa,
    as_builder,
    check_dfa,
    language,
    minimal_state_count,
    random_nfa,
    words,
)

ALPHABET = (10, 11, 255)


@pytest.mark.parametrize("seed", range(4))
def test_determinise_is_minimal_and_accepts_the_same(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        nfa = random_nfa(rng, ALPHABET)
        dfa = determinise(as_builder(nfa, Budget()), 0, nfa.accepting, Budget())
        check_dfa(dfa)
        assert language(dfa, ALPHABET, 4) == {word for word in words(ALPHABET, 4) if nfa.accepts(word)}, nfa
        assert dfa.state_count == minimal_state_count(nfa, ALPHABET), nfa


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_ranges_are_cut(seed: int) -> None:
    rng = Random(seed)
    symbols = range(12)
    for _ in range(40):
        count = rng.randint(2, 5)
        builder = NfaBuilder(Budget())
        nfa = ReferenceNfa(count, starts={0}, accepting={state for state in range(count) if rng.random() < 0.4})
        for _ in range(count):
            builder.add_state()
        for _ in range(rng.randint(1, 8)):
            source, target = rng.randrange(count), rng.randrange(count)
            low, high = sorted((rng.choice(symbols), rng.choice(symbols)))
            builder.add_edge(source, low, high, target)
            nfa.edges |= {(source, symbol, target) for symbol in range(low, high + 1)}
        dfa = determinise(builder, 0, nfa.accepting, Budget())
        check_dfa(dfa)
        assert language(dfa, symbols, 3) == {word for word in words(symbols, 3) if nfa.accepts(word)}, nfa


@pytest.mark.parametrize("accepts", [False, True])
def test_acceptance_of_the_start_is_set_apart(accepts: bool) -> None:
    """``a*`` with the start overridden: only the empty word changes, not the equal state behind an ``a``."""
    builder = NfaBuilder(Budget())
    start, loop = builder.add_state(), builder.add_state()
    builder.add_epsilon(start, loop)
    builder.add_edge(loop, 1, 1, loop)
    dfa = determinise(builder, start, {loop}, Budget(), start_accepts=accepts)
    assert language(dfa, (1,), 4) == {(1,) * length for length in range(0 if accepts else 1, 5)}
    check_dfa(dfa)


def test_epsilon_cycles_end() -> None:
    builder = NfaBuilder(Budget())
    states = [builder.add_state() for _ in range(50)]
    for one, other in zip(states, states[1:] + states[:1], strict=True):
        builder.add_epsilon(one, other)
    builder.add_edge(states[25], 3, 3, states[10])
    assert determinise(builder, 0, {states[49]}, Budget()) == Dfa((((3, 3, 0),),), (True,))


def test_a_copy_of_an_automaton_can_stand_anywhere() -> None:
    builder = NfaBuilder(Budget())
    start, middle, end = (builder.add_state() for _ in range(3))
    word = Dfa((((1, 1, 1),), ((2, 2, 2),), ()), (False, True, True))
    builder.add_dfa(word, start, middle)
    builder.add_dfa(word, middle, end)
    builder.add_dfa(EMPTY_LANGUAGE, start, end)
    dfa = determinise(builder, start, {end}, Budget())
    once = [(1,), (1, 2)]
    assert language(dfa, (1, 2), 5) == {one + other for one in once for other in once}


def test_an_explosion_is_stopped() -> None:
    """``(a|b)*a(a|b){n}`` has 2**(n+1) states."""
    builder = NfaBuilder(Budget())
    here = builder.add_state()
    builder.add_edge(here, 0, 1, here)
    after = builder.add_state()
    builder.add_edge(here, 0, 0, after)
    for _ in range(30):
        here, after = after, builder.add_state()
        builder.add_edge(here, 0, 1, after)
    with pytest.raises(LimitError) as caught:
        determinise(builder, 0, {after}, Budget(states_max=2_000))
    assert caught.value.limit == "states"
