"""The cache's statistics when no manager can be asked for them.

Owns the shape of ``stats()`` as read from shared memory. Must never know the manager's own state.
"""

from __future__ import annotations

from typing import Any

from shmcache.client.attachment import Attachment
from shmcache.memory import layout
from shmcache.memory.account import Totals
from shmcache.memory.control import UNLIMITED
from shmcache.memory.layout import ManagerState, Tier
from shmcache.memory.objects import free_bytes
from shmcache.memory.recency import ClientCounts

_NO_COUNTERS = dict.fromkeys(layout.COUNTER_NAMES, 0)


def statistics_without_manager(attachment: Attachment) -> dict[str, Any]:
    """The same shape as a manager's, of what lies in shared memory; all zeros where nothing does."""
    control = attachment.shared.control if attachment.shared else None
    totals = control.totals() if control else Totals()
    counters = control.counters() if control else _NO_COUNTERS
    rows = _living_counts(attachment)
    tiers = {tier.name.lower(): tier for tier in Tier}
    charged = {name: totals.charged_bytes[tier] for name, tier in tiers.items()}
    return {
        "generation": attachment.generation,
        "epoch": control.manager().epoch if control else 0,
        "limit_bytes": control.limit_bytes if control else UNLIMITED,
        "charged_bytes": {**charged, "total": sum(charged.values())},
        "retired_bytes": totals.retired_bytes,
        "entries": {name: totals.entries[tier] for name, tier in tiers.items()},
        "lookups": {
            "hit": counters["hit"] + sum(row.hits for row in rows),
            "miss": counters["miss"] + sum(row.misses for row in rows),
            "coalesced": counters["coalesced"] + sum(row.coalesced for row in rows),
        },
        "compiles": {name: counters[name] for name in ("started", "succeeded", "refused", "failed", "fenced")},
        "compiles_in_flight": 0,
        "evictions": counters["evictions"],
        "workers": [],
        "clients": [],
        "shm_free_bytes": free_bytes(),
        "manager": {"pid": control.manager().pid if control else 0, "state": ManagerState.ABSENT.name.lower()},
    }


def _living_counts(attachment: Attachment) -> list[ClientCounts]:
    recency = attachment.recency
    return [recency.counts(row) for row in range(recency.row_count)] if recency else []
