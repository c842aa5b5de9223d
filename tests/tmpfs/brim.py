"""A full file system of shared memory: whatever is free is taken by others, from a given step on.

Runs over the scenarios of :mod:`tests.crash`. At each point a process goes through one of them, and from the n-th step
on there is never a page left. It must end in order: no SIGBUS, every caller gets its grammar (outside of the cache, if
need be), everything that is looked at is right, and once there is room again entries are cached as before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

from shmcache.errors import LimitError
from shmcache.manager import wire
from shmcache.memory.control import open_control_reader
from shmcache.memory.names import SHM_DIRECTORY, Namespace
from shmcache.memory.recency import open_recency
from tests.crash.explorer import GUARD_SECONDS, own_namespace
from tests.crash.invariants import Facts, broken_at_rest
from tests.crash.rig import Rig
from tests.crash.scenarios import Scenario
from tests.crash.seam import before_every_step

PAGE_BYTES = 4096


@dataclass
class Report:
    """How many points of a scenario were tried, and what was wrong."""

    scenario: str
    points: int = 0
    failures: list[str] = field(default_factory=list)


class Ballast:
    """A file that takes all the room there is: every page, or every inode by another name of the file."""

    def __init__(self, directory: Path, kind: str) -> None:
        self._directory = directory
        self._kind = kind
        self._path = directory / "ballast"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._names = 0

    def fill(self) -> None:
        """Takes what is free, to the last."""
        if self._kind == "inodes":
            while os.statvfs(self._directory).f_favail:
                self._names += 1
                os.link(self._path, f"{self._path}-{self._names}")
            return
        while free := os.statvfs(self._directory).f_bavail:
            size = os.fstat(self._descriptor).st_size
            with contextlib.suppress(OSError):
                os.posix_fallocate(self._descriptor, size, free * PAGE_BYTES)

    def drop(self) -> None:
        """Gives it all back."""
        os.close(self._descriptor)
        drop_ballast(self._directory)


def drop_ballast(directory: Path) -> None:
    """Removes what a ballast left."""
    for path in directory.glob("ballast*"):
        path.unlink()


class FillingFrom:
    """Before each step from the n-th on: there is no room."""

    def __init__(self, ballast: Ballast, step: int) -> None:
        self._ballast = ballast
        self._step = step
        self.count = 0

    def __call__(self, name: str) -> None:
        if self.count >= self._step:
            self._ballast.fill()
        self.count += 1


def fill_at_every_step(scenario: Scenario, kind: str, every: int) -> Report:
    """Tries every ``every``-th step; the last point is the one at which there is room all the time."""
    report = Report(scenario.name)
    step, was_full = 0, True
    while was_full and not report.failures:
        was_full = _try(scenario, kind, step, report)
        report.points += 1
        step += every
    return report


def _try(scenario: Scenario, kind: str, step: int, report: Report) -> bool:
    read_end, write_end = os.pipe()
    with own_namespace() as namespace:
        child = os.fork()
        if child == 0:
            _go_through(scenario, namespace, kind, step, write_end)
        os.close(write_end)
        with open(read_end) as told:
            said = told.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    drop_ballast(SHM_DIRECTORY)
    was_full, *broken = said.splitlines() or ["nothing was said"]
    if code:
        broken.append(f"the process ended with {code}: {was_full}")
    report.failures += [f"{report.scenario}, full from step {step}: {what}" for what in broken]
    return was_full == "full"


def _go_through(scenario: Scenario, namespace: Namespace, kind: str, step: int, told: int) -> None:
    code = 1
    try:
        signal.alarm(GUARD_SECONDS)
        ballast = Ballast(SHM_DIRECTORY, kind)
        rig = scenario.prepare(namespace)
        # For want of room any entry may be evicted; but no number goes back.
        facts = replace(Facts.of(namespace), found=frozenset())
        happen = FillingFrom(ballast, step)
        broken: list[str] = []
        with before_every_step(happen):
            try:
                scenario.act(namespace, rig)
            except (LimitError, OSError) as error:
                # Where no manager can be started, clients compile by themselves.
                is_full = isinstance(error, LimitError) and error.limit == "shm_bytes"
                is_full = is_full or (isinstance(error, OSError) and error.errno == errno.ENOSPC)
                if not is_full or not _needs_room_to_start(namespace):
                    raise
            was_full = happen.count > step
            if rig is not None and not scenario.name.startswith("stop"):
                broken += _serves(rig, facts, cached_only=False)
                rig.stop()
            if not _needs_room_to_start(namespace):
                broken += _serves_again(scenario, namespace, facts, cached_only=False)
        ballast.drop()
        broken += _serves_again(scenario, namespace, facts, cached_only=True)
        os.write(told, "\n".join(["full" if was_full else "never full", *broken]).encode())
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _needs_room_to_start(namespace: Namespace) -> bool:
    """Whether there is no cache yet, or its last manager had begun to remove it, so that a start makes a new one."""
    try:
        control = open_control_reader(namespace)
        open_recency(namespace, control)
    except FileNotFoundError:
        return True
    return control.is_dissolved


def _serves_again(scenario: Scenario, namespace: Namespace, facts: Facts, *, cached_only: bool) -> list[str]:
    """What is wrong under a manager started now."""
    rig = Rig(namespace, limit_bytes=scenario.limit_bytes)
    rig.settle()
    broken = _serves(rig, facts, cached_only=cached_only)
    rig.stop()
    return broken


def _serves(rig: Rig, facts: Facts, *, cached_only: bool) -> list[str]:
    """Whether callers get what they ask for, and the account is right after it."""
    broken = []
    for name in ("vocabulary", "after"):
        answer = rig.get(name, rows=["row after"] if name == "after" else [])
        if not isinstance(answer, wire.Image):
            is_private = isinstance(answer, wire.Refused) and answer.code == "VOCABULARY_MISSING"
            if cached_only or not is_private:
                broken.append(f"{name} was answered by {answer}")
        elif cached_only and not answer.serial:
            broken.append(f"{name} is not cached though there is room")
    rig.settle()
    return broken + broken_at_rest(rig, facts, is_mapped=False)
