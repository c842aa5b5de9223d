"""Each measurement in a fresh process: a fork of one in which an engine has been made ready.

Owns the forks, their deadline and how their answer comes back. What one measurement leaves behind, memory, caches or a
crash, is gone with its process. Must never know what is measured.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

ANSWER_BYTES_MAX = 64 << 20


class OverdueError(Exception):
    """The measurement took longer than it may."""


class CrashedError(Exception):
    """The process ended without an answer."""


def in_fork(measure: Callable[[], Any], *, seconds_max: float) -> Any:
    """What ``measure()`` returns, plain JSON, in a fork of this process, which must have one thread.

    Raises :class:`OverdueError` past the deadline, when the fork is killed, and :class:`CrashedError` where it ends
    without an answer. What ``measure`` raises comes back as ``{"error": …}``.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _answer(measure, write_end)
    os.close(write_end)
    try:
        data = _received(read_end, monotonic() + seconds_max)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(read_end)
        os.waitpid(pid, 0)
    if not data:
        raise CrashedError("the process ended without an answer")
    return json.loads(data)


def _answer(measure: Callable[[], Any], write_end: int) -> None:
    """Runs in the fork and never returns."""
    status = 1
    try:
        gc.freeze()
        try:
            result = measure()
        except Exception as error:  # whatever an engine raises is its answer
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(json.dumps(result).encode())
        status = 0
    finally:
        os._exit(status)


def _received(read_end: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    poller = select.poll()
    poller.register(read_end, select.POLLIN | select.POLLHUP)
    while True:
        left = deadline - monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            raise OverdueError
        part = os.read(read_end, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        if sum(map(len, parts)) > ANSWER_BYTES_MAX:
            raise CrashedError("the answer is too long")
