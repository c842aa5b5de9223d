"""The one shape of ``stats()``, ``status --json`` and the exporter, read from shared memory.

Owns that shape and where each figure comes from. Must never know the manager's insides: who its workers and clients are
is given by those who know. Reads words one by one: exact at rest, close while they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shmcache.memory import layout
from shmcache.memory.account import Totals
from shmcache.memory.control import UNLIMITED, ControlReader
from shmcache.memory.layout import ManagerState, Tier
from shmcache.memory.objects import free_bytes
from shmcache.memory.recency import Recency

TIER_NAMES = {tier: tier.name.lower() for tier in Tier}

OUTCOMES = ("succeeded", "refused", "failed", "fenced")
"""How a compile that had begun may end."""


def statistics(
    control: ControlReader | None,
    recency: Recency | None,
    *,
    rows: Iterable[int] | None = None,
    manager_pid: int | None = None,
    manager_state: ManagerState = ManagerState.ABSENT,
    workers: Sequence[dict[str, Any]] = (),
    client_pids: Iterable[int] = (),
) -> dict[str, Any]:
    """The state and the counters of one cache; all zeros where there is none.

    ``rows``: the counter rows of clients that are connected (None: all rows; those of others are zero).
    ``manager_pid`` is None when nobody manages the cache, and 0 when that is a process of another container.
    """
    totals = control.totals() if control else Totals()
    counters = _counters(control, recency, rows)
    if manager_pid is None:
        # Gauges that a dead manager left behind are nobody's compiles and clients.
        counters |= dict.fromkeys(layout.GAUGE_NAMES, 0)
    charged = {name: totals.charged_bytes[tier] for tier, name in TIER_NAMES.items()}
    evictions = {reason: counters[f"evicted_{reason}"] for reason in layout.EVICTION_REASONS}
    return {
        "generation": control.generation if control else 0,
        "epoch": control.manager().epoch if control else 0,
        "limit_bytes": control.limit_bytes if control else UNLIMITED,
        "charged_bytes": {**charged, "total": sum(charged.values())},
        "filling_bytes": totals.filling_bytes,
        "retired_bytes": totals.retired_bytes,
        "entries": {name: totals.entries[tier] for tier, name in TIER_NAMES.items()},
        "lookups": {name: counters[name] for name in ("hit", "miss", "coalesced")},
        "local_hits": counters["local_hit"],
        "compiles": {name: counters[name] for name in ("started", *OUTCOMES)},
        "compiles_in_flight": counters["in_flight"],
        "waiters": counters["waiters"],
        "private_compiles": counters["private"],
        "compile_seconds": _histogram(counters),
        "refusals": {code: counters[f"refused_{code}"] for code in layout.REFUSAL_CODES},
        "evictions": sum(evictions.values()),
        "evictions_by_reason": evictions,
        "workers": list(workers),
        "clients": [{"pid": pid} for pid in client_pids],
        "clients_connected": counters["clients"],
        "shm_free_bytes": free_bytes(),
        "manager": {"pid": manager_pid, "state": manager_state.name.lower()},
    }


def _counters(control: ControlReader | None, recency: Recency | None, rows: Iterable[int] | None) -> dict[str, int]:
    """The manager's counters, and those of living clients added to them."""
    counters = control.counters() if control else dict.fromkeys(layout.COUNTER_NAMES, 0)
    if recency is not None:
        for row in range(recency.row_count) if rows is None else rows:
            for name, count in recency.counts(row).by_counter().items():
                counters[name] += count
    return counters


def _histogram(counters: dict[str, int]) -> dict[str, Any]:
    """Times of compiles that made an image: how many in each bucket (not cumulative), the last one without end."""
    counts = [counters[f"seconds_{bucket}"] for bucket in range(len(layout.COMPILE_SECONDS_BOUNDS) + 1)]
    return {"bounds": list(layout.COMPILE_SECONDS_BOUNDS), "counts": counts, "sum": counters["compile_us"] / 1e6}
