"""A newcomer's path, timed: ``python -m tests.newcomer`` does what docs/quickstart.md says, in a fresh environment.

Owns the reading of the page and the running of its commands. Needs whatever pip needs. Fails when it takes too long, or
when the status at the end shows no hit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import REPOSITORY, SHM, own_namespace

QUICKSTART = REPOSITORY / "docs/quickstart.md"
SECONDS_MAX = 300.0
PROGRAM = "first.py"

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HITS = re.compile(r"^look-ups +(\d+) hit", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [body for name, body in FENCE.findall(page.read_text(encoding="utf-8")) if name == language]


def commands() -> list[str]:
    """What the quickstart tells a reader to type, line by line."""
    return [line for block in blocks(QUICKSTART, "sh") for line in block.splitlines()]


def is_installation(command: str) -> bool:
    """Whether a command makes the environment that the others run in."""
    return " -m venv " in command or "pip install" in command


def run(lines: list[str], folder: Path) -> Iterator[tuple[str, float, str]]:
    """Each command, run in ``folder`` beside the program of the page: the seconds it took and what it printed."""
    (folder / PROGRAM).write_text(blocks(QUICKSTART, "python")[0])
    for line in lines:
        started = time.monotonic()
        done = subprocess.run(
            line, shell=True, cwd=folder, text=True, timeout=SECONDS_MAX, check=False, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"{line} exits with {done.returncode}: {done.stdout}{done.stderr}")
        yield line, time.monotonic() - started, done.stdout


def hits(status: str) -> int:
    """The hits that a printed status shows."""
    found = HITS.search(status)
    return int(found[1]) if found else 0


def main() -> int:
    """Walks the path and returns the exit code."""
    total, status = 0.0, ""
    with (
        tempfile.TemporaryDirectory(prefix="shmcache-newcomer-", dir=SHM) as objects,
        tempfile.TemporaryDirectory(prefix="shmcache-newcomer-") as folder,
        tempfile.TemporaryDirectory(prefix="shmcache-newcomer-") as runtime,
    ):
        # Before the first import of what reads it.
        os.environ |= {"SHMCACHE_SHM_DIRECTORY": objects, "SHMCACHE_RUNTIME_DIR": runtime}
        with own_namespace() as name:
            os.environ["SHMCACHE_NAMESPACE"] = name
            left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
            checkout = Path(folder) / "checkout"
            shutil.copytree(REPOSITORY, checkout, ignore=left_out)
            for line, seconds, printed in run(commands(), checkout):
                total, status = total + seconds, printed
                sys.stdout.write(f"{seconds:7.1f} s  {line}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{total:7.1f} s  in all\n\n{status}")
    return 0 if hits(status) and total < SECONDS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
