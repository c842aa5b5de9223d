"""What happened, for those who look later: counters in the control segment, and a line in the log.

Owns which counter and which words each happening gets. Must never decide anything, nor log a whole key or a source.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from shmcache.manager import effects as fx
from shmcache.manager.logs import key_prefix
from shmcache.memory.control import ControlWriter
from shmcache.memory.layout import COMPILE_SECONDS_BOUNDS, Tier

_log = logging.getLogger(__name__)

Happening = fx.CompileEnded | fx.EntryEvicted | fx.Count


class Bookkeeping:
    """The counters and the log of one manager. ``clock`` is the core's."""

    def __init__(self, control: ControlWriter, clock: Callable[[], float]) -> None:
        self._control = control
        self._clock = clock
        self._gauges = (0, 0)

    def perform(self, effect: Happening) -> None:
        """Counts it, and says it."""
        match effect:
            case fx.CompileEnded():
                self._compile_ended(effect)
            case fx.EntryEvicted(tier, key, charged_bytes, reason):
                self._control.count(f"evicted_{reason}")
                fields = {"key": key_prefix(key), "tier": tier.name.lower(), "bytes": charged_bytes, "reason": reason}
                _log.info("evicted %s, %s of %d bytes: %s", *fields.values(), extra=fields)
            case fx.Count(counter, change):
                self._control.count(counter, change)

    def keep_gauges(self, in_flight: int, waiters: int) -> None:
        """What is so now, if it is no longer what it was."""
        if self._gauges != (in_flight, waiters):
            self._gauges = in_flight, waiters
            self._control.set_gauge("in_flight", in_flight)
            self._control.set_gauge("waiters", waiters)

    def _compile_ended(self, effect: fx.CompileEnded) -> None:
        # The counters are about grammars: building a vocabulary's trie is no compile.
        if effect.tier is Tier.GRAMMAR:
            self._control.count(effect.outcome)
            if effect.cost_us:
                bucket = bisect_left(COMPILE_SECONDS_BOUNDS, effect.cost_us / 1e6)
                self._control.count(f"seconds_{bucket}")
                self._control.count("compile_us", effect.cost_us)
        waited_seconds = max(0.0, self._clock() - effect.asked_at)
        fields: dict[str, Any] = {
            "key": key_prefix(effect.key),
            "tier": effect.tier.name.lower(),
            "outcome": effect.outcome,
            "code": effect.code or None,
            "generation": effect.generation,
            "seconds": effect.cost_us / 1e6 if effect.cost_us else None,
            "waited_seconds": round(waited_seconds, 6),
            "waiters": effect.waiters,
            "bytes": effect.payload_bytes or None,
        }
        _log.info(
            "compile of %s, %s, %s%s after %.3f s for %d waiting",
            fields["key"],
            fields["tier"],
            effect.outcome,
            f" ({effect.code})" if effect.code else "",
            waited_seconds,
            effect.waiters,
            extra={name: value for name, value in fields.items() if value is not None},
        )
