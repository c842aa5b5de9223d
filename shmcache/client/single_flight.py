"""One computation for all threads that ask for the same thing at the same time.

Owns who computes and who waits. Must never know what is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from shmcache.errors import ShmCacheError, error_from_plain

T = TypeVar("T")


class _Flight(Generic[T]):
    __slots__ = ("error", "is_over", "value")

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.value: T | None = None
        self.error: ShmCacheError | None = None


class SingleFlight(Generic[T]):
    """At most one computation of each name at a time in this process."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}
        self._lock = threading.Lock()

    def run(self, name: Hashable, compute: Callable[[], T], note_waiting: Callable[[], None]) -> T:
        """The value of ``compute``, called by this thread or by another one that asked for ``name`` before.

        ``note_waiting`` is called when this thread is about to wait for the other one.
        A :class:`ShmCacheError` is raised in every waiting thread. When the computing thread dies of anything else,
        one of the waiting threads computes anew.
        """
        while True:
            with self._lock:
                flight = self._flights.get(name)
                is_ours = flight is None
                if flight is None:
                    flight = self._flights[name] = _Flight()
            if is_ours:
                return self._compute(name, flight, compute)
            note_waiting()
            flight.is_over.wait()
            if flight.error is not None:
                # A copy: one exception object cannot carry the tracebacks of several threads.
                raise error_from_plain(flight.error.to_plain()) from flight.error
            if flight.value is not None:
                return flight.value

    def _compute(self, name: Hashable, flight: _Flight[T], compute: Callable[[], T]) -> T:
        try:
            flight.value = compute()
            return flight.value
        except ShmCacheError as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                # After a fork the child's table is another one.
                self._flights.pop(name, None)
            flight.is_over.set()

    def after_fork(self) -> None:
        """In a child: the threads that compute are not here."""
        self._flights = {}
        self._lock = threading.Lock()
