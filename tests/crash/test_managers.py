"""Several managers that start at once, as processes: one wins, the others say so, and nothing is torn between them."""

from __future__ import annotations

import signal
from contextlib import ExitStack

import pytest

from shmcache.memory.check import check
from shmcache.memory.control import open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.names import Namespace
from tests.crash.managers import START_SECONDS_MAX, serves, starting

MANAGERS = 4
ANOTHER_MANAGER = 3


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
