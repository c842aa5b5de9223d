"""What is left when everybody but one client has gone: bytes, files, slots, rows, descriptors, mappings.

All of it is read from outside: the shared memory itself, and what the kernel says of the manager's process.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shmcache.client import GrammarCache
from shmcache.memory.control import open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.layout import Tier
from shmcache.memory.names import SHM_DIRECTORY, Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.recency import ClientCounts, open_recency
from shmcache.memory.segments import list_segments
from shmcache_tools.shared_stats import open_view
from shmcache_tools.verification import verify

REST_SECONDS_MAX = 60.0


def leaks(namespace: Namespace, cache: GrammarCache) -> list[str]:
    """Everything that is wrong or too much. ``cache`` is the only client left; it is cleared on the way."""
    cache.compile_regex("last")
    found = _until(lambda: _unrest(cache.stats()), "the manager does not come to rest")
    found += _account(namespace)
    found += _rows(namespace)
    cache.clear_cache()
    found += _until(lambda: _unrest(cache.stats()), "retired entries do not go")
    found += _account(namespace)
    control = open_control_reader(namespace)
    tiers = [entry.tier for entry in IndexReader(control).read_all()]
    if tiers != [Tier.VOCABULARY]:
        found.append(f"entries in use after a clear: {tiers}")
    if len(list_segments(namespace.prefix)) != 1 or len(list_objects(namespace.prefix)) != 4:
        found.append(f"objects after a clear: {list_objects(namespace.prefix)}")
    manager = holder_pid(namespace)
    return [*found, *(_process(manager, len(cache.stats()["workers"])) if manager else ["no manager"])]


def _until(unrest: Callable[[], str], message: str) -> list[str]:
    """Asks again until there is no unrest."""
    poller, deadline = select.poll(), time.monotonic() + REST_SECONDS_MAX
    while what := unrest():
        if time.monotonic() > deadline:
            return [f"{message}: {what}"]
        poller.poll(20)
    return []


def _unrest(stats: dict[str, Any]) -> str:
    states = {worker["state"] for worker in stats["workers"]}
    if stats["retired_bytes"] or stats["compiles_in_flight"] or len(stats["clients"]) != 1:
        return f"{stats['retired_bytes']} bytes retired, {len(stats['clients'])} clients"
    return "" if states <= {"idle"} else f"workers are {states}"


def _account(namespace: Namespace) -> list[str]:
    """What ``shmcache verify`` finds, and the sum of the files against the account, to the byte."""
    control = open_control_reader(namespace)
    findings = [str(finding) for finding in verify(open_view(namespace)).findings]
    held_bytes = sum(object_path(name).stat().st_blocks * 512 for name in list_segments(namespace.prefix))
    if held_bytes != control.totals().all_bytes:
        findings.append(f"the files take {held_bytes} bytes, the account is {control.totals()}")
    return findings


def _rows(namespace: Namespace) -> list[str]:
    """Counter rows of clients that are gone count nothing any more."""
    control = open_control_reader(namespace)
    recency = open_recency(namespace, control)
    used = sum(recency.counts(row) != ClientCounts() for row in range(recency.row_count))
    return [f"{used} counter rows are in use by one client"] if used > 1 else []


def _process(manager: int, workers: int) -> list[str]:
    """The manager's descriptors and mappings are those that one client and its workers need."""
    found = []
    targets = [_target(path) for path in Path(f"/proc/{manager}/fd").iterdir()]
    shared = str(SHM_DIRECTORY)
    segments = [
        target for target in targets if target.startswith(shared) and not target.endswith((".lck", ".ctl", ".rdr"))
    ]
    if segments:
        found.append(f"the manager keeps {segments} open")
    kinds = {kind: sum(target.startswith(kind) for target in targets) for kind in ("socket:", "anon_inode:[pidfd]")}
    # The listener, one client, the workers; one of each but the listener has a pidfd.
    if kinds != {"socket:": 2 + workers, "anon_inode:[pidfd]": 1 + workers}:
        found.append(f"the manager has {kinds} for one client and {workers} workers")
    mapped = [line.split()[-1] for line in Path(f"/proc/{manager}/maps").read_text().splitlines() if shared in line]
    if sorted(name.rpartition(".")[2] for name in mapped) != ["ctl", "rdr"]:
        found.append(f"the manager maps {mapped}")
    return found


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""
