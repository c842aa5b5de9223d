"""Forms of sets, what is stored once, and indices out of bounds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from shmcache.errors import SegmentError
from shmcache.rows.row_table import (
    ACCEPTED_IDS,
    BITSET,
    NO_ROW,
    REJECTED_IDS,
    RowTable,
    RowTableBuilder,
    smallest_form,
)
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.grammars import random_vocabulary
from tests.reference.masks import mask_bits

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("seed", range(3))
def test_every_set_has_its_smallest_form(seed: int) -> None:
    rng = Random(seed)
    forms = set()
    for _ in range(60):
        vocabulary = random_vocabulary(rng)
        trie = vocabulary.trie
        chance = rng.choice([0.02, 0.5, 0.98])
        is_accepted = np.array([rng.random() < chance for _ in range(trie.token_count)], dtype=np.bool_)
        ids = set(trie.token_order[is_accepted].tolist())
        rejected = set(trie.token_order.tolist()) - ids
        form, data = smallest_form(is_accepted, trie)
        forms.add(form)
        words = -(-vocabulary.width // 32)
        assert data.dtype == np.int32
        assert len(data) == min(len(ids), len(rejected), words)
        if form == BITSET:
            assert {
                32 * at + bit for at, word in enumerate(data.tolist()) for bit in range(32) if word >> bit & 1
            } == ids
        else:
            assert data.tolist() == sorted(ids if form == ACCEPTED_IDS else rejected)
    assert forms == {BITSET, ACCEPTED_IDS, REJECTED_IDS}


def test_the_last_bit_of_a_word() -> None:
    vocabulary = Vocabulary([bytes([97 + at % 26, at]) for at in range(64)])
    accepted = np.array([int(number) % 2 == 1 for number in vocabulary.trie.token_order], dtype=np.bool_)
    form, data = smallest_form(accepted, vocabulary.trie)
    assert (form, data.tolist()) == (BITSET, [-0x55555556, -0x55555556])


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


BEGINS = np.array([True, True, False, True])
"""Which states of the small table begin tokens, and may have rows."""


def small_table() -> RowTable:
    builder = RowTableBuilder(4)
    first = builder.add_accepted(ACCEPTED_IDS, ids(1, 2))
    second = builder.add_accepted(BITSET, ids(5, 6))
    third = builder.add_accepted(REJECTED_IDS, ids(1, 2))
    builder.set_row(0, first, builder.add_uncertain(ids(3, 0)))
    builder.set_row(1, second, builder.add_uncertain(ids()))
    builder.set_row(3, third, builder.add_uncertain(ids(3, 0)))
    return builder.finish()


def test_sets_of_another_table_are_added_under_new_numbers() -> None:
    table = small_table()
    builder = RowTableBuilder(2)
    assert builder.add_accepted(BITSET, ids(5, 6)) == 0
    assert builder.add_sets(table) == [1, 0, 2]
    builder.set_row(1, 2, builder.add_uncertain(ids(3)))
    joined = builder.finish()
    joined.check_bounds(np.array([False, True]), 2, 8)
    assert [joined.accepted_set(number)[1].tolist() for number in range(3)] == [[5, 6], [1, 2], [1, 2]]
    assert joined.form.tolist() == [BITSET, ACCEPTED_IDS, REJECTED_IDS]


@pytest.mark.parametrize("seed", range(3))
def test_every_form_is_the_set_it_was_made_of(seed: int) -> None:
    rng = Random(seed)
    for _ in range(30):
        trie = random_vocabulary(rng).trie
        is_accepted = np.array([rng.random() < rng.choice([0.1, 0.9]) for _ in range(trie.token_count)], dtype=np.bool_)
        builder = RowTableBuilder(1)
        number = builder.add_accepted(*smallest_form(is_accepted, trie))
        table = builder.finish()
        before = table.accepted.copy()
        mask = table.accepted_bitmask(number, trie.text_bitmask)
        assert mask_bits(mask) == set(trie.token_order[is_accepted].tolist())
        mask[:] = -1
        assert np.array_equal(table.accepted, before), "a new array"


def test_what_is_equal_is_stored_once() -> None:
    table = small_table()
    table.check_bounds(BEGINS, 2, 8)
    assert table.state_accepted.tolist() == [0, 1, NO_ROW, 2]
    assert table.state_uncertain.tolist() == [0, NO_ROW, NO_ROW, 0]
    assert table.accepted_set(1)[1].tolist() == [5, 6]
    assert table.uncertain_list(0).tolist() == [3, 0]
    assert table.uncertain_list(NO_ROW).tolist() == []
    builder = RowTableBuilder(1)
    assert builder.add_accepted(ACCEPTED_IDS, ids(7)) == builder.add_accepted(ACCEPTED_IDS, ids(7))
    assert builder.add_accepted(REJECTED_IDS, ids(7)) != builder.add_accepted(ACCEPTED_IDS, ids(7))
    assert builder.add_uncertain(ids(7)) == builder.add_uncertain(ids(7)) != builder.add_uncertain(ids(7, 8))
    assert builder.add_uncertain(ids()) == NO_ROW
    assert all(not array.flags.writeable for array in table.arrays())


def test_a_state_that_begins_tokens_may_be_without_a_row() -> None:
    builder = RowTableBuilder(3)
    builder.set_row(1, builder.add_accepted(ACCEPTED_IDS, ids(1)), NO_ROW)
    table = builder.finish()
    table.check_bounds(np.array([True, True, True]), 1, 8)
    table.check_bounds(np.array([False, True, False]), 1, 8)
    with pytest.raises(SegmentError):
        table.check_bounds(np.array([True, False, True]), 1, 8)


def test_a_table_of_nothing() -> None:
    table = RowTableBuilder(0).finish()
    table.check_bounds(np.zeros(0, dtype=np.bool_), 1, 0)
    table = RowTableBuilder(2).finish()
    table.check_bounds(np.zeros(2, dtype=np.bool_), 1, 0)
    with pytest.raises(SegmentError):
        table.check_bounds(np.zeros(3, dtype=np.bool_), 1, 0)


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("state_accepted", 0, 3),
        ("state_accepted", 0, -2),
        ("state_accepted", 0, NO_ROW),
        ("state_accepted", 2, 0),
        ("state_uncertain", 2, 0),
        ("state_uncertain", 0, 1),
        ("state_uncertain", 0, -2),
        ("form", 0, 3),
        ("form", 0, BITSET),
        ("accepted_offset", 0, 1),
        ("accepted_offset", 1, 7),
        ("accepted_offset", -1, 99),
        ("accepted_offset", 1, 1),
        ("accepted", 0, 8),
        ("accepted", 0, -1),
        ("accepted", -1, 8),
        ("uncertain_offset", 0, 1),
        ("uncertain_offset", 1, 1),
        ("uncertain", 0, 8),
        ("uncertain", 1, -1),
    ],
)
def test_an_index_out_of_bounds_is_refused(name: str, index: int, value: int) -> None:
    table = small_table()
    array = getattr(table, name).copy()
    array[index] = value
    damaged = replace(table, **{name: array})
    if (name, value) == ("form", BITSET):
        damaged.check_bounds(BEGINS, 2, 8)  # two ids as the two words of a set: another set, but one that can be read
        with pytest.raises(SegmentError):
            damaged.check_bounds(BEGINS, 3, 8)
        return
    with pytest.raises(SegmentError):
        damaged.check_bounds(BEGINS, 2, 8)


@pytest.mark.parametrize("name", ["state_accepted", "state_uncertain", "form", "accepted_offset", "accepted"])
def test_an_array_that_is_too_short_is_refused(name: str) -> None:
    table = small_table()
    with pytest.raises(SegmentError):
        replace(table, **{name: getattr(table, name)[:-1]}).check_bounds(BEGINS, 2, 8)
    with pytest.raises(SegmentError):
        replace(table, **{name: getattr(table, name)[:0]}).check_bounds(BEGINS, 2, 8)


def test_offsets_of_no_lists_at_all_are_refused() -> None:
    table = small_table()
    with pytest.raises(SegmentError):
        replace(table, uncertain_offset=table.uncertain_offset[:0], uncertain=table.uncertain[:0]).check_bounds(
            BEGINS, 2, 8
        )
