"""The compile workers as the core sees them: numbers with a state and a deadline.

Owns their states, deadlines, and the back-off after crashes. Must never know processes, messages, or what a job is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shmcache.manager.policy import KillReason, Policy


class WorkerState(Enum):
    """STARTING → COLD → WARMING → IDLE ⇄ BUSY, and from anywhere ENDING. A COLD one can be BUSY with a vocabulary."""

    STARTING = "starting"
    COLD = "cold"
    WARMING = "warming"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"


@dataclass(slots=True)
class Worker:
    """One worker process. ``deadline`` (seconds on the core's clock): it is killed then."""

    number: int
    state: WorkerState
    deadline: float | None
    job: int = 0
    is_warm: bool = False


_KILL_REASONS = {
    WorkerState.STARTING: KillReason.NOT_STARTING,
    WorkerState.WARMING: KillReason.NOT_STARTING,
    WorkerState.BUSY: KillReason.DEADLINE,
}


class Workforce:
    """All workers that were asked for and are not known to be gone."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._workers: dict[int, Worker] = {}
        self._number_last = 0
        self.crashes = 0
        """Workers that died in a row without ever being of use."""
        self.start_again_at = 0.0
        self._wanted = min(policy.workers_ready, policy.workers_max)
        """So many there should be; it only grows."""
        self._strained_since: float | None = None

    def get(self, number: int) -> Worker | None:
        """The worker of that number, unless it is gone."""
        return self._workers.get(number)

    def all(self) -> list[Worker]:
        """Every worker."""
        return list(self._workers.values())

    def numbers(self) -> list[int]:
        """The number of every worker."""
        return list(self._workers)

    def free(self, *states: WorkerState) -> Worker | None:
        """A worker in the first of the states that any worker is in."""
        for state in states:
            for worker in self._workers.values():
                if worker.state is state:
                    return worker
        return None

    def is_short(self, has_queue: bool) -> bool:
        """Whether there should be one more worker. The first compile starts some; who dies is replaced at once."""
        is_staffed = len(self._workers) >= self._wanted
        is_wanted = has_queue or (self._number_last > 0 and self.crashes < self._policy.crashes_max)
        return is_wanted and not is_staffed

    def feel_strain(self, now: float, *, has_queue: bool) -> None:
        """One more is wanted once compiles have waited for long enough while every worker was busy."""
        workers = self._workers.values()
        is_at_work = bool(workers) and all(worker.state is WorkerState.BUSY for worker in workers)
        if not (has_queue and is_at_work and self._wanted < self._policy.workers_max):
            self._strained_since = None
            return
        if self._strained_since is None:
            self._strained_since = now
        if now >= self._strained_since + self._policy.hire_after_seconds:
            self._wanted += 1
            self._strained_since = None

    def hire(self, now: float) -> Worker | None:
        """A new worker, if the back-off is over."""
        if now < self.start_again_at:
            return None
        self._number_last += 1
        worker = Worker(self._number_last, WorkerState.STARTING, now + self._policy.start_seconds)
        self._workers[worker.number] = worker
        return worker

    def report(self, worker: Worker, *, is_warm: bool) -> None:
        """It is up, or warm."""
        worker.is_warm = is_warm
        worker.state = WorkerState.IDLE if is_warm else WorkerState.COLD
        worker.deadline = None
        if is_warm:
            self.crashes = 0

    def warm_up(self, worker: Worker, now: float) -> None:
        """It is loading its kernels."""
        worker.state = WorkerState.WARMING
        worker.deadline = now + self._policy.warm_up_seconds

    def busy(self, worker: Worker, job: int, deadline: float) -> None:
        """It has a job."""
        worker.state, worker.job, worker.deadline = WorkerState.BUSY, job, deadline

    def hasten(self, worker: Worker, deadline: float) -> None:
        """It has less time than it had."""
        worker.deadline = deadline if worker.deadline is None else min(worker.deadline, deadline)

    def extend(self, worker: Worker, deadline: float) -> None:
        """It has delivered, and may take until then for what remains."""
        if worker.state is WorkerState.BUSY:
            worker.deadline = deadline

    def rest(self, worker: Worker) -> None:
        """It is through with its job."""
        worker.state = WorkerState.IDLE if worker.is_warm else WorkerState.COLD
        worker.job, worker.deadline = 0, None
        self.crashes = 0

    def end(self, worker: Worker, now: float) -> None:
        """It is being killed. One that never came up counts as a crash."""
        if worker.state in (WorkerState.STARTING, WorkerState.WARMING):
            self._crash(now)
        worker.state, worker.deadline = WorkerState.ENDING, None

    def remove(self, worker: Worker, now: float) -> None:
        """It is gone. One that dies on its own before it was of use is a crash, and delays the next start."""
        del self._workers[worker.number]
        if worker.state in (WorkerState.STARTING, WorkerState.COLD, WorkerState.WARMING):
            self._crash(now)

    def overdue(self, now: float) -> list[tuple[Worker, KillReason]]:
        """Workers past their deadline."""
        late = [worker for worker in self._workers.values() if worker.deadline is not None and worker.deadline <= now]
        return [(worker, _KILL_REASONS[worker.state]) for worker in late]

    def next_deadline(self) -> float | None:
        """The earliest deadline of any worker, or when one more is wanted."""
        deadlines = [worker.deadline for worker in self._workers.values() if worker.deadline is not None]
        if self._strained_since is not None:
            deadlines.append(self._strained_since + self._policy.hire_after_seconds)
        return min(deadlines, default=None)

    def _crash(self, now: float) -> None:
        self.crashes += 1
        self.start_again_at = now + self._policy.back_off(self.crashes)
