"""A short soak in both modes; ``python -m tests.soak --minutes N`` is the long one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


@pytest.mark.timeout(300)
@pytest.mark.parametrize("limit", ["-1", "400k"])
def test_random_kills_leave_nothing(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", "0.15", "--limit-bytes", limit]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills" in done.stdout
    with capsys.disabled():
        sys.stdout.write(f"\n{done.stdout}")
