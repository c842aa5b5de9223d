"""What a client has of the shared memory: the generation, the look-up, and where it notes what it used.

Owns the three views and the client's counts. Must never know grammars, nor talk to the manager.
"""

from __future__ import annotations

import threading

from shmcache.memory import layout
from shmcache.memory.reader import SharedCache
from shmcache.memory.recency import Recency, now_ns


class Attachment:
    """One client's views of one instance of the cache, or of none. Replaced whole, never changed but for its row."""

    def __init__(self, shared: SharedCache | None = None, recency: Recency | None = None) -> None:
        self.shared = shared
        self.recency = recency
        self.words = shared.control.words if shared else memoryview(bytes(8 * layout.FINGERPRINTS)).cast("Q")
        self._row = _private_row()
        self._has_row = False
        self._lock = threading.Lock()

    @property
    def generation(self) -> int:
        """The generation that is valid now; 0, which no cache ever has, without one."""
        return self.words[layout.GENERATION]

    @property
    def instance(self) -> int | None:
        """Which control segment this is, None without one."""
        return self.shared.control.instance if self.shared else None

    @property
    def is_usable(self) -> bool:
        """Whether there is a shared cache behind it, and it has not been given up."""
        return self.shared is not None and not self.shared.control.is_dissolved

    def use_row(self, row: memoryview) -> None:
        """Counts in ``row`` from here on; what was counted before is added to it."""
        with self._lock:
            for position in range(layout.ROW_WORDS):
                row[position] = row[position] + self._row[position]
            self._row = row
            self._has_row = True

    def leave_row(self) -> None:
        """Counts in private memory until there is a row again: the one we had belongs to a connection that is gone."""
        with self._lock:
            if self._has_row:
                self._row = _private_row()
                self._has_row = False

    def after_fork(self) -> None:
        """In a child: the row is the parent's, and so is what was counted."""
        self._lock = threading.Lock()
        self._row = _private_row()
        self._has_row = False

    def note_local_hit(self, slot: int | None) -> None:
        """A grammar that this process held already was asked for again."""
        self._count(layout.ROW_LOCAL_HITS)
        self._touch(slot)

    def note_hit(self, slot: int | None) -> None:
        """A look-up found an entry."""
        self._count(layout.ROW_HOST_HITS)
        self._touch(slot)

    def note_miss(self) -> None:
        """A look-up found nothing."""
        self._count(layout.ROW_MISSES)

    def note_coalesced(self) -> None:
        """A request waited for another thread that asked for the same."""
        self._count(layout.ROW_COALESCED)

    def note_private(self) -> None:
        """A grammar was compiled in this process."""
        self._count(layout.ROW_PRIVATE)

    def _count(self, position: int) -> None:
        with self._lock:
            self._row[position] += 1

    def _touch(self, slot: int | None) -> None:
        if slot is not None and self.recency is not None:
            self.recency.touch(slot, now_ns())


def _private_row() -> memoryview:
    return memoryview(bytearray(8 * layout.ROW_WORDS)).cast("Q")
