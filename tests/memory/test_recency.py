"""What readers write is bounded before it is believed."""

from __future__ import annotations

import os

import pytest

from shmcache.errors import SegmentError
from shmcache.memory import layout
from shmcache.memory.control import ControlWriter, control_image
from shmcache.memory.names import object_path
from shmcache.memory.recency import ClientCounts, create_recency, open_recency, open_recency_descriptor
from tests.memory.support import Cache


def test_readers_tell_when_they_used_a_slot(cache: Cache) -> None:
    open_recency(cache.namespace, cache.control).touch(3, 500)
    assert cache.recency.last_used_ns(3, 1000) == 500
    assert cache.recency.last_used_ns(4, 1000) == 0


def test_a_time_in_the_future_is_now(cache: Cache) -> None:
    cache.recency.touch(3, (1 << 64) - 1)
    assert cache.recency.last_used_ns(3, 1000) == 1000


def test_every_slot_and_row_has_words_of_its_own(cache: Cache) -> None:
    slots = cache.control.slot_count
    for slot in range(slots):
        cache.recency.touch(slot, slot + 1)
    for row in range(cache.recency.row_count):
        cache.recency.row(row)[layout.ROW_HOST_HITS] = 1000 + row
    assert [cache.recency.last_used_ns(slot, 1 << 40) for slot in range(slots)] == list(range(1, slots + 1))
    assert [cache.recency.counts(row).hits for row in range(8)] == list(range(1000, 1008))


def test_counter_rows(cache: Cache) -> None:
    descriptor = open_recency_descriptor(cache.namespace)
    try:
        row = open_recency(descriptor, cache.control).row(2)
    finally:
        os.close(descriptor)
    for position, value in enumerate((5, 4, 3, 2, 1)):
        row[position] = value
    assert cache.recency.counts(2) == ClientCounts(5, 4, 3, 2, 1)
    row[layout.ROW_MISSES] = (1 << 64) - 1
    assert cache.recency.counts(2) == ClientCounts(5, 4, 0, 2, 1)
    cache.recency.clear_row(2)
    assert cache.recency.counts(2) == ClientCounts()


@pytest.mark.parametrize("row", [-1, 8, 1 << 40])
def test_rows_are_bounded(cache: Cache, row: int) -> None:
    with pytest.raises(SegmentError):
        cache.recency.row(row)


def test_the_segment_of_another_instance_is_refused(cache: Cache) -> None:
    other = ControlWriter(control_image(home_count=64, row_count=8))
    with pytest.raises(SegmentError, match="another control"):
        open_recency(cache.namespace, other)
    with pytest.raises(SegmentError):
        open_recency(cache.namespace, ControlWriter(control_image(home_count=64, row_count=4096)))


def test_a_truncated_or_opened_segment_is_refused(cache: Cache) -> None:
    path = object_path(cache.namespace.recency_name)
    path.chmod(0o666)
    with pytest.raises(SegmentError, match="mode"):
        open_recency(cache.namespace, cache.control)
    path.chmod(0o600)
    os.truncate(path, 2048)
    with pytest.raises(SegmentError, match="fit"):
        open_recency(cache.namespace, cache.control)


def test_creating_replaces_an_older_one(cache: Cache) -> None:
    cache.recency.touch(1, 5)
    assert create_recency(cache.namespace, cache.control).last_used_ns(1, 100) == 0
