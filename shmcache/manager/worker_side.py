"""The manager's conversation with its compile workers: their messages to events, effects to their orders.

Owns the running workers and what of a message is checked before the core hears of it. Must never decide which worker
does what. A worker that breaks the protocol is killed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager import wire
from shmcache.manager.client_side import TIERS
from shmcache.manager.core import ManagerCore
from shmcache.manager.descriptors import close_all
from shmcache.manager.outcomes import VOCABULARY_MISSING, plain_error
from shmcache.manager.shelf import Shelf
from shmcache.manager.supervisor import Supervisor, WorkerProcess
from shmcache.memory.segments import read_header

_log = logging.getLogger(__name__)

WorkerEffect = (
    fx.SpawnWorker | fx.KillWorker | fx.SendWarmUp | fx.SendJob | fx.SendCancel | fx.SendAllocated | fx.SendCommitted
)


class WorkerSide:
    """Everything between workers' processes and the core."""

    def __init__(
        self,
        supervisor: Supervisor,
        shelf: Shelf,
        core: ManagerCore,
        *,
        apply: Callable[[ev.Event], None],
        watch: Callable[[WorkerProcess], None],
        unwatch: Callable[[WorkerProcess], None],
    ) -> None:
        self._supervisor = supervisor
        self._shelf = shelf
        self._core = core
        self._apply = apply
        self._watch = watch
        self._unwatch = unwatch
        self._workers: dict[int, WorkerProcess] = {}
        self.is_hiring = True

    def all(self) -> list[WorkerProcess]:
        """Every worker that runs, as far as is known."""
        return list(self._workers.values())

    def get(self, number: int) -> WorkerProcess | None:
        """The worker of that number, if it runs."""
        return self._workers.get(number)

    def pids(self) -> dict[int, int]:
        """Process ids by number."""
        return {number: worker.pid for number, worker in self._workers.items()}

    # --- from workers ------------------------------------------------------------------------------------------------

    def read(self, worker: WorkerProcess) -> bool:
        """Takes in what a worker sent; False at the end of its stream."""
        try:
            messages = worker.connection.receive()
            if messages is None:
                self._supervisor.kill(worker)
                return False
            for message, descriptors in messages:
                try:
                    self._take(worker, message, descriptors)
                finally:
                    close_all(descriptors)
        except wire.WireError as error:
            _log.error("worker %d broke the protocol: %s", worker.number, error.message)
            self._supervisor.kill(worker)
            return False
        return True

    def _take(self, worker: WorkerProcess, message: wire.Message, descriptors: list[int]) -> None:
        number = worker.number
        match message:
            case wire.WorkerState(_, state):
                self._apply(ev.WorkerReported(number, is_warm=state == "idle"))
            case wire.Alloc(request, job, tier, key, segment_bytes, reclaim_bytes):
                has_slot = self._shelf.has_slot(key)
                sizes = (segment_bytes, reclaim_bytes)
                asked = ev.AllocAsked(number, request, job, TIERS[tier], key, *sizes, has_slot)
                store = self._core.store
                if store.needs_use(asked):
                    self._apply(self._shelf.see_use(store.candidates(asked), store.shortage_bytes(asked)))
                self._apply(asked)
            case wire.Commit():
                self._commit(worker, message, descriptors)
            case wire.Abandon(job, serial):
                self._apply(ev.Abandoned(number, job, serial))
            case wire.Fail(job, code, text, details):
                self._apply(ev.JobFailed(number, job, {"code": code, "message": text, "details": dict(details)}))
            case wire.Done(job):
                self._apply(ev.JobDone(number, job))
            case _:
                raise wire.WireError(f"{message.op} is not for a worker to say")

    def _commit(self, worker: WorkerProcess, message: wire.Commit, descriptors: list[int]) -> None:
        """A segment is opened here by its name; memory without a name came as a descriptor."""
        tier, charged = TIERS[message.tier], 0
        if message.serial:
            found = self._shelf.inspect(message.serial, tier, message.key, message.payload_bytes)
            is_sound, charged = found.is_sound, found.charged_bytes
            if found.descriptor >= 0:
                descriptors.insert(0, found.descriptor)
        else:
            is_sound = bool(descriptors) and _is_image_of(descriptors[0], message)
        self._apply(
            ev.CommitAsked(
                worker=worker.number,
                request=message.request,
                job=message.job,
                tier=tier,
                key=message.key,
                serial=message.serial,
                payload_bytes=message.payload_bytes,
                charged_bytes=charged,
                cost_us=message.cost_us,
                image=descriptors[0] if descriptors else -1,
                is_sound=is_sound,
            )
        )

    def ended(self, worker: WorkerProcess) -> None:
        """Its process is no more. What it had said before counts."""
        while worker.connection.has_input and self.read(worker):
            pass
        self._unwatch(worker)
        del self._workers[worker.number]
        code = self._supervisor.bury(worker)
        _log.info("worker %d (pid %d) ended with %d", worker.number, worker.pid, code)
        self._apply(ev.WorkerGone(worker.number))

    # --- to workers --------------------------------------------------------------------------------------------------

    def perform(self, effect: WorkerEffect) -> list[ev.Event]:
        """Does it; what follows from it at once comes back."""
        if isinstance(effect, fx.SpawnWorker):
            return self._spawn(effect.worker)
        worker = self._workers.get(effect.worker)
        if worker is None:
            return []
        match effect:
            case fx.KillWorker(_, reason):
                _log.warning("killing worker %d: %s", worker.number, reason.value)
                self._supervisor.kill(worker)
            case fx.SendWarmUp():
                self._send(worker, wire.WarmUp())
            case fx.SendJob():
                return self._send_job(worker, effect)
            case fx.SendCancel(_, job):
                self._send(worker, wire.CancelJob(job))
            case fx.SendAllocated(_, request, outcome, serial):
                entry = self._core.entries.get(serial)
                generation = 0 if entry is None else entry.generation
                instance = self._shelf.control.instance
                self._send(worker, wire.Allocated(request, outcome, instance, generation, serial))
            case fx.SendCommitted(_, request, outcome):
                self._send(worker, wire.Committed(request, outcome))
        return []

    def _spawn(self, number: int) -> list[ev.Event]:
        if not self.is_hiring:
            return [ev.WorkerGone(number)]
        try:
            worker = self._supervisor.spawn(number)
        except OSError as error:
            _log.error("cannot start worker %d: %s", number, error)
            return [ev.WorkerGone(number)]
        self._workers[number] = worker
        self._watch(worker)
        return []

    def _send_job(self, worker: WorkerProcess, effect: fx.SendJob) -> list[ev.Event]:
        source, limits = effect.source, effect.limits
        opened: list[int] = []
        vocabulary_bytes = 0
        try:
            if effect.vocabulary_serial:
                opened.append(self._shelf.open_entry(effect.vocabulary_serial))
                vocabulary_bytes = read_header(opened[0]).payload_bytes
            descriptors = [*opened, *source.descriptors]
            job = wire.Job(
                job=effect.job,
                kind=effect.tier.name.lower(),
                key=effect.key,
                vocabulary_key=effect.vocabulary_key,
                generation=effect.generation,
                source=source.inline,
                source_bytes=source.size_bytes,
                vocabulary_bytes=vocabulary_bytes,
                seconds_max=limits.seconds_max,
                states_max=limits.states_max,
                edges_max=limits.edges_max,
                memory_bytes_max=limits.memory_bytes_max,
                descriptors=len(descriptors),
            )
            self._send(worker, job, descriptors)
        except (SegmentError, FileNotFoundError) as error:
            _log.warning("vocabulary %d is lost: %s", effect.vocabulary_serial, error)
            missing = plain_error(VOCABULARY_MISSING, "the vocabulary is gone: send it again")
            return [ev.EntryLost(effect.vocabulary_serial), *_not_begun(effect, missing)]
        except OSError as error:
            _log.warning("vocabulary %d cannot be opened: %s", effect.vocabulary_serial, error)
            return _not_begun(effect, ManagerUnavailable("the manager cannot open the vocabulary").to_plain())
        finally:
            close_all(opened)
        return []

    def _send(self, worker: WorkerProcess, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        try:
            worker.connection.send(message, descriptors)
        except ConnectionError:
            self._supervisor.kill(worker)

    def flush(self, worker: WorkerProcess) -> None:
        """Sends what waits, now that the worker reads."""
        try:
            worker.connection.flush()
        except ConnectionError:
            self._supervisor.kill(worker)

    def dismiss_all(self) -> None:
        """Kills every worker and waits for their ends."""
        self.is_hiring = False
        for worker in self.all():
            self._supervisor.kill(worker)
        for worker in self.all():
            self._unwatch(worker)
            del self._workers[worker.number]
            self._supervisor.bury(worker)
            self._apply(ev.WorkerGone(worker.number))


def _not_begun(effect: fx.SendJob, error: ev.PlainError) -> list[ev.Event]:
    return [ev.JobFailed(effect.worker, effect.job, error), ev.JobDone(effect.worker, effect.job)]


def _is_image_of(descriptor: int, message: wire.Commit) -> bool:
    try:
        header = read_header(descriptor)
    except (SegmentError, OSError):
        return False
    return (header.key, header.payload_bytes, header.serial) == (message.key, message.payload_bytes, 0)
