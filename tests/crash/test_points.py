"""A manager or a worker, killed at a sample of its steps; ``python -m tests.crash [--all]`` tries the rest."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


def run(*options: str) -> tuple[int, str]:
    """The exit code and the output of the explorer, in a process without other threads, which forks."""
    command = [sys.executable, "-m", "tests.crash", *options]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_no_kill_breaks_anything(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = run("--sample")
    assert code == 0, output
    counts = re.search(r"^killed at (\d+) points, (\d+) of them inside a restart.*$", output, re.MULTILINE)
    assert counts is not None, output
    assert int(counts[1]) > 400
    assert int(counts[2]) > 100
    with capsys.disabled():
        sys.stdout.write(f"\n{counts[0]}\n")


def test_one_point_can_be_replayed() -> None:
    code, output = run("--scenario", "stop", "--step", "3")
    assert code == 0, output
    assert "stop: 1 steps" in output
