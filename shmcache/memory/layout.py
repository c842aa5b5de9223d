"""Where each word of the control and recency segments lies, and which values words take.

Owns positions and encodings, as plain numbers. Must never open, map or store anything. All positions are counted in
8-byte words from the segment's start unless a name says bytes. A change here raises CONTROL_LAYOUT_VERSION, which is
part of every object's name, so that two layouts never meet under one name.
"""

from __future__ import annotations

from enum import IntEnum

CONTROL_LAYOUT_VERSION = 3
CONTROL_MAGIC = int.from_bytes(b"shmcCTL\0", "little")
RECENCY_MAGIC = int.from_bytes(b"shmcRDR\0", "little")
WORD_MASK = (1 << 64) - 1
NO_LIMIT = WORD_MASK
"""How the limit -1 (unlimited) is stored."""

# The constant words: written once, before the segment is published.
MAGIC = 0
LAYOUT_VERSION = 1
BOOT_ID = 2
INSTANCE = 3
HOME_COUNT = 4
WINDOW = 5
SIZE_BYTES = 6
OWNER_UID = 7
ROW_COUNT = 8
CONSTANT_CHECKSUM = 9
CONSTANT_WORDS = range(MAGIC, CONSTANT_CHECKSUM)

GENERATION = 16
"""Alone on its cache line: every local hit of every process loads it."""

MANAGER_PID = 24
MANAGER_START_TICKS = 25
MANAGER_EPOCH = 26
MANAGER_STATE = 27
MANAGER_LEASE = 28

LIMIT_BYTES = 32
SERIAL_LAST = 33
VERSION_LAST = 34

CHARGED = 40
"""Three words, by tier: bytes of READY entries that are valid now."""
ENTRIES = 43
"""Three words, by tier: their number."""
FILLING_BYTES = 46
RETIRED_BYTES = 47

GAUGE_NAMES = ("in_flight", "waiters", "clients")
"""Compiles that somebody waits for, requests that wait, connected clients: of the manager that is there now."""

EVICTION_REASONS = ("limit", "entries", "shm_full", "request")
"""The tier's limit in bytes, the number of entries, a full file system, or somebody who asked for it."""

REFUSAL_CODES = ("SOURCE_ERROR", "UNSUPPORTED", "LIMIT", "MANAGER_UNAVAILABLE", "OTHER")
"""Codes under which requests that were answered with an error are counted; OTHER stands for all that have no name."""

COMPILE_SECONDS_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the buckets of the histogram of compile times; one more bucket has the rest."""

COUNTERS = 56
COUNTER_NAMES = (
    *("hit", "local_hit", "miss", "coalesced", "private"),
    *("started", "succeeded", "refused", "failed", "fenced"),
    *GAUGE_NAMES,
    *(f"evicted_{reason}" for reason in EVICTION_REASONS),
    *(f"refused_{code}" for code in REFUSAL_CODES),
    *(f"seconds_{bucket}" for bucket in range(len(COMPILE_SECONDS_BOUNDS) + 1)),
    "compile_us",
)
"""``hit`` to ``private`` are those of clients that are gone; the living ones have their rows in the recency segment."""

FINGERPRINTS = 512
"""The fingerprint array starts on the second page."""

RECORD_WORDS = 16
RECORD_VERSION = 0
RECORD_STATE = 1
RECORD_TIER = 2
RECORD_GENERATION = 3
RECORD_KEY = 4
RECORD_SERIAL = 8
RECORD_CHARGED = 9
RECORD_PAYLOAD = 10
RECORD_OWNER = 11
RECORD_COST = 12
RECORD_CHECKSUM = 13

WINDOW_SLOTS = 64
"""A key's entry lies in one of this many slots from its home; that is the bound on every probe."""

HINTS_PER_GROUP = 8
"""Words of the hints among which that of one text is: a cache line."""

HINT_SLOT_MASK = (1 << 24) - 1
"""A hint is a slot in these bits, and in the others those of the first word of a text's digest; 0 is none."""

HOMES_PER_ENTRY = 2
"""With so many homes for each entry that an index is made for, windows hardly ever fill up."""

ENTRIES_MAX = 12_288
"""Entries that a new index is made for."""

DEFAULT_HOME_COUNT = HOMES_PER_ENTRY * ENTRIES_MAX

HOME_COUNT_MAX = 1 << 22
ROW_COUNT_DEFAULT = 1_024
ROW_COUNT_MAX = 1 << 16

RECENCY_SLOTS = 16
"""First recency word; the words before it are magic, layout version, instance, slot count, row count.

One word a slot, when it was last used, and after those one word a slot, how often.
"""
ROW_WORDS = 8
"""A client's counter row fills one cache line: its five counters and three spare words."""
ROW_HOST_HITS = 0
ROW_LOCAL_HITS = 1
ROW_MISSES = 2
ROW_PRIVATE = 3
ROW_COALESCED = 4


class SlotState(IntEnum):
    """FREE → FILLING → READY → ZOMBIE → FREE; a FILLING slot that is given up may go to ZOMBIE or FREE at once."""

    FREE = 0
    FILLING = 1
    READY = 2
    ZOMBIE = 3


class Tier(IntEnum):
    """What an entry holds. Vocabulary entries are valid in every generation, the others only in their own."""

    GRAMMAR = 0
    RULE = 1
    VOCABULARY = 2


class ManagerState(IntEnum):
    """What the namespace's manager is doing. After DISSOLVED the control segment is dead: open it by name again."""

    ABSENT = 0
    RECOVERING = 1
    SERVING = 2
    STOPPING = 3
    DISSOLVED = 4


def slot_count(home_count: int) -> int:
    """Slots of an index: the last home has a whole window too, so that no probe wraps."""
    return home_count + WINDOW_SLOTS - 1


def records_start(home_count: int) -> int:
    """First word of the first record, on a cache line of its own."""
    return (FINGERPRINTS + slot_count(home_count) + 15) & ~15


def hints_start(home_count: int) -> int:
    """First of the hints, behind the last record, on a cache line of its own."""
    return records_start(home_count) + RECORD_WORDS * slot_count(home_count)


def hint_group_count(home_count: int) -> int:
    """Groups of hints: about as many hints as homes."""
    return -(-home_count // HINTS_PER_GROUP)


def control_size_bytes(home_count: int) -> int:
    """Size of a control segment, in bytes, whole pages."""
    return (8 * (hints_start(home_count) + HINTS_PER_GROUP * hint_group_count(home_count)) + 4095) & ~4095


def uses_start(home_count: int) -> int:
    """First of the words of the recency segment that count uses."""
    return RECENCY_SLOTS + slot_count(home_count)


def rows_start(home_count: int) -> int:
    """First word of the first client row in the recency segment."""
    return (RECENCY_SLOTS + 2 * slot_count(home_count) + 7) & ~7


def recency_size_bytes(home_count: int, row_count: int) -> int:
    """Size of a recency segment, in bytes, whole pages."""
    return (8 * (rows_start(home_count) + ROW_WORDS * row_count) + 4095) & ~4095
