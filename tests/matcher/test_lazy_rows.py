"""Rows beside a base: every part of a difference against the slow twin, when there is one, and what is remembered."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Regular, Sequence
from shmcache.grammar.key import Source
from shmcache.image.image import Image
from shmcache.limits import Budget
from shmcache.matcher import lazy_rows
from shmcache.matcher.lazy_rows import Difference, LazyRows
from shmcache.private import compile_source
from shmcache.regular.dfa import Dfa
from shmcache.regular.operations import repeat
from shmcache.rows.entries import pair_states
from shmcache.rows.row_table import NO_ROW
from shmcache.rows.stacks import StackTable
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import compiled, compiled_or_none, lifted, with_rows_of
from tests.matcher.test_masks import random_rules, random_strings, rules_with_rows
from tests.reference.grammars import random_vocabulary
from tests.reference.rows import is_possible, row_of, text_tokens

__all__ = ["lifted"]

pytestmark = pytest.mark.reference


def lazy_of(image: Image, vocabulary: Vocabulary) -> LazyRows:
    return LazyRows(image.automaton, image.rows, vocabulary)


def check_difference(image: Image, vocabulary: Vocabulary, state: int, found: Difference) -> None:
    """Put over the row of the base it is the row of the state, but for uncertain tokens that nothing accepts."""
    automaton, rows, tokens = image.automaton, image.rows, text_tokens(vocabulary)
    assert rows.state_accepted[state] == NO_ROW != rows.state_accepted[found.base]
    row = row_of(automaton, state, vocabulary)
    base = set(row_of(automaton, found.base, vocabulary).accepted)
    assert (base | set(found.accepted.tolist())) - set(found.rejected.tolist()) == row.accepted
    assert not set(found.accepted.tolist()) & set(found.rejected.tolist())
    uncertain = found.uncertain.tolist()
    assert len(set(uncertain)) == len(uncertain)
    assert set(uncertain) <= row.uncertain
    assert {one for one in row.uncertain if is_possible(automaton, state, tokens[one])} <= set(uncertain)
    assert not found.uncertain.flags.writeable, "one type for kernels"


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("seed", range(6))
def test_differences_of_strings(seed: int) -> None:
    rng = Random(seed)
    met = changed = 0
    for _ in range(12):
        vocabulary = random_vocabulary(rng, more=30)
        grammar = compiled_or_none(random_strings(rng), vocabulary)
        assert grammar is not None
        image = with_rows_of(grammar.image, vocabulary, random_rules(rng, grammar.image, rng.choice([0, 0.4])))
        lazy = lazy_of(image, vocabulary)
        without = [state for state in range(image.automaton.state_count) if image.rows.state_accepted[state] == NO_ROW]
        for state in rng.sample(without, min(12, len(without))):
            found = lazy.difference(state)
            if found is not None:
                check_difference(image, vocabulary, state, found)
                assert lazy.difference(state) is found, "remembered"
                met += 1
                changed += bool(len(found.accepted) + len(found.rejected))
    assert met > 10
    assert changed > 5


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "null"}},
    "additionalProperties": {"type": "string", "minLength": 2},
}


def test_strings_of_a_schema_with_the_thresholds_as_they_are(small_vocabulary: Vocabulary) -> None:
    """Inside of bounded strings, of names that are left out, and of others masks are worked out beside any string."""
    image = compile_source(Source.json_schema(SCHEMA, strict_mode=False), small_vocabulary).image
    lazy = lazy_of(image, small_vocabulary)
    rules = set()
    for state in range(0, image.automaton.state_count, 1 + image.automaton.state_count // 200):
        found = lazy.difference(state) if image.rows.state_accepted[state] == NO_ROW else None
        if found is not None:
            check_difference(image, small_vocabulary, state, found)
            rules.add(int(image.automaton.rule_of_state[state]))
            assert len(found.accepted) + len(found.rejected) < len(small_vocabulary.trie.token_order)
    assert len(rules) >= 2


LETTERS = Dfa((((97, 122, 1),), ()), (False, True))


def letters(minimum: int, maximum: int | None) -> Regular:
    return Regular(repeat(LETTERS, minimum, maximum, Budget()))


def lettered(**rules: Any) -> tuple[Image, Vocabulary]:
    """Rules of letters, all called, and all of rows but for those named ``few``; tokens of up to three letters."""
    tokens = [bytes([first]) * length for first in range(97, 123) for length in (1, 2, 3)]
    vocabulary = Vocabulary([*tokens, b".", b"a.", b".a"])
    words = [Sequence((Literal(b"%d" % at), Reference(name), Literal(b"."))) for at, name in enumerate(rules)]
    root = Choice(tuple(words))
    grammar = compiled(Grammar({"root": root, **rules}, "root", frozenset(rules)), vocabulary)
    order = {name: at for at, name in enumerate(rules, start=1)}
    return with_rows_of(grammar.image, vocabulary, [order[name] for name in rules if name != "few"]), vocabulary


def states_of_few(automaton: GrammarAutomaton) -> range:
    return automaton.states_of(1)


def test_the_base_is_the_rule_that_is_most_alike() -> None:
    """Whatever the order of the rules."""
    for names in (("few", "near", "far"), ("few", "far", "near")):
        bodies = {"few": letters(0, 12), "near": letters(0, None), "far": Regular(LETTERS)}
        image, vocabulary = lettered(**{name: bodies[name] for name in names})
        lazy = lazy_of(image, vocabulary)
        near = image.automaton.states_of(1 + names.index("near"))
        found = [lazy.difference(state) for state in states_of_few(image.automaton)]
        assert {one.base for one in found if one is not None} <= set(near)
        assert sum(one is not None for one in found) >= 9
        for state, one in zip(states_of_few(image.automaton), found, strict=True):
            if one is not None:
                check_difference(image, vocabulary, state, one)


def test_a_long_rule_is_compared_with_few_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller ones first, as those say the least, and one at least."""
    bodies = {f"far{at}": letters(0, at) for at in range(2, 8)}
    image, vocabulary = lettered(few=letters(0, 12), **bodies, near=letters(0, None))
    states = states_of_few(image.automaton)
    for states_max, compared in ((1, 1), (3 * len(states), 3), (1 << 20, 7)):
        starts: list[int] = []

        def counted(automaton: Any, start: int, base_start: int, *rest: Any, starts: list[int] = starts) -> None:
            starts.append(base_start)
            pair_states(automaton, start, base_start, *rest)

        monkeypatch.setattr(lazy_rows, "_PAIRED_STATES_MAX", states_max)
        monkeypatch.setattr("shmcache.rows.entries.pair_states", counted)
        lazy = lazy_of(image, vocabulary)
        found = [lazy.difference(state) for state in states]
        assert len(starts) == compared
        near = image.automaton.states_of(image.automaton.rule_count - 1)
        assert starts[0] == near.start
        assert {one.base for one in found if one is not None} == set(near)
        for state, one in zip(states, found, strict=True):
            if one is not None:
                check_difference(image, vocabulary, state, one)


def test_without_a_base_there_is_no_difference() -> None:
    """Where no rule of bytes alone has rows; in a state that few tokens begin in; in a rule that calls."""
    image, vocabulary = lettered(few=letters(0, 12))
    assert rules_with_rows(with_rows_of(image, vocabulary, [0])) == [0]
    for ahead in ([], [0]):
        lazy = lazy_of(with_rows_of(image, vocabulary, ahead), vocabulary)
        assert all(lazy.difference(state) is None for state in states_of_few(image.automaton))
    image, vocabulary = lettered(few=letters(0, 12), near=letters(0, None))
    lazy = lazy_of(image, vocabulary)
    assert lazy.difference(0) is None, "the root calls"
    narrow = Vocabulary([b"%d" % at for at in range(400)] + [b"a"])
    tested = Grammar({"root": letters(0, 12), "near": letters(0, None)}, "root", base_rules=frozenset({"near"}))
    image = with_rows_of(compiled(tested, narrow).image, narrow, [1])
    assert all(lazy_of(image, narrow).difference(state) is None for state in image.automaton.states_of(0))


def test_what_is_remembered_of_differences_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past it they are worked out anew, and are the same."""
    image, vocabulary = lettered(few=letters(0, 30), near=letters(0, None))
    lazy = lazy_of(image, vocabulary)
    states = [state for state in states_of_few(image.automaton) if lazy.difference(state) is not None]
    expected = [lazy.difference(state) for state in states]
    monkeypatch.setattr(lazy_rows, "_IDS_MAX", 100)
    monkeypatch.setattr(lazy_rows, "_IDS_PER_DIFFERENCE", 20)
    forgetful = lazy_of(image, vocabulary)
    for _ in range(2):
        for state, one in zip(states, expected, strict=True):
            found = forgetful.difference(state)
            assert found is not None
            assert one is not None
            assert found.base == one.base
            for name in ("accepted", "rejected", "uncertain"):
                assert np.array_equal(getattr(found, name), getattr(one, name))
            held = sum(
                20 + len(d.accepted) + len(d.rejected) + len(d.uncertain) for d in forgetful._differences.values()
            )
            assert held == forgetful._remembered_ids <= 120 + len(vocabulary.trie.token_order)
    assert len(forgetful._differences) < len(states)


def test_walks_give_copies() -> None:
    """The room that they were written to is overwritten by the next."""
    image, vocabulary = lettered(few=letters(0, 12))
    lazy, stacks = lazy_of(image, vocabulary), StackTable()
    node = np.zeros(1, dtype=np.int32)
    first = lazy.walk(np.array([0], dtype=np.int32), node, stacks)
    kept = [part.copy() for part in first[:2]]
    lazy.walk(np.array([states_of_few(image.automaton).start], dtype=np.int32), node, stacks)
    for part, copy in zip(first[:2], kept, strict=True):
        assert np.array_equal(part, copy)
