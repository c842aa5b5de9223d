"""What the manager tells about itself.

Owns the one shape of ``stats()``, ``status --json`` and the exporter, as the manager fills it. Must never change
anything it looks at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from shmcache.manager.core import ManagerCore
from shmcache.manager.shelf import Shelf
from shmcache.memory.layout import Tier
from shmcache.memory.objects import free_bytes

CLIENTS_SHOWN_MAX = 2000
"""So that the answer fits into a message; the number of all clients is that of the rows in use."""


def statistics(
    core: ManagerCore,
    shelf: Shelf,
    *,
    worker_pids: dict[int, int],
    client_pids: Iterable[int],
    rows: Iterable[int],
) -> dict[str, Any]:
    """The shape that DESIGN.md §8 gives. ``rows``: counter rows of clients that are connected."""
    account = core.entries.account()
    counters = shelf.control.counters()
    counts = [shelf.recency.counts(row) for row in rows]
    manager = shelf.control.manager()
    tiers = {tier.name.lower(): tier for tier in Tier}
    charged = {name: account.charged_bytes[tier] for name, tier in tiers.items()}
    return {
        "generation": core.entries.generation,
        "epoch": manager.epoch,
        "limit_bytes": core.policy.limit_bytes,
        "charged_bytes": {**charged, "total": sum(charged.values())},
        "retired_bytes": account.retired_bytes,
        "entries": {name: account.entry_count[tier] for name, tier in tiers.items()},
        "lookups": {
            "hit": counters["hit"] + sum(count.hits for count in counts),
            "miss": counters["miss"] + sum(count.misses for count in counts),
            "coalesced": counters["coalesced"] + sum(count.coalesced for count in counts),
        },
        "compiles": {name: counters[name] for name in ("started", "succeeded", "refused", "failed", "fenced")},
        "compiles_in_flight": core.compiles.in_flight,
        "evictions": counters["evictions"],
        "workers": [
            {"pid": worker_pids[worker.number], "state": worker.state.value}
            for worker in core.workers.all()
            if worker.number in worker_pids
        ],
        "clients": [{"pid": pid} for pid in list(client_pids)[:CLIENTS_SHOWN_MAX]],
        "shm_free_bytes": free_bytes(),
        "manager": {"pid": os.getpid(), "state": manager.state.name.lower()},
    }
