"""What the manager's core is told.

Owns the events as values. Must never know how an event was noticed.

Clients and workers are numbers that the loop gives out. ``source`` and ``image`` are opaque handles: the core passes
them on, or says that they are not needed any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shmcache.manager.policy import Limits
from shmcache.memory.layout import Tier

Handle = Any
"""Something that only the loop understands: bytes, a descriptor, in a simulation a plain value."""

PlainError = Mapping[str, Any]
"""``code``, ``message``, ``details``, as in :meth:`shmcache.errors.ShmCacheError.to_plain`."""


@dataclass(frozen=True, slots=True)
class Began:
    """The manager has recovered and is about to listen."""


# --- events: clients -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClientJoined:
    """A client said hello. ``vocabulary_key`` (or empty): the vocabulary to keep for it."""

    client: int
    vocabulary_key: bytes = b""


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """A client's connection ended or its process died. May come twice."""

    client: int


@dataclass(frozen=True, slots=True)
class CompileAsked:
    """A client asks for an image. ``tier`` is GRAMMAR or VOCABULARY."""

    client: int
    request: int
    tier: Tier
    key: bytes
    vocabulary_key: bytes
    source: Handle
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A client no longer waits for the compile of that request."""

    client: int
    request: int


@dataclass(frozen=True, slots=True)
class FetchAsked:
    """A client asks for a descriptor of an entry."""

    client: int
    request: int
    tier: Tier
    key: bytes


@dataclass(frozen=True, slots=True)
class ClearAsked:
    """A client asks for a new generation."""

    client: int
    request: int


@dataclass(frozen=True, slots=True)
class EvictAsked:
    """A client asks for the removal of one key's entry."""

    client: int
    request: int
    key: bytes


# --- events: workers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerReported:
    """A worker is up: ``is_warm`` with its kernels loaded, otherwise good for vocabularies only."""

    worker: int
    is_warm: bool


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A worker's process ended, or could not be started. May come twice."""

    worker: int


@dataclass(frozen=True, slots=True)
class AllocAsked:
    """A worker asks for room. ``has_slot``: whether the index has a place for that key just now."""

    worker: int
    request: int
    job: int
    tier: Tier
    key: bytes
    segment_bytes: int
    reclaim_bytes: int = 0
    has_slot: bool = True


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """A worker has an image. ``serial`` 0: in no segment. ``charged_bytes``: what the segment takes, as measured.

    ``is_sound``: the segment was looked at and is what the worker says it is.
    """

    worker: int
    request: int
    job: int
    tier: Tier
    key: bytes
    serial: int
    payload_bytes: int
    charged_bytes: int
    cost_us: int
    image: Handle
    is_sound: bool = True


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A worker will not commit that segment."""

    worker: int
    job: int
    serial: int


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job ended with an error."""

    worker: int
    job: int
    error: PlainError


@dataclass(frozen=True, slots=True)
class JobDone:
    """A worker is through with a job."""

    worker: int
    job: int


# --- events: memory and time -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probed:
    """Whether a retired entry's file is free: unlinked, and mapped by nobody. None: this kernel cannot tell."""

    serial: int
    is_free: bool | None


@dataclass(frozen=True, slots=True)
class EntryLost:
    """The file of a READY entry is gone or damaged; ``asked`` is the request that found out."""

    serial: int
    asked: CompileAsked | FetchAsked | None = None


@dataclass(frozen=True, slots=True)
class UseSeen:
    """What readers wrote, read before an alloc that needs room: last use by serial (larger is later); who is mapped."""

    last_use: Mapping[int, int]
    mapped: frozenset[int]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, or there is time to drain the backlog of retirements."""


Event = (
    Began
    | ClientJoined
    | ClientLeft
    | CompileAsked
    | CancelAsked
    | FetchAsked
    | ClearAsked
    | EvictAsked
    | WorkerReported
    | WorkerGone
    | AllocAsked
    | CommitAsked
    | Abandoned
    | JobFailed
    | JobDone
    | Probed
    | EntryLost
    | UseSeen
    | Tick
)
