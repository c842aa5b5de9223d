"""Each kernel against its slow twin, on random grammars and vocabularies."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Regular, Repeat, Sequence
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.operations import repeat
from shmcache.rows.arrays import ACCEPTED, FRONT_FULL, NO_STATE, OK, UNCERTAIN
from shmcache.rows.equivalence import state_rounds
from shmcache.rows.stacks import StackTable, front, fronts
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference import configurations
from tests.reference.configurations import TooAmbiguousError, initial
from tests.reference.grammars import random_grammar, random_texts, random_vocabulary
from tests.reference.rows import Row, accepts_from, row_of, text_tokens
from tests.rows.support import (
    advanced,
    automaton_arrays,
    automaton_of,
    entries_of,
    opened,
    random_automaton,
    resolved,
    stack_of,
    trie_arrays,
)

pytestmark = pytest.mark.reference

NO_ROUNDS = np.zeros((0, 0), dtype=np.int32)
A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")


def verdicts_of(
    automaton: GrammarAutomaton,
    stacks: StackTable,
    vocabulary: Vocabulary,
    state: int,
    base: int = NO_STATE,
    rounds: npt.NDArray[np.int32] = NO_ROUNDS,
    status_expected: int = OK,
) -> dict[int, int]:
    """The verdicts that the kernel reports, by token, in the order of the trie."""
    from shmcache.rows.kernels import STACKS_FULL, walk_trie

    trie = vocabulary.trie
    positions, verdicts = np.zeros(trie.token_count, dtype=np.int32), np.zeros(trie.token_count, dtype=np.uint8)
    entry = np.array([state], dtype=np.int32), np.zeros(1, dtype=np.int32)
    first = automaton.states_of(int(automaton.rule_of_state[state])).start
    rooms = fronts(trie.longest_token_bytes)
    status = STACKS_FULL
    while status == STACKS_FULL:
        arrays = automaton_arrays(automaton), stacks.arrays, trie_arrays(vocabulary)
        count, status = walk_trie(*arrays, *entry, base, rounds, first, rooms, positions, verdicts)
        if status == STACKS_FULL:
            stacks.grow()
    assert status == status_expected
    places = positions[:count].tolist()
    assert places == sorted(set(places)), "in the order of the trie"
    return dict(zip(trie.token_order[places].tolist(), verdicts[:count].tolist(), strict=True))


def walk(automaton: GrammarAutomaton, stacks: StackTable, vocabulary: Vocabulary, state: int) -> tuple[set[int], ...]:
    found = verdicts_of(automaton, stacks, vocabulary, state)
    assert set(found.values()) <= {ACCEPTED, UNCERTAIN}
    accepted, uncertain = (
        {token for token, verdict in found.items() if verdict == one} for one in (ACCEPTED, UNCERTAIN)
    )
    return accepted, uncertain


@pytest.mark.parametrize("seed", range(6))
def test_walk_trie(seed: int) -> None:
    rng = Random(seed)
    met_uncertain = met_states = 0
    for _ in range(40):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks = StackTable()
        for state in rng.sample(range(automaton.state_count), min(10, automaton.state_count)):
            if not automaton.edges_of(state):
                continue
            try:
                expected = row_of(automaton, state, vocabulary)
            except TooAmbiguousError:
                continue
            accepted, uncertain = walk(automaton, stacks, vocabulary, state)
            assert accepted == expected.accepted, (state, tested, vocabulary)
            assert uncertain == expected.uncertain, (state, tested, vocabulary)
            met_uncertain += bool(uncertain)
            met_states += 1
    assert met_states > 20
    assert met_uncertain > 5


def test_a_call_that_ends_within_a_token_goes_on_behind_it() -> None:
    """Inside the called word a level has one entry only, whose end is not the end of the rule."""
    rules = {"root": Sequence((A, Reference("word"), Sequence((C, C)))), "word": Literal(b"bbb")}
    automaton = automaton_of(Grammar(rules, "root", frozenset({"word"})))
    assert automaton is not None
    assert automaton.rule_count == 2
    vocabulary = Vocabulary(
        [b"a", b"abb", b"abbb", b"abbbc", b"abbbcc", b"abbba", b"abbbccc", b"b", b"bbb", b"bbbc", b"c", b"cc"]
    )
    for state in range(automaton.state_count):
        if automaton.edges_of(state):
            expected = row_of(automaton, state, vocabulary)
            assert walk(automaton, StackTable(), vocabulary, state) == (expected.accepted, expected.uncertain)


def difference(
    automaton: GrammarAutomaton, vocabulary: Vocabulary, state: int, base: int, rounds: npt.NDArray[np.int32]
) -> dict[int, int]:
    """Tokens on which the state may differ from the base, and its verdict on them."""
    return verdicts_of(automaton, StackTable(), vocabulary, state, base, rounds)


def row_from(base: Row, changed: dict[int, int]) -> Row:
    """The base's row with the verdicts put over it."""
    found = dict.fromkeys(base.accepted, ACCEPTED) | dict.fromkeys(base.uncertain, UNCERTAIN) | changed
    accepted, uncertain = (
        {number for number, verdict in found.items() if verdict == one} for one in (ACCEPTED, UNCERTAIN)
    )
    return Row(frozenset(accepted), frozenset(uncertain))


@pytest.mark.parametrize("seed", range(4))
def test_walk_difference(seed: int) -> None:
    """Put over the row of any other state of the rule, the difference gives the state's own row."""
    rng = Random(seed)
    met = {0: 0, ACCEPTED: 0, UNCERTAIN: 0}
    saved = 0
    for _ in range(12):
        vocabulary = random_vocabulary(rng)
        automaton = automaton_of(Grammar({"root": Regular(random_automaton(rng))}, "root"))
        assert automaton is not None
        assert not len(automaton.call_rule)
        rounds = state_rounds(automaton, 0, vocabulary.trie.longest_token_bytes, Budget())
        for walked in range(6):
            state, base = rng.randrange(automaton.state_count), rng.randrange(automaton.state_count)
            row, base_row = (row_of(automaton, one, vocabulary) for one in (state, base))
            # Every other walk goes without the classes, so that both reasons to stop are met.
            changed = difference(automaton, vocabulary, state, base, rounds[: walked % 2 * 100])
            assert row_from(base_row, changed) == row
            for verdict in changed.values():
                met[verdict] += 1
            saved += vocabulary.trie.token_count - len(changed)
    assert min(met.values()) > 5
    assert saved > 100, "the walk stops where both are in the same state"


@pytest.mark.parametrize("seed", range(8))
def test_walk_difference_in_rules_that_call(seed: int) -> None:
    """The same where states call other rules, and are followed into them."""
    rng = Random(seed)
    saved = walks = 0
    for _ in range(30):
        vocabulary = random_vocabulary(rng)
        automaton = automaton_of(random_grammar(rng))
        if automaton is None or not len(automaton.call_rule):
            continue
        calling = sorted(
            {int(automaton.rule_of_state[one]) for one in range(automaton.state_count) if calls(automaton, one)}
        )
        rule = rng.choice(calling)
        states = automaton.states_of(rule)
        rounds = state_rounds(automaton, rule, vocabulary.trie.longest_token_bytes, Budget())
        for walked in range(6):
            state, base = rng.choice(states), rng.choice(states)
            try:
                row, base_row = (row_of(automaton, one, vocabulary) for one in (state, base))
            except TooAmbiguousError:
                continue
            changed = difference(automaton, vocabulary, state, base, rounds[: walked % 2 * 100])
            assert row_from(base_row, changed) == row
            saved += vocabulary.trie.token_count - len(changed)
            walks += 1
    assert walks > 20
    assert saved > 100


@pytest.mark.parametrize("length_max", range(1, 8))
def test_walk_difference_follows_a_last_call_into_another_rule(length_max: int) -> None:
    """The rule that was called has states that the rounds of the calling rule do not know."""
    vocabulary = Vocabulary([bytes(letters) for length in range(1, 6) for letters in product(b"ab", repeat=length)])
    last = Choice((Repeat(A, 1, length_max), Sequence((Repeat(B, 0, length_max), A))))
    calling = Sequence((Repeat(A, 0, 3), B, Reference("last")))
    other = Sequence((C, Repeat(Choice((A, B)), 0, 8), A))
    automaton = automaton_of(Grammar({"root": Choice((calling, other)), "last": last}, "root", frozenset({"last"})))
    assert automaton is not None
    rounds = state_rounds(automaton, 0, vocabulary.trie.longest_token_bytes, Budget())
    rows = {state: row_of(automaton, state, vocabulary) for state in automaton.states_of(0)}
    for state, row in rows.items():
        for base, base_row in rows.items():
            assert row_from(base_row, difference(automaton, vocabulary, state, base, rounds)) == row


def calls(automaton: GrammarAutomaton, state: int) -> bool:
    return bool(automaton.call_offset[state] != automaton.call_offset[state + 1])


def test_walk_difference_stops_only_where_no_byte_that_is_left_can_tell() -> None:
    """At most nine times a letter: how many are left tells two states apart by that many bytes, and no fewer."""
    letter = Dfa((((97, 97, 1),), ()), (False, True))
    automaton = automaton_of(Grammar({"root": Regular(repeat(letter, 0, 9, Budget()))}, "root"))
    assert automaton is not None
    for longest in range(1, 11):
        vocabulary = Vocabulary([b"a" * length for length in range(1, longest + 1)])
        rounds = state_rounds(automaton, 0, longest, Budget())
        for state in range(automaton.state_count):
            for base in range(automaton.state_count):
                row, base_row = (row_of(automaton, one, vocabulary) for one in (state, base))
                changed = difference(automaton, vocabulary, state, base, rounds)
                assert row_from(base_row, changed) == row
                if row == base_row:
                    assert not changed, "nothing is looked at twice"


@pytest.mark.parametrize("seed", range(6))
def test_open_level_and_advance(seed: int) -> None:
    """Byte by byte and all bytes at once lead to the same entries."""
    rng = Random(seed)
    met = 0
    for _ in range(25):
        tested = random_grammar(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks = StackTable()
        first = initial(automaton)
        start, ended = opened(automaton, stacks)
        assert entries_of(stacks, start) == first.entries
        assert ended == configurations.close(automaton, {(0, ())}).ended
        for text in random_texts(rng, tested, 8):
            level, expected = start, first
            for at in range(len(text)):
                try:
                    expected = configurations.advance(automaton, expected, text[at : at + 1])
                except TooAmbiguousError:
                    text = text[:at]
                    break
                level, ended, _ = advanced(automaton, stacks, level, text, at, at + 1)
                assert entries_of(stacks, level) == expected.entries, (text[: at + 1], tested)
                assert ended == expected.ended, (text[: at + 1], tested)
                met += bool(expected.entries)
            if text:
                level, ended, _ = advanced(automaton, stacks, start, text, 0, len(text))
                assert entries_of(stacks, level) == expected.entries, (text, tested)
                assert ended == expected.ended, (text, tested)
    assert met > 50


@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_resolve_tokens(seed: int, remembers: bool) -> None:
    """From entries with real stacks; tokens in the order of the trie share the levels of their beginnings."""
    rng = Random(seed)
    met: dict[int, int] = {0: 0, ACCEPTED: 0}
    for _ in range(20):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks = StackTable()
        place = {number: at for at, number in enumerate(vocabulary.trie.token_order.tolist())}
        tokens = text_tokens(vocabulary)
        start, _ = opened(automaton, stacks)
        known: dict[int, npt.NDArray[np.uint8]] = {}
        for text in random_texts(rng, tested, 6):
            level, _, _ = advanced(automaton, stacks, start, text, 0, rng.randint(0, len(text)))
            if not len(level[0]):
                continue
            at = rng.randrange(len(level[0]))
            state, node = int(level[0][at]), int(level[1][at])
            stack = stack_of(stacks, node)
            some = sorted(rng.sample(list(tokens), min(len(tokens), 25)), key=place.__getitem__)
            # What is remembered holds for the stack, whatever the state was.
            memory = known.setdefault(node, np.zeros(len(vocabulary.flat.blob) if remembers else 0, dtype=np.uint8))
            try:
                found = resolved(automaton, stacks, vocabulary, some, state, node, memory)
            except TooAmbiguousError:
                continue
            for number, verdict in found.items():
                try:
                    expected = accepts_from(automaton, state, stack, tokens[number])
                except TooAmbiguousError:
                    continue
                assert verdict == (ACCEPTED if expected else 0), (tokens[number], state, stack, tested)
                met[verdict] += 1
    assert min(met.values()) > 20


NESTED = Grammar(
    {"root": Choice((Sequence((A, Reference("root"), B)), Sequence((A, Reference("root"), C)), B)), "x": A}, "root"
)
"""Every ``a`` pushes; ``a`` 300 times needs more stacks than a table has at first."""


def test_a_full_stack_table_is_reported_and_nothing_is_lost_by_growing() -> None:
    from shmcache.rows.kernels import STACKS_FULL, advance

    automaton = automaton_of(NESTED)
    assert automaton is not None
    stacks = StackTable()
    start, _ = opened(automaton, stacks)
    text = b"a" * 300 + b"b" + b"bc" * 150
    array = np.frombuffer(text, dtype=np.uint8)
    before = len(stacks.arrays.parent)
    full = advance(automaton_arrays(automaton), stacks.arrays, *start, array, 0, len(text), front(1))
    assert full[0] == STACKS_FULL
    level, ended, length = advanced(automaton, stacks, start, text, 0, len(text))
    assert len(stacks.arrays.parent) == 2 * before
    assert (length, ended) == (0, True)
    level, _, _ = advanced(automaton, stacks, start, text, 0, 299)
    assert entries_of(stacks, level) == configurations.advance(automaton, initial(automaton), text[:299]).entries
    assert len(stacks) == 301, "each stack is held once"


AMBIGUOUS = Grammar(
    {
        "root": Choice((Sequence((Reference("one"), B)), Sequence((Reference("two"), C)), B)),
        "one": Sequence((A, Reference("root"), Literal(b"x"))),
        "two": Sequence((A, Reference("root"), Literal(b"y"))),
    },
    "root",
    frozenset({"one", "two"}),
)
"""Every ``a`` doubles the number of stacks."""


def test_a_level_that_is_too_wide_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmcache.rows import kernels

    # Compiled kernels have the real limit in them; without compilation a small one keeps this quick.
    monkeypatch.setattr(kernels, "CONFIGURATION_ENTRIES_MAX", 64)
    automaton = automaton_of(AMBIGUOUS)
    assert automaton is not None
    stacks = StackTable()
    start, _ = opened(automaton, stacks)
    assert advanced(automaton, stacks, start, b"a" * 40, 0, 3)[2] > 0
    assert advanced(automaton, stacks, start, b"a" * 40, 0, 40)[2] == kernels.FRONT_FULL

    vocabulary = Vocabulary([b"a", b"b", b"a" * 20, b"a" * 20 + b"b", b"ab", b"c"])
    order = vocabulary.trie.token_order.tolist()
    found = [
        resolved(automaton, stacks, vocabulary, order, state, node, np.zeros(len(vocabulary.flat.blob), dtype=np.uint8))
        for state, node in zip(start[0].tolist(), start[1].tolist(), strict=True)
    ]
    overflowed = {0: kernels.ACCEPTED, 1: 0, 2: kernels.OVERFLOWED, 3: kernels.OVERFLOWED, 4: kernels.ACCEPTED, 5: 0}
    assert overflowed in found
    state, node = (int(array[found.index(overflowed)]) for array in start)
    with pytest.raises(TooAmbiguousError):
        resolved(automaton, stacks, vocabulary, order, state, node, np.zeros(0, dtype=np.uint8))
    (first, *_) = (state for state in range(automaton.state_count) if (97, 97) in bytes_of(automaton, state))
    verdicts = verdicts_of(automaton, stacks, vocabulary, first, status_expected=FRONT_FULL)
    assert verdicts[0] == ACCEPTED
    assert verdicts[2] == verdicts[3] == UNCERTAIN, "where a level overflows its tokens are left to the matcher"


def bytes_of(automaton: GrammarAutomaton, state: int) -> list[tuple[int, int]]:
    return [(low, high) for low, high, _ in automaton.edges_of(state)]
