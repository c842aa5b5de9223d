"""A manager for the length of a ``demo`` or a ``bench``, in a namespace of its own, gone without a trace afterwards.

Owns that process, and removing what it may leave. Must never touch another namespace.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from shmcache.errors import ManagerUnavailable
from shmcache.memory import objects
from shmcache.memory.names import Namespace
from shmcache_tools.leftovers import own_objects

READY_SECONDS_MAX = 60.0
END_SECONDS_MAX = 10.0
IDLE_SECONDS = 20
"""Should this process be killed, the manager ends by itself after so long and removes everything."""


@contextmanager
def own_manager(
    purpose: str, *, workers: int, ready_workers: int = 1, limit_bytes: int | None = None
) -> Iterator[Namespace]:
    """Starts a manager in a new namespace; on leaving it is ended and whatever it left is removed.

    Raises :class:`ManagerUnavailable` when it does not start.
    """
    namespace = Namespace.of(f"{purpose}-{uuid.uuid4().hex[:12]}")
    namespace.make_directory()
    with tempfile.TemporaryFile() as log:
        process, ready = _start(namespace, workers, ready_workers, limit_bytes, log)
        try:
            with os.fdopen(ready, "rb", buffering=0):
                _await_ready(ready, process, log)
            yield namespace
        finally:
            end(process)
            remove_leftovers(namespace)


def _start(
    namespace: Namespace, workers: int, ready_workers: int, limit_bytes: int | None, log: IO[bytes]
) -> tuple[subprocess.Popen[bytes], int]:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    command = [sys.executable, "-P", "-m", "shmcache.manager", "--namespace", namespace.name]
    command += ["--workers", str(workers), "--ready-workers", str(ready_workers), "--idle-seconds", str(IDLE_SECONDS)]
    command += ["--remove-on-exit", "--ready-fd", str(write_end)]
    if limit_bytes is not None:
        command += ["--limit-bytes", str(limit_bytes)]
    try:
        # A session of its own: Ctrl-C is for us, who then end it in order.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(write_end,), start_new_session=True
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return process, read_end


def _await_ready(ready: int, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    poller = select.poll()
    poller.register(ready, select.POLLIN)
    if poller.poll(READY_SECONDS_MAX * 1000) and os.read(ready, 16) == b"ready\n":
        return
    end(process)
    log.seek(0)
    raise ManagerUnavailable("the manager did not start", log=log.read()[-2000:].decode(errors="replace"))


def end(process: subprocess.Popen[bytes]) -> None:
    """Asks a child to end, kills it when it does not, and reaps it."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS_MAX)
            return


def remove_leftovers(namespace: Namespace) -> None:
    """Removes every object and file of a namespace whose manager has ended."""
    for name in own_objects(namespace):
        if name.startswith(namespace.prefix):
            objects.unlink_object(name)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def wait_until(holds: Callable[[], bool], *, seconds_max: float, what: str) -> None:
    """Looks every millisecond until ``holds()``; a tool may, where nothing tells of the change.

    Raises TimeoutError, naming ``what`` was waited for.
    """
    deadline = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds_max:.0f} s for {what}")
        time.sleep(0.001)
