"""Classes of states against rounds of comparison, and against the rows they stand for."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.grammar.ir import Grammar, Literal, Reference, Regular, Repeat, Sequence
from shmcache.limits import Budget
from shmcache.regular.code_points import CodePoints
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import characters, length_between, repeat
from shmcache.rows import equivalence
from shmcache.rows.equivalence import state_classes
from tests.reference.configurations import TooAmbiguousError
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.rows import row_of
from tests.rows.support import automaton_of

pytestmark = pytest.mark.reference


def classes_by_rounds(automaton: GrammarAutomaton, rule: int, rounds: int) -> list[int]:
    """Refined once for each byte: every symbol of every state by itself."""
    states = automaton.states_of(rule)
    block = {state: int(automaton.final[state]) for state in states}
    for _ in range(rounds):
        names: dict[tuple[object, ...], int] = {}
        finer = {}
        for state in states:
            moves = {
                byte: block[target] for low, high, target in automaton.edges_of(state) for byte in range(low, high + 1)
            }
            calls = {(rule, block.get(back, -1)) for rule, back in automaton.calls_of(state)}
            signature = (block[state], tuple(sorted(moves.items())), tuple(sorted(calls)))
            finer[state] = names.setdefault(signature, len(names))
        block = finer
    return [block[state] for state in states]


def partition(names: list[int]) -> set[frozenset[int]]:
    groups: dict[int, set[int]] = {}
    for at, name in enumerate(names):
        groups.setdefault(name, set()).add(at)
    return {frozenset(group) for group in groups.values()}


@pytest.mark.parametrize("seed", range(4))
def test_classes_are_those_of_so_many_rounds(seed: int) -> None:
    """Where no rule is called; what lies behind a call that takes all the rounds does not count."""
    rng = Random(seed)
    with_calls = 0
    for _ in range(40):
        tested = random_grammar(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        for rule in range(automaton.rule_count):
            has_calls = any(automaton.calls_of(state) for state in automaton.states_of(rule))
            with_calls += has_calls
            for rounds in (0, 1, 2, 5):
                found = partition(state_classes(automaton, rule, rounds, Budget()).tolist())
                expected = partition(classes_by_rounds(automaton, rule, rounds))
                if has_calls:
                    assert all(any(part <= whole for whole in found) for part in expected), (tested, rule, rounds)
                else:
                    assert found == expected, (tested, rule, rounds)
    assert with_calls > 5


@pytest.mark.parametrize("seed", range(3))
def test_states_of_random_rules_have_one_row_with_their_class(seed: int) -> None:
    rng = Random(seed)
    shared = 0
    for _ in range(30):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng, rng.randint(1, 3))
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        for rule in range(automaton.rule_count):
            by_class: dict[int, object] = {}
            names = state_classes(automaton, rule, vocabulary.trie.longest_token_bytes, Budget()).tolist()
            for state, name in zip(automaton.states_of(rule), names, strict=True):
                with suppress(TooAmbiguousError):
                    row = row_of(automaton, state, vocabulary)
                    shared += name in by_class
                    assert by_class.setdefault(name, row) == row, (tested, vocabulary)
    assert shared > 0


@pytest.mark.parametrize("rounds", range(1, 8))
def test_what_lies_behind_a_long_call_does_not_count(rounds: int) -> None:
    """The word takes five bytes: only a token of more than that can tell what follows it."""
    word = Reference("word")
    rules = {"root": Sequence((word, word, Literal(b"y"))), "word": Literal(b"abcde")}
    automaton = build_automaton(Grammar(rules, "root", frozenset({"word"})), Budget())
    first, second = (state for state in automaton.states_of(0) if automaton.calls_of(state))
    names = state_classes(automaton, 0, rounds, Budget())
    assert (names[first] == names[second]) == (rounds <= 5)


@pytest.mark.parametrize("seed", range(3))
def test_states_of_a_class_have_one_row(seed: int) -> None:
    rng = Random(seed)
    shared = 0
    for _ in range(10):
        longest = rng.randint(1, 4)
        alphabet = CodePoints.of(rng.choice(["a", "ab", "aé"]))
        counted = repeat(characters(alphabet), rng.randint(0, 3), rng.randint(4, 30), Budget())
        body = Regular(encode_utf8(counted, Budget()))
        tested = Grammar(
            {"root": Sequence((Literal(b"b"), Reference("counted"), Literal(b"b"))), "counted": body},
            "root",
            frozenset({"counted"}),
        )
        automaton = automaton_of(tested)
        vocabulary = random_vocabulary(rng)
        assert automaton is not None
        longest = vocabulary.trie.longest_token_bytes
        for rule in range(automaton.rule_count):
            by_class: dict[int, object] = {}
            names = state_classes(automaton, rule, longest, Budget()).tolist()
            for state, name in zip(automaton.states_of(rule), names, strict=True):
                row = row_of(automaton, state, vocabulary)
                shared += name in by_class
                assert by_class.setdefault(name, row) == row, (tested, vocabulary)
    assert shared > 0


def test_long_counts_take_as_many_classes_as_a_token_has_bytes() -> None:
    counted = Regular(encode_utf8(length_between(0, 1_000, Budget()), Budget()))
    automaton = build_automaton(Grammar({"root": counted}, "root"), Budget())
    assert automaton.state_count > 1_000
    for longest in (1, 4, 12):
        names = state_classes(automaton, 0, longest, Budget())
        assert len(np.unique(names)) <= 9 * (longest + 2)


def test_rules_that_are_called_tell_states_apart() -> None:
    call = Repeat(Reference("called"), 3, 3)
    tested = Grammar({"root": Sequence((call, Literal(b"b"))), "called": Literal(b"a")}, "root", frozenset({"called"}))
    automaton = build_automaton(tested, Budget())
    assert len(set(state_classes(automaton, 0, 1, Budget()).tolist())) == 3
    assert len(set(state_classes(automaton, 0, 4, Budget()).tolist())) == 5


def test_a_collision_of_hashes_is_found() -> None:
    """With multipliers of 0 all rows collide, and are then compared themselves."""
    signature = np.array([[1, 2], [3, 4], [1, 2], [3, 5]], dtype=np.int64)
    for multipliers in (np.zeros(2, dtype=np.uint64), np.array([5, 7], dtype=np.uint64)):
        names = equivalence._group(signature, multipliers).tolist()
        assert names[0] == names[2]
        assert len(set(names)) == 3
        assert max(names) == 2
