"""One computation for many threads, with no one left waiting whatever happens to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from shmcache.client.single_flight import SingleFlight
from shmcache.errors import LimitError

GUARD_SECONDS = 5.0
THREADS = 8


class Gate:
    """Lets a test hold a computation until all other threads wait for it. Opens by itself after the guard."""

    def __init__(self, waiting: int) -> None:
        self._left = waiting
        self._lock = threading.Lock()
        self._all_wait = threading.Event()
        self.calls = 0

    def note_waiting(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._all_wait.set()

    def hold(self) -> None:
        with self._lock:
            self.calls += 1
        assert self._all_wait.wait(GUARD_SECONDS)


def _run_all(flights: SingleFlight[object], compute: Callable[[], object], gate: Gate) -> list[Future[object]]:
    with ThreadPoolExecutor(THREADS) as pool:
        return [pool.submit(flights.run, "name", compute, gate.note_waiting) for _ in range(THREADS)]


def test_threads_that_ask_at_once_share_one_computation() -> None:
    gate, value = Gate(THREADS - 1), object()

    def compute() -> object:
        gate.hold()
        return value

    futures = _run_all(SingleFlight(), compute, gate)
    assert [future.result(0) for future in futures] == [value] * THREADS
    assert gate.calls == 1


def test_all_waiting_threads_get_the_error_each_a_copy() -> None:
    gate = Gate(THREADS - 1)

    def compute() -> object:
        gate.hold()
        raise LimitError("too much", limit="states", value=3)

    errors = [future.exception(0) for future in _run_all(SingleFlight(), compute, gate)]
    assert gate.calls == 1
    assert len({id(error) for error in errors}) == THREADS
    for error in errors:
        assert isinstance(error, LimitError)
        assert (error.limit, error.value) == ("states", 3)


def test_when_the_computing_thread_dies_another_one_computes() -> None:
    gate = Gate(THREADS - 1)

    def compute() -> object:
        gate.hold()
        if gate.calls == 1:
            raise KeyboardInterrupt
        return gate.calls

    futures = _run_all(SingleFlight(), compute, gate)
    interrupted = [future for future in futures if isinstance(future.exception(0), KeyboardInterrupt)]
    assert len(interrupted) == 1
    assert all(future.result(0) for future in futures if future not in interrupted)


def test_what_is_over_is_computed_anew() -> None:
    flights: SingleFlight[int] = SingleFlight()
    values = iter([1, 2])
    assert flights.run("name", lambda: next(values), lambda: None) == 1
    assert flights.run("name", lambda: next(values), lambda: None) == 2


def test_an_error_is_not_remembered() -> None:
    flights: SingleFlight[int] = SingleFlight()

    def fail() -> int:
        raise LimitError("no", limit="states")

    with pytest.raises(LimitError):
        flights.run("name", fail, lambda: None)
    assert flights.run("name", lambda: 5, lambda: None) == 5


def test_other_names_do_not_wait() -> None:
    flights: SingleFlight[int] = SingleFlight()
    assert flights.run("outer", lambda: flights.run("inner", lambda: 7, lambda: None), lambda: None) == 7


def test_a_child_does_not_wait_for_threads_of_its_parent() -> None:
    flights: SingleFlight[int] = SingleFlight()
    started, release = threading.Event(), threading.Event()

    def compute() -> int:
        started.set()
        release.wait(GUARD_SECONDS)
        return 1

    thread = threading.Thread(target=flights.run, args=("name", compute, lambda: None))
    thread.start()
    try:
        assert started.wait(GUARD_SECONDS)
        flights.after_fork()
        assert flights.run("name", lambda: 2, lambda: None) == 2
    finally:
        release.set()
        thread.join(GUARD_SECONDS)
