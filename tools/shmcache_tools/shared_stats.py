"""What the cache is like, read straight from shared memory: no manager, no lock, nothing written.

Owns the reading of one namespace for people and scripts, in the shape that ``stats()`` has too. Must never ask a
manager: its own knowledge (who its workers and clients are) is added by those who do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.memory.account import Entry
from shmcache.memory.control import ControlReader, open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.layout import CONTROL_LAYOUT_VERSION, ManagerState, SlotState
from shmcache.memory.names import Namespace, object_path, object_prefix
from shmcache.memory.recency import Recency, now_ns, open_recency_reader
from shmcache.memory.statistics import TIER_NAMES, statistics

__all__ = ["TIER_NAMES", "SharedView", "open_view"]

LAYOUTS_AHEAD = 20
"""So many layout versions after ours are looked for where there is no cache of ours."""


@dataclass(frozen=True, slots=True)
class SharedView:
    """One namespace's control segment and, if it is sound, its recency segment, mapped read-only in effect."""

    namespace: Namespace
    control: ControlReader
    index: IndexReader
    recency: Recency | None

    def entries(self) -> list[Entry]:
        """All entries that are not changing just now, in slot order."""
        return list(self.index.read_all())

    def idle_seconds(self, entry: Entry) -> float | None:
        """Seconds since the entry was last hit (or published); None where that is not known."""
        if self.recency is None or entry.state is not SlotState.READY:
            return None
        now = now_ns()
        last_ns = self.recency.last_used_ns(entry.slot, now)
        return (now - last_ns) / 1e9 if last_ns else None

    def uses(self, entry: Entry) -> int | None:
        """How often the entry was used, about; None where that is not known."""
        return None if self.recency is None or entry.state is not SlotState.READY else self.recency.uses(entry.slot)

    def stats(self) -> dict[str, Any]:
        """The shape of ``GrammarCache.stats()``; ``workers`` and ``clients``, which only a manager knows, are empty."""
        holder = holder_pid(self.namespace)
        manager = self.control.manager()
        state = ManagerState.ABSENT if holder is None else manager.state
        pid = None if holder is None else manager.pid
        return statistics(self.control, self.recency, manager_pid=pid, manager_state=state)


def open_view(namespace: Namespace) -> SharedView:
    """Maps the namespace's segments.

    Raises :class:`ManagerUnavailable` when there is no cache of that name, :class:`SegmentError` when what is there is
    damaged, foreign or of another version.
    """
    try:
        control = open_control_reader(namespace)
    except FileNotFoundError:
        if (version := _other_layout(namespace)) is not None:
            raise SegmentError(
                f"the cache named {namespace.name!r} has control layout {version}, ours is {CONTROL_LAYOUT_VERSION}: "
                "use the tool of the version that made it"
            ) from None
        raise ManagerUnavailable(f"there is no cache named {namespace.name!r}") from None
    try:
        recency = open_recency_reader(namespace, control)
    except (FileNotFoundError, SegmentError):
        # Only hints live there; a manager makes it anew.
        recency = None
    return SharedView(namespace, control, IndexReader(control), recency)


def _other_layout(namespace: Namespace) -> int | None:
    """The layout version, not ours, under which a cache of that name exists; its objects have other names than ours."""
    for version in range(CONTROL_LAYOUT_VERSION + LAYOUTS_AHEAD, 0, -1):
        prefix = object_prefix(namespace.name, namespace.uid, version)
        if version != CONTROL_LAYOUT_VERSION and object_path(f"{prefix}.ctl").exists():
            return version
    return None
