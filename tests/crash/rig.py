"""A whole manager in one thread: the real loop, core, shelf and sockets, with a worker and a client at the other ends.

The worker is the real :class:`~shmcache_workers.storage.Storage` over a real channel, in the same thread and process:
so one step follows the other in a fixed order, and a process killed at the n-th step is killed there every time. What
it stores is not compiled but follows from the key, so that whoever reads it knows whether it is whole.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from shmcache.manager import events as ev
from shmcache.manager import wire
from shmcache.manager.channel import Channel
from shmcache.manager.connection import Connection
from shmcache.manager.descriptors import close_all
from shmcache.manager.policy import Policy
from shmcache.manager.recovery import recover
from shmcache.manager.server import Server
from shmcache.manager.supervisor import Supervisor
from shmcache.memory.election import ManagerLock
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.segments import NO_TEXT
from shmcache_workers.storage import Storage

TURNS_MAX = 1000


def key_of(name: str) -> bytes:
    """The key of a grammar, a row or a vocabulary."""
    return blake2b(name.encode(), digest_size=32).digest()


def payload_of(key: bytes) -> bytes:
    """What the entry of that key holds: one to three pages that follow from the key."""
    return blake2b(key, digest_size=64).digest() * (1 + 60 * (key[0] % 3))


def text_of(key: bytes) -> bytes:
    """The digest of the text that the grammar of that key was made of."""
    return blake2b(key, digest_size=32, person=b"text").digest()


VOCABULARY_KEY = key_of("vocabulary")


@dataclass
class InlineWorker:
    """What the manager knows of its worker, which is no process; ``pidfd`` becomes readable at its end."""

    number: int
    connection: Connection
    pidfd: int
    end: int
    pid: int = 0


class InlineSupervisor(Supervisor):
    """Gives out the other ends of workers' sockets instead of starting processes."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__(namespace)
        self.channels: list[Channel] = []

    def spawn(self, number: int) -> Any:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.channels.append(Channel(theirs))
        pidfd, end = os.pipe2(os.O_CLOEXEC)
        return InlineWorker(number, Connection(ours), pidfd, end)

    def kill(self, worker: Any) -> None:
        if worker.end >= 0:
            os.close(worker.end)
            worker.end = -1

    def bury(self, worker: Any) -> int:
        self.kill(worker)
        worker.connection.close()
        os.close(worker.pidfd)
        self.channels.pop(0).close()
        return 0


class Rig:
    """A started manager, its worker and one client."""

    def __init__(
        self, namespace: Namespace, *, limit_bytes: int = -1, supervisor: InlineSupervisor | None = None
    ) -> None:
        self.namespace = namespace
        self.lock = ManagerLock(namespace)
        assert self.lock.acquire(), "somebody else is the manager"
        policy = Policy(limit_bytes=limit_bytes, workers_max=1, retire_batch=1)
        self._supervisor = InlineSupervisor(namespace) if supervisor is None else supervisor
        self.server = Server(recover(namespace, limit_bytes), policy, self._supervisor)
        self.server.listen()
        self._storage = Storage(namespace, self._converse, self._tell)
        self._client: Channel | None = None
        self._request = 0
        self._kept: list[wire.Message] = []
        self._is_warm = False
        self.is_turning = False
        """Whether a step made now is the manager's; otherwise it is the worker's or the client's."""

    # --- the client --------------------------------------------------------------------------------------------------

    def ask(self, kind: type[wire.Message], *fields: Any, **named: Any) -> wire.Message:
        """A client's request and its reply; descriptors are closed. It may come in the middle of another one."""
        kept, self._kept = self._kept, []
        self.send(kind, *fields, **named)
        request = self._request
        while (message := self.answer()).request != request:  # type: ignore[attr-defined]
            kept.append(message)
        self._kept = kept
        return message

    def send(self, kind: type[wire.Message], *fields: Any, **named: Any) -> None:
        """A client's request, not waited for, but taken in."""
        if self._client is None:
            self._client = Channel.connect(self.namespace.socket_path, 5)
            self.ask(wire.Hello, wire.PROTOCOL_VERSION, "client", os.getpid(), VOCABULARY_KEY)
        self._request += 1
        self._client.send(kind(self._request, *fields, **named))  # type: ignore[call-arg]
        self._turn()

    def answer(self) -> wire.Message:
        """The next reply to a request that was sent."""
        assert self._client is not None
        return self._kept.pop(0) if self._kept else self._receive(self._client)

    def compile(self, name: str, rows: Sequence[str] = ()) -> wire.Message:
        """A grammar or the vocabulary, asked for, made by the worker with its rows, and received by the client."""
        self.ask_for(name)
        self.work(rows)
        answer = self.answer()
        assert isinstance(answer, wire.Image), answer
        return answer

    def get(self, name: str, rows: Sequence[str] = ()) -> wire.Message:
        """The answer for a grammar or the vocabulary, which is made if it is not there."""
        self.ask_for(name)
        assert self._client is not None
        if not self._kept and not self._has_input(self._client):
            self.work(rows)
        return self.answer()

    def ask_for(self, name: str) -> None:
        """The client asks."""
        kind = "vocabulary" if name == "vocabulary" else "grammar"
        self.send(wire.Compile, kind, key_of(name), VOCABULARY_KEY, name.encode())

    # --- the worker --------------------------------------------------------------------------------------------------

    def take_job(self) -> wire.Job:
        """The next job for the worker, which comes up and warms up when it is told to."""
        channel = self._worker()
        if not self._is_warm:
            channel.send(wire.WorkerState(1, "cold"))
            self._is_warm = True
        while not isinstance(message := self._receive(channel), wire.Job):
            channel.send(wire.WorkerState(1, "idle"))
        return message

    def work(self, rows: Sequence[str] = ()) -> None:
        """One job from its beginning to its end."""
        self.finish(self.take_job(), rows)

    def finish(self, job: wire.Job, rows: Sequence[str] = ()) -> None:
        """Delivers a job's result and its rows."""
        tier = Tier.VOCABULARY if job.kind == "vocabulary" else Tier.GRAMMAR
        text_digest = NO_TEXT if tier is Tier.VOCABULARY else text_of(job.key)
        self._storage.deliver(job, tier, [payload_of(job.key)], 1000, text_digest=text_digest)
        for row in rows:
            self._storage.store_row(job, key_of(row), payload_of(key_of(row)), 10)
        self._worker().send(wire.Done(job.job))
        self._turn()

    def _worker(self) -> Channel:
        self._until(lambda: bool(self._supervisor.channels))
        return self._supervisor.channels[0]

    def _converse(self, request: wire.Message, descriptors: Sequence[int]) -> wire.Message:
        self._worker().send(request, descriptors)
        return self._receive(self._worker())

    def _tell(self, message: wire.Message) -> None:
        self._worker().send(message)
        self._turn()

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self.is_turning = True
        try:
            self.server._turn()
        finally:
            self.is_turning = False

    def settle(self) -> None:
        """Turns until nothing waits to be retired and every zombie has been probed."""
        self._until(lambda: not self.server.core.entries.has_backlog)
        for serial in self.server.core.entries.zombie_serials():
            self.server.apply(ev.Probed(serial, self.server.shelf.probe(serial)))

    def _receive(self, channel: Channel) -> wire.Message:
        self._until(lambda: self._has_input(channel))
        message, descriptors = channel.receive(0)
        close_all(descriptors)
        return message

    def _has_input(self, channel: Channel) -> bool:
        poller = select.poll()
        poller.register(channel.fileno(), select.POLLIN)
        return bool(channel._received) or bool(poller.poll(0))

    def _until(self, condition: Callable[[], bool]) -> None:
        for _ in range(TURNS_MAX):
            if condition():
                return
            self._turn()
        raise AssertionError("the manager turns without getting there")

    def stop(self, *, remove: bool = False) -> None:
        """Ends it in order."""
        if self._client is not None:
            self._client.close()
        self.server.close(remove=remove)
        self.lock.release(remove=remove)
