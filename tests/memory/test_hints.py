"""Hints lead to a slot or to none, whatever else was placed; and only ever propose."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.memory import layout, steps
from shmcache.memory.control import ControlReader, control_image
from shmcache.memory.hints import Hints
from shmcache.memory.words import words_to_key

HOME_COUNT = 32
SLOTS = layout.slot_count(HOME_COUNT)
GROUPS = layout.hint_group_count(HOME_COUNT)


def digest_of(tag: int, group: int) -> bytes:
    """A text's digest, by the two parts of it that hints look at."""
    return words_to_key((tag << 24 | 5, group, 1, 2))


def hints_of() -> tuple[Hints, memoryview]:
    control = ControlReader(control_image(home_count=HOME_COUNT, row_count=1))
    return Hints(control), control.words


def always(_: int) -> bool:
    return True


def test_what_was_placed_is_found_and_nothing_else() -> None:
    hints, _ = hints_of()
    hints.place(digest_of(7, 1), 3, always)
    assert hints.slots(digest_of(7, 1)) == [3]
    assert hints.slots(digest_of(7, 2)) == []
    assert hints.slots(digest_of(8, 1)) == []


def test_a_text_has_one_hint_the_newest() -> None:
    hints, words = hints_of()
    for slot in (3, 0, SLOTS - 1):
        hints.place(digest_of(7, 1), slot, always)
        assert hints.slots(digest_of(7, 1)) == [slot]
    assert sum(map(bool, words[layout.hints_start(HOME_COUNT) :].tolist())) == 1


def test_a_hint_to_a_slot_that_is_not_in_use_gives_way_first() -> None:
    hints, _ = hints_of()
    for tag in range(1, layout.HINTS_PER_GROUP + 1):
        hints.place(digest_of(tag, 1), tag, always)
    hints.place(digest_of(99, 1), 50, lambda slot: slot != 6)
    found = [bool(hints.slots(digest_of(tag, 1))) for tag in range(1, layout.HINTS_PER_GROUP + 1)]
    assert found == [tag != 6 for tag in range(1, layout.HINTS_PER_GROUP + 1)]
    assert hints.slots(digest_of(99, 1)) == [50]


def test_where_all_are_in_use_one_gives_way() -> None:
    hints, _ = hints_of()
    tags = range(1, layout.HINTS_PER_GROUP + 1)
    for tag in tags:
        hints.place(digest_of(tag, 1), tag, always)
    hints.place(digest_of(99, 1), 50, always)
    assert hints.slots(digest_of(99, 1)) == [50]
    assert sum(bool(hints.slots(digest_of(tag, 1))) for tag in tags) == len(tags) - 1


def test_a_placing_is_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    hints, words = hints_of()
    stored: list[int] = []

    def store(_: memoryview, position: int, value: int) -> None:
        stored.append(position)
        words[position] = value

    monkeypatch.setattr(steps, "store", store)
    hints.place(digest_of(7, 1), 3, always)
    assert len(stored) == 1
    assert hints.slots(digest_of(7, 1)) == [3]


def test_a_damaged_hint_proposes_no_slot_that_is_not_there() -> None:
    hints, words = hints_of()
    for position in range(layout.hints_start(HOME_COUNT), len(words)):
        words[position] = 7 << 24 | SLOTS
    assert hints.slots(digest_of(7, 1)) == []


@pytest.mark.parametrize("home_count", [1, 7, 32, 64, layout.DEFAULT_HOME_COUNT])
def test_every_group_lies_inside_the_segment_and_behind_the_records(home_count: int) -> None:
    hints = Hints(ControlReader(control_image(home_count=home_count, row_count=1)))
    words = layout.control_size_bytes(home_count) // 8
    records_end = layout.records_start(home_count) + layout.RECORD_WORDS * layout.slot_count(home_count)
    for group in (0, layout.hint_group_count(home_count) - 1):
        start = hints._group_start((0, group, 0, 0))
        assert records_end <= start <= words - layout.HINTS_PER_GROUP
        assert start % layout.HINTS_PER_GROUP == 0


@pytest.mark.parametrize("seed", range(20))
def test_beside_a_table_that_forgets_nothing(seed: int) -> None:
    """Whatever is proposed was placed for that tag in that group, and what was placed last is always proposed."""
    rng = Random(seed)
    hints, _ = hints_of()
    placed: dict[bytes, int] = {}
    for _ in range(300):
        digest = digest_of(rng.randrange(1, 20), rng.randrange(GROUPS))
        slot = rng.randrange(SLOTS)
        hints.place(digest, slot, lambda slot: slot % 3 != 0)
        placed[digest] = slot
        assert hints.slots(digest) == [slot]
        for known, where in placed.items():
            assert hints.slots(known) in ([], [where])
