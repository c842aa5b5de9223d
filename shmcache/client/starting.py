"""Starting a manager when none answers.

Owns the child process, the wait for it, and the lock that lets one client of many start it. Must never know what a
manager does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from shmcache.errors import ManagerUnavailable
from shmcache.memory.names import Namespace

READY = b"ready\n"
"""What a manager writes to its readiness descriptor."""

_process_lock = threading.Lock()


def _after_fork() -> None:
    global _process_lock
    _process_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def start_manager(namespace: Namespace, *, deadline: float) -> None:
    """Starts a manager process that outlives this one, and waits until it is ready or has ended.

    ``deadline`` is in monotonic seconds. Raises :class:`ManagerUnavailable` when it ended (another one may be the
    manager) or the time is up.
    """
    try:
        namespace.make_directory()
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise ManagerUnavailable(f"no manager can be started: {error}") from error
    try:
        try:
            _spawn(namespace, write_end)
        except OSError as error:
            raise ManagerUnavailable(f"no manager can be started: {error}") from error
        finally:
            os.close(write_end)
        _await_ready(read_end, deadline, namespace)
    finally:
        os.close(read_end)


@contextlib.contextmanager
def one_at_a_time(namespace: Namespace, *, deadline: float) -> Iterator[None]:
    """Holds the namespace's starting lock, so that others wait here for the manager that the holder starts.

    Raises :class:`ManagerUnavailable` when the lock is not free by ``deadline``.
    """
    if not _process_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise ManagerUnavailable("another thread is still starting a manager")
    try:
        namespace.make_directory()
        descriptor = _lock(namespace.lock_path.with_suffix(".start"), deadline)
        try:
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ManagerUnavailable(f"no manager can be started: {error}") from error
    finally:
        _process_lock.release()


def _lock(path: Path, deadline: float) -> int:
    """A descriptor with an ``fcntl`` lock, which dies with this process. A thread waits, as the deadline may pass."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        return descriptor
    is_locked = threading.Event()

    def wait() -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        is_locked.set()

    threading.Thread(target=wait, name="shmcache start lock", daemon=True).start()
    if not is_locked.wait(max(0.0, deadline - time.monotonic())):
        raise ManagerUnavailable("another process is still starting a manager")
    return descriptor


def manager_command(namespace: Namespace, ready_descriptor: int) -> list[str]:
    """The command line of a manager; ``-P``: whatever lies in the current directory is not imported."""
    program = [sys.executable, "-P", "-m", "shmcache.manager"]
    return [*program, "--namespace", namespace.name, "--ready-fd", str(ready_descriptor)]


def _spawn(namespace: Namespace, ready_descriptor: int) -> None:
    environment = {**os.environ, "SHMCACHE_RUNTIME_DIR": str(namespace.directory)}
    log = os.open(namespace.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        process = subprocess.Popen(
            manager_command(namespace, ready_descriptor),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(ready_descriptor,),
            start_new_session=True,
            env=environment,
        )
    finally:
        os.close(log)
    # Reaps the manager when it ends, so that it is never a zombie, and keeps the object that would complain otherwise.
    threading.Thread(target=process.wait, name="shmcache manager", daemon=True).start()


def _await_ready(descriptor: int, deadline: float, namespace: Namespace) -> None:
    """Waits for the readiness message; its pipe ends without one when the manager does."""
    heard = b""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    while heard != READY:
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise ManagerUnavailable("the manager was not ready in time", log=str(namespace.log_path))
        data = os.read(descriptor, len(READY))
        if not data:
            raise ManagerUnavailable("the manager that was started ended", log=str(namespace.log_path))
        heard += data
