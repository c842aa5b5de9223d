"""A full ``/dev/shm``, at a sample of the steps, in a mount that only this test sees and that goes with its process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

MOUNT = """
mount -t tmpfs -o size=1m,nr_inodes=80,mode=0700 shmcache "$1" &&
SHMCACHE_SHM_DIRECTORY="$1" exec "$2" -m tests.tmpfs "$3" 17
"""


@pytest.fixture
def unshare() -> list[str]:
    """The command that gives a process mounts of its own."""
    command = ["unshare", "--mount", "--propagation", "private"]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare command")
    if tried.returncode:
        pytest.skip(f"no mounts of one's own: {tried.stderr.strip()}")
    return command


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["pages", "inodes"])
def test_a_full_file_system_breaks_nothing(
    kind: str, unshare: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*unshare, "sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable, kind]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode == 32 or "mount:" in done.stderr:
        pytest.skip(f"no tmpfs may be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = re.search(r"filled to the brim at (\d+) points", done.stdout)
    assert summary is not None
    assert int(summary[1]) > 100
    assert os.listdir(tmp_path) == []
    with capsys.disabled():
        sys.stdout.write(f"\n{summary[0]}\n")
