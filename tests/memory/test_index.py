"""The index: never a wrong hit, never a lost entry, and an account that is the sum over the slots."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from shmcache.errors import SegmentError
from shmcache.memory import layout, steps
from shmcache.memory.account import Totals, sum_totals
from shmcache.memory.control import ControlReader, ControlWriter, control_image, create_control, open_control_reader
from shmcache.memory.index import IndexReader, IndexWriter
from shmcache.memory.layout import RECORD_WORDS, WINDOW_SLOTS, SlotState, Tier
from shmcache.memory.names import Namespace
from tests.memory.support import is_consistent, key_of, place_consistent, program, read_line


class Pair:
    """A writer and a reader of the same bytes, in no file."""

    def __init__(self, home_count: int = 64) -> None:
        self.image = control_image(home_count=home_count)
        self.control = ControlWriter(self.image)
        self.writer = IndexWriter(self.control)
        self.reader = IndexReader(ControlReader(self.image))

    def add(self, key: bytes, tier: Tier = Tier.GRAMMAR, charged_bytes: int = 4096) -> int:
        entry = self.writer.reserve(
            key,
            tier=tier,
            generation=self.control.generation,
            serial=self.control.next_serial(),
            reserved_bytes=8192,
            owner=5,
        )
        assert entry is not None
        published = self.writer.publish(entry.slot, charged_bytes=charged_bytes, payload_bytes=100, cost_us=9)
        assert published is not None
        return published.slot

    def record_start(self, slot: int) -> int:
        return self.control.records_start + RECORD_WORDS * slot


def test_only_ready_entries_are_found() -> None:
    pair, key = Pair(), key_of(1)
    assert pair.reader.look_up(key) is None
    entry = pair.writer.reserve(key, tier=Tier.GRAMMAR, generation=1, serial=1, reserved_bytes=8192, owner=5)
    assert entry is not None
    assert entry.state is SlotState.FILLING
    assert pair.reader.look_up(key) is None
    published = pair.writer.publish(entry.slot, charged_bytes=4096, payload_bytes=100, cost_us=9)
    assert pair.reader.look_up(key) == published
    assert published is not None
    assert (published.owner, published.charged_bytes, published.payload_bytes, published.cost_us) == (5, 4096, 100, 9)
    pair.writer.retire(published.slot)
    assert pair.reader.look_up(key) is None
    pair.writer.release(published.slot)
    assert pair.reader.look_up(key) is None
    assert pair.writer.totals == Totals()


def test_keys_with_one_fingerprint_are_told_apart() -> None:
    pair = Pair()
    slots = {number: pair.add(key_of(number, fingerprint=9)) for number in range(5)}
    for number, slot in slots.items():
        found = pair.reader.look_up(key_of(number, fingerprint=9))
        assert found is not None
        assert (found.slot, found.key) == (slot, key_of(number, fingerprint=9))
    assert pair.reader.look_up(key_of(77, fingerprint=9)) is None


def test_deleting_loses_no_other_entry_of_the_window() -> None:
    pair = Pair(home_count=1)
    slots = {number: pair.add(key_of(number, fingerprint=number)) for number in range(WINDOW_SLOTS)}
    for gone in range(0, WINDOW_SLOTS, 2):
        pair.writer.retire(slots[gone])
        pair.writer.release(slots[gone])
    for number in range(WINDOW_SLOTS):
        found = pair.reader.look_up(key_of(number, fingerprint=number))
        assert (found is None) == (number % 2 == 0)
    for number in range(100, 100 + WINDOW_SLOTS // 2):
        pair.add(key_of(number, fingerprint=number))
    assert all(pair.reader.look_up(key_of(n, fingerprint=n)) for n in range(1, WINDOW_SLOTS, 2))


def test_a_full_window_refuses_and_names_its_entries() -> None:
    pair = Pair(home_count=4)
    for number in range(WINDOW_SLOTS):
        pair.add(key_of(number, fingerprint=4))
    key = key_of(1000, fingerprint=8)
    assert pair.writer.reserve(key, tier=Tier.RULE, generation=1, serial=1, reserved_bytes=1, owner=0) is None
    assert len(pair.writer.window_entries(key)) == WINDOW_SLOTS
    victim = pair.writer.window_entries(key)[0]
    pair.writer.retire(victim.slot)
    pair.writer.release(victim.slot)
    assert pair.add(key) == victim.slot


def test_the_last_home_has_a_whole_window() -> None:
    pair = Pair(home_count=64)
    for number in range(WINDOW_SLOTS):
        pair.add(key_of(number, fingerprint=63))
    assert all(pair.reader.look_up(key_of(number, fingerprint=63)) for number in range(WINDOW_SLOTS))


def test_a_key_that_starts_with_zeros_is_found() -> None:
    pair = Pair()
    pair.add(bytes(32))
    assert pair.reader.look_up(bytes(32)) is not None


def test_a_fingerprint_across_two_words_is_no_match() -> None:
    pair = Pair()
    words = pair.control.words
    pair.add(key_of(3, fingerprint=1))
    # The bytes of fingerprint 1 << 8, seen four bytes off, look like another one.
    words[layout.FINGERPRINTS + 40] = 7 << 32
    assert pair.reader.look_up(key_of(3, fingerprint=7)) is None
    assert pair.reader.look_up(key_of(3, fingerprint=1)) is not None


def test_raising_the_generation_makes_all_older_entries_miss_but_vocabularies() -> None:
    pair = Pair()
    keys = {tier: key_of(int(tier), fingerprint=20 + tier) for tier in Tier}
    for tier, key in keys.items():
        pair.add(key, tier)
    found = pair.reader.look_up(keys[Tier.GRAMMAR])
    assert found is not None
    assert pair.reader.is_unchanged(found)
    assert pair.writer.raise_generation() == 2
    assert not pair.reader.is_unchanged(found)
    assert pair.reader.look_up(keys[Tier.GRAMMAR]) is None
    assert pair.reader.look_up(keys[Tier.RULE]) is None
    vocabulary = pair.reader.look_up(keys[Tier.VOCABULARY])
    assert vocabulary is not None
    assert pair.reader.is_unchanged(vocabulary)
    assert pair.writer.totals == Totals((0, 0, 4096), (0, 0, 1), 0, 8192)
    assert {entry.key for entry in pair.writer.stale_entries()} == {keys[Tier.GRAMMAR], keys[Tier.RULE]}


def test_an_old_and_a_new_entry_of_one_key_live_side_by_side() -> None:
    pair, key = Pair(), key_of(1, fingerprint=3)
    old = pair.add(key)
    pair.writer.raise_generation()
    new = pair.add(key)
    assert old != new
    found = pair.reader.look_up(key)
    assert found is not None
    assert found.slot == new


@pytest.mark.parametrize("tier", [Tier.GRAMMAR, Tier.RULE])
def test_the_fence_refuses_a_compile_of_an_older_generation(tier: Tier) -> None:
    pair, key = Pair(), key_of(1)
    entry = pair.writer.reserve(key, tier=tier, generation=1, serial=1, reserved_bytes=4096, owner=0)
    assert entry is not None
    pair.writer.raise_generation()
    assert pair.writer.publish(entry.slot, charged_bytes=4096, payload_bytes=1, cost_us=1) is None
    assert pair.writer.totals == Totals(filling_bytes=4096)
    assert pair.reader.look_up(key) is None
    pair.writer.retire(entry.slot, charged_bytes=12288)
    assert pair.writer.totals == Totals(retired_bytes=12288)
    pair.writer.release(entry.slot)
    assert pair.writer.totals == Totals()


def test_a_vocabulary_may_be_published_after_a_clear() -> None:
    pair, key = Pair(), key_of(1)
    entry = pair.writer.reserve(key, tier=Tier.VOCABULARY, generation=1, serial=1, reserved_bytes=4096, owner=0)
    assert entry is not None
    pair.writer.raise_generation()
    assert pair.writer.publish(entry.slot, charged_bytes=4096, payload_bytes=1, cost_us=1) is not None
    assert pair.reader.look_up(key) is not None


def test_the_account_is_the_sum_over_the_slots_at_every_step() -> None:
    pair = Pair()
    rng = random.Random(1)
    filling: list[int] = []
    for step in range(400):
        action = rng.randrange(6)
        if action <= 1:
            tier = rng.choice(list(Tier))
            entry = pair.writer.reserve(
                rng.randbytes(32),
                tier=tier,
                generation=pair.control.generation,
                serial=step + 1,
                reserved_bytes=rng.randrange(1 << 40),
                owner=0,
            )
            if entry is not None:
                filling.append(entry.slot)
        elif action == 2 and filling:
            slot = filling.pop()
            if pair.writer.publish(slot, charged_bytes=rng.randrange(1 << 40), payload_bytes=1, cost_us=1) is None:
                pair.writer.retire(slot)
        elif action == 3 and filling:
            pair.writer.release(filling.pop())
        elif action == 4:
            ready = [entry for entry in pair.writer.entries() if entry.state is SlotState.READY]
            zombies = [entry for entry in pair.writer.entries() if entry.state is SlotState.ZOMBIE]
            for entry in ready[:2]:
                pair.writer.retire(entry.slot)
            for entry in zombies[:1]:
                pair.writer.release(entry.slot)
        elif rng.randrange(8) == 0:
            pair.writer.raise_generation()
        truth = sum_totals(pair.reader.read_all(), pair.control.generation)
        assert pair.writer.totals == truth == pair.control.totals()
        assert {entry.slot: entry for entry in pair.writer.entries()} == {e.slot: e for e in pair.reader.read_all()}


def test_impossible_changes_are_refused() -> None:
    pair = Pair()
    slot = pair.add(key_of(1))
    with pytest.raises(SegmentError, match="READY"):
        pair.writer.publish(slot, charged_bytes=1, payload_bytes=1, cost_us=1)
    with pytest.raises(SegmentError, match="READY"):
        pair.writer.release(slot)
    pair.writer.retire(slot)
    with pytest.raises(SegmentError, match="ZOMBIE"):
        pair.writer.retire(slot)
    pair.writer.release(slot)
    with pytest.raises(SegmentError, match="FREE"):
        pair.writer.release(slot)


def test_a_slot_in_change_is_a_miss_and_comes_back() -> None:
    pair, key = Pair(), key_of(1)
    start = pair.record_start(pair.add(key))
    words = pair.control.words
    version, words[start] = words[start], 0
    assert pair.reader.look_up(key) is None
    words[start] = version
    assert pair.reader.look_up(key) is not None


def test_every_change_has_a_new_version() -> None:
    pair, versions = Pair(), []
    for _ in range(3):
        slot = pair.add(key_of(1))
        versions.append(pair.control.words[pair.record_start(slot)])
        versions.append(pair.writer.retire(slot).version)
        pair.writer.release(slot)
        versions.append(pair.control.words[pair.record_start(slot)])
    assert versions == sorted(set(versions))


class Interrupted:
    """Words that let something happen right after the n-th load of a word."""

    def __init__(self, words: memoryview, at: int, happen: Callable[[], object]) -> None:
        self._words, self._left, self._happen = words, at, happen

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return _Words([self[position] for position in range(place.start, place.stop)])
        value = self._words[place]
        self._left -= 1
        if self._left == 0:
            self._happen()
        return value


class _Words(list[int]):
    def tolist(self) -> list[int]:
        return self


def stores_of(change: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The stores that ``change`` makes, in order: position and value."""
    stores: list[tuple[int, int]] = []

    def record(words: memoryview, position: int, value: int) -> None:
        stores.append((position, value))
        words[position] = value

    with monkeypatch.context() as patch:
        patch.setattr(steps, "store", record)
        change()
    return stores


class Found:
    """A buffer that lets something happen once the reader has found a fingerprint in it."""

    def __init__(self, buffer: bytearray, happen: Callable[[], object]) -> None:
        self._buffer, self._happen = buffer, happen

    def find(self, pattern: bytes, start: int, end: int) -> int:
        position = self._buffer.find(pattern, start, end)
        self._happen()
        self._happen = lambda: None
        return position


def test_a_change_at_any_store_between_any_two_loads_gives_no_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer goes on to every store while the reader has found the slot, and from there after every load."""
    pair, key, other = Pair(home_count=4), key_of(1, fingerprint=9), key_of(2, fingerprint=9)
    first = place_consistent(pair.writer, pair.control, key)
    assert first is not None
    before = bytes(pair.image)

    def exchange() -> None:
        pair.writer.retire(first.slot)
        pair.writer.release(first.slot)
        assert place_consistent(pair.writer, pair.control, other) is not None

    stores = stores_of(exchange, monkeypatch)
    outcomes = set()
    for stopped_at in range(len(stores) + 1):
        for load in range(2, RECORD_WORDS + 4):
            for goes_on in (0, 1, 2, 4, 8, len(stores)):
                for wanted in (key, other):
                    pair.image[:] = before
                    words = pair.control.words
                    rest = stores[stopped_at : stopped_at + goes_on]
                    pair.reader._buffer = Found(pair.image, partial(apply, words, stores[:stopped_at]))  # type: ignore[assignment]
                    pair.reader._words = Interrupted(words, load, partial(apply, words, rest))  # type: ignore[assignment]
                    found = pair.reader.look_up(wanted)
                    outcomes.add(found)
                    assert found is None or (found.key == wanted and is_consistent(found))
    assert outcomes == {None, first, pair.writer.entry(first.slot)}


def apply(words: memoryview, stores: list[tuple[int, int]]) -> None:
    """Makes the stores."""
    for position, value in stores:
        words[position] = value


@pytest.mark.parametrize("at", range(1, RECORD_WORDS + 4))
def test_a_clear_between_any_two_loads_is_noticed(at: int) -> None:
    pair, key = Pair(), key_of(1)
    pair.add(key)
    pair.reader._words = Interrupted(pair.control.words, at, pair.writer.raise_generation)  # type: ignore[assignment]
    found = pair.reader.look_up(key)
    if pair.control.generation == 2:
        assert found is None or not pair.reader.is_unchanged(found)
        assert pair.reader.look_up(key) is None


def test_readers_see_only_whole_records_while_a_writer_hammers(namespace: Namespace) -> None:
    create_control(namespace, home_count=64)
    reader = IndexReader(open_control_reader(namespace))
    keys = [key_of(number, fingerprint=9) for number in range(4)]
    hits = misses = last_generation = 0
    with program("hammer", namespace) as writer:
        assert read_line(writer) == "ready"
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline or not hits:
            for key in keys:
                generation = reader.control.generation
                assert generation >= last_generation
                last_generation = generation
                entry = reader.look_up(key)
                if entry is None:
                    misses += 1
                    continue
                hits += 1
                assert entry.key == key
                assert entry.generation >= generation
                assert is_consistent(entry)
            assert writer.poll() is None
    assert hits
    assert misses


def test_a_second_writer_finds_what_the_first_left() -> None:
    pair = Pair()
    pair.add(key_of(1))
    pair.writer.reserve(key_of(2), tier=Tier.RULE, generation=1, serial=9, reserved_bytes=8192, owner=0)
    pair.writer.retire(pair.add(key_of(3)))
    again = IndexWriter(pair.control)
    assert again.repair() == []
    assert again.totals == pair.writer.totals == Totals((4096, 0, 0), (1, 0, 0), 8192, 4096)
    assert sorted(again.entries(), key=lambda entry: entry.slot) == sorted(
        pair.writer.entries(), key=lambda entry: entry.slot
    )


class KilledError(Exception):
    """The writer is gone."""


@pytest.mark.parametrize("action", ["reserve", "publish", "retire", "release", "clear"])
def test_a_writer_killed_before_any_store_leaves_an_index_that_repairs(
    action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0
    while True:
        pair = Pair()
        bystander = pair.add(key_of(50, fingerprint=3))
        subject = key_of(1, fingerprint=3)
        reserved = pair.writer.reserve(subject, tier=Tier.GRAMMAR, generation=1, serial=8, reserved_bytes=1, owner=0)
        assert reserved is not None
        slot = reserved.slot
        if action in ("retire", "release"):
            pair.writer.publish(slot, charged_bytes=4096, payload_bytes=1, cost_us=1)
        if action == "release":
            pair.writer.retire(slot)
        left = tried

        def killable(words: memoryview, position: int, value: int) -> None:
            nonlocal left
            if left == 0:
                raise KilledError
            left -= 1
            words[position] = value

        monkeypatch.setattr(steps, "store", killable)
        finished = True
        try:
            if action == "reserve":
                pair.writer.reserve(key_of(2), tier=Tier.RULE, generation=1, serial=9, reserved_bytes=5, owner=0)
            elif action == "publish":
                pair.writer.publish(slot, charged_bytes=4096, payload_bytes=1, cost_us=1)
            elif action == "retire":
                pair.writer.retire(slot)
            elif action == "release":
                pair.writer.release(slot)
            else:
                pair.writer.raise_generation()
        except KilledError:
            finished = False
        monkeypatch.undo()
        found = pair.reader.look_up(subject)
        assert found is None or found.state is SlotState.READY
        successor = IndexWriter(pair.control)
        damaged = successor.repair()
        assert len(damaged) <= 1
        assert successor.repair() == []
        entries = list(pair.reader.read_all())
        assert successor.totals == sum_totals(entries, pair.control.generation) == pair.control.totals()
        assert (pair.reader.look_up(key_of(50, fingerprint=3)) is not None) == (pair.control.generation == 1)
        assert any(entry.slot == bystander for entry in entries)
        if finished:
            break
        tried += 1
    assert tried >= 9


def test_garbage_in_the_index_is_never_a_hit_nor_a_crash() -> None:
    rng = random.Random(2)
    pair = Pair()
    key = key_of(1, fingerprint=3)
    pair.add(key)
    for _ in range(300):
        image = bytearray(pair.image)
        words = ControlWriter(image).words
        for _ in range(20):
            words[rng.randrange(layout.FINGERPRINTS, len(words))] = rng.choice(
                [0, 1, 3, rng.getrandbits(64), words[rng.randrange(len(words))]]
            )
        reader = IndexReader(ControlReader(image))
        found = reader.look_up(key)
        assert found is None or found.key == key
        for entry in reader.read_all():
            assert entry.state in SlotState
        IndexWriter(ControlWriter(image)).repair()


def test_entries_are_values() -> None:
    pair = Pair()
    entry = pair.writer.entry(pair.add(key_of(1)))
    assert entry is not None
    assert replace(entry) == entry
    assert pair.writer.entry(99) is None
