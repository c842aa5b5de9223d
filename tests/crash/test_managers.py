"""Several managers that start at once, as processes: one wins, the others say so, and nothing is torn between them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from shmcache.memory.check import check
from shmcache.memory.control import open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.names import Namespace

MANAGERS = 4
START_SECONDS_MAX = 60
ANOTHER_MANAGER = 3


@contextmanager
def starting(namespace: Namespace) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A manager that starts, and the descriptor that becomes readable when it serves or has ended."""
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


@pytest.mark.parametrize("is_first_start", [True, False])
def test_of_managers_that_start_at_once_one_wins(namespace: str, is_first_start: bool) -> None:
    names = Namespace.of(namespace)
    if not is_first_start:
        with starting(names) as (process, ready):
            assert serves(ready)
            process.send_signal(signal.SIGKILL)
    with ExitStack() as stack:
        managers = [stack.enter_context(starting(names)) for _ in range(MANAGERS)]
        winners = [process for process, ready in managers if serves(ready)]
        assert len(winners) == 1
        assert holder_pid(names) == winners[0].pid
        losers = [process for process, _ in managers if process not in winners]
        assert [process.wait(START_SECONDS_MAX) for process in losers] == [ANOTHER_MANAGER] * (MANAGERS - 1)
        control = open_control_reader(names)
        assert control.manager().epoch == (1 if is_first_start else 2)
        assert check(control, IndexReader(control), names.prefix) == []
        winners[0].send_signal(signal.SIGTERM)
        assert winners[0].wait(START_SECONDS_MAX) == 0
