"""Each walk of the trie, and the pairing of states, against its slow twin."""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.grammar.ir import Grammar, Literal, Reference, Regular, Sequence
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import everything, length_between, repeat, subtract, unite, words
from shmcache.rows.arrays import ACCEPTED, ALIKE_FOREVER, FRONT_FULL, OK, ROOM_FULL, STACKS_FULL, UNCERTAIN, WalkRoom
from shmcache.rows.stacks import StackTable
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.configurations import Stack, TooAmbiguousError
from tests.reference.grammars import random_grammar, random_texts, random_vocabulary
from tests.reference.masks import mask_bits
from tests.reference.pairs import FOREVER, Pairs
from tests.reference.rows import Row, row_from, row_of
from tests.rows.support import (
    AMBIGUOUS,
    NESTED,
    A,
    C,
    Level,
    advanced,
    automaton_arrays,
    automaton_of,
    opened,
    random_automaton,
    room_for,
    stack_of,
    trie_arrays,
    walked,
)

pytestmark = pytest.mark.reference

LETTER = Dfa((((97, 97, 1),), ()), (False, True))


def level_of(*entries: tuple[int, int]) -> Level:
    states, nodes = zip(*entries, strict=True)
    return np.array(states, dtype=np.int32), np.array(nodes, dtype=np.int32)


def entries_of(stacks: StackTable, level: Level) -> frozenset[tuple[int, Stack]]:
    return frozenset((state, stack_of(stacks, node)) for state, node in zip(*(x.tolist() for x in level), strict=True))


def random_level(rng: Random, automaton: GrammarAutomaton, stacks: StackTable, tested: Grammar) -> Level:
    """Some entries that a text leads to, in any order; now and then with one of the empty stack."""
    start, _ = opened(automaton, stacks)
    text = next(random_texts(rng, tested, 1))
    level, _, _ = advanced(automaton, stacks, start, text, 0, rng.randint(0, len(text)))
    found = list(zip(level[0].tolist(), level[1].tolist(), strict=True)) if rng.random() < 0.9 else []
    if not found or rng.random() < 0.3:
        found.append((rng.randrange(automaton.state_count), 0))
    return level_of(*rng.sample(found, rng.randint(1, len(found))))


def words_of(
    automaton: GrammarAutomaton, stacks: StackTable, vocabulary: Vocabulary, level: Level, room: WalkRoom
) -> set[int]:
    """The ids of the mask that ``walk_trie`` and ``gather_words`` give."""
    from shmcache.rows.trie_kernels import gather_words, walk_trie

    while True:
        arrays = automaton_arrays(automaton), stacks.arrays, trie_arrays(vocabulary)
        accepted, _, status = walk_trie(*arrays, *level, room, False)
        count = gather_words(arrays[2], accepted, room)
        assert not room.words.any()
        if status != STACKS_FULL:
            break
        stacks.grow()
    assert status == OK
    index = room.word_index[:count]
    assert len(set(index.tolist())) == count
    assert room.word_value[:count].all()
    mask = np.zeros(len(vocabulary.trie.text_bitmask), dtype=np.int32)
    mask[index] = room.word_value[:count]
    return mask_bits(mask)


@pytest.mark.parametrize("seed", range(6))
def test_walks_from_one_state(seed: int) -> None:
    rng = Random(seed)
    met_uncertain = met_states = 0
    for _ in range(30):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        room = room_for(vocabulary)
        for state in rng.sample(range(automaton.state_count), min(10, automaton.state_count)):
            try:
                expected = row_of(automaton, state, vocabulary)
            except TooAmbiguousError:
                continue
            accepted, uncertain, status = walked(automaton, StackTable(), vocabulary, level_of((state, 0)), room=room)
            assert status == OK
            assert Row(frozenset(accepted), frozenset(uncertain)) == expected, (state, tested, vocabulary)
            met_uncertain += bool(uncertain)
            met_states += 1
    assert met_states > 20
    assert met_uncertain > 5


@pytest.mark.parametrize("seed", range(6))
def test_walks_from_several_entries_with_their_stacks(seed: int) -> None:
    """What an earlier walk left in the room does not matter."""
    rng = Random(seed)
    met_several = met_stacks = met_uncertain = 0
    for _ in range(40):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks, room = StackTable(), room_for(vocabulary)
        for _ in range(6):
            level = random_level(rng, automaton, stacks, tested)
            entries = entries_of(stacks, level)
            try:
                expected = row_from(automaton, entries, vocabulary)
            except TooAmbiguousError:
                continue
            accepted, uncertain, status = walked(automaton, stacks, vocabulary, level, room=room)
            assert status == OK
            assert Row(frozenset(accepted), frozenset(uncertain)) == expected, (entries, tested, vocabulary)
            assert words_of(automaton, stacks, vocabulary, level, room) == expected.accepted, (entries, tested)
            met_several += len(entries) > 1
            met_stacks += any(stack for _, stack in entries)
            met_uncertain += bool(uncertain)
    assert min(met_several, met_stacks, met_uncertain) > 5


def test_words_of_a_mask_have_all_their_bits() -> None:
    """Also the last, which is the sign; and in words that lie apart."""
    tokens = [b"b"] * 200
    for number in (0, 31, 32, 63, 100, 127, 199):
        tokens[number] = b"a" * (1 + number % 3)
    vocabulary = Vocabulary(tokens, special_token_ids=[100], width=199)
    automaton = automaton_of(Grammar({"root": Regular(repeat(LETTER, 0, None, Budget()))}, "root"))
    assert automaton is not None
    room = room_for(vocabulary)
    for _ in range(2):
        assert words_of(automaton, StackTable(), vocabulary, level_of((0, 0)), room) == {0, 31, 32, 63, 127}


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
        expected = row_of(automaton, state, vocabulary)
        accepted, uncertain, _ = walked(automaton, StackTable(), vocabulary, level_of((state, 0)))
        assert Row(frozenset(accepted), frozenset(uncertain)) == expected


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_a_room_that_is_too_small_is_reported(levels: int) -> None:
    """Grown, it has what a large room would have had at once."""
    rng = Random(levels)
    met: list[int] = []
    for _ in range(25):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks = StackTable()
        level = random_level(rng, automaton, stacks, tested)
        small = walked(automaton, stacks, vocabulary, level, room=room_for(vocabulary, levels), met=met)
        assert small == walked(automaton, stacks, vocabulary, level)
    assert met.count(ROOM_FULL) > 5


def test_levels_that_are_many_are_told_apart() -> None:
    """Every length of a word is a level; buckets collide and are looked through."""
    length = 200
    automaton = automaton_of(Grammar({"root": Regular(repeat(LETTER, length // 5, length // 2, Budget()))}, "root"))
    assert automaton is not None
    vocabulary = Vocabulary([b"a" * (1 + at) for at in range(length)])
    met: list[int] = []
    accepted, uncertain, status = walked(
        automaton, StackTable(), vocabulary, level_of((0, 0)), room=room_for(vocabulary, 16), met=met
    )
    assert (accepted, status) == (list(range(length // 2)), OK)
    assert uncertain == list(range(length // 2, length))
    assert met == [ROOM_FULL] * 3


def test_a_full_stack_table_is_reported_by_walks() -> None:
    automaton = automaton_of(NESTED)
    assert automaton is not None
    vocabulary = Vocabulary([b"a" * 299 + b"b", b"a" * 300 + b"c", b"ab", b"aab", b"ac", b"aabb", b"abbb"])
    stacks = StackTable()
    start, _ = opened(automaton, stacks)
    met: list[int] = []
    accepted, _, _ = walked(automaton, stacks, vocabulary, start, room=room_for(vocabulary, 1024), met=met)
    assert sorted(accepted) == [0, 2, 3, 5]
    assert met == [STACKS_FULL]
    again = StackTable()
    assert words_of(automaton, again, vocabulary, start, room_for(vocabulary, 1024)) == {0, 2, 3, 5}


def test_a_level_that_is_too_wide_is_reported_by_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmcache.rows import kernels, trie_kernels

    # Compiled kernels have the real limit in them; without compilation a small one keeps this quick.
    monkeypatch.setattr(kernels, "CONFIGURATION_ENTRIES_MAX", 64)
    automaton = automaton_of(AMBIGUOUS)
    assert automaton is not None
    vocabulary = Vocabulary([b"a", b"b", b"a" * 20, b"a" * 20 + b"b", b"ab", b"c", b"abx", b"bx"])
    stacks = StackTable()
    start, _ = opened(automaton, stacks)
    accepted, uncertain, status = walked(automaton, stacks, vocabulary, start)
    assert status == FRONT_FULL
    assert sorted(accepted) == [0, 1, 4, 6]
    assert 7 in uncertain, "what goes on behind the end is the caller's, as ever"
    assert sorted(uncertain) == [2, 3, 7], "where a level overflows its tokens are left to the matcher"
    assert walked(automaton, stacks, vocabulary, start, overflows=False) == ([], [], FRONT_FULL)
    room = room_for(vocabulary, 2048)
    arrays = automaton_arrays(automaton), stacks.arrays, trie_arrays(vocabulary)
    assert trie_kernels.walk_trie(*arrays, *start, room, False) == (0, 0, FRONT_FULL)
    assert not room.words.any()
    short = Vocabulary([b"a", b"b", b"ab", b"c", b"abx", b"bx"])
    assert words_of(automaton, stacks, short, start, room_for(short)) == {0, 1, 2, 4}


Paired = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


def paired(automaton: GrammarAutomaton, rule: int, base_rule: int, length: int) -> Paired:
    """``base`` and ``alike`` of the states of a rule, written over other values."""
    from shmcache.rows.trie_kernels import pair_states

    states = automaton.states_of(rule)
    base, alike = (np.full(len(states), 77, dtype=np.int32) for _ in range(2))
    arrays = automaton_arrays(automaton)
    pair_states(arrays, states.start, automaton.states_of(base_rule).start, states.start, length, base, alike)
    return base, alike


def two_rules(body: Dfa, base: Dfa) -> GrammarAutomaton:
    """Two rules of bytes alone, neither called by the other; None of their states are shared."""
    rules = {"root": Regular(body), "base": Regular(base)}
    automaton = automaton_of(Grammar(rules, "root", base_rules=frozenset({"base"})))
    assert automaton is not None
    assert automaton.rule_count == 2
    return automaton


def random_pair(rng: Random) -> GrammarAutomaton:
    """A rule and a base, which differ in a word, in their length, in which is the larger, or altogether."""
    while True:
        one, other = random_automaton(rng), random_automaton(rng)
        base = rng.choice([other, unite(one, other, Budget()), repeat(one, 0, None, Budget())])
        few = encode_utf8(words([rng.choice(["a", "ab", "é", "aaa"])], Budget()), Budget())
        body = rng.choice([one, one, unite(one, few, Budget()), subtract(one, few, Budget())])
        if rng.random() < 0.3:
            body, base = base, body
        has_words = not (body.without_empty_word().is_empty or base.without_empty_word().is_empty)
        if has_words and body.state_count + base.state_count < 80:
            return two_rules(body, base)


@pytest.mark.parametrize("seed", range(5))
def test_pairs_of_states(seed: int) -> None:
    rng = Random(seed)
    met = {"unpaired": 0, "unlike": 0, "some bytes": 0, "forever": 0}
    for _ in range(50):
        automaton = random_pair(rng)
        twin = Pairs(automaton)
        length = rng.choice([1, 2, 3, 100])
        base, alike = paired(automaton, 0, 1, length)
        states, base_start = automaton.states_of(0), automaton.states_of(1).start
        expected = twin.bases(0, base_start)
        assert base.tolist() == [expected.get(state, -1) for state in states]
        for state, other in expected.items():
            exact = twin.likeness(expected, state)
            found = int(alike[state])
            # With few rounds more bytes than are asked for may be taken for any number, but never too few.
            assert found == (ALIKE_FOREVER if exact == FOREVER else exact) or exact >= length <= found
            assert min(exact, length) <= twin.likeness_of_words(state, other)
            met["unlike"] += exact == -1
            met["some bytes"] += 0 < exact < FOREVER
            met["forever"] += exact == FOREVER
        met["unpaired"] += len(expected) < len(states)
    assert min(met.values()) > 3, met


def test_pairs_along_all_bytes() -> None:
    """Ranges that begin, end and overlap in every way, to the last byte."""
    bodies = [
        Dfa((((0, 255, 0),), ()), (True, False)),
        Dfa((((0, 9, 1), (10, 255, 0)), ((255, 255, 0),)), (True, True)),
        Dfa((((0, 99, 0), (200, 255, 1)), ((0, 254, 1),)), (True, True)),
        Dfa((((5, 5, 1), (6, 254, 0)), ((0, 0, 1),)), (False, True)),
        Dfa((((255, 255, 1),), ()), (False, True)),
    ]
    for body in bodies:
        for other in bodies:
            automaton = two_rules(body, other)
            twin = Pairs(automaton)
            base, alike = paired(automaton, 0, 1, 10)
            expected = twin.bases(0, automaton.states_of(1).start)
            for state in automaton.states_of(0):
                assert base[state] == expected.get(state, -1)
                if state in expected:
                    exact = twin.likeness(expected, state)
                    assert alike[state] == (ALIKE_FOREVER if exact == FOREVER else exact)


def test_rounds_end_when_the_longest_token_does() -> None:
    """Against the order of the states a difference takes a round for each byte; more are not asked for."""
    # From the start every letter leads to another state of a chain that goes back to the start.
    length = 40
    rows: list[tuple[tuple[int, int, int], ...]] = [tuple((100 + at, 100 + at, at) for at in range(1, length))]
    rows += [((97, 97, at - 1),) for at in range(1, length)]
    body = Dfa(tuple(rows), (True, *[True] * (length - 1)))
    base = Dfa(body.edges, (True, False, *[True] * (length - 2)))
    automaton = two_rules(body, base)
    twin = Pairs(automaton)
    expected = twin.bases(0, automaton.states_of(1).start)
    assert len(expected) >= length
    for rounds in (1, 5, 100):
        _, alike = paired(automaton, 0, 1, rounds)
        for state in expected:
            exact = twin.likeness(expected, state)
            assert int(alike[state]) == exact or exact >= rounds <= int(alike[state])
    assert max(twin.likeness(expected, state) for state in expected) > 1


def difference(
    automaton: GrammarAutomaton, vocabulary: Vocabulary, state: int, pairing: Paired, room: WalkRoom
) -> dict[int, int]:
    """Tokens on which a state of rule 0 may differ from its base, in the order of the trie, and its verdict on them."""
    from shmcache.rows.trie_kernels import walk_difference

    count = walk_difference(automaton_arrays(automaton), trie_arrays(vocabulary), state, 0, *pairing, room)
    places = room.accepted[:count].tolist()
    assert places == sorted(set(places)), "in the order of the trie, none twice"
    return dict(zip(vocabulary.trie.token_order[places].tolist(), room.verdicts[:count].tolist(), strict=True))


def put_over(base: Row, changed: dict[int, int]) -> Row:
    """The base's row with the verdicts put over it."""
    found = dict.fromkeys(base.accepted, ACCEPTED) | dict.fromkeys(base.uncertain, UNCERTAIN) | changed
    accepted, uncertain = (
        frozenset(number for number, verdict in found.items() if verdict == one) for one in (ACCEPTED, UNCERTAIN)
    )
    return Row(accepted, uncertain)


@pytest.mark.parametrize("seed", range(6))
def test_differences(seed: int) -> None:
    """Put over the base's row, the difference gives the state's own row; what is alike is not looked at."""
    rng = Random(seed)
    met = {0: 0, ACCEPTED: 0, UNCERTAIN: 0}
    saved = 0
    for _ in range(20):
        vocabulary = random_vocabulary(rng)
        automaton = random_pair(rng)
        twin = Pairs(automaton)
        pairing = paired(automaton, 0, 1, vocabulary.trie.longest_token_bytes)
        base_of, room = twin.bases(0, automaton.states_of(1).start), room_for(vocabulary)
        for state in rng.sample(sorted(base_of), min(5, len(base_of))):
            row, base_row = (row_of(automaton, one, vocabulary) for one in (state, base_of[state]))
            changed = difference(automaton, vocabulary, state, pairing, room)
            assert put_over(base_row, changed) == row
            if twin.likeness(base_of, state) >= vocabulary.trie.longest_token_bytes:
                assert not changed, "nothing is looked at where all is alike"
            for verdict in changed.values():
                met[verdict] += 1
            saved += vocabulary.trie.token_count - len(changed)
    assert min(met.values()) > 5, met
    assert saved > 100


def test_a_difference_stops_only_where_no_byte_that_is_left_can_tell() -> None:
    """At most nine times a letter: how many are left tells it from any number by that many bytes, and no fewer."""
    automaton = two_rules(repeat(LETTER, 0, 9, Budget()), repeat(LETTER, 0, None, Budget()))
    for longest in range(1, 12):
        vocabulary = Vocabulary([b"a" * length for length in range(1, longest + 1)])
        pairing, room = paired(automaton, 0, 1, longest), room_for(vocabulary)
        for state in automaton.states_of(0):
            row, base_row = (row_of(automaton, one, vocabulary) for one in (state, int(pairing[0][state])))
            changed = difference(automaton, vocabulary, state, pairing, room)
            assert put_over(base_row, changed) == row
            left = 9 - state
            differing = (row.accepted ^ base_row.accepted) | (row.uncertain ^ base_row.uncertain)
            assert differing == set(range(left, longest)), "longer tokens than there are letters left"
            if row == base_row:
                assert not changed


def test_a_difference_of_words_that_are_left_out() -> None:
    """As of a string that may not be one of a few names: only beginnings of these are looked at."""
    any_text = everything(ANY - CodePoints.of("}"))
    left_out = subtract(any_text, words(["name", "age"], Budget()), Budget())
    short = subtract(left_out, length_between(3, None, Budget()), Budget())
    texts = [b"name}", b"nam", b"nam}", b"name", b"names", b"names}", b"age}", b"a", b"ag", b"zz", b"zz}", b"zzz", b"}"]
    vocabulary = Vocabulary(texts)
    for body, changes in ((left_out, {b"name}", b"name", b"names", b"names}", b"age}"}), (short, None)):
        ended = [encode_utf8(one, Budget()) for one in (body, any_text)]
        automaton = two_rules(*ended)
        twin = Pairs(automaton)
        pairing = paired(automaton, 0, 1, 6)
        base_of = twin.bases(0, automaton.states_of(1).start)
        for state, base in base_of.items():
            changed = difference(automaton, vocabulary, state, pairing, room_for(vocabulary))
            assert put_over(row_of(automaton, base, vocabulary), changed) == row_of(automaton, state, vocabulary)
            if state == 0 and changes is not None:
                assert {texts[number] for number in changed} <= changes | {b"nam", b"nam}", b"a", b"ag", b"age}"}
                assert b"zz" not in {texts[number] for number in changed}
