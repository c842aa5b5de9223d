"""Managers as processes of their own, started without waiting."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from shmcache.memory.names import Namespace

START_SECONDS_MAX = 60


@contextmanager
def starting(namespace: Namespace) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A manager that starts; the descriptor is readable when it serves or has ended."""
    ready, ready_end = os.pipe()
    command = [sys.executable, "-P", "-m", "shmcache.manager", "--namespace", namespace.name, "--log-level", "error"]
    process = subprocess.Popen([*command, "--ready-fd", str(ready_end)], pass_fds=[ready_end], stderr=subprocess.PIPE)
    os.close(ready_end)
    try:
        with process:
            try:
                yield process, ready
            finally:
                process.kill()
    finally:
        os.close(ready)


def serves(ready: int) -> bool:
    """Whether a manager came up; waits for that, or for its end."""
    assert select.select([ready], [], [], START_SECONDS_MAX)[0], "a manager neither starts nor ends"
    return os.read(ready, 6) == b"ready\n"
