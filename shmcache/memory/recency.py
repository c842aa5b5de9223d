"""The recency segment: what readers tell the manager without asking it.

Owns two words a slot (when it was last used, and how often) and one row of counters a client. Must never be trusted:
any process of the user writes here, so everything read is bounded and decides at most what is evicted first or what a
statistic shows.
"""

from __future__ import annotations

import mmap
import os
import time
from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.memory import layout, steps
from shmcache.memory.control import ControlReader
from shmcache.memory.names import Namespace
from shmcache.memory.objects import WRITABLE_MODE, building, check_descriptor, fill, open_object, publish, unlink_object
from shmcache.memory.words import words_of

_HEADER_WORDS = 5
COUNT_MAX = 1 << 48
"""A client's counter above this is taken for garbage, and for 0."""


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """What one client counted in its row: hits of grammars that it had to map, and of those that it held already.

    ``coalesced`` requests waited for another thread of the same process that asked for the same.
    """

    host_hits: int = 0
    local_hits: int = 0
    misses: int = 0
    private_compiles: int = 0
    coalesced: int = 0

    @property
    def hits(self) -> int:
        """All hits."""
        return self.host_hits + self.local_hits

    def by_counter(self) -> dict[str, int]:
        """The counts under the names that the manager's counters have."""
        return {
            "hit": self.hits,
            "local_hit": self.local_hits,
            "miss": self.misses,
            "coalesced": self.coalesced,
            "private": self.private_compiles,
        }


class Recency:
    """The mapped recency segment of one control segment, readable and writable by every process of the user."""

    def __init__(self, buffer: mmap.mmap | bytearray, control: ControlReader) -> None:
        """Raises :class:`SegmentError` when the segment does not belong to ``control``."""
        wanted = _header(control)
        if len(buffer) != layout.recency_size_bytes(control.home_count, control.row_count):
            raise SegmentError(f"the recency segment cannot have {len(buffer)} bytes")
        self.words = words_of(buffer)
        if self.words[:_HEADER_WORDS].tolist() != wanted:
            raise SegmentError("the recency segment belongs to another control segment")
        self.row_count = control.row_count
        self._slot_count = control.slot_count
        self._uses_start = layout.uses_start(control.home_count)
        self._rows_start = layout.rows_start(control.home_count)

    def begin(self, slot: int, now_ns: int) -> None:
        """Notes that the slot has a new entry, which nobody used yet."""
        steps.store(self.words, layout.RECENCY_SLOTS + slot, now_ns)
        steps.store(self.words, self._uses_start + slot, 0)

    def touch(self, slot: int, now_ns: int) -> None:
        """Notes a use of the slot at that monotonic time, in nanoseconds. Of uses at the same time some may be lost."""
        words = self.words
        position = self._uses_start + slot
        steps.store(words, layout.RECENCY_SLOTS + slot, now_ns)
        steps.store(words, position, words[position] + 1 & layout.WORD_MASK)

    def last_used_ns(self, slot: int, now_ns: int) -> int:
        """When the slot was last hit, in monotonic nanoseconds, never later than ``now_ns``."""
        return min(int(self.words[layout.RECENCY_SLOTS + slot]), now_ns)

    def uses(self, slot: int) -> int:
        """How often the slot's entry was used, about; an impossible value counts as 0."""
        uses: int = self.words[self._uses_start + slot]
        return uses if uses <= COUNT_MAX else 0

    def row(self, row: int) -> memoryview:
        """The eight words of one client's row, writable."""
        if not 0 <= row < self.row_count:
            raise SegmentError(f"there is no counter row {row}")
        start = self._rows_start + layout.ROW_WORDS * row
        return self.words[start : start + layout.ROW_WORDS]

    def clear_row(self, row: int) -> None:
        """Zeroes a row before it is given to a client."""
        words = self.row(row)
        for position in range(layout.ROW_WORDS):
            steps.store(words, position, 0)

    def counts(self, row: int) -> ClientCounts:
        """What a client counted; impossible values count as 0."""
        words = self.row(row)[: layout.ROW_COALESCED + 1].tolist()
        return ClientCounts(*(value if value <= COUNT_MAX else 0 for value in words))


def create_recency(namespace: Namespace, control: ControlReader) -> Recency:
    """Makes a control segment's recency segment, in place of any older one; the caller holds the manager's lock."""
    image = bytearray(layout.recency_size_bytes(control.home_count, control.row_count))
    words = words_of(image)
    for position, value in enumerate(_header(control)):
        words[position] = value
    unlink_object(namespace.recency_name + ".new")
    unlink_object(namespace.recency_name)
    with building(namespace.recency_name, len(image)) as descriptor:
        fill(descriptor, [image])
        publish(descriptor, namespace.recency_name, mode=WRITABLE_MODE)
    return open_recency(namespace, control)


def open_recency(source: Namespace | int, control: ControlReader) -> Recency:
    """Maps the recency segment, by name or descriptor. Raises FileNotFoundError or :class:`SegmentError`."""
    if isinstance(source, int):
        check_descriptor(source, "the recency segment", mode=WRITABLE_MODE)
        return _map(source, control, mmap.PROT_READ | mmap.PROT_WRITE)
    descriptor = open_recency_descriptor(source)
    try:
        return _map(descriptor, control, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(descriptor)


def open_recency_reader(namespace: Namespace, control: ControlReader) -> Recency:
    """Maps the recency segment read-only, for who only looks. Raises FileNotFoundError or :class:`SegmentError`."""
    descriptor = open_object(namespace.recency_name, mode=WRITABLE_MODE)
    try:
        return _map(descriptor, control, mmap.PROT_READ)
    finally:
        os.close(descriptor)


def open_recency_descriptor(namespace: Namespace) -> int:
    """A writable descriptor of the recency segment, fit to be handed to a client."""
    return open_object(namespace.recency_name, mode=WRITABLE_MODE, writable=True)


def now_ns() -> int:
    """The clock of recency words: monotonic nanoseconds, the same for all processes of this machine."""
    return time.monotonic_ns()


def _map(descriptor: int, control: ControlReader, protection: int) -> Recency:
    size_bytes = layout.recency_size_bytes(control.home_count, control.row_count)
    if os.fstat(descriptor).st_size != size_bytes:
        raise SegmentError("the recency segment does not fit its control segment")
    return Recency(mmap.mmap(descriptor, size_bytes, flags=mmap.MAP_SHARED, prot=protection), control)


def _header(control: ControlReader) -> list[int]:
    return [
        layout.RECENCY_MAGIC,
        layout.CONTROL_LAYOUT_VERSION,
        control.instance,
        control.slot_count,
        control.row_count,
    ]
