"""Whoever waits for a grammar when somebody dies has it no more than a second later than its compile takes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from shmcache.client import GrammarCache
from shmcache.memory.control import open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.names import Namespace
from tests.client.support import VOCABULARY
from tests.conftest import stop_process
from tests.manager.live import manager_process, pause

LATER_SECONDS_MAX = 1.0
START_GUARD_SECONDS = 60.0


def slow(first: str, second: str) -> str:
    """A pattern that takes a while to compile, and as long for any two letters."""
    return f"[{first}{second}]*{first}[{first}{second}]{{9}}"


def test_the_death_of_a_worker_delays_nobody(namespace: str) -> None:
    with manager_process(namespace, "--workers", "2") as live:
        asker, gate = live.asker(), live.gate()
        asker.give_vocabulary()
        asker.await_workers(2)
        request = asker.start("g", gate=gate.path)
        victim = gate.arrive()
        killed_at = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        assert gate.arrive() != victim
        gate.open()
        assert asker.wait(request).serial > 0
        assert time.monotonic() - killed_at < LATER_SECONDS_MAX


@pytest.fixture
def served(namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Namespace]:
    monkeypatch.setenv("SHMCACHE_WORKERS", "1")
    names = Namespace.of(namespace)
    try:
        yield names
    finally:
        if pid := holder_pid(names):
            stop_process(pid)


def test_the_death_of_the_manager_costs_a_start_and_no_more(served: Namespace) -> None:
    """What a start of manager and worker and the compile take is measured first, on the same machine."""
    times: list[float] = []

    def compile_slowly(cache: GrammarCache, pattern: str) -> None:
        assert cache.compile_regex(pattern).generation > 0
        times.append(time.monotonic())

    with GrammarCache(VOCABULARY, served, may_start=True) as cache:
        compile_slowly(cache, slow("a", "b"))
        manager = holder_pid(served)
        assert manager
        # Once more, now that everything has been loaded once on this machine.
        stop_process(manager)
        started_at = time.monotonic()
        compile_slowly(cache, slow("c", "d"))
        usual_seconds = times[-1] - started_at

        before = open_control_reader(served)
        waiter = threading.Thread(target=compile_slowly, args=(cache, slow("e", "f")))
        waiter.start()
        pause(lambda: before.counters()["in_flight"] == 1, "the compile never began", START_GUARD_SECONDS)
        killed_at = time.monotonic()
        manager = holder_pid(served)
        assert manager
        os.kill(manager, signal.SIGKILL)
        waiter.join(START_GUARD_SECONDS)
        assert not waiter.is_alive(), "the waiter hangs"
        assert len(times) == 3, "the waiter got no grammar"
        # Twice as long is for other things that keep the machine busy.
        assert times[-1] - killed_at < 2 * usual_seconds + LATER_SECONDS_MAX
