"""What stands before every step: the names of :mod:`shmcache.memory.steps`, replaced for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from shmcache.memory import steps


@contextmanager
def before_every_step(happen: Callable[[str], None]) -> Iterator[None]:
    """Inside, ``happen`` is called with a step's name before it is made; what it raises comes in place of the step."""
    originals = {name: getattr(steps, name) for name in steps.NAMES}

    def stand_before(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            happen(name)
            return original(*arguments, **options)

        return step

    for name, original in originals.items():
        setattr(steps, name, stand_before(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(steps, name, original)


class Counter:
    """Counts the steps and, at one of them, kills this process with SIGKILL in place of making it."""

    def __init__(self, killed_at: int = -1) -> None:
        self.count = 0
        self._killed_at = killed_at

    def __call__(self, name: str) -> None:
        if self.count == self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
