"""Measurements in forks: answers, errors, deadlines, crashes, and all of them there at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork, in_forks
from shmcache_tools.benchmark.processes import folder_bytes, own_processor_seconds, processor_seconds


def test_an_answer_comes_back_from_another_process() -> None:
    answer = in_fork(lambda: {"pid": os.getpid(), "many": list(range(100_000))}, seconds_max=30)
    assert answer["pid"] != os.getpid()
    assert answer["many"][-1] == 99_999


def test_what_is_raised_is_the_answer() -> None:
    def fail() -> None:
        raise ValueError("not this one")

    assert in_fork(fail, seconds_max=30) == {"error": "ValueError: not this one"}


def test_one_that_takes_too_long_is_killed() -> None:
    with pytest.raises(OverdueError):
        in_fork(signal.pause, seconds_max=0.2)


def test_one_that_crashes_is_told() -> None:
    with pytest.raises(CrashedError, match="without an answer"):
        in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL), seconds_max=30)


def test_all_are_there_when_all_have_answered() -> None:
    def are_there(pids: list[int]) -> list[bool]:
        return [Path(f"/proc/{pid}").exists() for pid in pids]

    answers, seen = in_forks([os.getpid] * 3, seconds_max=30, meanwhile=are_there)
    assert len(set(answers)) == 3
    assert seen == [True] * 3
    assert are_there(answers) == [False] * 3


def test_one_failure_ends_all() -> None:
    pids = Path("/proc/self/task") / str(os.getpid()) / "children"
    before = pids.read_text()
    with pytest.raises(OverdueError):
        in_forks([os.getpid, signal.pause, os.getpid], seconds_max=0.2, meanwhile=lambda pids: None)
    assert pids.read_text() == before


def test_what_processes_cost(tmp_path: Path) -> None:
    assert processor_seconds([os.getpid()]) >= own_processor_seconds() - 0.1
    (tmp_path / "x").write_bytes(b"x" * 100_000)
    assert folder_bytes(tmp_path) >= 100_000
