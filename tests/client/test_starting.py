"""Starting a manager: ready, ended, too slow, and one at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from shmcache.client import starting
from shmcache.client.starting import one_at_a_time, start_manager
from shmcache.errors import ManagerUnavailable
from shmcache.memory.names import Namespace

GUARD_SECONDS = 5.0

READY = "import os, sys; os.write(int(sys.argv[1]), b'ready\\n')"
SLOW = "import os, sys; os.read(int(sys.argv[1]) and 0, 1); import select; select.select([], [], [], 5)"


def _deadline(seconds: float = GUARD_SECONDS) -> float:
    return time.monotonic() + seconds


def _program(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(
        starting, "manager_command", lambda _, descriptor: [sys.executable, "-S", "-c", code, str(descriptor)]
    )


def test_the_real_command_names_namespace_and_descriptor(namespace: Namespace) -> None:
    command = starting.manager_command(namespace, 9)
    assert command[-4:] == ["--namespace", namespace.name, "--ready-fd", "9"]


def test_a_manager_that_is_ready(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(monkeypatch, READY)
    before = len(os.listdir("/proc/self/fd"))
    start_manager(namespace, deadline=_deadline())
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_runs_in_a_session_of_its_own_and_logs(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(monkeypatch, "import os; print(os.getsid(0) == os.getpid(), os.environ['SHMCACHE_RUNTIME_DIR']);" + READY)
    start_manager(namespace, deadline=_deadline())
    _join("shmcache manager")
    assert namespace.log_path.read_text() == f"True {namespace.directory}\n"
    assert namespace.log_path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("code", ["", "raise SystemExit(3)", "import os, sys; os.write(int(sys.argv[1]), b'rea')"])
def test_a_manager_that_ends_first(namespace: Namespace, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    _program(monkeypatch, code)
    with pytest.raises(ManagerUnavailable, match="ended"):
        start_manager(namespace, deadline=_deadline())


def test_a_manager_that_is_not_ready_in_time(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(monkeypatch, SLOW)
    with pytest.raises(ManagerUnavailable, match="in time"):
        start_manager(namespace, deadline=_deadline(0.05))


def test_a_program_that_does_not_exist(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "manager_command", lambda *_: ["/nonexistent/python"])
    with pytest.raises(ManagerUnavailable, match="started"):
        start_manager(namespace, deadline=_deadline())


def test_threads_start_one_at_a_time(namespace: Namespace) -> None:
    inside, release = threading.Event(), threading.Event()

    def hold() -> None:
        with one_at_a_time(namespace, deadline=_deadline()):
            inside.set()
            release.wait(GUARD_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert inside.wait(GUARD_SECONDS)
        with (
            pytest.raises(ManagerUnavailable, match="another thread"),
            one_at_a_time(namespace, deadline=_deadline(0.05)),
        ):
            pass
    finally:
        release.set()
        thread.join(GUARD_SECONDS)
    with one_at_a_time(namespace, deadline=_deadline()):
        pass


HOLD_LOCK = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.lockf(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_processes_start_one_at_a_time_and_a_dead_one_is_no_obstacle(namespace: Namespace) -> None:
    namespace.make_directory()
    path = str(namespace.lock_path.with_suffix(".start"))
    holder = subprocess.Popen(
        [sys.executable, "-S", "-c", HOLD_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(ManagerUnavailable, match="another process"),
            one_at_a_time(namespace, deadline=_deadline(0.05)),
        ):
            pass
        holder.kill()
    _join("shmcache start lock")
    with one_at_a_time(namespace, deadline=_deadline()):
        pass


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(GUARD_SECONDS)
