"""What a manager does that nobody waits for: retiring what a clear has ended, probing who still maps it, the log.

Owns when that is done and how much of it at once. Must never decide what is retired or freed, nor keep a message
waiting for longer than one slice takes.

A manager that goes on working after it has answered keeps a caller on the same core from ever seeing the answer. So it
rests first, and then works in slices with a pause after each, in which others have the core.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from shmcache.manager import events as ev
from shmcache.manager.core import ManagerCore
from shmcache.manager.shelf import Shelf

REST_SECONDS = 0.002
"""From an answer to the first slice: its caller has long gone on by then."""
PAUSE_SECONDS = 0.0005
PROBE_SECONDS = 0.1
"""From one round of probes to the next."""
PROBES_AT_ONCE = 4


class Chores:
    """The work of one manager that can wait."""

    def __init__(self, core: ManagerCore, shelf: Shelf, apply: Callable[[ev.Event], None]) -> None:
        self._core = core
        self._shelf = shelf
        self._apply = apply
        self._postponed: deque[Callable[[], None]] = deque()
        self._to_probe: deque[int] = deque()
        self._next_at = 0.0
        self._probe_at = 0.0

    def postpone(self, action: Callable[[], None], now: float) -> None:
        """Has it done after whoever was answered just now has had time to go on."""
        self._postponed.append(action)
        self._next_at = max(self._next_at, now + REST_SECONDS)

    def due(self) -> float:
        """When the next slice is due; infinity: there is nothing to do."""
        if self._postponed or self._to_probe or self._core.entries.has_backlog:
            return self._next_at
        return max(self._next_at, self._probe_at) if self._core.entries.has_zombies else math.inf

    def run(self, now: float) -> None:
        """One slice, if it is due."""
        if now < self.due():
            return
        self._next_at = now + PAUSE_SECONDS
        if self._postponed:
            self._postponed.popleft()()
        elif self._core.entries.has_backlog:
            self._apply(ev.Tick())
        else:
            self._probe_some(now)

    def finish(self) -> None:
        """Does what was postponed, before the manager ends."""
        while self._postponed:
            self._postponed.popleft()()

    def _probe_some(self, now: float) -> None:
        if not self._to_probe:
            self._to_probe.extend(self._core.entries.zombie_serials())
        for _ in range(min(PROBES_AT_ONCE, len(self._to_probe))):
            serial = self._to_probe.popleft()
            if self._core.entries.get(serial) is None:
                continue
            self._apply(ev.Probed(serial, self._shelf.probe(serial)))
        if not self._to_probe:
            self._probe_at = now + PROBE_SECONDS
