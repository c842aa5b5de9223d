"""The manager's loop: waits for what happens, tells the core, does what the core says.

Owns the listening socket, the selector and the timers. Must never decide about entries or compiles, and never wait for
anything but the selector.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.bookkeeping import Bookkeeping
from shmcache.manager.chores import Chores
from shmcache.manager.client_side import ClientEffect, ClientSide
from shmcache.manager.connection import Connection, peer_credentials
from shmcache.manager.core import ManagerCore
from shmcache.manager.peers import Client, Clients
from shmcache.manager.policy import Policy
from shmcache.manager.recovery import Recovered, leave, remove_everything, sweep_strays
from shmcache.manager.shelf import StoreEffect
from shmcache.manager.status import statistics
from shmcache.manager.supervisor import Supervisor, WorkerProcess
from shmcache.manager.worker_side import WorkerEffect, WorkerSide
from shmcache.memory import steps
from shmcache.memory.layout import ManagerState
from shmcache.memory.names import Namespace

_log = logging.getLogger(__name__)

ACCEPTED_AT_ONCE_MAX = 64
BACKLOG = 1024
SWEEP_SECONDS = 2.0
"""After a start, files are looked at once more: a worker of a killed manager may have published one meanwhile."""
NO_DESCRIPTORS_SECONDS = 0.2
"""How long no connection is accepted after there was no descriptor left for one."""


@dataclass(slots=True)
class _Timers:
    """When what is due, in seconds of the monotonic clock."""

    sweep: float
    accept: float
    idle_since: float


class Server:
    """One manager over a recovered namespace. Everything runs in the thread that calls :meth:`run`."""

    def __init__(
        self,
        recovered: Recovered,
        policy: Policy,
        supervisor: Supervisor,
        *,
        idle_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namespace: Namespace = recovered.shelf.namespace
        self.shelf = recovered.shelf
        self.core = ManagerCore(policy, recovered.restored)
        self.clients = Clients(self.shelf)
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._selector = selectors.DefaultSelector()
        self._pending: deque[ev.Event] = deque()
        self._is_applying = False
        self._bookkeeping = Bookkeeping(self.shelf.control, clock)
        self._is_stopping = False
        self.chores = Chores(self.core, self.shelf, self.apply)
        self._client_side = ClientSide(
            self.clients,
            self.shelf,
            apply=self.apply,
            let_go=self._let_go,
            statistics=self.statistics,
            postpone=lambda action: self.chores.postpone(action, clock()),
        )
        self._worker_side = WorkerSide(
            supervisor,
            self.shelf,
            self.core,
            apply=self.apply,
            watch=self._watch_worker,
            unwatch=self._unwatch_worker,
        )
        now = clock()
        self._timers = _Timers(sweep=now + SWEEP_SECONDS, accept=now, idle_since=now)
        self._listener: socket.socket | None = None
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ, ("wake", None))
        self.apply(ev.Began())

    # --- life --------------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """From here on clients are served. Whatever socket file lies there belonged to a manager that is gone."""
        path = self.namespace.socket_path
        with contextlib.suppress(FileNotFoundError):
            steps.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        steps.bind(listener, str(path))
        steps.chmod(path, 0o600)
        steps.listen(listener, BACKLOG)
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ, ("listener", None))
        self.shelf.control.set_state(ManagerState.SERVING)

    def run(self) -> None:
        """Serves until :meth:`stop`, or until nobody has been there for the idle time."""
        while not self._is_stopping:
            self._turn()

    def stop(self) -> None:
        """Makes :meth:`run` return. May be called from another thread and from a signal handler."""
        self._is_stopping = True
        with contextlib.suppress(OSError):
            steps.write(self._wake_write, b"\0")

    def close(self, *, remove: bool) -> None:
        """Ends everything in order; ``remove``: the cache too, otherwise it stays for the next manager."""
        self.shelf.control.set_state(ManagerState.STOPPING)
        self.chores.finish()
        if self._listener is not None:
            with contextlib.suppress(FileNotFoundError):
                steps.unlink(self.namespace.socket_path)
            self._selector.unregister(self._listener)
            self._listener.close()
        for client in self.clients.all():
            self._let_go(client, "")
        self._worker_side.dismiss_all()
        if remove:
            remove_everything(self.shelf)
        else:
            leave(self.shelf)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def statistics(self) -> dict[str, Any]:
        """What ``status`` answers."""
        return statistics(
            self.core,
            self.shelf,
            worker_pids=self._worker_side.pids(),
            client_pids=self.clients.pids(),
            rows=self.clients.rows(),
        )

    # --- events and effects ------------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Tells the core, and does all that follows, in order. From within that, the event waits its turn."""
        self._pending.append(event)
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._pending:
                for effect in self.core.step(self._pending.popleft(), self._clock()):
                    self._pending.extend(self._perform(effect))
        finally:
            self._is_applying = False
        self._bookkeeping.keep_gauges(self.core.compiles.in_flight, self.core.compiles.waiting)

    def _perform(self, effect: fx.Effect) -> Sequence[ev.Event]:
        if isinstance(effect, StoreEffect):
            follows: ev.Event | None = self.shelf.perform(effect)
        elif isinstance(effect, ClientEffect):
            follows = self._client_side.perform(effect)
        elif isinstance(effect, WorkerEffect):
            return self._worker_side.perform(effect)
        else:
            self._bookkeeping.perform(effect)
            follows = None
        return () if follows is None else (follows,)

    # --- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        ready = self._selector.select(self._patience())
        for key, mask in ready:
            kind, number = key.data
            if kind == "listener":
                self._accept()
            elif kind == "wake":
                os.read(self._wake_read, 100)
            elif kind.startswith("client"):
                self._serve_client(kind, number, mask)
            else:
                self._serve_worker(kind, number, mask)
        self._run_timers()

    def _serve_client(self, kind: str, number: int, mask: int) -> None:
        client = self.clients.get(number)
        if client is not None and kind == "client process":
            self._let_go(client, "")
            return
        if client is not None and mask & selectors.EVENT_WRITE:
            self._client_side.flush(client)
            client = self.clients.get(number)
        if client is not None and mask & selectors.EVENT_READ:
            self._client_side.read(client)

    def _serve_worker(self, kind: str, number: int, mask: int) -> None:
        worker = self._worker_side.get(number)
        if worker is not None and kind == "worker process":
            self._worker_side.ended(worker)
            return
        if worker is not None and mask & selectors.EVENT_WRITE:
            self._worker_side.flush(worker)
        if worker is not None and mask & selectors.EVENT_READ and not self._worker_side.read(worker):
            # Its process is ending; its pidfd will tell.
            self._unregister(worker.connection.fileno())

    def _patience(self) -> float | None:
        """Seconds until something is due (None: never); also tells the selector who is to be written to."""
        for client in self.clients.all():
            self._expect(client.connection, ("client", client.number))
        for worker in self._worker_side.all():
            self._expect(worker.connection, ("worker", worker.number))
        now = self._clock()
        due = [self._timers.sweep, self.chores.due()]
        if (deadline := self.core.next_deadline()) is not None:
            due.append(deadline)
        if self._idle_seconds is not None and self._is_idle():
            due.append(self._timers.idle_since + self._idle_seconds)
        if self._timers.accept > now:
            due.append(self._timers.accept)
        first = min(due)
        return None if math.isinf(first) else max(0.0, first - now)

    def _run_timers(self) -> None:
        now = self._clock()
        deadline = self.core.next_deadline()
        if deadline is not None and deadline <= now:
            self.apply(ev.Tick())
        self.chores.run(now)
        if now >= self._timers.sweep:
            self._timers.sweep = float("inf")
            sweep_strays(self.namespace, self.shelf.control, self.shelf.index)
        if self._listener is not None and self._timers.accept <= now:
            self._listen_again()
        if not self._is_idle():
            self._timers.idle_since = now
        elif self._idle_seconds is not None and now - self._timers.idle_since >= self._idle_seconds:
            _log.info("nobody has been here for %s s: ending", self._idle_seconds)
            self._is_stopping = True

    def _is_idle(self) -> bool:
        return self.clients.count("client") == 0 and self.core.compiles.in_flight == 0

    # --- clients -----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                endpoint, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    _log.warning("no descriptor left for another client")
                    self._selector.unregister(self._listener)
                    self._timers.accept = self._clock() + NO_DESCRIPTORS_SECONDS
                    return
                continue
            self._admit(endpoint)

    def _listen_again(self) -> None:
        assert self._listener is not None
        if self._listener.fileno() not in self._selector.get_map():
            self._selector.register(self._listener, selectors.EVENT_READ, ("listener", None))

    def _admit(self, endpoint: socket.socket) -> None:
        pid, uid = peer_credentials(endpoint)
        if uid != self.namespace.uid:
            _log.warning("refused a connection of uid %d (pid %d)", uid, pid)
            endpoint.close()
            return
        client = self.clients.admit(endpoint, pid)
        self._selector.register(client.connection.socket, selectors.EVENT_READ, ("client", client.number))
        if client.pidfd >= 0:
            self._selector.register(client.pidfd, selectors.EVENT_READ, ("client process", client.number))

    def _let_go(self, client: Client, reason: str) -> None:
        if self.clients.get(client.number) is None:
            return
        if reason:
            _log.warning("closed the connection of pid %d: %s", client.pid, reason)
        self._unregister(client.connection.fileno())
        if client.pidfd >= 0:
            self._unregister(client.pidfd)
        self.clients.remove(client)
        self.apply(ev.ClientLeft(client.number))

    # --- the selector ------------------------------------------------------------------------------------------------

    def _watch_worker(self, worker: WorkerProcess) -> None:
        self._selector.register(worker.connection.socket, selectors.EVENT_READ, ("worker", worker.number))
        self._selector.register(worker.pidfd, selectors.EVENT_READ, ("worker process", worker.number))

    def _unwatch_worker(self, worker: WorkerProcess) -> None:
        self._unregister(worker.connection.fileno())
        self._unregister(worker.pidfd)

    def _expect(self, connection: Connection, data: tuple[str, int]) -> None:
        wanted = connection.wants_to_send
        if wanted != connection.is_watched_for_room and connection.fileno() in self._selector.get_map():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
            self._selector.modify(connection.socket, events, data)
            connection.is_watched_for_room = wanted

    def _unregister(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
