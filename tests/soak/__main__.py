"""Kills everything at random while real grammars are compiled: ``python -m tests.soak --minutes 10 --seed 1``."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    # Told to end, it cleans up as at any other end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kills", type=int, default=1 << 30, help="end after so many kills")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--limit-bytes", default="-1", help="the manager's limit; a small one makes it evict")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    directories = [tempfile.mkdtemp(prefix="shmcache-soak-", dir=parent) for parent in ("/dev/shm", None)]
    os.environ["SHMCACHE_SHM_DIRECTORY"], os.environ["SHMCACHE_RUNTIME_DIR"] = directories
    os.environ["SHMCACHE_LIMIT_BYTES"] = options.limit_bytes
    os.environ["SHMCACHE_WORKERS"] = str(options.workers)
    sys.stdout.write(f"seed {options.seed}, limit {options.limit_bytes}\n")
    sys.stdout.flush()
    try:
        from shmcache.memory.names import Namespace
        from tests.soak.soak import soaking

        with soaking(Namespace.of("soak"), Path(directories[1]), options.seed) as soak:
            outcome = soak.run(seconds_max=60 * options.minutes, kills_max=options.kills)
    finally:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write(f"{outcome}\n" + "".join(f"  {what}\n" for what in outcome.wrong))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
