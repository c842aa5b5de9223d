"""What the cache is like, read straight from shared memory: no manager, no lock, nothing written.

Owns the reading of one namespace for people and scripts, in the shape that ``stats()`` has too. Must never ask a
manager: its own knowledge (who its workers and clients are) is added by those who do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.memory import objects
from shmcache.memory.account import Entry
from shmcache.memory.control import ControlReader, open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.layout import ManagerState, SlotState, Tier
from shmcache.memory.names import Namespace
from shmcache.memory.recency import Recency, now_ns, open_recency

TIER_NAMES = {tier: tier.name.lower() for tier in Tier}


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

    def stats(self) -> dict[str, Any]:
        """The shape of ``GrammarCache.stats()``; ``workers`` and ``clients``, which only a manager knows, are empty."""
        totals, counters, manager = self.control.totals(), self.control.counters(), self.control.manager()
        holder = holder_pid(self.namespace)
        hits, misses, coalesced = counters["hit"], counters["miss"], counters["coalesced"]
        if self.recency is not None:
            for row in range(self.recency.row_count):
                counts = self.recency.counts(row)
                hits += counts.hits
                misses += counts.misses
                coalesced += counts.coalesced
        state = ManagerState.ABSENT if holder is None else manager.state
        return {
            "generation": self.control.generation,
            "epoch": manager.epoch,
            "limit_bytes": self.control.limit_bytes,
            "charged_bytes": {
                **{TIER_NAMES[tier]: totals.charged_bytes[tier] for tier in Tier},
                "total": sum(totals.charged_bytes),
            },
            "retired_bytes": totals.retired_bytes,
            "entries": {TIER_NAMES[tier]: totals.entries[tier] for tier in Tier},
            "lookups": {"hit": hits, "miss": misses, "coalesced": coalesced},
            "compiles": {name: counters[name] for name in ("started", "succeeded", "refused", "failed", "fenced")},
            # A count that a dead manager left behind is nobody's compile.
            "compiles_in_flight": 0 if holder is None else counters["in_flight"],
            "evictions": counters["evictions"],
            "workers": [],
            "clients": [],
            "shm_free_bytes": objects.free_bytes(),
            "manager": {"pid": None if holder is None else manager.pid, "state": state.name.lower()},
        }


def open_view(namespace: Namespace) -> SharedView:
    """Maps the namespace's segments.

    Raises :class:`ManagerUnavailable` when there is no cache of that name, :class:`SegmentError` when what is there is
    damaged, foreign or of another version.
    """
    try:
        control = open_control_reader(namespace)
    except FileNotFoundError:
        raise ManagerUnavailable(
            f"there is no cache named {namespace.name!r}: start one with `shmcache serve`, or let a client start it"
        ) from None
    try:
        recency = open_recency(namespace, control)
    except (FileNotFoundError, SegmentError):
        # Only hints live there; a manager makes it anew.
        recency = None
    return SharedView(namespace, control, IndexReader(control), recency)
