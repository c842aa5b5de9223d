"""The manager of the simulation: the real loop, core, shelf and recovery over simulated files, lines and processes.

Owns what stands in for the operating system, and the death of the manager at any store or effect. Must never decide
what happens next, nor change what the real code does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from shmcache.manager import client_side, descriptors, peers, recovery, server, shelf, worker_side
from shmcache.manager.effects import SpawnWorker
from shmcache.manager.peers import Client
from shmcache.manager.policy import Policy
from shmcache.memory import layout, reader, steps
from shmcache.memory.control import ControlReader, ControlWriter, control_image
from shmcache.memory.layout import ManagerState
from shmcache.memory.names import Namespace
from shmcache.memory.recency import Recency
from shmcache.memory.words import words_of
from tests.simulation.clients import SimClient
from tests.simulation.files import MANAGER, FakeMapping, Files
from tests.simulation.lines import FakeSelector, Line
from tests.simulation.workers import Faults, SimWorker

HOME_COUNT = 4
ROW_COUNT = 8
NAMESPACE = Namespace("simulation", os.geteuid(), "/shmc-0123456789", Path("/nonexistent"))
PIPE = (-3_000_000, -3_000_001)

Hook = Callable[[], None]


class ManagerKilledError(BaseException):
    """``kill -9`` of the manager. No code of it catches this."""


class DyingServer(server.Server):
    """The real loop, with a place to die before and after each effect."""

    strike: Hook = staticmethod(lambda: None)  # type: ignore[assignment]

    def _perform(self, effect: Any) -> Any:
        self.strike()
        if isinstance(effect, SpawnWorker):
            return super()._perform(effect)
        follows = super()._perform(effect)
        self.strike()
        return follows


class Supervisor:
    """Starts simulated workers."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def spawn(self, number: int) -> SimWorker:
        if self._host.faults.happen(0.05):
            raise OSError("no process to be had")
        return self._host.new_worker(number)

    def kill(self, worker: SimWorker) -> None:
        if not worker.is_dead:
            worker.die()

    def bury(self, worker: SimWorker) -> int:
        self.kill(worker)
        worker.connection.close()
        self._host.workers.remove(worker)
        return -9


class Host:
    """One machine: its shared memory, perhaps a manager, and the manager's workers."""

    def __init__(self, rng: Random, faults: Faults, limit_bytes: int) -> None:
        self.rng = rng
        self.faults = faults
        self.files = Files(leases_work=rng.random() < 0.85)
        self.image = control_image(home_count=HOME_COUNT, row_count=ROW_COUNT)
        self.control = ControlReader(self.image)
        self.now = 0.0
        self.policy = Policy(
            limit_bytes=limit_bytes,
            workers_max=2,
            entries_max=12,
            waiting_per_client_max=3,
            refusals_max=4,
            retire_batch=2,
        )
        self.server: DyingServer | None = None
        self.workers: list[SimWorker] = []
        self.orphans: list[SimWorker] = []
        self.lines: dict[int, tuple[Line, SimClient]] = {}
        self._recency = bytearray(layout.recency_size_bytes(HOME_COUNT, ROW_COUNT))
        words = words_of(self._recency)
        words[0], words[1], words[2] = layout.RECENCY_MAGIC, layout.CONTROL_LAYOUT_VERSION, self.control.instance
        words[3], words[4] = self.control.slot_count, ROW_COUNT
        self._numbers = 0
        self.deaths = 0
        self.turns = 0

    @property
    def selector(self) -> FakeSelector:
        assert self.server is not None
        selector: Any = self.server._selector
        return selector

    # --- the manager's life ------------------------------------------------------------------------------------------

    def strike(self) -> None:
        """A moment at which the manager may be killed."""
        if self.faults.happen(0.003):
            raise ManagerKilledError

    def start(self) -> None:
        """A manager starts: recovery, and from then on it serves. It may be killed on the way."""
        assert self.server is None
        self.turns += 1
        try:
            recovered = recovery.recover(NAMESPACE, self.policy.limit_bytes)
            supervisor: Any = Supervisor(self)
            DyingServer.strike = self.strike  # type: ignore[assignment]
            self.server = DyingServer(recovered, self.policy, supervisor, clock=lambda: self.now)
            recovered.shelf.control.set_state(ManagerState.SERVING)
        except ManagerKilledError:
            self.kill()

    def kill(self) -> None:
        """The manager's process ends; its workers follow, each of them perhaps only after its next step."""
        self.deaths += 1
        self.server = None
        self.files.close_owner(MANAGER)
        for line, client in self.lines.values():
            line.close()
            client.lose_line()
            line.drop()
        self.lines.clear()
        for worker in self.workers:
            worker.connection.close()
            if worker.is_dead or not worker.can_go_on or self.rng.random() < 0.5:
                worker.die()
            else:
                self.orphans.append(worker)
        self.workers.clear()

    def turn(self, *ready: int) -> None:
        """One turn of the manager's loop, in which these descriptors are ready."""
        assert self.server is not None
        self.turns += 1
        for number in ready:
            if number in self.selector.map:
                self.selector.tell(number)
        try:
            self.server._turn()
        except ManagerKilledError:
            self.kill()

    # --- peers -------------------------------------------------------------------------------------------------------

    def connect(self, client: SimClient) -> None:
        """A client's connection is accepted."""
        assert self.server is not None
        line = self._new_line(client.owner)
        endpoint: Any = line
        clients = self.server.clients
        clients._number_last += 1
        admitted = Client(clients._number_last, endpoint, client.pid, client.pidfd)
        clients._clients[admitted.number] = admitted
        self.selector.register(line, 1, ("client", admitted.number))
        self.selector.register(client.pidfd, 1, ("client process", admitted.number))
        self.lines[client.number] = line, client
        client.connect(line)

    def disconnect(self, client: SimClient) -> None:
        """A client's process ends, with or without a manager to notice."""
        client.let_go()
        if client.line is not None:
            client.line.hang_up()

    def new_worker(self, number: int) -> SimWorker:
        line = self._new_line(f"worker {number} of {self.deaths}")
        data_name = NAMESPACE.data_name
        worker = SimWorker(number, line, self.files, self.faults, self.rng, data_name)
        worker.pidfd = -10_000_000 - line.number
        self.workers.append(worker)
        return worker

    def _new_line(self, peer: str) -> Line:
        self._numbers += 1
        return Line(1_000_000 + self._numbers, peer, self.files)

    # --- what stands in for the operating system ---------------------------------------------------------------------

    def store(self, words: memoryview, position: int, value: int) -> None:
        """A store into shared memory; the manager may be killed before it."""
        if self.faults.happen(0.0002):
            raise ManagerKilledError
        words[position] = value

    def open_recency(self, *_: Any) -> Recency:
        return Recency(self._recency, self.control)

    def open_control(self, *_: Any) -> ControlWriter:
        return ControlWriter(self.image)

    def open_plain(self, *_: Any) -> int:
        return self.files.open_anonymous(MANAGER, None)

    @contextmanager
    def installed(self, map_segment: Callable[[str], FakeMapping]) -> Iterator[None]:
        """While this lasts, the manager's modules and the reader work on this machine."""
        files = self.files
        closing = SimpleNamespace(close=files.close, pidfd_open=None, getpid=os.getpid)
        fake_os = SimpleNamespace(pipe2=lambda _: PIPE, O_CLOEXEC=0, O_NONBLOCK=0, close=lambda _: None)
        of_shelf = {name: getattr(files, name) for name in ("open_segment", "read_header", "unlink_segment")}
        of_shelf |= {"charged_bytes": files.charged_bytes, "is_unused": files.is_unused, "os": closing}
        of_recovery = {name: getattr(files, name) for name in ("list_segments", "read_header", "unlink_segment")}
        of_recovery |= {
            "unlink_object": files.unlink_object,
            "_open_control": self.open_control,
            "_open_recency": self.open_recency,
            "leases_work": lambda _: files.leases_work,
            "process_start_ticks": lambda: 1,
        }
        of_clients = {"open_control_descriptor": self.open_plain, "open_recency_descriptor": self.open_plain}
        of_clients |= {"close_all": files.close_all, "os": closing}
        fake_selectors = SimpleNamespace(DefaultSelector=FakeSelector, EVENT_READ=1, EVENT_WRITE=2)
        with ExitStack() as stack:
            for module, names in (
                (shelf, of_shelf),
                (recovery, of_recovery),
                (client_side, of_clients),
                (worker_side, {"read_header": files.read_header, "close_all": files.close_all}),
                (descriptors, {"os": closing}),
                (peers, {"os": SimpleNamespace(close=lambda _: None)}),
                (server, {"selectors": fake_selectors, "os": fake_os}),
                (reader, {"map_segment": map_segment}),
                (steps, {"store": self.store}),
            ):
                stack.enter_context(patch.multiple(module, **names))
            yield
