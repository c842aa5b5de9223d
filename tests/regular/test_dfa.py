"""Minimal automata against two other algorithms; trimming; look-up by ranges."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.errors import LimitError
from shmcache.limits import Budget
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa, Edge, merge_ranges, minimise, trim
from tests.reference.dfa import check_dfa, language, moore_state_count, words

ALPHABET = (0, 1, 2)


def random_dfa(rng: Random, states_max: int = 9) -> tuple[list[list[Edge]], list[bool]]:
    """Rows of an automaton that may have dead and unreachable states."""
    count = rng.randint(1, states_max)
    rows: list[list[Edge]] = []
    for _ in range(count):
        row: list[Edge] = []
        for symbol in ALPHABET:
            if rng.random() < 0.6:
                row.append((symbol, symbol, rng.randrange(count)))
        rows.append(row)
    return rows, [rng.random() < 0.3 for _ in range(count)]


def accepts(rows: list[list[Edge]], accepting: list[bool], word: tuple[int, ...]) -> bool:
    state = 0
    for symbol in word:
        for low, high, target in rows[state]:
            if low <= symbol <= high:
                state = target
                break
        else:
            return False
    return accepting[state]


@pytest.mark.parametrize("seed", range(4))
def test_trim_and_minimise_keep_the_language(seed: int) -> None:
    rng = Random(seed)
    for _ in range(60):
        rows, accepting = random_dfa(rng)
        expected = {word for word in words(ALPHABET, 4) if accepts(rows, accepting, word)}
        trimmed = trim(rows, accepting)
        minimal = minimise(trimmed, Budget())
        assert language(trimmed, ALPHABET, 4) == expected, (rows, accepting)
        assert language(minimal, ALPHABET, 4) == expected, (rows, accepting)
        assert minimal.state_count == moore_state_count(trimmed), (rows, accepting)
        check_dfa(minimal)
        for word in words(ALPHABET, 3):
            assert minimal.accepts(word) == (word in expected)


@pytest.mark.parametrize("seed", range(2))
def test_equal_languages_give_equal_automata(seed: int) -> None:
    """Numbering is canonical: states of one automaton, doubled and shuffled, collapse to the very same value."""
    rng = Random(seed)
    for _ in range(40):
        rows, accepting = random_dfa(rng)
        count = len(rows)
        order = [0, *rng.sample(range(1, 2 * count), 2 * count - 1)]
        place = {state: at for at, state in enumerate(order)}
        doubled = [
            [(low, high, place[target + rng.choice((0, count))]) for low, high, target in rows[state % count]]
            for state in order
        ]
        twin = minimise(trim(doubled, [accepting[state % count] for state in order]), Budget())
        assert twin == minimise(trim(rows, accepting), Budget()), (rows, accepting)


def test_chains_collapse_from_their_ends() -> None:
    """Two branches of 500 states with equal tails need as many states as one, however the blocks split."""
    length = 500
    rows: list[list[Edge]] = [[(0, 0, 1), (1, 1, length + 1)]]
    for branch in (0, length):
        rows += [[(2, 2, branch + at + 1)] for at in range(1, length)]
        rows.append([])
    accepting = [not row for row in rows]
    minimal = minimise(trim(rows, accepting), Budget())
    assert minimal.state_count == length + 1
    assert minimal.edges[0] == ((0, 1, 1),)


def test_the_empty_language_has_one_state() -> None:
    for rows, accepting in (([[]], [False]), ([[(0, 0, 0)]], [False]), ([[(0, 0, 1)], [], []], [False, False, True])):
        assert trim(rows, accepting) == EMPTY_LANGUAGE
    assert EMPTY_LANGUAGE.is_empty
    assert not EMPTY_LANGUAGE.accepts(())
    assert not EMPTY_WORD.is_empty
    assert EMPTY_WORD.accepts(())
    assert not EMPTY_WORD.accepts((0,))
    assert minimise(EMPTY_LANGUAGE, Budget()) == EMPTY_LANGUAGE
    assert minimise(EMPTY_WORD, Budget()) == EMPTY_WORD


def test_the_empty_word_taken_out() -> None:
    loop = Dfa((((0, 0, 1),), ((1, 1, 0),)), (True, False))
    without = loop.without_empty_word()
    assert language(without, ALPHABET, 6) == language(loop, ALPHABET, 6) - {()}
    assert all(target != 0 for row in without.edges for _, _, target in row)
    assert EMPTY_WORD.without_empty_word() == EMPTY_LANGUAGE
    assert EMPTY_LANGUAGE.without_empty_word() == EMPTY_LANGUAGE
    plain = Dfa((((0, 0, 1),), ()), (False, True))
    assert plain.without_empty_word() is plain


def test_targets_at_the_bounds_of_ranges() -> None:
    dfa = Dfa((((2, 4, 1), (6, 6, 0)), ()), (False, True))
    assert [dfa.target(0, symbol) for symbol in range(9)] == [-1, -1, 1, 1, 1, -1, 0, -1, -1]
    assert dfa.target(1, 3) == -1
    assert dfa.is_accepting(1)
    assert not dfa.is_accepting(0)


def test_adjacent_ranges_of_one_target_are_joined() -> None:
    assert merge_ranges([(0, 1, 5), (2, 3, 5), (4, 4, 6), (6, 7, 6)]) == ((0, 3, 5), (4, 4, 6), (6, 7, 6))


def test_minimising_spends_edges() -> None:
    rows: list[list[Edge]] = [[(0, 0, at + 1)] for at in range(100)] + [[]]
    chain = trim(rows, [False] * 100 + [True])
    with pytest.raises(LimitError):
        minimise(chain, Budget(edges_max=50))
