"""Compiles in flight: who waits for what, and which one goes next.

Owns leases (one compile per key and generation), waiters, and the queue with its fairness among clients. Must never
know workers' processes, entries, the account, or the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from shmcache.manager.events import CompileAsked, Handle
from shmcache.manager.policy import Limits
from shmcache.memory.layout import Tier


@dataclass(frozen=True, slots=True)
class Waiter:
    """A client's request that a compile will answer, and the limits it would allow."""

    client: int
    request: int
    limits: Limits


@dataclass(slots=True)
class Compile:
    """One compile. ``generation`` is the one in which its lease was granted, at ``asked_at``; neither changes."""

    job: int
    tier: Tier
    key: bytes
    vocabulary_key: bytes
    generation: int
    source: Handle
    limits: Limits
    asked_at: float
    waiters: list[Waiter] = field(default_factory=list)
    worker: int | None = None
    attempts: int = 0
    is_concluded: bool = False
    """Its waiters have their answer (or left), its lease is over; a worker may still be busy with it."""


class Compiles:
    """All compiles that are queued, running, or concluded with a worker still at it."""

    def __init__(self) -> None:
        self._compiles: dict[int, Compile] = {}
        self._leases: dict[tuple[Tier, bytes, int], int] = {}
        self._waiting: dict[tuple[int, int], int] = {}
        self._waiting_of: Counter[int] = Counter()
        self._queue: list[int] = []
        self._running_of: Counter[int] = Counter()
        self._served_at: dict[int, int] = {}
        self._served = 0
        self._job_last = 0

    # --- looking -----------------------------------------------------------------------------------------------------

    def get(self, job: int) -> Compile | None:
        """The compile of that number, concluded or not."""
        return self._compiles.get(job)

    def find(self, tier: Tier, key: bytes, generation: int) -> Compile | None:
        """The compile that holds the lease of that key and generation."""
        job = self._leases.get((tier, key, generation))
        return None if job is None else self._compiles[job]

    def is_waiting(self, client: int, request: int) -> bool:
        """Whether that request waits for a compile."""
        return (client, request) in self._waiting

    def waiting_of(self, client: int) -> int:
        """How many requests of that client wait."""
        return self._waiting_of[client]

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def queued(self) -> list[Compile]:
        """Compiles that no worker has, in the order they came."""
        return [self._compiles[job] for job in self._queue]

    @property
    def has_queue(self) -> bool:
        """Whether any compile waits for a worker."""
        return bool(self._queue)

    @property
    def in_flight(self) -> int:
        """Compiles that somebody waits for."""
        return len(self._leases)

    # --- changing ----------------------------------------------------------------------------------------------------

    def open(self, asked: CompileAsked, generation: int, limits: Limits, asked_at: float) -> Compile:
        """A new compile with a lease of its own, queued, with no waiter yet."""
        self._job_last += 1
        compile_ = Compile(
            self._job_last, asked.tier, asked.key, asked.vocabulary_key, generation, asked.source, limits, asked_at
        )
        self._grant(compile_)
        return compile_

    def reopen(self, old: Compile, limits: Limits) -> Compile:
        """A new compile of the same source and generation under other limits; ``old`` is concluded already."""
        assert old.is_concluded
        self._job_last += 1
        compile_ = Compile(
            self._job_last, old.tier, old.key, old.vocabulary_key, old.generation, old.source, limits, old.asked_at
        )
        self._grant(compile_)
        return compile_

    def join(self, compile_: Compile, waiter: Waiter) -> None:
        """One more request waits for that compile."""
        place = (waiter.client, waiter.request)
        assert place not in self._waiting
        compile_.waiters.append(waiter)
        self._waiting[place] = compile_.job
        self._waiting_of[waiter.client] += 1

    def leave(self, client: int, request: int) -> Compile | None:
        """That request waits no longer; the compile it waited for, if it did."""
        job = self._waiting.get((client, request))
        if job is None:
            return None
        compile_ = self._compiles[job]
        compile_.waiters = [w for w in compile_.waiters if (w.client, w.request) != (client, request)]
        self._forget(client, request)
        self._recount()
        return compile_

    def requests_of(self, client: int) -> list[int]:
        """The requests of that client that wait."""
        return [request for (of, request) in self._waiting if of == client]

    def take_next(self, tier: Tier) -> Compile | None:
        """Takes the compile of that tier that is to run next off the queue.

        The client with fewest running compiles goes first, then the one served longest ago, then whoever came first:
        a client that floods the queue delays itself.
        """
        best: tuple[tuple[int, int, int], int] | None = None
        for place, job in enumerate(self._queue):
            compile_ = self._compiles[job]
            if compile_.tier is tier:
                client = compile_.waiters[0].client
                rank = (self._running_of[client], self._served_at.get(client, 0), place)
                if best is None or rank < best[0]:
                    best = rank, job
        if best is None:
            return None
        self._queue.remove(best[1])
        return self._compiles[best[1]]

    def start(self, compile_: Compile, worker: int) -> None:
        """A worker has it now."""
        client = compile_.waiters[0].client
        compile_.worker = worker
        compile_.attempts += 1
        self._served += 1
        self._served_at[client] = self._served
        self._running_of.update(waiter.client for waiter in compile_.waiters[:1])

    def requeue(self, compile_: Compile) -> None:
        """Its worker is gone; it is the next to go."""
        compile_.worker = None
        self._recount()
        self._queue.insert(0, compile_.job)

    def conclude(self, compile_: Compile) -> list[Waiter]:
        """Ends the lease; returns the waiters, who are to be answered now."""
        waiters, compile_.waiters = compile_.waiters, []
        for waiter in waiters:
            self._forget(waiter.client, waiter.request)
        if not compile_.is_concluded:
            compile_.is_concluded = True
            del self._leases[compile_.tier, compile_.key, compile_.generation]
        if compile_.worker is None:
            self._queue = [job for job in self._queue if job != compile_.job]
            del self._compiles[compile_.job]
        self._recount()
        return waiters

    def finish(self, compile_: Compile) -> None:
        """The worker is through with a concluded compile."""
        assert compile_.is_concluded
        self._compiles.pop(compile_.job, None)
        self._recount()

    def forget_client(self, client: int) -> None:
        """That client will never come back."""
        self._served_at.pop(client, None)

    def check(self) -> None:
        """AssertionError when the tables do not agree."""
        waiting: dict[tuple[int, int], int] = {}
        for compile_ in self._compiles.values():
            lease = self._leases.get((compile_.tier, compile_.key, compile_.generation))
            assert compile_.is_concluded or lease == compile_.job, "a compile without its lease"
            assert not (compile_.is_concluded and compile_.waiters), "a concluded compile with waiters"
            assert compile_.is_concluded or compile_.waiters, "a compile that nobody waits for"
            assert (compile_.worker is None) == (compile_.job in self._queue), "neither queued nor running"
            waiting |= {(waiter.client, waiter.request): compile_.job for waiter in compile_.waiters}
        assert waiting == self._waiting, "waiters differ"
        assert Counter(client for client, _ in waiting) == +self._waiting_of, "counts of waiters differ"
        assert set(self._leases.values()) <= set(self._compiles), "a lease without its compile"

    # --- inside ------------------------------------------------------------------------------------------------------

    def _grant(self, compile_: Compile) -> None:
        place = (compile_.tier, compile_.key, compile_.generation)
        assert place not in self._leases
        self._compiles[compile_.job] = compile_
        self._leases[place] = compile_.job
        self._queue.append(compile_.job)

    def _forget(self, client: int, request: int) -> None:
        del self._waiting[client, request]
        self._waiting_of[client] -= 1
        if not self._waiting_of[client]:
            del self._waiting_of[client]

    def _recount(self) -> None:
        running: Iterable[Compile] = (item for item in self._compiles.values() if item.worker is not None)
        self._running_of = Counter(item.waiters[0].client for item in running if item.waiters)
