"""Tables of whole grammars against the slow twin; the rule tier; states that share a row."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.automaton.structure import rule_digests
from shmcache.errors import LimitError
from shmcache.grammar.ir import Choice, Expression, Grammar, Literal, Reference, Regular, Repeat, Sequence
from shmcache.grammar.json_schema import string_automata
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import everything, length_between, subtract, words
from shmcache.rows import rule_walker
from shmcache.rows.build import build_rows
from shmcache.rows.row_table import ACCEPTED_IDS, BITSET, NO_ROW, REJECTED_IDS, RowTable
from shmcache.rows.rule_walker import RuleWalker
from shmcache.vocabulary.sections import pack_sections, unpack_sections
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.configurations import TooAmbiguousError
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.rows import followers, is_followed, is_possible, row_of, stored_row, text_tokens
from tests.rows.support import A, B, automaton_of

pytestmark = pytest.mark.reference

QUOTE = Literal(b'"')
STRING = Sequence((QUOTE, Regular(encode_json_string(everything(ANY), Budget())), QUOTE))
SHORT_STRING = Sequence((QUOTE, Regular(encode_json_string(length_between(0, 90, Budget()), Budget())), QUOTE))


OTHER_STRING = Sequence((QUOTE, Regular(encode_json_string(everything(ANY - CodePoints.of("z")), Budget())), QUOTE))


class DictRows:
    """The rule tier as a dictionary that counts."""

    def __init__(self) -> None:
        self.payloads: dict[bytes, bytes] = {}
        self.hits = 0

    def get(self, key: bytes) -> bytes | None:
        assert len(key) == 32
        payload = self.payloads.get(key)
        self.hits += payload is not None
        return payload

    def put(self, key: bytes, payload: bytes, cost_us: int) -> None:
        assert cost_us >= 0
        self.payloads[key] = payload


def equal(one: RowTable, other: RowTable) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True))


def check_rows(automaton: GrammarAutomaton, vocabulary: Vocabulary, table: RowTable, alike: dict[int, set[int]]) -> int:
    """All rows of the rules of ``alike``, whose followers are those of the rules listed; how many stay uncertain.

    Rows have the wide states that accept much, and no others. What is accepted is exact. Uncertain stays what a look at
    two bytes behind the rule does not rule out: no token that is possible is struck out, and none is left that such a
    look shows to be impossible.
    """
    table.check_bounds(automaton.has_byte_edges(), -(-vocabulary.width // 32), min(vocabulary.size, vocabulary.width))
    tokens = text_tokens(vocabulary)
    kept = 0
    for rule in range(automaton.rule_count):
        followed = followers(automaton, alike.get(rule, set()))
        for state in automaton.states_of(rule):
            stored = stored_row(table, state, vocabulary)
            if rule not in alike or not is_wide(automaton, state, vocabulary):
                assert stored is None
                continue
            with suppress(TooAmbiguousError):
                row = row_of(automaton, state, vocabulary)
                if len(row.accepted) * rule_walker._WIDE_PART < len(tokens):
                    assert stored is None
                    continue
                assert stored is not None
                assert stored.accepted == row.accepted
                possible = {one for one in row.uncertain if is_possible(automaton, state, tokens[one])}
                assert possible <= stored.uncertain
                left = {one for one in row.uncertain if is_followed(automaton, state, tokens[one], followed)}
                assert stored.uncertain == left
                kept += len(stored.uncertain)
    return kept


def rules_with_rows(automaton: GrammarAutomaton, table: RowTable) -> list[int]:
    return sorted(set(automaton.rule_of_state[table.state_accepted != NO_ROW].tolist()))


def nodes_behind(automaton: GrammarAutomaton, state: int, vocabulary: Vocabulary) -> int:
    """How many beginnings of tokens begin with a byte with which the state goes on."""
    first = {byte for low, high, _ in automaton.edges_of(state) for byte in range(low, high + 1)}
    tokens = text_tokens(vocabulary).values()
    return len({token[:length] for token in tokens if token[0] in first for length in range(1, len(token) + 1)})


def is_wide(automaton: GrammarAutomaton, state: int, vocabulary: Vocabulary) -> bool:
    """Whether a walk from the state is made ahead."""
    return nodes_behind(automaton, state, vocabulary) * rule_walker._WIDE_PART >= vocabulary.trie.node_count


@pytest.mark.parametrize("thresholds", [(1 << 30, 1 << 30), (2, 1 << 30), (6, 2), (8, 4)])
def test_rows_of_random_grammars(thresholds: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are those of wide states of rules that have not too many of them."""
    wide_part, walks_max = thresholds
    monkeypatch.setattr(rule_walker, "_WIDE_PART", wide_part)
    monkeypatch.setattr(rule_walker, "_WALKS_MAX", walks_max)
    rng = Random(wide_part)
    forms: set[int] = set()
    kept = ahead = left = 0
    for _ in range(30):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        nodes = vocabulary.trie.node_count
        alike: dict[int, set[int]] = {}
        beside = set()
        for rule in range(automaton.rule_count):
            states = automaton.states_of(rule)
            weights = [nodes_behind(automaton, state, vocabulary) for state in states]
            walked = sum(weights[at] for at, state in enumerate(states) if is_wide(automaton, state, vocabulary))
            if 0 < walked <= walks_max * nodes:
                alike[rule] = {rule}
            if max(weights) * rule_walker.BESIDE_PART >= nodes and not any(map(automaton.calls_of, states)):
                beside.add(rule)
        for rule in alike:
            if not any(map(automaton.calls_of, automaton.states_of(rule))):
                alike[rule] |= beside
        table = build_rows(automaton, vocabulary, None, Budget())
        kept += check_rows(automaton, vocabulary, table, alike)
        forms.update(table.form.tolist())
        ahead += len(alike)
        left += automaton.rule_count - len(alike)
    assert ahead > 10
    assert kept > 2
    if wide_part == 1 << 30:
        assert forms == {BITSET, ACCEPTED_IDS, REJECTED_IDS}
    else:
        assert left > 5


def json_grammar(root: Expression | None = None, string: Expression = STRING) -> Grammar:
    """Nested lists of strings; or another root over the same rules."""
    listed = Sequence((Reference("value"), Repeat(Sequence((Literal(b","), Reference("value"))), 0, None)))
    rules: dict[str, Expression] = {
        "root": root or Reference("value"),
        "value": Choice(
            (Reference("string"), Sequence((Literal(b"["), Choice((listed, Sequence(()))), Literal(b"]"))))
        ),
        "string": string,
    }
    return Grammar(rules, "root", frozenset({"string"}))


def uncertain_tokens(table: RowTable, vocabulary: Vocabulary) -> set[bytes]:
    return {vocabulary.token_bytes(number) for number in table.uncertain.tolist()}


def test_tokens_that_straddle_rules(small_vocabulary: Vocabulary) -> None:
    """Behind a string that closes within the token the caller decides; what none of them accepts is struck out."""
    automaton = build_automaton(json_grammar(), Budget())
    table = build_rows(automaton, small_vocabulary, None, Budget())
    (string,) = rules_with_rows(automaton, table)
    assert check_rows(automaton, small_vocabulary, table, {string: {string}})
    uncertain = uncertain_tokens(table, small_vocabulary)
    assert b'",' in uncertain
    assert b'": ' not in uncertain, "no caller of the string goes on with a colon"
    assert not any(number in small_vocabulary.special_token_ids for number in table.uncertain.tolist())


def quoted(content: Dfa) -> Dfa:
    return string_automata.quoted(encode_json_string(content, Budget()))


NAME = Regular(quoted(subtract(everything(ANY), words(["name", "age"], Budget()), Budget())))
ANY_STRING = Regular(quoted(everything(ANY)))


def member_grammar(name: Expression, value: Expression, **more: Expression) -> Grammar:
    """A name, a colon, a value, and what closes it; any string is there for others to be walked beside."""
    root = Sequence((Literal(b"{"), Reference("name"), Literal(b": "), Reference("value"), Literal(b"}")))
    rules = {"root": root, "name": name, "value": value, "any": ANY_STRING, **more}
    return Grammar(rules, "root", frozenset({"name", "value", "any"}), frozenset({"any"}))


@pytest.mark.parametrize("is_called", [False, True])
def test_a_base_keeps_what_may_follow_rules_that_are_walked_beside_it(
    small_vocabulary: Vocabulary, is_called: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is none of a few is followed by a colon; any string itself never is, or nothing calls it at all."""
    value = Reference("any") if is_called else SHORT_STRING
    automaton = build_automaton(member_grammar(NAME, value), Budget())
    monkeypatch.setattr(rule_walker, "_WALKS_MAX", 6)
    table = build_rows(automaton, small_vocabulary, None, Budget())
    any_rule, name_rule = (
        next(
            rule for rule in range(automaton.rule_count) if len(automaton.states_of(rule)) == body.automaton.state_count
        )
        for body in (ANY_STRING, NAME)
    )
    assert any_rule in rules_with_rows(automaton, table)
    uncertain = {
        small_vocabulary.token_bytes(one)
        for state in automaton.states_of(any_rule)
        for one in table.uncertain_list(int(table.state_uncertain[state])).tolist()
    }
    assert b'":' in uncertain
    assert b'": ' in uncertain
    assert b'",' not in uncertain, "nothing of the kind is followed by a comma"
    monkeypatch.setattr(RuleWalker, "rules_beside", lambda self: np.zeros(automaton.rule_count, dtype=np.bool_))
    alone = build_rows(automaton, small_vocabulary, None, Budget())
    for rule, others in ((any_rule, {b'":', b'": '}), (name_rule, {b'"}'})):
        for state in automaton.states_of(rule):
            ids = alone.uncertain_list(int(alone.state_uncertain[state])).tolist()
            assert not others & {small_vocabulary.token_bytes(one) for one in ids}


def test_rules_that_many_states_make_long_have_no_rows(small_vocabulary: Vocabulary) -> None:
    """A string of at most 90 characters has hundreds of wide states, of which a text visits few."""
    automaton = build_automaton(json_grammar(string=SHORT_STRING), Budget())
    walker = RuleWalker(automaton, small_vocabulary.trie, Budget())
    assert not walker.rules_ahead().any()
    assert walker.rules_beside().any()
    table = build_rows(automaton, small_vocabulary, None, Budget())
    assert (table.state_accepted == NO_ROW).all()
    assert len(table.form) == len(table.accepted) == len(table.uncertain) == 0


def test_rows_from_the_rule_tier_are_those_that_are_computed(small_vocabulary: Vocabulary) -> None:
    automaton = build_automaton(json_grammar(), Budget())
    alone = build_rows(automaton, small_vocabulary, None, Budget())
    tier = DictRows()
    assert equal(build_rows(automaton, small_vocabulary, tier, Budget()), alone)
    assert (len(tier.payloads), tier.hits) == (1, 0), "the string, and nothing that is computed in no time"
    assert equal(build_rows(automaton, small_vocabulary, tier, Budget()), alone)
    assert tier.hits == 1
    tier.payloads = {key: bytes(payload) + b"\0" * 100 for key, payload in tier.payloads.items()}
    assert equal(build_rows(automaton, small_vocabulary, tier, Budget()), alone), "mappings are rounded up to pages"
    assert tier.hits == 2


def test_rows_of_a_rule_serve_every_grammar_that_has_it(small_vocabulary: Vocabulary) -> None:
    """Although what follows the string differs, and hence what is struck out."""
    tier = DictRows()
    build_rows(build_automaton(json_grammar(), Budget()), small_vocabulary, tier, Budget())
    pair = json_grammar(
        Sequence((Literal(b"{"), Reference("string"), Literal(b": "), Reference("value"), Literal(b"}")))
    )
    automaton = build_automaton(pair, Budget())
    table = build_rows(automaton, small_vocabulary, tier, Budget())
    assert tier.hits == 1
    assert len(tier.payloads) == 1
    assert equal(table, build_rows(automaton, small_vocabulary, None, Budget()))
    uncertain = {small_vocabulary.token_bytes(number) for number in table.uncertain.tolist()}
    assert b'": ' in uncertain
    (string,) = rules_with_rows(automaton, table)
    assert check_rows(automaton, small_vocabulary, table, {string: {string}})


def test_another_rule_or_vocabulary_has_other_keys(small_vocabulary: Vocabulary) -> None:
    tier = DictRows()
    build_rows(build_automaton(json_grammar(), Budget()), small_vocabulary, tier, Budget())
    build_rows(build_automaton(json_grammar(string=OTHER_STRING), Budget()), small_vocabulary, tier, Budget())
    wider = Vocabulary([b"a", b'"', b'",'], width=40)
    build_rows(build_automaton(json_grammar(), Budget()), wider, tier, Budget())
    assert (len(tier.payloads), tier.hits) == (3, 0)


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "another rule", "out of bounds", "no rows"])
def test_a_damaged_entry_is_computed_anew(small_vocabulary: Vocabulary, damage: str) -> None:
    automaton = build_automaton(json_grammar(), Budget())
    tier = DictRows()
    alone = build_rows(automaton, small_vocabulary, tier, Budget())
    ((key, good),) = tier.payloads.items()
    header = good[:8], int.from_bytes(good[8:12], "little")
    _, arrays = unpack_sections(good, *header, 0, [array.dtype for array in alone.arrays()])
    table = RowTable(*(array.copy() for array in arrays))
    if damage == "flipped":
        bad = good[:-3] + bytes([good[-3] ^ 4]) + good[-2:]
    elif damage == "short":
        bad = good[:-1]
    elif damage == "empty":
        bad = b""
    elif damage == "another rule":
        bad = pack_sections(*header, (), (table.state_accepted[:-1], table.state_uncertain[:-1], *table.arrays()[2:]))
    elif damage == "out of bounds":
        table.uncertain[0] = small_vocabulary.size
        bad = pack_sections(*header, (), table.arrays())
    else:
        table.state_accepted[:] = NO_ROW
        bad = pack_sections(*header, (), table.arrays())
    tier.payloads[key] = bad
    assert equal(build_rows(automaton, small_vocabulary, tier, Budget()), alone)
    assert tier.payloads[key] == good, "and offered again"


def test_ids_in_the_rule_tier_are_checked_against_the_vocabulary_not_its_width() -> None:
    """Where the mask is wider than the tokenizer has ids, an id between the two is out of bounds."""
    vocabulary = Vocabulary([b"a", b'"', b'",', b"xy", b'"]'], width=200)
    automaton = build_automaton(json_grammar(), Budget())
    tier = DictRows()
    alone = build_rows(automaton, vocabulary, tier, Budget())
    ((key, good),) = tier.payloads.items()
    header = good[:8], int.from_bytes(good[8:12], "little")
    _, arrays = unpack_sections(good, *header, 0, [array.dtype for array in alone.arrays()])
    table = RowTable(*(array.copy() for array in arrays))
    table.uncertain[0] = 150
    tier.payloads[key] = pack_sections(*header, (), table.arrays())
    assert equal(build_rows(automaton, vocabulary, tier, Budget()), alone)


def test_rows_take_time_from_the_budget(small_vocabulary: Vocabulary) -> None:
    automaton = build_automaton(json_grammar(), Budget())
    now = iter(range(1_000))
    with pytest.raises(LimitError) as caught:
        build_rows(automaton, small_vocabulary, None, Budget(seconds_max=3, clock=lambda: float(next(now))))
    assert caught.value.limit == "seconds"


def test_a_vocabulary_without_text() -> None:
    automaton = build_automaton(json_grammar(), Budget())
    for vocabulary in (Vocabulary([None, b"", b"</s>"], stop_token_ids=[2]), Vocabulary([b"<pad>", b"a"], [0, 1])):
        table = build_rows(automaton, vocabulary, DictRows(), Budget())
        assert len(table.uncertain) == 0
        for state in range(automaton.state_count):
            row = stored_row(table, state, vocabulary)
            assert row is None or not row.accepted


def test_digests_of_the_shared_rule_are_equal() -> None:
    """What the tier rests on: the string's digest does not depend on who calls it."""
    automata = [build_automaton(json_grammar(root), Budget()) for root in (None, Sequence((A, Reference("string"), B)))]
    one, other = (set(rule_digests(each, list(range(each.rule_count))).values()) for each in automata)
    assert len(one & other) == 1
