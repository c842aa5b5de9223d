"""Refusals that would come out the same again, remembered for one generation.

Owns the bounded table of errors by key. Must never know how an error came about beyond its code and details.
"""

from __future__ import annotations

from shmcache.errors import LimitError
from shmcache.manager.events import PlainError
from shmcache.manager.policy import REMEMBERED_CODES, REMEMBERED_LIMITS, Limits


class Refusals:
    """At most ``capacity`` refusals; the oldest goes first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._refusals: dict[bytes, tuple[PlainError, Limits]] = {}

    def __len__(self) -> int:
        return len(self._refusals)

    def remember(self, key: bytes, error: PlainError, limits: Limits) -> None:
        """Keeps the error that a compile under ``limits`` ended with, if another compile would end with it too."""
        if not is_deterministic(error):
            return
        self._refusals.pop(key, None)
        self._refusals[key] = (error, limits)
        if len(self._refusals) > self._capacity:
            del self._refusals[next(iter(self._refusals))]

    def find(self, key: bytes, limits: Limits) -> PlainError | None:
        """The error that a compile under ``limits`` would end with, if that is known."""
        found = self._refusals.get(key)
        if found is None:
            return None
        error, tried = found
        return error if error["code"] != LimitError.code or tried.covers(limits) else None

    def forget_all(self) -> None:
        """A new generation is open."""
        self._refusals.clear()


def is_deterministic(error: PlainError) -> bool:
    """Whether the same source under the same limits must end with the same error. Time and memory are never so."""
    if error["code"] == LimitError.code:
        return error.get("details", {}).get("limit") in REMEMBERED_LIMITS
    return error["code"] in REMEMBERED_CODES
