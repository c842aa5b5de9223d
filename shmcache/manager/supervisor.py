"""The processes of the compile workers: started, watched, killed.

Owns process ids, pidfds and sockets of workers. Must never know what workers work at, nor decide when one is to start
or to die.

A worker dies with its manager (it asks the kernel for that first thing), and the manager notices a worker's death by
its pidfd, whatever other processes may have inherited the socket.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from shmcache.manager.connection import Connection
from shmcache.memory import steps
from shmcache.memory.names import Namespace

_log = logging.getLogger(__name__)

WORKER_MODULE = "shmcache_workers.compile_worker"

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A worker calculates in one thread. NumPy's libraries would start one for each core, and spin in them."""


@dataclass(slots=True)
class WorkerProcess:
    """One running worker. ``pidfd`` becomes readable when the process has ended."""

    number: int
    process: subprocess.Popen[bytes]
    pidfd: int
    connection: Connection

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid


class Supervisor:
    """Starts worker processes for one namespace. ``options`` are passed on to the worker program."""

    def __init__(self, namespace: Namespace, options: Sequence[str] = ()) -> None:
        self._namespace = namespace
        self._options = tuple(options)

    def spawn(self, number: int) -> WorkerProcess:
        """A new worker process. Raises OSError when the system gives none."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            process = steps.spawn(
                [
                    *(sys.executable, "-P", "-m", WORKER_MODULE),
                    *("--descriptor", str(theirs.fileno()), "--manager-pid", str(os.getpid())),
                    *("--namespace", self._namespace.name, "--directory", str(self._namespace.directory)),
                    *self._options,
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            pidfd = os.pidfd_open(process.pid)
        except BaseException:
            ours.close()
            steps.send_signal(process, signal.SIGKILL)
            process.wait()
            raise
        _log.info("worker %d started: pid %d", number, process.pid)
        return WorkerProcess(number, process, pidfd, Connection(ours))

    def kill(self, worker: WorkerProcess) -> None:
        """Ends it at once; its pidfd tells when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            steps.pidfd_send_signal(worker.pidfd, signal.SIGKILL)

    def bury(self, worker: WorkerProcess) -> int:
        """Lets go of a worker that has ended (or ends now); returns its exit code, negative for a signal."""
        self.kill(worker)
        code = worker.process.wait()
        worker.connection.close()
        os.close(worker.pidfd)
        return code
