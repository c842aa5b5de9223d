"""The messages between the manager and its compile workers.

Owns their fields. Must never know how they are framed or what happens upon them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shmcache.manager.fields import (
    ALLOCATION_OUTCOMES,
    COMMIT_OUTCOMES,
    DESCRIPTORS_MAX,
    INLINE_SOURCE_BYTES_MAX,
    KINDS,
    TIERS,
    U32,
    U63,
    U64,
    WORKER_STATES,
    Message,
    digest,
    octets,
    plain_map,
    request_number,
    seconds,
    text,
    whole,
    word,
)
from shmcache.memory.segments import SEGMENT_BYTES_MAX

# --- manager to worker -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job(Message):
    """One compile for a worker. Descriptors, in this order: vocabulary segment if ``vocabulary_bytes`` is not 0,
    source if ``source_bytes`` is not 0 and ``source`` is empty. ``generation``: that of its lease.
    """

    op: ClassVar[str] = "job"
    job: int = whole(1, U63)
    kind: str = word(KINDS)
    key: bytes = digest()
    vocabulary_key: bytes = digest()
    generation: int = whole(0, U63)
    source: bytes = octets(0, INLINE_SOURCE_BYTES_MAX)
    source_bytes: int = whole(0, U63)
    vocabulary_bytes: int = whole(0, U63)
    seconds_max: float = seconds()
    states_max: int = whole(1, U63)
    edges_max: int = whole(1, U63)
    memory_bytes_max: int = whole(1, U63)
    descriptors: int = whole(0, DESCRIPTORS_MAX, default=0)


@dataclass(frozen=True, slots=True)
class WarmUp(Message):
    """Load (on a fresh host: compile) the kernels now; answered by :class:`WorkerState` ``idle``."""

    op: ClassVar[str] = "warm_up"


@dataclass(frozen=True, slots=True)
class CancelJob(Message):
    """Nobody waits for that job any more. The worker gives up at its next look, and says :class:`Done`."""

    op: ClassVar[str] = "cancel_job"
    job: int = whole(1, U63)


@dataclass(frozen=True, slots=True)
class Allocated(Message):
    """Reply to alloc. ``granted``: create the segment of ``serial`` and ``generation``; otherwise both are 0."""

    op: ClassVar[str] = "allocated"
    request: int = request_number()
    outcome: str = word(ALLOCATION_OUTCOMES)
    instance: int = whole(0, U64)
    generation: int = whole(0, U63)
    serial: int = whole(0, U63)


@dataclass(frozen=True, slots=True)
class Committed(Message):
    """Reply to commit: what became of the image."""

    op: ClassVar[str] = "committed"
    request: int = request_number()
    outcome: str = word(COMMIT_OUTCOMES)


# --- worker to manager -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerState(Message):
    """``cold``: can build vocabularies; ``idle``: kernels are loaded too. Sent at start and after :class:`WarmUp`."""

    op: ClassVar[str] = "worker_state"
    pid: int = whole(0, U32)
    state: str = word(WORKER_STATES)


@dataclass(frozen=True, slots=True)
class Alloc(Message):
    """Asks for room and a serial. ``reclaim_bytes`` > 0: the host's memory was full, evict at least that much first."""

    op: ClassVar[str] = "alloc"
    request: int = request_number()
    job: int = whole(1, U63)
    tier: str = word(TIERS)
    key: bytes = digest()
    segment_bytes: int = whole(1, SEGMENT_BYTES_MAX)
    reclaim_bytes: int = whole(0, U63, default=0)


@dataclass(frozen=True, slots=True)
class Commit(Message):
    """The image is complete. ``serial`` 0: it is in no segment but in memory of its own, whose descriptor comes along.

    ``cost_us``: microseconds that computing it took.
    """

    op: ClassVar[str] = "commit"
    request: int = request_number()
    job: int = whole(1, U63)
    tier: str = word(TIERS)
    key: bytes = digest()
    serial: int = whole(0, U63)
    payload_bytes: int = whole(0, U63)
    cost_us: int = whole(0, U63)
    descriptors: int = whole(0, 1, default=0)


@dataclass(frozen=True, slots=True)
class Abandon(Message):
    """The worker will not commit the segment of ``serial``. No reply."""

    op: ClassVar[str] = "abandon"
    job: int = whole(1, U63)
    serial: int = whole(1, U63)


@dataclass(frozen=True, slots=True)
class Fail(Message):
    """The job ended with an error, in plain form. ``cancelled`` as code: the worker gave up because it was told to."""

    op: ClassVar[str] = "fail"
    job: int = whole(1, U63)
    code: str = text()
    message: str = text()
    details: Mapping[str, Any] = plain_map(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done(Message):
    """The worker has nothing more to say about the job, and takes the next one."""

    op: ClassVar[str] = "done"
    job: int = whole(1, U63)
