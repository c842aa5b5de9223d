"""One seed, one run: a manager, workers and clients interleaved in any order, with faults, and then without.

Owns the choice of what happens next and what must hold after every step. In the first half anything may die, be lost,
said twice or come late (safety); then faults stop, and everybody must get an answer and every byte must come back
(liveness). ``python -m tests.simulation --help`` runs more seeds than the test does, and replays one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from shmcache.memory.account import sum_totals
from shmcache.memory.check import limited_bytes
from shmcache.memory.index import IndexReader, fingerprint_of
from shmcache.memory.layout import SlotState
from shmcache.memory.names import parse_data_name
from tests.simulation.clients import KEYS, SimClient
from tests.simulation.files import FakeMapping
from tests.simulation.host import NAMESPACE, Host
from tests.simulation.workers import PAGE, Faults

UNLIMITED = -1
LIMIT_BYTES = 9 * PAGE
FAULTY_STEPS = 150
QUIET_STEPS_MAX = 6000
CLIENTS = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was made of."""

    steps: int
    hits: int
    manager_deaths: int
    generations: int


class Simulation:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.faults = Faults(self.rng)
        self.limit_bytes = self.rng.choice([UNLIMITED, LIMIT_BYTES])
        self.host = Host(self.rng, self.faults, self.limit_bytes)
        self.clients: list[SimClient] = []
        self._client_last = 0
        self._mapping_for: SimClient | None = None
        self._hits = 0
        self._steps = 0
        self._turns_checked = 0
        self.cleared = 1
        """The generation of the last clear that was answered, whoever asked for it."""
        self.seen = (0, 0, 0)
        self.lost: set[int] = set()
        self.trace: list[str] | None = None

    def run(self) -> Report:
        """Faults, then none. AssertionError when anything that must hold does not."""
        host = self.host
        with host.installed(self.map_segment):
            for _ in range(CLIENTS):
                self.new_client()
            host.start()
            if self.rng.random() < 0.8:
                self.begin_calmly()
            for _ in range(FAULTY_STEPS):
                self.step()
                self.check()
            self.faults.are_on = False
            host.files.is_full = False
            self.finish()
        return Report(self._steps, self._hits, host.deaths, host.control.generation)

    def begin_calmly(self) -> None:
        """Most runs have something in the cache when the faults begin."""
        self.faults.are_on = False
        self.quieten()
        for client, key in zip(self.clients, KEYS, strict=False):
            client.compile(key, self.cleared)
        self.quieten()
        self.faults.are_on = True

    # --- what happens ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One thing happens."""
        self._steps += 1
        chance = self.rng.random()
        if chance < 0.02:
            self.misfortune()
        elif self.host.server is None:
            if chance < 0.3:
                self.note("a manager starts")
                self.host.start()
            else:
                self.any_client_acts()
        elif chance < 0.35:
            self.any_client_acts()
        elif chance < 0.40:
            self.time_passes(self.rng.choice([0.01, 0.3, 3.0, 40.0]))
        else:
            self.go_on()

    def go_on(self) -> bool:
        """A worker or the manager goes on with what waits for it; False when nothing does."""
        host = self.host
        choices: list[tuple[str, int]] = [
            ("worker", place) for place, worker in enumerate(host.workers) if worker.can_go_on
        ]
        choices += [("orphan", place) for place, _ in enumerate(host.orphans)]
        if host.server is not None:
            choices += [("line", line.number) for line, _ in host.lines.values() if line.has_input]
            workers = [worker.connection for worker in host.workers]
            choices += [("line", line.number) for line in workers if line.to_manager]
            choices += [("end", worker.pidfd) for worker in host.workers if worker.is_dead]
        if not choices:
            return False
        kind, number = self.rng.choice(choices)
        self.note(f"{kind} {number}")
        if kind == "worker":
            host.workers[number].go_on()
        elif kind == "orphan":
            orphan = host.orphans.pop(number)
            if orphan.can_go_on:
                orphan.go_on()
            orphan.die()
        else:
            host.turn(number)
            self.forget_lines()
        return True

    def forget_lines(self) -> None:
        """Connections that the manager has closed are lost to their clients."""
        for number, (line, client) in list(self.host.lines.items()):
            if line.is_closed:
                del self.host.lines[number]
                line.drop()
                client.lose_line()

    def any_client_acts(self) -> None:
        """A client reads an answer, looks up, or asks for something."""
        client, rng = self.rng.choice(self.clients), self.rng
        if client.line is None:
            if self.host.server is not None and rng.random() < 0.7:
                self.note(f"{client.owner} connects")
                self.host.connect(client)
            else:
                self.look_up(client, rng.choice(KEYS))
            return
        if client.line.to_peer and rng.random() < 0.7:
            self.hear(client)
            return
        chance, key = rng.random(), rng.choice(KEYS)
        if client.wanted and chance < 0.5 and not client.waits_for_vocabulary:
            key = client.wanted.pop()
        if chance < 0.7:
            self.note(f"{client.owner} asks for {key[-1]}")
            # The manager may have died while the client looked.
            if not self.look_up(client, key) and client.line is not None:
                client.compile(key, self.cleared)
        elif chance < 0.78:
            client.cancel()
        elif chance < 0.84:
            self.note(f"{client.owner} clears")
            client.clear(self.cleared)
        elif chance < 0.90:
            client.fetch(key, self.cleared)
        elif chance < 0.93:
            client.evict(key, self.cleared)
        else:
            client.let_go()

    def hear(self, client: SimClient) -> None:
        message = client.hear()
        self.note(f"{client.owner} hears {type(message).__name__}")
        # Had the clear returned in this client, a look-up of any other would now have to see it.
        self.cleared = max(self.cleared, client.cleared)

    def look_up(self, client: SimClient, key: bytes) -> bool:
        """The real look-up; the manager goes on while it is under way."""
        if self._mapping_for is not None:
            return False
        if self.faults.happen(0.2):
            client.let_go()
        self._mapping_for = client
        try:
            is_hit = client.look_up(key, self.cleared)
        finally:
            self._mapping_for = None
        self._hits += is_hit
        return is_hit

    def map_segment(self, name: str) -> FakeMapping:
        """What the reader calls to map a segment: something else may happen before it and after it."""
        client, files = self._mapping_for, self.host.files
        assert client is not None
        self.meanwhile()
        descriptor = files.open_for(client.owner, name)
        self.meanwhile()
        file = files.file_of(descriptor)
        return FakeMapping(file.header, file, file.charged_bytes)

    def meanwhile(self) -> None:
        """Up to four things happen to everybody else, perhaps a clear or an eviction first."""
        if not self.faults.happen(0.4):
            return
        other, rng = self.rng.choice(self.clients), self.rng
        if other.line is not None and rng.random() < 0.3:
            if rng.random() < 0.5:
                other.clear(self.cleared)
            else:
                other.evict(rng.choice(KEYS), self.cleared)
            while other.line is not None and other.line.to_manager and self.host.server is not None:
                self.host.turn(other.line.number)
        for _ in range(rng.randrange(1, 5)):
            self.go_on()

    def time_passes(self, seconds: float) -> None:
        # The kernel ends workers with their manager: none of them is seen a second later.
        while seconds > 0.5 and self.host.orphans:
            self.host.orphans.pop().die()
        self.host.now += seconds
        if self.host.server is not None:
            self.host.turn()
            self.forget_lines()

    def new_client(self) -> SimClient:
        self._client_last += 1
        client = SimClient(self._client_last, self.host.files, NAMESPACE, self.host.control, self.rng)
        self.clients.append(client)
        return client

    def misfortune(self) -> None:
        """Something dies, is lost, or is full."""
        host, rng = self.host, self.rng
        kind = rng.choice(["manager", "worker", "worker", "client", "full", "file"])
        self.note(f"misfortune of {kind}")
        if kind == "manager" and host.server is not None:
            host.kill()
        elif kind == "worker" and host.workers:
            worker = rng.choice(host.workers)
            if not worker.is_dead:
                worker.die()
        elif kind == "client":
            client = rng.choice(self.clients)
            self.clients.remove(client)
            host.disconnect(client)
            self.new_client()
        elif kind == "full":
            host.files.is_full = not host.files.is_full
        elif kind == "file" and rng.random() < 0.3 and host.files.names:
            name = rng.choice(sorted(host.files.names))
            parsed = parse_data_name(name)
            assert parsed is not None
            host.files.unlink_object(name)
            self.lost.add(parsed.serial)

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self._steps}: {text}")

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of DESIGN.md §10, at rest: after every step in which the manager did anything."""
        host = self.host
        if host.turns == self._turns_checked:
            return
        self._turns_checked = host.turns
        control = host.control
        seen = (control.generation, control.manager().epoch, control.serial_last)
        assert all(new >= old for new, old in zip(seen, self.seen, strict=True)), "something went back"
        self.seen = seen
        if host.server is None:
            return
        core, index = host.server.core, host.server.shelf.index
        core.check()
        connected = {client.number for client in host.server.clients.all()}
        assert core._clients.keys() <= connected, "the core remembers a client that is gone"
        entries, totals = index.entries(), index.totals
        assert totals == sum_totals(entries, control.generation) == control.totals(), "the totals are not the sum"
        account = core.entries.account()
        assert account.charged_bytes == totals.charged_bytes, "core and index differ"
        assert (account.filling_bytes, account.retired_bytes) == (totals.filling_bytes, totals.retired_bytes)
        if self.limit_bytes != UNLIMITED:
            assert limited_bytes(entries) <= self.limit_bytes, "over the limit"
        ready = [entry.key for entry in entries if entry.state is SlotState.READY and entry.is_valid_in(seen[0])]
        assert len(ready) == len(set(ready)), "a key is READY twice"
        self.check_files()

    def check_files(self) -> None:
        """Every file has its slot and every READY slot its file, of the key and the lease that the slot says."""
        host = self.host
        assert host.server is not None
        slots = {entry.serial: entry for entry in host.server.shelf.index.entries()}
        if not host.orphans:
            strays = host.files.serials().keys() - slots.keys()
            assert not strays or host.server._timers.sweep != float("inf"), f"files without a slot: {strays}"
        for entry in slots.values():
            file = host.files.names.get(NAMESPACE.data_name(host.control.instance, entry.serial))
            if entry.state is not SlotState.READY or entry.serial in self.lost:
                continue
            assert file is not None, "a READY slot without its file"
            assert file.header.key == entry.key, "a file of another key"
            assert file.charged_bytes == entry.charged_bytes, "a charge that is not the file's"
            assert file.made_in == entry.generation, "an older compile is READY in a newer generation"

    def check_shared(self) -> None:
        """What a reader finds in shared memory is what the writer believes to have written."""
        assert self.host.server is not None
        index, fresh = self.host.server.shelf.index, IndexReader(self.host.control)
        assert sorted(fresh.read_all(), key=lambda entry: entry.slot) == sorted(
            index.entries(), key=lambda entry: entry.slot
        )
        for slot in range(fresh.slot_count):
            entry = index.entry(slot)
            wanted = fingerprint_of(entry.key) if entry is not None and entry.state is SlotState.READY else 0
            assert not fresh.is_damaged(slot)
            assert fresh.fingerprint(slot) == wanted

    # --- the end of faults -------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everybody gets an answer to everything, also to one more request for every key; then all lets go."""
        self.quieten()
        for key in KEYS:
            self.clients[0].compile(key, self.cleared)
            self.quieten()
        for client in self.clients:
            self.look_up(client, self.rng.choice(KEYS))
        for client in self.clients:
            assert not client.wanted, "a request was forgotten"
            client.let_go()
        self.chores_are_done()
        self.quieten()
        if not self.host.files.leases_work:
            self.everybody_leaves()
        self.chores_are_done()
        self.nothing_is_left()

    def chores_are_done(self) -> None:
        """Time for every entry to be retired and probed, of which a turn does a few."""
        assert self.host.server is not None
        for _ in range(2 * len(self.host.server.core.entries) + 2):
            self.time_passes(60.0)

    def quieten(self) -> None:
        """Lets everything happen that waits to happen."""
        host = self.host
        for _ in range(QUIET_STEPS_MAX):
            self._steps += 1
            if host.server is None:
                host.start()
            for client in self.clients:
                if client.line is None:
                    host.connect(client)
                while client.line is not None and client.line.to_peer:
                    self.hear(client)
                while client.line is not None and client.wanted and self.has_room(client):
                    client.compile(client.wanted.pop(), self.cleared)
            if self.go_on():
                continue
            assert host.server is not None
            if all(not client.outstanding and not client.wanted for client in self.clients):
                if host.server.core.entries.has_backlog:
                    self.time_passes(0.01)
                    continue
                self.check()
                return
            deadline = host.server.core.next_deadline()
            assert deadline is not None, f"nothing will ever happen, and {self.who_waits()}"
            self.time_passes(max(0.01, deadline - host.now))
        raise AssertionError(f"this does not end: {self.who_waits()}")

    def has_room(self, client: SimClient) -> bool:
        room = self.host.policy.waiting_per_client_max - 1
        return len(client.outstanding) < room and not client.waits_for_vocabulary

    def who_waits(self) -> str:
        return "; ".join(f"{client.owner} waits for {client.outstanding}" for client in self.clients)

    def everybody_leaves(self) -> None:
        """Where the kernel cannot tell who maps a file, retired bytes come back when all who were there are gone."""
        for client in list(self.clients):
            self.clients.remove(client)
            self.host.disconnect(client)
        for worker in list(self.host.workers):
            worker.die()
        while self.go_on():
            pass

    def nothing_is_left(self) -> None:
        """The account equals the files to the byte; nothing is retired, promised, or open."""
        host = self.host
        assert host.server is not None
        self.check()
        self.check_shared()
        totals = host.control.totals()
        assert totals.retired_bytes == 0, f"{totals.retired_bytes} bytes are retired, and nobody maps anything"
        assert totals.filling_bytes == 0, "room is promised, and nobody fills it"
        serials = {entry.serial for entry in host.server.shelf.index.entries()}
        files = {name: file for name, file in host.files.names.items() if not name.endswith(".new")}
        assert len(files) == len(host.files.names), "an unfinished file is left"
        gone = sum(entry.charged_bytes for entry in host.server.shelf.index.entries() if entry.serial in self.lost)
        assert totals.all_bytes == sum(file.charged_bytes for file in files.values()) + gone
        assert not serials - self.lost - host.files.serials().keys()
        assert not host.files.owned("manager"), "the manager left descriptors open"


@contextmanager
def naming(seed: int) -> Iterator[None]:
    """Puts the seed, and how to replay it, on whatever goes wrong."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay with: python -m tests.simulation --simulation-seed {seed} --trace")
        raise


def run_seed(seed: int) -> Report:
    """Runs one seed."""
    with naming(seed):
        return Simulation(seed).run()
