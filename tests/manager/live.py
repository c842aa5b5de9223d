"""A running manager for tests, as a thread with threads for workers or as real processes, and clients to ask it.

Nothing here sleeps: a gate tells when a compile has arrived at it, and replies tell the rest. Every wait has a guard,
and the guard's end opens all gates before it fails, so that a regression fails and does not hang.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from shmcache.manager import wire
from shmcache.manager.channel import Channel, ChannelClosed
from shmcache.manager.connection import Connection
from shmcache.manager.policy import Policy
from shmcache.manager.recovery import recover
from shmcache.manager.server import Server
from shmcache.manager.supervisor import Supervisor
from shmcache.memory.check import Finding, check
from shmcache.memory.control import ControlReader, open_control_reader
from shmcache.memory.election import ManagerLock
from shmcache.memory.index import IndexReader
from shmcache.memory.lease import ignore_lease_signals
from shmcache.memory.names import Namespace
from shmcache.memory.segments import Mapping, map_segment
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_workers.compile_worker import CompileWorker
from tests.workers.gated_compiler import GUARD_SECONDS, compile_at_gate, source_of

START_GUARD_SECONDS = 60.0
"""For waits that no gate holds up, in which processes start on a machine that may be busy."""

COMPILER = "tests.workers.gated_compiler:compile_at_gate"
REPOSITORY = Path(__file__).resolve().parents[2]
VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])

_gates: list[Gate] = []
M = TypeVar("M", bound=wire.Message)


def key(name: str) -> bytes:
    """The key of a test's grammar."""
    return blake2b(name.encode(), digest_size=32).digest()


class Gate:
    """Where compiles stop. ``arrive`` waits for one to come; ``open`` lets it, and all that come later, through."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / f"gate-{len(_gates)}")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._listener.settimeout(GUARD_SECONDS)
        self._held: list[socket.socket] = []
        _gates.append(self)

    def arrive(self) -> int:
        """Waits until a compile is at the gate; the process it runs in."""
        try:
            held, _ = self._listener.accept()
        except TimeoutError:
            fail("no compile arrived at the gate")
        self._held.append(held)
        return int.from_bytes(held.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), sys.byteorder)

    def open(self) -> None:
        """Lets everybody through, now and later."""
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)
        while self._held:
            self._held.pop().close()


def fail(message: str) -> Any:
    """Opens all gates, then fails."""
    for gate in _gates:
        gate.open()
    raise AssertionError(message)


def pause(condition: Callable[[], bool], message: str, guard_seconds: float = GUARD_SECONDS) -> None:
    """Asks again and again until a condition that the manager brings about holds."""
    poller = select.poll()
    for _ in range(int(guard_seconds / 0.01)):
        if condition():
            return
        poller.poll(10)
    fail(message)


@dataclass
class Answer:
    """A reply, with the image mapped if there was one."""

    message: wire.Message
    mapping: Mapping | None = None

    @property
    def image(self) -> dict[str, Any]:
        """What the test compiler put into the image."""
        assert self.mapping is not None, self.message
        image: dict[str, Any] = json.loads(bytes(self.mapping.payload))
        return image

    @property
    def serial(self) -> int:
        return wire.expect(self.message, wire.Image).serial

    @property
    def code(self) -> str:
        return wire.expect(self.message, wire.Refused).code


class Asker:
    """A client of the manager that can have many requests under way."""

    def __init__(self, namespace: Namespace, *, role: str = "client", vocabulary: Vocabulary = VOCABULARY) -> None:
        self.namespace = namespace
        self._vocabulary = vocabulary
        self.channel = Channel.connect(namespace.socket_path, GUARD_SECONDS)
        self._request = 0
        self._answers: dict[int, Answer] = {}
        fingerprint = vocabulary.fingerprint
        self.welcome = self.ask(wire.Hello, wire.Welcome, wire.PROTOCOL_VERSION, role, os.getpid(), fingerprint)

    def start(self, name: str, **what: Any) -> int:
        """Asks for the compile of grammar ``name``; the request to wait for."""
        source = source_of(payload=name, **what)
        return self.start_source(name, source)

    def start_source(self, name: str, source: bytes, **limits: Any) -> int:
        vocabulary_key = self._vocabulary.fingerprint
        return self.send(wire.Compile, "grammar", key(name), vocabulary_key, source, **limits)

    def compile(self, name: str, **what: Any) -> Answer:
        """The compile of grammar ``name``, waited for."""
        return self.wait(self.start(name, **what))

    def await_workers(self, count: int) -> None:
        """Waits until so many workers are there and have nothing to do."""

        def are_there() -> bool:
            return [worker["state"] for worker in self.stats()["workers"]] == count * ["idle"]

        pause(are_there, "workers did not come up", START_GUARD_SECONDS)

    def give_vocabulary(self) -> Answer:
        """Has the vocabulary built."""
        fingerprint = self._vocabulary.fingerprint
        descriptor = os.memfd_create("vocabulary", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, self._vocabulary.to_bytes())
            request = self.send(
                wire.Compile, "vocabulary", fingerprint, fingerprint, b"", descriptors=1, passed=[descriptor]
            )
        finally:
            os.close(descriptor)
        return self.wait(request, START_GUARD_SECONDS)

    def send(self, kind: type[wire.Message], *fields: Any, passed: Sequence[int] = (), **named: Any) -> int:
        self._request += 1
        self.channel.send(kind(self._request, *fields, **named), passed)  # type: ignore[call-arg]
        return self._request

    def ask(self, kind: type[wire.Message], expected: type[M], *fields: Any) -> M:
        """A request and its reply."""
        return wire.expect(self.wait(self.send(kind, *fields)).message, expected)

    def wait(self, request: int, guard_seconds: float = GUARD_SECONDS) -> Answer:
        """The answer to a request; others that come meanwhile are kept."""
        while request not in self._answers:
            try:
                message, descriptors = self.channel.receive(guard_seconds)
            except TimeoutError:
                fail(f"request {request} was not answered")
            mapping = map_segment(descriptors[0]) if isinstance(message, wire.Image) else None
            for descriptor in descriptors:
                os.close(descriptor)
            self._answers[message.request] = Answer(message, mapping)  # type: ignore[attr-defined]
        return self._answers.pop(request)

    def is_answered(self, request: int) -> bool:
        """Whether the answer is there; everything the manager has sent so far is read."""
        self.stats()
        return request in self._answers

    def clear(self) -> int:
        return self.ask(wire.Clear, wire.Cleared).generation

    def stats(self) -> dict[str, Any]:
        return dict(self.ask(wire.Status, wire.StatusReply).stats)

    def look_up(self, name: str) -> Mapping | None:
        """What a reader finds in shared memory."""
        control = open_control_reader(self.namespace)
        index = IndexReader(control)
        entry = index.look_up(key(name))
        if entry is None:
            return None
        mapping = map_segment(self.namespace.data_name(control.instance, entry.serial))
        return mapping if index.is_unchanged(entry) else None

    def close(self) -> None:
        self.channel.close()


@dataclass
class ThreadWorker:
    """A worker that is a thread; ``pidfd`` becomes readable when it has ended."""

    number: int
    pid: int
    pidfd: int
    connection: Connection
    thread: threading.Thread


class ThreadSupervisor(Supervisor):
    """Workers as threads of this process: quick to start, and not to be killed while they compute."""

    def spawn(self, number: int) -> Any:
        ours, theirs = socket.socketpair()
        ended, ending = os.pipe2(os.O_CLOEXEC)

        def work() -> None:
            channel = Channel(theirs)
            try:
                CompileWorker(channel, self._namespace, compile_at_gate).run()
            except (ChannelClosed, wire.WireError):
                pass
            finally:
                channel.close()
                os.close(ending)

        thread = threading.Thread(target=work, name=f"worker {number}")
        thread.start()
        return ThreadWorker(number, 0, ended, Connection(ours), thread)

    def kill(self, worker: Any) -> None:
        worker.connection.socket.shutdown(socket.SHUT_RDWR)

    def bury(self, worker: Any) -> int:
        self.kill(worker)
        worker.thread.join(2 * GUARD_SECONDS)
        worker.connection.close()
        os.close(worker.pidfd)
        return 0


@dataclass
class Live:
    """A manager that serves, whatever it is made of."""

    namespace: Namespace
    pid: int = 0
    askers: list[Asker] = field(default_factory=list)
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def asker(self, **options: Any) -> Asker:
        asker = Asker(self.namespace, **options)
        self.askers.append(asker)
        return asker

    def gate(self) -> Gate:
        return Gate(Path(self.folder.name))

    def control(self) -> ControlReader:
        return open_control_reader(self.namespace)

    def findings(self) -> list[Finding]:
        """What is wrong with the namespace, when it is at rest."""
        control = self.control()
        return check(control, IndexReader(control), self.namespace.prefix)


@contextmanager
def manager_thread(name: str, policy: Policy | None = None) -> Iterator[Live]:
    """A manager in a thread, with threads for workers; nothing is left of it afterwards."""
    ignore_lease_signals()
    policy = replace(Policy() if policy is None else policy, workers_ready=2)
    namespace = Namespace.of(name)
    lock = ManagerLock(namespace)
    assert lock.acquire()
    server = Server(recover(namespace, policy.limit_bytes), policy, ThreadSupervisor(namespace))
    server.listen()
    thread = threading.Thread(target=server.run, name="manager")
    thread.start()
    live = Live(namespace)
    try:
        yield live
    finally:
        _leave(live)
        server.stop()
        thread.join(2 * GUARD_SECONDS)
        server.close(remove=True)
        lock.release(remove=True)
    assert not thread.is_alive(), "the manager's thread hangs"


@contextmanager
def manager_process(name: str, *options: str, expected_exit: int | None = 0) -> Iterator[Live]:
    """A manager that is a process, with worker processes; whatever it leaves is the namespace fixture's to remove."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    command = [sys.executable, "-P", "-m", "shmcache.manager", "--namespace", name, "--ready-fd", str(write_end)]
    command += ["--ready-workers", "2"]
    compiler = () if "--compiler" in options else ("--compiler", COMPILER)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen([*command, *compiler, *options], pass_fds=[write_end], env=environment)
    os.close(write_end)
    live = Live(Namespace.of(name), pid=process.pid)
    try:
        with open(read_end, "rb", buffering=0) as ready:
            assert ready.read(16) == b"ready\n", "the manager did not start"
        yield live
    finally:
        _leave(live)
        process.terminate()
        try:
            code = process.wait(2 * GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    assert expected_exit is None or code == expected_exit


def _leave(live: Live) -> None:
    for gate in _gates:
        gate.open()
    _gates.clear()
    for asker in live.askers:
        asker.close()
    live.folder.cleanup()
