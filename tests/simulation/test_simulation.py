"""As many seeds as fit into the time: the manager holds its promises under every fault, and finishes without any.

``SHMCACHE_SIMULATION_SEED=N`` runs seed N only; ``SHMCACHE_SIMULATION_SECONDS`` changes the time. For long runs and for
a trace of one seed see ``python -m tests.simulation --help``.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.conftest import REPOSITORY
from tests.simulation.simulation import Report, run_seed

SECONDS = float(os.environ.get("SHMCACHE_SIMULATION_SECONDS", "20"))
SEED = os.environ.get("SHMCACHE_SIMULATION_SEED")
SEEDS_MIN = 100
"""Even a machine that does much else at the time gets this far."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Every fault is logged by the manager; a run has hundreds."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_safety_under_faults_and_an_end_without(record_property: pytest.RecordProperty) -> None:
    if SEED is not None:
        run_seed(int(SEED))
        return
    deadline, reports = time.monotonic() + SECONDS, list[Report]()
    while time.monotonic() < deadline or len(reports) < SEEDS_MIN:
        reports.append(run_seed(len(reports)))
    record_property("seeds", len(reports))
    record_property("steps", sum(report.steps for report in reports))
    # A simulation in which nothing happens proves nothing.
    assert sum(report.hits for report in reports) > len(reports)
    assert sum(report.manager_deaths for report in reports) > len(reports) // 2
    assert sum(report.generations - 1 for report in reports) > len(reports) // 2


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--simulation-seed", "7", "--trace"]
    runs = [
        subprocess.run(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert "hears Image" in runs[0]
