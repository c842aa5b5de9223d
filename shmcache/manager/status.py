"""What the manager tells about itself.

Owns what only the manager knows of the shape of ``stats()``: its workers and its clients. Must never change anything
it looks at.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

from shmcache.manager.core import ManagerCore
from shmcache.manager.shelf import Shelf
from shmcache.memory.statistics import statistics as shared_statistics

CLIENTS_SHOWN_MAX = 2000
"""So that the answer fits into a message; the number of all clients is ``clients_connected``."""


def statistics(
    core: ManagerCore,
    shelf: Shelf,
    *,
    worker_pids: dict[int, int],
    client_pids: Iterable[int],
    rows: Iterable[int],
) -> dict[str, Any]:
    """The shape of ``memory/statistics.py``. ``rows``: counter rows of clients that are connected."""
    return shared_statistics(
        shelf.control,
        shelf.recency,
        rows=rows,
        manager_pid=os.getpid(),
        manager_state=shelf.control.manager().state,
        workers=[
            {"pid": worker_pids[worker.number], "state": worker.state.value}
            for worker in core.workers.all()
            if worker.number in worker_pids
        ],
        client_pids=itertools.islice(client_pids, CLIENTS_SHOWN_MAX),
    )
