"""Goes through every scenario on a full file system: ``python -m tests.tmpfs [pages|inodes] [EVERY]``.

``SHMCACHE_SHM_DIRECTORY`` names a small tmpfs of its own; see :mod:`tests.tmpfs.test_tmpfs` for how one is mounted.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
from functools import partial


def main() -> int:
    # Told to end, it cleans up as at any other end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kind = sys.argv[1] if len(sys.argv) > 1 else "pages"
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    runtime_directory = tempfile.mkdtemp(prefix="shmcache-tmpfs-", dir="/dev/shm")
    os.environ["SHMCACHE_RUNTIME_DIR"] = runtime_directory
    logging.disable(logging.CRITICAL)
    try:
        return _fill(kind, every)
    finally:
        shutil.rmtree(runtime_directory, ignore_errors=True)


def _fill(kind: str, every: int) -> int:
    from shmcache.manager import recovery
    from shmcache.memory.lease import ignore_lease_signals
    from tests.crash.scenarios import SCENARIOS
    from tests.tmpfs.brim import fill_at_every_step

    ignore_lease_signals()
    recovery.create_control = partial(recovery.create_control, home_count=64, row_count=4)  # type: ignore[assignment]
    reports = [fill_at_every_step(scenario, kind, every) for scenario in SCENARIOS if not scenario.mapped]
    for report in reports:
        sys.stdout.write(f"{report.scenario}: full from {report.points} steps, {len(report.failures)} failures\n")
        sys.stdout.write("".join(f"  {failure}\n" for failure in report.failures))
    sys.stdout.write(f"{kind} filled to the brim at {sum(report.points for report in reports)} points\n")
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
