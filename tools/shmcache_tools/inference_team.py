"""Several inference processes, told what to do all at once or one by one.

Owns the processes and the conversation with them. Must never know what a command means.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from shmcache_tools.own_manager import end

REPLY_SECONDS_MAX = 120.0


class MemberError(Exception):
    """An inference process ended or took too long; what it said is on standard error."""


class _Member:
    """One process and what it has said so far."""

    def __init__(self, number: int) -> None:
        self.number = number
        # A session of its own: Ctrl-C is for the parent, whose end closes the pipe that this one reads.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shmcache_tools.inference_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._pending = b""

    def tell(self, command: Mapping[str, Any]) -> None:
        try:
            self.input.write(json.dumps(command).encode() + b"\n")
            self.input.flush()
        except BrokenPipeError as error:
            raise MemberError(f"inference process {self.number} has ended") from error

    def replies(self) -> list[dict[str, Any]]:
        """The lines that have come, parsed; to be called when there is something to read."""
        data = os.read(self.output.fileno(), 1 << 20)
        if not data:
            raise MemberError(f"inference process {self.number} ended with status {self.process.wait()}")
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [json.loads(line) for line in lines]


class InferenceTeam:
    """The processes, by number from 0. ``tick`` is called at each step of progress of any of them."""

    def __init__(self, count: int, tick: Callable[[], None] = lambda: None) -> None:
        self._members = [_Member(number) for number in range(count)]
        self._replies: dict[int, dict[str, Any]] = {}
        self._tick = tick

    def __len__(self) -> int:
        return len(self._members)

    @property
    def pids(self) -> list[int]:
        """The process ids, in order."""
        return [member.process.pid for member in self._members]

    def tell(self, number: int, command: Mapping[str, Any]) -> None:
        """Gives one process a command and does not wait."""
        self._members[number].tell(command)

    def wait(self, number: int) -> dict[str, Any]:
        """The reply to the command that this process was told. Raises :class:`MemberError`."""
        deadline = time.monotonic() + REPLY_SECONDS_MAX
        while number not in self._replies:
            self._listen(deadline)
        return self._replies.pop(number)

    def has_replied(self, number: int) -> bool:
        """Whether its reply is here, without waiting for it."""
        self._listen(time.monotonic(), must_come=False)
        return number in self._replies

    def all(self, commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Gives every process its command, then waits for all replies."""
        for number, command in enumerate(commands):
            self.tell(number, command)
        return [self.wait(number) for number in range(len(commands))]

    def close(self) -> None:
        """Ends the processes: in order where they are idle, else by signal."""
        for member in self._members:
            with suppress(BrokenPipeError):
                member.input.close()
        for member in self._members:
            end(member.process)
            member.output.close()

    def _listen(self, deadline: float, *, must_come: bool = True) -> None:
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                if member.process.returncode is None:
                    selector.register(member.output, selectors.EVENT_READ, member)
            ready = selector.select(max(0.0, deadline - time.monotonic()))
        if not ready and must_come:
            raise MemberError(f"no inference process replied within {REPLY_SECONDS_MAX:.0f} s")
        for key, _ in ready:
            member = key.data
            for reply in member.replies():
                if "tick" in reply:
                    self._tick()
                else:
                    self._replies[member.number] = reply


@contextmanager
def inference_team(count: int, tick: Callable[[], None] = lambda: None) -> Iterator[InferenceTeam]:
    """Starts the processes; they are ended on leaving."""
    team = InferenceTeam(count, tick)
    try:
        yield team
    finally:
        team.close()


def open_commands(count: int, *, namespace: str | None, seed: int) -> list[dict[str, Any]]:
    """The commands that make ``count`` processes ready, each with a seed of its own."""
    return [{"do": "open", "namespace": namespace, "seed": seed + number} for number in range(count)]
