"""Which entries go first: what nobody maps, then age times bytes by cost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcache.manager.entries import Entries, Entry
from shmcache.manager.policy import Policy
from shmcache.memory.layout import SlotState, Tier

PAGE = 4096
SECOND_NS = 1_000_000_000


def entries_of(*figures: tuple[int, int]) -> Entries:
    """READY grammars with serials from 1 on, each of (pages, cost in microseconds)."""
    restored = [
        Entry(serial, Tier.GRAMMAR, bytes([serial]) * 32, 1, SlotState.READY, pages * PAGE, cost_us=cost_us)
        for serial, (pages, cost_us) in enumerate(figures, start=1)
    ]
    return Entries(Policy(), 1, len(restored), restored)


def order(
    entries: Entries, *, last_use: Mapping[int, int] | None = None, mapped: frozenset[int] = frozenset()
) -> list[int]:
    return [entry.serial for entry in entries.victims(Tier.GRAMMAR, last_use=last_use or {}, mapped=mapped)]


def test_of_equals_the_one_used_longest_ago_goes_first() -> None:
    last_use = {1: 3 * SECOND_NS, 2: SECOND_NS, 3: 2 * SECOND_NS}
    assert order(entries_of((1, 1000), (1, 1000), (1, 1000)), last_use=last_use) == [2, 3, 1]


def test_what_no_reader_touched_was_last_used_when_it_was_made() -> None:
    assert order(entries_of((1, 1000), (1, 1000), (1, 1000))) == [1, 2, 3]


def test_the_one_that_holds_more_bytes_for_its_cost_goes_first() -> None:
    # Of about the same age: a cheap large one before a dear small one, in either order of age.
    assert order(entries_of((1, 1_000_000), (100, 1_000))) == [2, 1]
    assert order(entries_of((100, 1_000), (1, 1_000_000))) == [1, 2]
    assert order(entries_of((1, 100), (1, 100_000), (1, 10_000))) == [1, 3, 2]


def test_age_outweighs_cost_in_the_end() -> None:
    figures = [(1, 2_100), *[(1, 2_000)] * 9]
    assert order(entries_of(*figures))[0] == 1


@pytest.mark.parametrize("mapped", [frozenset({1}), frozenset({1, 2})])
def test_what_nobody_maps_goes_before_all_that_is_mapped(mapped: frozenset[int]) -> None:
    found = order(entries_of((100, 1), (100, 1), (1, 1_000_000), (1, 1_000_000)), mapped=mapped)
    assert set(found[: 4 - len(mapped)]) == {1, 2, 3, 4} - mapped


def test_spared_entries_are_no_victims() -> None:
    entries = entries_of((1, 1), (1, 1))
    found = entries.victims(Tier.GRAMMAR, last_use={}, mapped=frozenset(), spared=frozenset({bytes([1]) * 32}))
    assert [entry.serial for entry in found] == [2]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**7)), min_size=1, max_size=12),
    st.dictionaries(st.integers(1, 12), st.integers(0, 1 << 64)),
    st.frozensets(st.integers(1, 12)),
)
def test_any_hints_give_an_order_of_all(
    figures: list[tuple[int, int]], last_use: dict[int, int], mapped: frozenset[int]
) -> None:
    """Recency is written by readers, whom nobody trusts: whatever it says, every entry has its one place."""
    entries = entries_of(*figures)
    found = order(entries, last_use=last_use, mapped=mapped)
    assert sorted(found) == list(range(1, len(figures) + 1))
    are_mapped = [serial in mapped for serial in found]
    assert are_mapped == sorted(are_mapped)
