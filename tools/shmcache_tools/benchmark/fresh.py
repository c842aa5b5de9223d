"""Each measurement in a fresh process: a fork of one in which an engine has been made ready.

Owns the forks, their deadline and how their answers come back. What one measurement leaves behind, memory, caches or a
crash, is gone with its process. Must never know what is measured.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, NoReturn, TypeVar

ANSWER_BYTES_MAX = 64 << 20

T = TypeVar("T")


class OverdueError(Exception):
    """The measurement took longer than it may."""


class CrashedError(Exception):
    """The process ended without an answer."""


@dataclass(slots=True)
class _Fork:
    """A child: where its answer comes from, and the pipe whose end lets it go."""

    pid: int
    answer_end: int
    hold_end: int

    def close(self) -> None:
        """Lets it end; one that is still at work is killed."""
        os.close(self.answer_end)
        os.close(self.hold_end)
        os.waitpid(self.pid, 0)

    def kill(self) -> None:
        """Ends it now."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def in_fork(measure: Callable[[], Any], *, seconds_max: float) -> Any:
    """What ``measure()`` returns, plain JSON, in a fork of this process.

    Raises :class:`OverdueError` past the deadline, when the fork is killed, and :class:`CrashedError` where it ends
    without an answer. What ``measure`` raises comes back as ``{"error": …}``.
    """
    answers, _ = in_forks([measure], seconds_max=seconds_max, meanwhile=lambda pids: None)
    return answers[0]


def in_forks(
    measures: Sequence[Callable[[], Any]], *, seconds_max: float, meanwhile: Callable[[list[int]], T]
) -> tuple[list[Any], T]:
    """What each returns, in forks that run at once, and what ``meanwhile`` makes of their process ids.

    ``meanwhile`` is called when all have answered and none has ended: each then still has what it has made and holds
    elsewhere than on its stack. Errors as of :func:`in_fork`; all are killed then.
    """
    deadline = monotonic() + seconds_max
    forks: list[_Fork] = []
    is_whole = False
    try:
        for measure in measures:
            forks.append(_forked(measure, forks))
        answers = [_parsed(_received(fork.answer_end, deadline)) for fork in forks]
        seen = meanwhile([fork.pid for fork in forks])
        is_whole = True
    finally:
        for fork in forks:
            if not is_whole:
                fork.kill()
            fork.close()
    return answers, seen


def _forked(measure: Callable[[], Any], earlier: Sequence[_Fork]) -> _Fork:
    answer_read, answer_write = os.pipe()
    hold_read, hold_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        # Were they left open here, an older sister would never be let go.
        for descriptor in (
            answer_read,
            hold_write,
            *(end for fork in earlier for end in (fork.answer_end, fork.hold_end)),
        ):
            os.close(descriptor)
        _answer(measure, answer_write, hold_read)
    os.close(answer_write)
    os.close(hold_read)
    return _Fork(pid, answer_read, hold_write)


def _answer(measure: Callable[[], Any], answer_end: int, hold_end: int) -> NoReturn:
    """Runs in the fork and never returns."""
    status = 1
    try:
        gc.freeze()
        try:
            result = measure()
        except Exception as error:  # whatever an engine raises is its answer
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        with os.fdopen(answer_end, "wb") as pipe:
            pipe.write(json.dumps(result).encode())
        os.read(hold_end, 1)
        status = 0
    finally:
        os._exit(status)


def _parsed(data: bytes) -> Any:
    if not data:
        raise CrashedError("the process ended without an answer")
    return json.loads(data)


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
