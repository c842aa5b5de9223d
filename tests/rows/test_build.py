"""Tables of whole grammars against the slow twin; the rule tier; states that share a row."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.automaton.structure import rule_digests
from shmcache.errors import LimitError
from shmcache.grammar.ir import Choice, Expression, Grammar, Literal, Reference, Regular, Repeat, Sequence
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import everything, length_between
from shmcache.rows import build as build_module
from shmcache.rows import rule_walker
from shmcache.rows.build import build_rows
from shmcache.rows.row_table import ACCEPTED_IDS, BITSET, DIFFERENCE, NO_ROW, REJECTED_IDS, RowTable
from shmcache.vocabulary.sections import pack_sections, unpack_sections
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.configurations import TooAmbiguousError
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.rows import reference_row, stored_row
from tests.rows.support import automaton_of, random_automaton

pytestmark = pytest.mark.reference

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")
QUOTE = Literal(b'"')
STRING = Sequence((QUOTE, Regular(encode_json_string(everything(ANY), Budget())), QUOTE))
SHORT_STRING = Sequence((QUOTE, Regular(encode_json_string(length_between(0, 90, Budget()), Budget())), QUOTE))


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


def test_rows_of_random_grammars() -> None:
    rng = Random(1)
    forms: set[int] = set()
    kept = 0
    for _ in range(40):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        table = build_rows(automaton, vocabulary, None, Budget())
        table.check_bounds(
            automaton.has_byte_edges(), -(-vocabulary.width // 32), min(vocabulary.size, vocabulary.width)
        )
        forms.update(table.form.tolist())
        for state in rng.sample(range(automaton.state_count), min(8, automaton.state_count)):
            stored = stored_row(table, state, vocabulary)
            if not automaton.edges_of(state):
                assert stored is None
                continue
            assert stored is not None
            with suppress(TooAmbiguousError):
                expected = reference_row(automaton, state, vocabulary)
                assert stored == expected, (state, tested, vocabulary)
            kept += len(stored.uncertain)
    assert forms == {BITSET, ACCEPTED_IDS, REJECTED_IDS}
    assert kept > 2


@pytest.mark.parametrize("anchors_max", [0, 2, 32])
def test_rows_walked_together(anchors_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds that spare small rules the search for alike states are lifted, so that every row is worked out so."""
    monkeypatch.setattr(rule_walker, "WIDE_SYMBOLS", 1)
    monkeypatch.setattr(rule_walker, "_EQUIVALENCE_STATES_MIN", 1)
    monkeypatch.setattr(rule_walker, "_ALIKE_BYTES_MIN", 0)
    monkeypatch.setattr(rule_walker, "_FEW_TOKENS_MAX", 0)
    monkeypatch.setattr(rule_walker, "_ANCHORS_MAX", anchors_max)
    monkeypatch.setattr(build_module, "_ALIKE_CALLERS_MIN", 1)
    rng = Random(anchors_max)
    differences = 0
    for _ in range(15):
        vocabulary = random_vocabulary(rng, more=100)
        tested = rng.choice([random_grammar(rng), Grammar({"root": Regular(random_automaton(rng))}, "root")])
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        table = build_rows(automaton, vocabulary, None, Budget())
        differences += int((table.form == DIFFERENCE).sum())
        for state in rng.sample(range(automaton.state_count), min(6, automaton.state_count)):
            if automaton.edges_of(state):
                with suppress(TooAmbiguousError):
                    expected = reference_row(automaton, state, vocabulary)
                    assert stored_row(table, state, vocabulary) == expected, (state, tested, vocabulary)
    assert bool(differences) == bool(anchors_max)


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


def test_tokens_that_straddle_rules(small_vocabulary: Vocabulary) -> None:
    """Behind a string that closes within the token the caller decides; what none of them accepts is struck out."""
    automaton = build_automaton(json_grammar(), Budget())
    table = build_rows(automaton, small_vocabulary, None, Budget())
    for state in range(automaton.state_count):
        if automaton.edges_of(state):
            assert stored_row(table, state, small_vocabulary) == reference_row(automaton, state, small_vocabulary)
    uncertain = {small_vocabulary.token_bytes(number) for number in table.uncertain.tolist()}
    assert b'",' in uncertain
    assert b'": ' not in uncertain, "no caller of the string goes on with a colon"
    assert not any(number in small_vocabulary.special_token_ids for number in table.uncertain.tolist())


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
    for state in range(automaton.state_count):
        if automaton.edges_of(state):
            assert stored_row(table, state, small_vocabulary) == reference_row(automaton, state, small_vocabulary)


def test_another_rule_or_vocabulary_has_other_keys(small_vocabulary: Vocabulary) -> None:
    tier = DictRows()
    build_rows(build_automaton(json_grammar(), Budget()), small_vocabulary, tier, Budget())
    build_rows(build_automaton(json_grammar(string=SHORT_STRING), Budget()), small_vocabulary, tier, Budget())
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


def test_states_that_no_token_tells_apart_share_a_row(
    small_vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A string of at most 90 characters has as many rows as the longest token has bytes, and some; not 90."""
    automaton = build_automaton(json_grammar(string=SHORT_STRING), Budget())
    shared = build_rows(automaton, small_vocabulary, None, Budget())
    monkeypatch.setattr(rule_walker, "_EQUIVALENCE_STATES_MIN", 1 << 30)
    each = build_rows(automaton, small_vocabulary, None, Budget())
    wide = 0
    for state in range(0, automaton.state_count, 11):
        assert stored_row(shared, state, small_vocabulary) == stored_row(each, state, small_vocabulary)
        wide += len(automaton.edges_of(state)) > 4
    assert wide > 6
    assert DIFFERENCE in shared.form
    assert len(shared.form) < automaton.state_count / 3
    assert shared.accepted.nbytes < each.accepted.nbytes
    assert len(shared.uncertain_offset) == len(each.uncertain_offset)


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
    one = set(rule_digests(build_automaton(json_grammar(), Budget())))
    other = set(rule_digests(build_automaton(json_grammar(Sequence((A, Reference("string"), B))), Budget())))
    assert len(one & other) == 1
