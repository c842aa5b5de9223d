"""The manager's decisions, as a pure state machine: an event and the time in, a list of effects out.

Owns single flight, whose compile goes to which worker, what waiters are told, and what becomes of a dead client or
worker; the entries' own rules are the store's. Must never know clocks, sockets, files, processes, or randomness.

Effects are to be carried out in their order, before the next event. :meth:`ManagerCore.step` never fails and never
waits: it is what production, the simulator and the property tests drive alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shmcache.errors import LimitError, ManagerUnavailable, ShmCacheError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.compiles import Compile, Compiles, Waiter
from shmcache.manager.entries import ANY_GENERATION, Entries, Entry
from shmcache.manager.outcomes import VOCABULARY_MISSING, Outcomes, plain_error
from shmcache.manager.policy import KillReason, Policy
from shmcache.manager.refusals import Refusals
from shmcache.manager.store import Peer, Store
from shmcache.manager.workforce import Worker, WorkerState, Workforce
from shmcache.memory.layout import SlotState, Tier

REQUEST_IN_USE = "REQUEST_IN_USE"


@dataclass(frozen=True, slots=True)
class Restored:
    """What recovery found: where the core goes on. The defaults are a fresh start."""

    generation: int = 1
    serial_last: int = 0
    entries: tuple[Entry, ...] = ()


class ManagerCore:
    """One manager's state. :meth:`step` is the only way in."""

    def __init__(self, policy: Policy, restored: Restored | None = None) -> None:
        restored = Restored() if restored is None else restored
        self.policy = policy
        self.entries = Entries(policy, restored.generation, restored.serial_last, restored.entries)
        self.store = Store(policy, self.entries, self._emit)
        self.compiles = Compiles()
        self.workers = Workforce(policy)
        self.refusals = Refusals(policy.refusals_max)
        self.outcomes = Outcomes(self.compiles, self.refusals, self.entries, self._emit)
        self._clients: dict[int, set[bytes]] = {}
        self._now = 0.0
        self._effects: list[fx.Effect] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Began: lambda event: self.store.trim(),
            ev.ClientJoined: self._client_joined,
            ev.ClientLeft: self._client_left,
            ev.CompileAsked: self._compile_asked,
            ev.CancelAsked: lambda event: self._leave(event.client, event.request),
            ev.FetchAsked: self._fetch_asked,
            ev.ClearAsked: self._clear_asked,
            ev.EvictAsked: self._evict_asked,
            ev.WorkerReported: self._worker_reported,
            ev.WorkerGone: self._worker_gone,
            ev.AllocAsked: self._alloc_asked,
            ev.CommitAsked: self._commit_asked,
            ev.Abandoned: lambda event: self.store.abandon(event.worker, event.serial),
            ev.JobFailed: self._job_failed,
            ev.JobDone: self._job_done,
            ev.Probed: lambda event: self.store.probed(event, self._peers()),
            ev.EntryLost: self._entry_lost,
            ev.UseSeen: self.store.see_use,
            ev.Tick: self._tick,
        }

    def step(self, event: ev.Event, now: float) -> list[fx.Effect]:
        """Takes in one event at ``now`` (seconds, never decreasing); returns what is to be done, in order."""
        self._now = now
        self._effects = []
        self._handlers[type(event)](event)
        self._assign()
        return self._effects

    def next_deadline(self) -> float | None:
        """When the next Tick is due at the latest, the backlog apart; None: only when something happens."""
        deadlines = [self.workers.next_deadline()]
        if self.workers.is_short(self.compiles.has_queue):
            deadlines.append(self.workers.start_again_at)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def check(self) -> None:
        """AssertionError when the state contradicts itself. For tests and simulations; it walks everything."""
        self.store.check()
        self.compiles.check()
        for worker in self.workers.all():
            running = self.compiles.get(worker.job)
            assert (worker.state is WorkerState.BUSY) <= (running is not None), "busy with nothing"
            assert running is None or running.worker == worker.number, "two workers at one compile"

    # --- clients -----------------------------------------------------------------------------------------------------

    def _client_joined(self, event: ev.ClientJoined) -> None:
        self._clients.setdefault(event.client, set())
        if event.vocabulary_key:
            self._use_vocabulary(event.client, event.vocabulary_key)

    def _client_left(self, event: ev.ClientLeft) -> None:
        if self._clients.pop(event.client, None) is None:
            return
        self._spare()
        for request in self.compiles.requests_of(event.client):
            self._leave(event.client, request)
        self.compiles.forget_client(event.client)
        self.store.unwatch(("client", event.client))

    def _compile_asked(self, event: ev.CompileAsked) -> None:
        if event.client not in self._clients:
            self._emit(fx.DropSource(event.source))
            return
        self._use_vocabulary(event.client, event.vocabulary_key)
        generation = ANY_GENERATION if event.tier is Tier.VOCABULARY else self.entries.generation
        limits = self.policy.settle(event.limits)
        refusal = self._objection(event) or self.refusals.find(event.key, limits)
        if refusal is not None:
            self.outcomes.refuse(Waiter(event.client, event.request, limits), refusal)
            self._emit(fx.DropSource(event.source))
            return
        entry = self.entries.find_ready(event.tier, event.key)
        if entry is not None:
            self._emit(fx.SendEntry(entry.serial, self.entries.generation, entry.payload_bytes, event))
            return
        compile_ = self.compiles.find(event.tier, event.key, generation)
        if compile_ is not None:
            self._count("coalesced", event.tier)
            self._emit(fx.DropSource(event.source))
        else:
            compile_ = self.compiles.open(event, generation, limits, self._now)
        self.compiles.join(compile_, Waiter(event.client, event.request, limits))

    def _objection(self, event: ev.CompileAsked) -> ev.PlainError | None:
        policy = self.policy
        if self.compiles.is_waiting(event.client, event.request):
            return plain_error(REQUEST_IN_USE, f"request {event.request} waits already")
        if self.compiles.waiting_of(event.client) >= policy.waiting_per_client_max:
            value = policy.waiting_per_client_max
            message = f"one client may wait for {value} compiles at once"
            return LimitError(message, limit="waiting_compiles", value=value).to_plain()
        if self.compiles.waiting >= policy.waiting_max:
            message = f"the manager takes {policy.waiting_max} waiting requests"
            return LimitError(message, limit="waiting_requests", value=policy.waiting_max).to_plain()
        if event.tier is Tier.GRAMMAR and self.entries.find_ready(Tier.VOCABULARY, event.vocabulary_key) is None:
            return plain_error(VOCABULARY_MISSING, "the cache does not have that vocabulary: send it first")
        return None

    def _leave(self, client: int, request: int) -> None:
        compile_ = self.compiles.leave(client, request)
        if compile_ is None or compile_.waiters:
            return
        worker = None if compile_.worker is None else self.workers.get(compile_.worker)
        if worker is not None:
            self.workers.hasten(worker, self._now + self.policy.grace_seconds)
            self._emit(fx.SendCancel(worker.number, compile_.job))
        self.outcomes.cancel(compile_)

    def _fetch_asked(self, event: ev.FetchAsked) -> None:
        entry = self.entries.find_ready(event.tier, event.key)
        if entry is None:
            self._emit(fx.SendMissing(event.client, event.request))
        else:
            self._emit(fx.SendEntry(entry.serial, self.entries.generation, entry.payload_bytes, event))

    def _clear_asked(self, event: ev.ClearAsked) -> None:
        self.refusals.forget_all()
        generation = self.store.open_generation()
        self._emit(fx.SendCleared(event.client, event.request, generation))

    def _evict_asked(self, event: ev.EvictAsked) -> None:
        found = [entry for tier in Tier if (entry := self.entries.find_ready(tier, event.key)) is not None]
        gone = [entry for entry in found if entry.key not in self.store.spared]
        for entry in gone:
            self.store.evict(entry, "request")
        charged_bytes = sum(entry.charged_bytes for entry in gone)
        self._emit(fx.SendEvicted(event.client, event.request, len(gone), charged_bytes))

    def _entry_lost(self, event: ev.EntryLost) -> None:
        entry = self.entries.get(event.serial)
        if entry is not None and entry.state is SlotState.READY:
            self.store.retire(entry)
        if isinstance(event.asked, ev.CompileAsked):
            self._compile_asked(event.asked)
        elif event.asked is not None:
            self._fetch_asked(event.asked)

    # --- workers -----------------------------------------------------------------------------------------------------

    def _worker_reported(self, event: ev.WorkerReported) -> None:
        worker = self.workers.get(event.worker)
        if worker is not None and worker.state in (WorkerState.STARTING, WorkerState.WARMING):
            self.workers.report(worker, is_warm=event.is_warm)

    def _worker_gone(self, event: ev.WorkerGone) -> None:
        worker = self.workers.get(event.worker)
        if worker is None:
            return
        self.store.abandon_all(worker.number)
        compile_ = self.compiles.get(worker.job)
        self.workers.remove(worker, self._now)
        self.store.unwatch(("worker", worker.number))
        if compile_ is not None:
            value = self.policy.attempts_max
            error = LimitError(f"the compile ended {value} workers", limit="compile_attempts", value=value)
            self._release(compile_, error)
        if self.workers.crashes >= self.policy.crashes_max:
            for waiting in self.compiles.queued:
                self.outcomes.fail(waiting, ManagerUnavailable("compile workers die while they start").to_plain())

    def _alloc_asked(self, event: ev.AllocAsked) -> None:
        compile_ = self._running(event.worker, event.job)
        if compile_ is None or not _may_store(compile_, event.tier, event.key):
            self._emit(fx.SendAllocated(event.worker, event.request, "fenced", 0))
        else:
            self.store.allocate(event, compile_.generation)

    def _commit_asked(self, event: ev.CommitAsked) -> None:
        compile_ = self._running(event.worker, event.job)
        if compile_ is None or not _may_store(compile_, event.tier, event.key):
            self.store.abandon(event.worker, event.serial)
            self._emit(fx.SendCommitted(event.worker, event.request, "fenced"))
            return
        is_result = (event.tier, event.key) == (compile_.tier, compile_.key)
        outcome = self.store.commit(event, compile_.generation)
        # The image is sent before its file may lose its name.
        if is_result and not compile_.is_concluded and event.is_sound:
            worker = self.workers.get(event.worker)
            if worker is not None:
                self.workers.extend(worker, self._now + self.policy.finish_seconds)
            self.outcomes.deliver(compile_, event, outcome)
        self._emit(fx.SendCommitted(event.worker, event.request, outcome))

    def _job_failed(self, event: ev.JobFailed) -> None:
        compile_ = self._running(event.worker, event.job)
        if compile_ is not None and not compile_.is_concluded:
            self.outcomes.refuse_all(compile_, event.error)

    def _job_done(self, event: ev.JobDone) -> None:
        worker = self.workers.get(event.worker)
        compile_ = self._running(event.worker, event.job)
        if worker is None or compile_ is None or worker.state is not WorkerState.BUSY:
            return
        self.store.abandon_all(worker.number)
        self.workers.rest(worker)
        self._release(compile_, ShmCacheError("compile workers ended this job without a result"))

    def _release(self, compile_: Compile, error: ShmCacheError) -> None:
        """Its worker no longer has it. Without an outcome it goes to another one, until there were too many."""
        if not compile_.is_concluded and compile_.attempts < self.policy.attempts_max:
            self.compiles.requeue(compile_)
            return
        if not compile_.is_concluded:
            self.outcomes.fail(compile_, error.to_plain())
        self.compiles.finish(compile_)

    def _running(self, worker: int, job: int) -> Compile | None:
        compile_ = self.compiles.get(job)
        return compile_ if compile_ is not None and compile_.worker == worker else None

    def _assign(self) -> None:
        """Compiles to workers, cold workers to their kernels, and as many workers as are needed."""
        while self._start_one(Tier.VOCABULARY, WorkerState.COLD, WorkerState.IDLE):
            pass
        while (cold := self.workers.free(WorkerState.COLD)) is not None:
            self.workers.warm_up(cold, self._now)
            self._emit(fx.SendWarmUp(cold.number))
        while self._start_one(Tier.GRAMMAR, WorkerState.IDLE):
            pass
        self.workers.feel_strain(self._now, has_queue=self.compiles.has_queue)
        while self.workers.is_short(self.compiles.has_queue) and (worker := self.workers.hire(self._now)) is not None:
            self._emit(fx.SpawnWorker(worker.number))

    def _start_one(self, tier: Tier, *states: WorkerState) -> bool:
        worker = self.workers.free(*states)
        compile_ = None if worker is None else self.compiles.take_next(tier)
        if worker is None or compile_ is None:
            return False
        self._start(compile_, worker)
        return True

    def _start(self, compile_: Compile, worker: Worker) -> None:
        vocabulary = None
        if compile_.tier is Tier.GRAMMAR:
            vocabulary = self.entries.find_ready(Tier.VOCABULARY, compile_.vocabulary_key)
            if vocabulary is None:
                self.outcomes.fail(compile_, plain_error(VOCABULARY_MISSING, "the vocabulary is gone: send it again"))
                return
        if compile_.attempts == 0:
            self._count("started", compile_.tier)
        self.compiles.start(compile_, worker.number)
        self.workers.busy(worker, compile_.job, self._now + compile_.limits.seconds_max + self.policy.grace_seconds)
        self._emit(
            fx.SendJob(
                worker=worker.number,
                job=compile_.job,
                tier=compile_.tier,
                key=compile_.key,
                vocabulary_key=compile_.vocabulary_key,
                vocabulary_serial=0 if vocabulary is None else vocabulary.serial,
                generation=compile_.generation,
                source=compile_.source,
                limits=compile_.limits,
            )
        )

    # --- time --------------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick) -> None:
        for worker, reason in self.workers.overdue(self._now):
            compile_ = self.compiles.get(worker.job)
            if compile_ is not None and not compile_.is_concluded:
                seconds_max = compile_.limits.seconds_max
                error = LimitError(f"compiling took longer than {seconds_max} s", limit="seconds", value=seconds_max)
                self.outcomes.refuse_all(compile_, error.to_plain())
            self._kill(worker, reason)
        self.store.drain(self.policy.retire_batch)

    def _kill(self, worker: Worker, reason: KillReason) -> None:
        self.workers.end(worker, self._now)
        self._emit(fx.KillWorker(worker.number, reason))

    # --- small things ------------------------------------------------------------------------------------------------

    def _emit(self, effect: fx.Effect) -> None:
        self._effects.append(effect)

    def _count(self, counter: str, tier: Tier) -> None:
        # The counters are about grammars: building a vocabulary's trie is no compile.
        if tier is Tier.GRAMMAR:
            self._emit(fx.Count(counter))

    def _peers(self) -> frozenset[Peer]:
        clients = (("client", number) for number in self._clients)
        return frozenset(clients) | frozenset(("worker", number) for number in self.workers.numbers())

    def _use_vocabulary(self, client: int, key: bytes) -> None:
        if key not in self._clients[client]:
            self._clients[client].add(key)
            self._spare()

    def _spare(self) -> None:
        self.store.spared = frozenset(key for keys in self._clients.values() for key in keys)


def _may_store(compile_: Compile, tier: Tier, key: bytes) -> bool:
    """A grammar's compile may store its image and any rule rows, a vocabulary's only itself."""
    return (tier, key) == (compile_.tier, compile_.key) or (tier is Tier.RULE and compile_.tier is Tier.GRAMMAR)
