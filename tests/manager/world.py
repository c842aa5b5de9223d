"""A world for the pure core: performs its effects on plain dictionaries, and keeps what clients and workers were told.

No process, socket, file or clock; a test decides every step. Slots and files are kept apart from the core's own
tables, so that the two can be compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.core import ManagerCore, Restored
from shmcache.manager.policy import Limits, Policy
from shmcache.memory.layout import EVICTION_REASONS, SlotState, Tier

PAGE = 4096
VOCABULARY = b"V" * 32


def key(number: int) -> bytes:
    """A key."""
    return number.to_bytes(32, "big")


@dataclass
class Slot:
    """A slot as the control segment would hold it."""

    tier: Tier
    key: bytes
    generation: int
    state: SlotState
    charged_bytes: int


@dataclass
class Told:
    """What one request was answered."""

    effect: Any

    @property
    def image(self) -> Any:
        assert isinstance(self.effect, fx.SendImage), self.effect
        return self.effect.image

    @property
    def code(self) -> str:
        assert isinstance(self.effect, fx.SendRefusal), self.effect
        return str(self.effect.error["code"])


@dataclass
class World:
    """Drives one core. ``mapped``: serials that some reader maps; ``probe`` None: this kernel has no leases."""

    policy: Policy = field(default_factory=Policy)
    restored: Restored | None = None
    warm: bool = True

    def __post_init__(self) -> None:
        self.core = ManagerCore(self.policy, self.restored)
        self.now = 0.0
        self.generation = self.core.entries.generation
        self.slots: dict[int, Slot] = {}
        for entry in (self.restored or Restored()).entries:
            state, charged = entry.state, entry.charged_bytes
            self.slots[entry.serial] = Slot(entry.tier, entry.key, entry.generation, state, charged)
        self.serials: set[int] = set(self.slots)
        self.mapped: set[int] = set()
        self.leases_work = True
        self.told: dict[tuple[int, int], Told] = {}
        self.jobs: dict[int, fx.SendJob] = {}
        self.cancelled: set[int] = set()
        self.killed: dict[int, Any] = {}
        self.spawned: list[int] = []
        self.allocated: dict[tuple[int, int], fx.SendAllocated] = {}
        self.committed: dict[tuple[int, int], str] = {}
        self.dropped: list[Any] = []
        self.lost: set[int] = set()
        self.counts: Counter[str] = Counter()
        self._requests = 0
        self.step(ev.Began())

    # --- driving -----------------------------------------------------------------------------------------------------

    def step(self, event: ev.Event) -> None:
        """One event, and all that follows from it at once."""
        pending: list[ev.Event] = [event]
        while pending:
            following = pending.pop(0)
            for effect in self.core.step(following, self.now):
                pending += self._perform(effect)
            self.check()

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    def join(self, *clients: int) -> None:
        for client in clients:
            self.step(ev.ClientJoined(client))

    def ask(self, client: int, number: int, limits: Limits | None = None, *, kind: Tier = Tier.GRAMMAR) -> int:
        """A client asks for key ``number``; returns the request."""
        request = self.next_request()
        wanted = VOCABULARY if kind is Tier.VOCABULARY else key(number)
        source = ("source", client, request)
        self.step(ev.CompileAsked(client, request, kind, wanted, VOCABULARY, source, limits or Limits()))
        return request

    def clear(self, client: int) -> int:
        """Clears; returns the new generation."""
        request = self.next_request()
        self.step(ev.ClearAsked(client, request))
        cleared = self.told[client, request].effect
        assert isinstance(cleared, fx.SendCleared)
        return cleared.generation

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.step(ev.Tick())

    def drain(self) -> None:
        """Lets all retirements happen, and probes what is left."""
        while self.core.entries.has_backlog:
            self.step(ev.Tick())
        for entry in self.core.entries.zombies():
            self.step(ev.Probed(entry.serial, self._probe(entry.serial)))

    # --- being a worker ----------------------------------------------------------------------------------------------

    def start_workers(self) -> None:
        """Every worker that was spawned reports for duty."""
        for worker in [number for number in self.spawned if self.core.workers.get(number)]:
            self.step(ev.WorkerReported(worker, is_warm=self.warm))

    def with_vocabulary(self, client: int) -> World:
        """Has the vocabulary built, so that grammars can be asked for."""
        self.join(client)
        request = self.ask(client, 0, kind=Tier.VOCABULARY)
        self.start_workers()
        self.finish(VOCABULARY, payload="vocabulary")
        assert self.told[client, request].image == "vocabulary"
        return self

    def job_of(self, wanted: bytes) -> fx.SendJob:
        """The job that a worker has for that key; the newest one."""
        found = [job for job in self.jobs.values() if job.key == wanted]
        assert found, "no worker has it"
        return max(found, key=lambda job: job.job)

    def alloc(
        self,
        job: fx.SendJob,
        segment_bytes: int = PAGE,
        *,
        tier: Tier | None = None,
        wanted: bytes | None = None,
        reclaim_bytes: int = 0,
    ) -> fx.SendAllocated:
        """The worker of ``job`` asks for room."""
        request = self.next_request()
        tier = job.tier if tier is None else tier
        asked = ev.AllocAsked(job.worker, request, job.job, tier, wanted or job.key, segment_bytes, reclaim_bytes)
        if self.core.store.needs_use(asked):
            self.step(ev.UseSeen({}, frozenset(self.mapped)))
        self.step(asked)
        return self.allocated[job.worker, request]

    def commit(
        self,
        job: fx.SendJob,
        serial: int,
        *,
        payload: Any = "image",
        charged_bytes: int = PAGE,
        tier: Tier | None = None,
        wanted: bytes | None = None,
        cost_us: int = 1000,
        is_sound: bool = True,
    ) -> str:
        """The worker of ``job`` commits."""
        request = self.next_request()
        tier = job.tier if tier is None else tier
        self.step(
            ev.CommitAsked(
                job.worker,
                request,
                job.job,
                tier,
                wanted or job.key,
                serial,
                100,
                charged_bytes,
                cost_us,
                payload,
                is_sound,
            )
        )
        return self.committed[job.worker, request]

    def finish(self, wanted: bytes, *, payload: Any = "image", segment_bytes: int = PAGE) -> str:
        """Runs the job of that key to its end; returns the commit's outcome."""
        job = self.job_of(wanted)
        allocated = self.alloc(job, segment_bytes)
        outcome = self.commit(job, allocated.serial, payload=payload, charged_bytes=segment_bytes)
        self.done(job)
        return outcome

    def fail(self, wanted: bytes, error: Any) -> None:
        """The job of that key ends with an error."""
        job = self.job_of(wanted)
        self.step(ev.JobFailed(job.worker, job.job, error))
        self.done(job)

    def done(self, job: fx.SendJob) -> None:
        del self.jobs[job.job]
        self.step(ev.JobDone(job.worker, job.job))

    def die(self, worker: int) -> None:
        """A worker's process ends."""
        self.jobs = {number: job for number, job in self.jobs.items() if job.worker != worker}
        self.step(ev.WorkerGone(worker))

    # --- looking -----------------------------------------------------------------------------------------------------

    def look_up(self, wanted: bytes, tier: Tier = Tier.GRAMMAR) -> int | None:
        """What a reader finds: the serial of the valid READY slot."""
        for serial, slot in self.slots.items():
            is_valid = slot.tier is Tier.VOCABULARY or slot.generation == self.generation
            if slot.state is SlotState.READY and is_valid and (slot.tier, slot.key) == (tier, wanted):
                return serial
        return None

    def charged(self, *tiers: Tier) -> int:
        """Charged bytes, as a sum over slots: grammar and rule tiers unless named."""
        tiers = tiers or (Tier.GRAMMAR, Tier.RULE)
        return sum(
            slot.charged_bytes
            for slot in self.slots.values()
            if slot.state is SlotState.READY
            and slot.tier in tiers
            and (slot.tier is Tier.VOCABULARY or slot.generation == self.generation)
        )

    def check(self) -> None:
        """The core agrees with itself and with the slots."""
        self.core.check()
        account = self.core.entries.account()
        assert account.charged_bytes[Tier.GRAMMAR] == self.charged(Tier.GRAMMAR)
        assert account.charged_bytes[Tier.RULE] == self.charged(Tier.RULE)
        assert account.charged_bytes[Tier.VOCABULARY] == self.charged(Tier.VOCABULARY)
        assert self.core.entries.generation == self.generation
        assert {serial: slot.state for serial, slot in self.slots.items()} == {
            serial: entry.state for serial in self.slots if (entry := self.core.entries.get(serial)) is not None
        }
        assert len(self.slots) == len(self.core.entries)

    # --- performing --------------------------------------------------------------------------------------------------

    def _probe(self, serial: int) -> bool | None:
        return serial not in self.mapped if self.leases_work else None

    def _perform(self, effect: fx.Effect) -> list[ev.Event]:
        match effect:
            case fx.OpenGeneration(generation):
                assert generation == self.generation + 1
                self.generation = generation
            case fx.PlaceSlot(serial, tier, wanted, generation, segment_bytes, _):
                assert serial not in self.serials, "a serial came back"
                self.serials.add(serial)
                self.slots[serial] = Slot(tier, wanted, generation, SlotState.FILLING, segment_bytes)
            case fx.PublishSlot(serial, charged_bytes, _, _):
                slot = self.slots[serial]
                assert slot.state is SlotState.FILLING
                assert slot.tier is Tier.VOCABULARY or slot.generation == self.generation, "the fence is broken"
                self.slots[serial] = replace(slot, state=SlotState.READY, charged_bytes=charged_bytes)
            case fx.RetireSlot(serial):
                assert self.slots[serial].state is not SlotState.FREE
                self.slots[serial] = replace(self.slots[serial], state=SlotState.ZOMBIE)
                return [ev.Probed(serial, self._probe(serial))]
            case fx.FreeSlot(serial):
                assert self.slots.pop(serial).state is SlotState.ZOMBIE
            case fx.SendEntry(serial, _, _, asked):
                if serial in self.lost:
                    return [ev.EntryLost(serial, asked)]
                assert self.slots[serial].state is SlotState.READY
                self._tell(asked.client, asked.request, effect)
                if isinstance(asked, ev.CompileAsked):
                    self.dropped.append(asked.source)
            case fx.DropSource(source):
                assert source not in self.dropped, "a source was dropped twice"
                self.dropped.append(source)
            case fx.SpawnWorker(worker):
                self.spawned.append(worker)
            case fx.KillWorker(worker, reason):
                self.killed[worker] = reason
            case fx.SendWarmUp(worker):
                return [ev.WorkerReported(worker, is_warm=True)]
            case fx.SendJob():
                assert effect.source not in self.dropped, "a job without its source"
                self.jobs[effect.job] = effect
            case fx.SendCancel(_, job):
                self.cancelled.add(job)
            case fx.SendAllocated(worker, request, _, _):
                self.allocated[worker, request] = effect
            case fx.SendCommitted(worker, request, outcome):
                self.committed[worker, request] = outcome
            case fx.Count(counter, change):
                self.counts[counter] += change
            case fx.CompileEnded(tier):
                self.counts[effect.outcome] += tier is Tier.GRAMMAR
            case fx.EntryEvicted(_, _, _, reason):
                assert reason in EVICTION_REASONS
                self.counts["evictions"] += 1
            case _:
                self._tell(effect.client, effect.request, effect)
        return []

    def _tell(self, client: int, request: int, effect: Any) -> None:
        assert (client, request) not in self.told, "one request was answered twice"
        self.told[client, request] = Told(effect)
