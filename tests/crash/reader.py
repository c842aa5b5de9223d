"""A process that looks entries up without pause: ``python -m tests.crash.reader <namespace> <directory>``.

It says ``ready`` after the first round, and at the end of its input how many look-ups hit and missed, and how long the
longest took.
"""

from __future__ import annotations

import json
import select
import signal
import sys
import time
from pathlib import Path

from shmcache.memory.layout import SlotState
from shmcache.memory.names import Namespace
from shmcache.memory.reader import SharedCache

LIFE_SECONDS_MAX = 60


def main() -> None:
    signal.alarm(LIFE_SECONDS_MAX)
    cache = SharedCache.open(Namespace.of(sys.argv[1], directory=Path(sys.argv[2])))
    keys = [entry.key for entry in cache.index.read_all() if entry.state is SlotState.READY]
    poller = select.poll()
    poller.register(0, select.POLLIN)
    hits, misses, rounds, longest_us = 0, 0, 0, 0.0
    while rounds < 1 or not poller.poll(0):
        for key in keys:
            started_at = time.perf_counter()
            found = cache.open_entry(key)
            longest_us = max(longest_us, 1e6 * (time.perf_counter() - started_at))
            if found is not None and found[1].header.key == key:
                hits += 1
            else:
                misses += 1
        rounds += 1
        if rounds == 1:
            _say("ready")
    _say(json.dumps({"hits": hits, "misses": misses, "rounds": rounds, "longest_us": longest_us}))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
