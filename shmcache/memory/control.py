"""The control segment's header: who manages, which generation is valid, and the totals.

Owns reading and writing the words before the index. Must never know the index's slots, nor trust a segment that it
has not checked. One process at a time holds a :class:`ControlWriter`; the manager's lock sees to that.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from shmcache.errors import SegmentError
from shmcache.memory import layout, steps
from shmcache.memory.account import Totals
from shmcache.memory.layout import ManagerState
from shmcache.memory.names import Namespace
from shmcache.memory.objects import WRITABLE_MODE, building, check_descriptor, fill, open_object, publish, unlink_object
from shmcache.memory.words import checksum, shared_words, words_of

COUNT_MAX = 1 << 62
"""No generation, epoch, serial or version comes anywhere near this; nor an honest counter."""

UNLIMITED = -1
"""The limit in bytes that means none."""

_POSITIONS = {name: layout.COUNTERS + offset for offset, name in enumerate(layout.COUNTER_NAMES)}


@dataclass(frozen=True, slots=True)
class ManagerRecord:
    """Who manages the namespace. ``start_ticks`` tells a pid from its successor; ``epoch`` counts managers."""

    pid: int
    start_ticks: int
    epoch: int
    state: ManagerState
    lease_works: bool


class ControlReader:
    """A checked control segment. ``words`` are all of its words (read-only unless this is a writer)."""

    def __init__(self, buffer: mmap.mmap | bytearray) -> None:
        """Checks the constant words; raises :class:`SegmentError` when they are not ours or do not fit the size."""
        if len(buffer) < 8 * layout.FINGERPRINTS or len(buffer) % 8:
            raise SegmentError(f"a control segment cannot have {len(buffer)} bytes")
        self.buffer = buffer
        self.words = words = shared_words(buffer)
        if words[layout.MAGIC] != layout.CONTROL_MAGIC:
            raise SegmentError("not a control segment of shmcache")
        if words[layout.LAYOUT_VERSION] != layout.CONTROL_LAYOUT_VERSION:
            raise SegmentError(
                f"control layout {words[layout.LAYOUT_VERSION]}, ours is {layout.CONTROL_LAYOUT_VERSION}"
            )
        if words[layout.CONSTANT_CHECKSUM] != checksum(words[position] for position in layout.CONSTANT_WORDS):
            raise SegmentError("the control segment's header is damaged")
        home_count, row_count = words[layout.HOME_COUNT], words[layout.ROW_COUNT]
        if not 0 < home_count <= layout.HOME_COUNT_MAX or not 0 < row_count <= layout.ROW_COUNT_MAX:
            raise SegmentError(f"a control segment cannot have {home_count} homes and {row_count} rows")
        size_bytes = layout.control_size_bytes(home_count)
        if not words[layout.SIZE_BYTES] == size_bytes == len(buffer) or words[layout.WINDOW] != layout.WINDOW_SLOTS:
            raise SegmentError(f"the control segment has {len(buffer)} bytes and needs {size_bytes}")
        if words[layout.BOOT_ID] != boot_id():
            raise SegmentError("the control segment is of another boot of this machine")
        if words[layout.OWNER_UID] != os.geteuid():
            raise SegmentError(f"the control segment is of uid {words[layout.OWNER_UID]}")
        self.home_count: int = home_count
        self.row_count: int = row_count
        self.slot_count = layout.slot_count(home_count)
        self.records_start = layout.records_start(home_count)
        self.instance: int = words[layout.INSTANCE]

    @property
    def generation(self) -> int:
        """The generation that is valid now; the first is 1."""
        return self.words[layout.GENERATION]

    @property
    def limit_bytes(self) -> int:
        """Bytes that the grammar and rule tiers may take, or :data:`UNLIMITED`."""
        limit: int = self.words[layout.LIMIT_BYTES]
        return UNLIMITED if limit == layout.NO_LIMIT else limit

    @property
    def serial_last(self) -> int:
        """The last serial given out."""
        return self.words[layout.SERIAL_LAST]

    @property
    def is_dissolved(self) -> bool:
        """Whether this segment has been given up; a new one may be found under the same name."""
        return self.words[layout.MANAGER_STATE] == ManagerState.DISSOLVED

    def manager(self) -> ManagerRecord:
        """Who manages the namespace, or did so last."""
        words = self.words
        state = words[layout.MANAGER_STATE]
        return ManagerRecord(
            words[layout.MANAGER_PID],
            words[layout.MANAGER_START_TICKS],
            words[layout.MANAGER_EPOCH],
            ManagerState(state) if state <= max(ManagerState) else ManagerState.ABSENT,
            bool(words[layout.MANAGER_LEASE]),
        )

    def totals(self) -> Totals:
        """The account as the header has it. Its words change one by one: exact at rest, close while it changes."""
        words = self.words
        charged, entries = layout.CHARGED, layout.ENTRIES
        return Totals(
            (words[charged], words[charged + 1], words[charged + 2]),
            (words[entries], words[entries + 1], words[entries + 2]),
            words[layout.FILLING_BYTES],
            words[layout.RETIRED_BYTES],
        )

    def counters(self) -> dict[str, int]:
        """The manager's counters, by the names in :data:`layout.COUNTER_NAMES`."""
        return {name: self.words[position] for name, position in _POSITIONS.items()}


class ControlWriter(ControlReader):
    """The header in the hands of the manager, the only writer."""

    def __init__(self, buffer: mmap.mmap | bytearray) -> None:
        """As for a reader; also refuses counts that no manager can have reached, and that could not be raised."""
        super().__init__(buffer)
        for position in (layout.GENERATION, layout.MANAGER_EPOCH, layout.SERIAL_LAST, layout.VERSION_LAST):
            if self.words[position] > COUNT_MAX:
                raise SegmentError(f"the control segment counts to {self.words[position]}, which is impossible")

    def begin_epoch(self, *, pid: int, start_ticks: int) -> int:
        """Enters a new manager, in state RECOVERING; returns its epoch."""
        epoch = self.words[layout.MANAGER_EPOCH] + 1
        steps.store(self.words, layout.MANAGER_STATE, ManagerState.RECOVERING)
        steps.store(self.words, layout.MANAGER_EPOCH, epoch)
        steps.store(self.words, layout.MANAGER_PID, pid)
        steps.store(self.words, layout.MANAGER_START_TICKS, start_ticks)
        return epoch

    def set_state(self, state: ManagerState) -> None:
        """Says what the manager is doing."""
        steps.store(self.words, layout.MANAGER_STATE, state)

    def set_lease_works(self, works: bool) -> None:
        """Says whether retired bytes are known exactly."""
        steps.store(self.words, layout.MANAGER_LEASE, int(works))

    def set_limit(self, limit_bytes: int) -> None:
        """Sets the limit of grammar and rule tiers, in bytes, or :data:`UNLIMITED`."""
        steps.store(self.words, layout.LIMIT_BYTES, layout.NO_LIMIT if limit_bytes == UNLIMITED else limit_bytes)

    def set_totals(self, totals: Totals) -> None:
        """Stores the account, the cache of the sum over the slots."""
        for position, amount in enumerate(totals.charged_bytes, layout.CHARGED):
            steps.store(self.words, position, amount)
        for position, amount in enumerate(totals.entries, layout.ENTRIES):
            steps.store(self.words, position, amount)
        steps.store(self.words, layout.FILLING_BYTES, totals.filling_bytes)
        steps.store(self.words, layout.RETIRED_BYTES, totals.retired_bytes)

    def count(self, counter: str, change: int = 1) -> None:
        """Adds to a counter of :data:`layout.COUNTER_NAMES`, up to COUNT_MAX; only gauges go down."""
        position = _POSITIONS[counter]
        steps.store(self.words, position, min(max(0, self.words[position] + change), COUNT_MAX))

    def set_gauge(self, gauge: str, value: int) -> None:
        """Sets one of :data:`layout.GAUGE_NAMES`."""
        steps.store(self.words, _POSITIONS[gauge], value)

    def next_serial(self) -> int:
        """A serial that was never given out before and never will be again."""
        serial = self.words[layout.SERIAL_LAST] + 1
        steps.store(self.words, layout.SERIAL_LAST, serial)
        return serial

    def next_version(self) -> int:
        """A version word that no slot ever had."""
        version = self.words[layout.VERSION_LAST] + 1
        steps.store(self.words, layout.VERSION_LAST, version)
        return version

    def next_generation(self) -> int:
        """Opens a new generation. From this store on no look-up finds an older grammar or rule entry."""
        generation = self.words[layout.GENERATION] + 1
        steps.store(self.words, layout.GENERATION, generation)
        return generation

    def dissolve(self) -> None:
        """Gives the segment up before its name is removed: who still has it mapped finds nothing and opens anew."""
        self.next_generation()
        self.set_state(ManagerState.DISSOLVED)


def control_image(
    *, home_count: int = layout.DEFAULT_HOME_COUNT, row_count: int = layout.ROW_COUNT_DEFAULT
) -> bytearray:
    """The bytes of a new control segment, with a new instance id. A simulation may use them in place of a mapping."""
    size_bytes = layout.control_size_bytes(home_count)
    image = bytearray(size_bytes)
    words = words_of(image)
    words[layout.MAGIC] = layout.CONTROL_MAGIC
    words[layout.LAYOUT_VERSION] = layout.CONTROL_LAYOUT_VERSION
    words[layout.BOOT_ID] = boot_id()
    words[layout.INSTANCE] = int.from_bytes(os.urandom(8), "little") or 1
    words[layout.HOME_COUNT] = home_count
    words[layout.WINDOW] = layout.WINDOW_SLOTS
    words[layout.SIZE_BYTES] = size_bytes
    words[layout.OWNER_UID] = os.geteuid()
    words[layout.ROW_COUNT] = row_count
    words[layout.CONSTANT_CHECKSUM] = checksum(words[position] for position in layout.CONSTANT_WORDS)
    words[layout.GENERATION] = 1
    words[layout.LIMIT_BYTES] = layout.NO_LIMIT
    return image


def create_control(
    namespace: Namespace,
    *,
    home_count: int = layout.DEFAULT_HOME_COUNT,
    row_count: int = layout.ROW_COUNT_DEFAULT,
) -> ControlWriter:
    """Makes and publishes the namespace's control segment; the caller holds the manager's lock.

    Raises :class:`SegmentError` when there is one already, :class:`LimitError` when there is no room.
    """
    image = control_image(home_count=home_count, row_count=row_count)
    # What a creator killed half-way has left; the lock says that nobody else is creating.
    unlink_object(namespace.control_name + ".new")
    with building(namespace.control_name, len(image)) as descriptor:
        fill(descriptor, [image])
        publish(descriptor, namespace.control_name, mode=WRITABLE_MODE)
    return open_control_writer(namespace)


def open_control_writer(namespace: Namespace) -> ControlWriter:
    """Maps the control segment for the manager. Raises FileNotFoundError or :class:`SegmentError`."""
    descriptor = open_object(namespace.control_name, mode=WRITABLE_MODE, writable=True)
    try:
        return ControlWriter(_map(descriptor, namespace.control_name, writable=True))
    finally:
        os.close(descriptor)


def open_control_reader(source: Namespace | int) -> ControlReader:
    """Maps the control segment read-only, by name or descriptor. Raises FileNotFoundError or :class:`SegmentError`."""
    if isinstance(source, int):
        check_descriptor(source, "the control segment", mode=WRITABLE_MODE)
        return ControlReader(_map(source, "the control segment", writable=False))
    descriptor = open_control_descriptor(source)
    try:
        return ControlReader(_map(descriptor, source.control_name, writable=False))
    finally:
        os.close(descriptor)


def open_control_descriptor(namespace: Namespace) -> int:
    """A read-only descriptor of the control segment, fit to be handed to a client."""
    return open_object(namespace.control_name, mode=WRITABLE_MODE)


@cache
def boot_id() -> int:
    """64 bits that differ between boots of this machine; 0 where the kernel does not tell."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return 0
    return int.from_bytes(blake2b(text.strip(), digest_size=8).digest(), "little")


def _map(descriptor: int, name: str, *, writable: bool) -> mmap.mmap:
    size_bytes = os.fstat(descriptor).st_size
    if not 0 < size_bytes <= layout.control_size_bytes(layout.HOME_COUNT_MAX):
        raise SegmentError(f"{name} has an impossible size of {size_bytes} bytes")
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return mmap.mmap(descriptor, size_bytes, flags=mmap.MAP_SHARED, prot=protection)
