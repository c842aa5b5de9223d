"""How far a long run is: a bar on a terminal, a line now and then elsewhere.

Owns its text and when it is written. Must never write to standard output, nor know what is being done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

BAR_COLUMNS = 24
BAR_SECONDS = 0.1
LINE_SECONDS = 10.0
COLUMNS_MAX = 79


class Progress:
    """``total`` things to do, of which those that cost nothing do not count for the rate."""

    def __init__(
        self, total: int, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._is_live = self._stream.isatty()
        self._clock = clock
        self._began = self._shown = clock()
        self._width = 0

    def show(self, done: int, worked: int, note: str = "", *, is_last: bool = False) -> None:
        """``done`` of all, ``worked`` of them by doing something; not more often than one can read."""
        now = self._clock()
        if not is_last and now - self._shown < (BAR_SECONDS if self._is_live else LINE_SECONDS):
            return
        self._shown = now
        text = self.text(done, worked, now - self._began, note)[:COLUMNS_MAX]
        if self._is_live:
            # What was longer before is wiped out.
            self._stream.write(f"\r{text:<{self._width}}" + ("\n" if is_last else ""))
            self._width = len(text)
        elif not is_last:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def text(self, done: int, worked: int, seconds: float, note: str) -> str:
        """One line: bar, counts, rate, remaining time."""
        filled = BAR_COLUMNS * done // max(1, self._total)
        bar = "#" * filled + "." * (BAR_COLUMNS - filled)
        rate = worked / seconds if seconds > 0 else 0.0
        left = clock_text((self._total - done) / rate) if rate else "–:––"
        return f"[{bar}] {done}/{self._total}  {rate:.1f}/s  {left} left{'  ' + note if note else ''}"


def clock_text(seconds: float) -> str:
    """``0:07``, ``12:30``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
