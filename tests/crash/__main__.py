"""Kills a manager before its steps: ``python -m tests.crash [--all | --sample]``.

Every step of every scenario is tried, and at some of them some steps of the restart; with ``--all``, at each step of
each scenario each step of the restart. ``--scenario NAME --step N`` replays one step, with every step of its restart.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.crash.explorer import Report


def main() -> int:
    # Told to end, it cleans up as at any other end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every step of the restart at every step: takes hours")
    parser.add_argument("--sample", action="store_true", help="every eleventh step only: takes a quarter of a minute")
    parser.add_argument("--scenario", help="only this one")
    parser.add_argument("--step", type=int, help="only this step")
    options = parser.parse_args()
    # Both in memory: thousands of runtime directories come and go.
    directories = [tempfile.mkdtemp(prefix="shmcache-crash-", dir="/dev/shm") for _ in range(2)]
    os.environ["SHMCACHE_SHM_DIRECTORY"], os.environ["SHMCACHE_RUNTIME_DIR"] = directories
    logging.disable(logging.CRITICAL)
    try:
        return explore_all(options)
    finally:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def explore_all(options: argparse.Namespace) -> int:
    """Prints one line a scenario; 1 when anything was wrong."""
    from functools import partial

    from shmcache.manager import recovery
    from shmcache.memory.lease import ignore_lease_signals
    from tests.crash.explorer import Report, explore, try_point
    from tests.crash.scenarios import SCENARIOS
    from tests.crash.worker_points import explore_workers

    ignore_lease_signals()
    # Small segments: what is tried is the order of steps, not their number.
    recovery.create_control = partial(recovery.create_control, home_count=64, row_count=4)  # type: ignore[assignment]
    started_at = time.monotonic()
    reports = []
    for scenario in SCENARIOS:
        if options.scenario not in (None, scenario.name):
            continue
        if options.step is not None:
            report = Report(scenario.name, 1)
            try_point(scenario, options.step, report, restart_step_every=1)
        else:
            report = explore(scenario, **_density(options))
        reports.append(_show(report))
    if options.scenario is None:
        reports.append(_show(explore_workers()))
    steps, restarts = sum(report.steps for report in reports), sum(report.restart_points for report in reports)
    seconds = time.monotonic() - started_at
    sys.stdout.write(f"killed at {steps + restarts} points, {restarts} of them inside a restart, in {seconds:.1f} s\n")
    return 1 if any(report.failures for report in reports) else 0


def _density(options: argparse.Namespace) -> dict[str, int]:
    if options.all:
        return {"restarts_every": 1}
    if options.sample:
        return {"every": 11, "restarts_every": 20, "restart_step_every": 13}
    return {"restarts_every": 29, "restart_step_every": 7}


def _show(report: Report) -> Report:
    tried = f"{report.steps} steps, {report.restart_points} steps of restarts, {len(report.failures)} failures"
    sys.stdout.write(f"{report.scenario}: {tried}\n" + "".join(f"  {failure}\n" for failure in report.failures))
    sys.stdout.flush()
    return report


if __name__ == "__main__":
    sys.exit(main())
