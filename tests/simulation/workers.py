"""A compile worker as the simulation has it: it says what the real one says, in the real order, and may stop anywhere.

Owns the conversation of one worker process. Must never look into the manager. Each ``yield`` is a point at which
anything else may happen, the worker's death included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from random import Random
from typing import Any

from shmcache.errors import LimitError, SourceError
from shmcache.manager import wire
from shmcache.memory.layout import Tier
from shmcache.memory.segments import NO_TEXT, SegmentHeader
from tests.simulation.files import File, Files
from tests.simulation.lines import Line

PAGE = 4096
PAYLOAD_BYTES = 100


def text_of(key: bytes) -> bytes:
    """The digest of the text that the grammar of that key is made of."""
    return blake2b(key, digest_size=32, person=b"text").digest()


REFUSED_KEYS = frozenset({(9).to_bytes(32, "big")})
"""Keys whose source is no grammar, whoever compiles it."""

Steps = Iterator[None]


class CancelledError(Exception):
    """The job is wanted by nobody."""


class Faults:
    """Which faults happen now: each with its probability, and none at all once they have stopped."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.are_on = True

    def happen(self, probability: float) -> bool:
        return self.are_on and self._rng.random() < probability


class SimWorker:
    """One worker process."""

    def __init__(self, number: int, line: Line, files: Files, faults: Faults, rng: Random, data_name: Any) -> None:
        self.number = number
        self.pid = 10_000 + number
        self.pidfd = -1_000_000 - number
        self.connection = line
        self.is_dead = False
        self.is_hung = False
        self.is_waiting = False
        self._files = files
        self._faults = faults
        self._rng = rng
        self._data_name = data_name
        self._request = 0
        self._life = self._live()

    @property
    def can_go_on(self) -> bool:
        """Whether a step would change anything."""
        return not self.is_dead and not self.is_hung and (not self.is_waiting or bool(self.connection.to_peer))

    def go_on(self) -> None:
        """One step of it."""
        next(self._life)

    def die(self) -> None:
        """``kill -9``: what it had said is still to be read."""
        self.is_dead = True
        self.connection.hang_up()

    # --- its life ----------------------------------------------------------------------------------------------------

    def _live(self) -> Steps:
        self._say(wire.WorkerState(self.pid, "cold"))
        while True:
            message, descriptors = yield from self._hear()
            match message:
                case wire.WarmUp():
                    yield
                    self._say(wire.WorkerState(self.pid, "idle"))
                case wire.Job():
                    yield
                    yield from self._work(message)
            self._files.close_all(descriptors)

    def _hear(self) -> Iterator[Any]:
        self.is_waiting = True
        while not self.connection.to_peer:
            yield
        self.is_waiting = False
        return self.connection.hear()

    def _say(self, message: Any, descriptors: list[int] | None = None) -> None:
        self.connection.say(message, descriptors or [])
        queue = self.connection.to_manager
        if len(queue) > 1 and self._faults.happen(0.02):
            queue[-1], queue[-2] = queue[-2], queue[-1]

    def _work(self, job: Any) -> Steps:
        try:
            yield from self._compile(job)
        except CancelledError:
            self._say(wire.Fail(job.job, "CANCELLED", ""))
        yield
        self._say(wire.Done(job.job))
        if self._faults.happen(0.03):
            self._say(wire.Done(job.job))

    def _compile(self, job: Any) -> Steps:
        tier = Tier[job.kind.upper()]
        self.is_hung = self._faults.happen(0.02)
        yield
        if job.key in REFUSED_KEYS:
            self._say(wire.Fail(job.job, **SourceError("bad").to_plain()))
            return
        if self._faults.happen(0.04):
            error = LimitError("big", limit=self._rng.choice(["states", "seconds", "memory_bytes"]), value=1)
            self._say(wire.Fail(job.job, **error.to_plain()))
            return
        outcome = yield from self._store(job, tier, job.key)
        if outcome not in ("ready", "fenced", "exists"):
            header = self._header(job, tier, job.key, generation=job.generation, serial=0, instance=0)
            descriptor = self._files.open_anonymous(self.connection.peer, File(header, 0, job.generation))
            yield from self._commit(job, tier, job.key, 0, [descriptor])
        if outcome == "exists":
            yield from self._hand_over(job, tier)
        for _ in range(self._rng.randrange(3) if tier is Tier.GRAMMAR else 0):
            row = self._rng.randrange(100, 104).to_bytes(32, "big")
            if (yield from self._store(job, Tier.RULE, row)) in ("fenced", "full"):
                break

    def _hand_over(self, job: Any, tier: Tier) -> Steps:
        header = self._header(job, tier, job.key, generation=job.generation, serial=0, instance=0)
        descriptor = self._files.open_anonymous(self.connection.peer, File(header, 0, job.generation))
        yield from self._commit(job, tier, job.key, 0, [descriptor])

    def _store(self, job: Any, tier: Tier, key: bytes) -> Iterator[Any]:
        pages = self._rng.randrange(1, 4)
        reclaim_bytes = 0
        for _ in range(2):
            tier_name = tier.name.lower()
            alloc = wire.Alloc(self._next_request(), job.job, tier_name, key, pages * PAGE, reclaim_bytes)
            allocated = yield from self._converse(job, alloc)
            if allocated.outcome != "granted":
                return allocated.outcome
            name = self._data_name(allocated.instance, allocated.serial)
            says = {"generation": allocated.generation, "serial": allocated.serial, "instance": allocated.instance}
            is_wrong = self._faults.happen(0.02)
            header = self._header(job, tier, bytes(32) if is_wrong else key, **says)
            taken = pages + 1 if self._faults.happen(0.02) else self._rng.randrange(1, pages + 1)
            yield
            try:
                self._files.build(name, File(header, taken * PAGE, 0 if tier is Tier.VOCABULARY else job.generation))
            except MemoryError:
                self._say(wire.Abandon(job.job, allocated.serial))
                reclaim_bytes = pages * PAGE
                continue
            yield
            self._files.publish(name)
            yield
            return (yield from self._commit(job, tier, key, allocated.serial, []))
        return "full"

    def _commit(self, job: Any, tier: Tier, key: bytes, serial: int, descriptors: list[int]) -> Iterator[Any]:
        cost_us = self._rng.randrange(1, 5000)
        request = self._next_request()
        commit = wire.Commit(request, job.job, tier.name.lower(), key, serial, PAYLOAD_BYTES, cost_us, len(descriptors))
        if self._faults.happen(0.05):
            # The commit is said twice.
            self._say(commit, descriptors)
        committed = yield from self._converse(job, commit, descriptors)
        self._files.close_all(descriptors)
        return committed.outcome

    def _converse(self, job: Any, message: Any, descriptors: list[int] | None = None) -> Iterator[Any]:
        self._say(message, descriptors)
        while True:
            reply, _ = yield from self._hear()
            if isinstance(reply, wire.CancelJob) and reply.job == job.job and self._cares():
                raise CancelledError
            if getattr(reply, "request", None) == message.request:
                return reply

    def _cares(self) -> bool:
        return self._rng.random() < 0.8

    def _next_request(self) -> int:
        self._request += 1
        return self._request

    def _header(
        self, job: Any, tier: Tier, key: bytes, *, generation: int, serial: int, instance: int
    ) -> SegmentHeader:
        text_digest = text_of(key) if tier is Tier.GRAMMAR else NO_TEXT
        return SegmentHeader(tier, instance, serial, generation, key, PAYLOAD_BYTES, 0, text_digest)


MakeWorker = Callable[[int], SimWorker]
