"""Every mutant is killed, and by a test that passes without it.

Each runs in a process of its own, on the few tests that are about the defence it lacks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.conftest import REPOSITORY
from tests.mutants.mutants import MUTANTS, Mutant

SECONDS_MAX = 60.0

REQUIRED = {
    "no generation check at commit",
    "check and charge apart",
    "no fence for rules",
    "version word not compared",
    "version word not zeroed",
    "no second generation load",
    "no fallocate",
    "no lease probe",
    "commit not idempotent",
}
"""The defences that docs/reliability.md names."""


SIMULATION = "tests/simulation/test_simulation.py::test_safety_under_faults_and_an_end_without"

FOUND_BY_SIMULATION = (
    "no generation check at commit",
    "check and charge apart",
    "no fence for rules",
    "no second generation load",
    "retired bytes are free",
    "join after leaving",
)
"""Mutants that seeds alone must find: that the simulation looks where it should."""


def run_tests(tests: Sequence[str], mutant: str) -> subprocess.CompletedProcess[str]:
    """Runs tests with a mutant, or with none."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "pytest_timeout", "-p", "tests.mutants.plugin"]
    command += ["-p", "no:cacheprovider", "--timeout", "30", "--tb", "line", *tests]
    environment = {**os.environ, "SHMCACHE_MUTANT": mutant, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["SHMCACHE_SIMULATION_SECONDS"] = "20"
    environment.pop("SHMCACHE_SIMULATION_SEED", None)
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def test_the_list_has_what_is_promised() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(names) >= REQUIRED


def test_the_killers_pass_without_a_mutant() -> None:
    run = run_tests(sorted({test for mutant in MUTANTS for test in mutant.killers}), "")
    assert run.returncode == pytest.ExitCode.OK, run.stdout[-3000:] + run.stderr[-1000:]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name.replace(" ", "-") for mutant in MUTANTS])
def test_a_mutant_is_killed(mutant: Mutant) -> None:
    run = run_tests(mutant.killers, mutant.name)
    # Tests that fail, and not a run that could not begin.
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, (
        f"{mutant.name} lives:\n{run.stdout[-3000:]}{run.stderr[-1000:]}"
    )


@pytest.mark.parametrize("name", FOUND_BY_SIMULATION, ids=[name.replace(" ", "-") for name in FOUND_BY_SIMULATION])
def test_seeds_alone_find_it(name: str) -> None:
    run = run_tests([SIMULATION], name)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, f"{name} lives:\n{run.stdout[-3000:]}"
    assert "AssertionError" in run.stdout
