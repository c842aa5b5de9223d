"""What the manager's core asks to be done.

Owns the effects as values. Must never know how an effect is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcache.manager.events import CompileAsked, FetchAsked, Handle, PlainError
from shmcache.manager.policy import KillReason, Limits
from shmcache.memory.layout import Tier

# --- effects: the control segment and files --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenGeneration:
    """Store the new generation: the one store that makes every older entry invisible."""

    generation: int


@dataclass(frozen=True, slots=True)
class PlaceSlot:
    """A FILLING slot for ``serial``, which was never used before."""

    serial: int
    tier: Tier
    key: bytes
    generation: int
    segment_bytes: int
    owner: int


@dataclass(frozen=True, slots=True)
class PublishSlot:
    """FILLING becomes READY."""

    serial: int
    charged_bytes: int
    payload_bytes: int
    cost_us: int


@dataclass(frozen=True, slots=True)
class RetireSlot:
    """READY or FILLING becomes ZOMBIE (a ZOMBIE stays one); unlink if nobody maps it. Answered by :class:`Probed`."""

    serial: int


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """The slot becomes FREE; whatever file of it may still have a name loses it."""

    serial: int


# --- effects: clients ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendEntry:
    """Send a descriptor of a READY entry, then let go of ``asked``'s source. If it cannot be opened: EntryLost."""

    serial: int
    generation: int
    payload_bytes: int
    asked: CompileAsked | FetchAsked


@dataclass(frozen=True, slots=True)
class SendImage:
    """Send the image just committed. ``serial`` 0: it is in no index."""

    client: int
    request: int
    key: bytes
    generation: int
    serial: int
    payload_bytes: int
    image: Handle


@dataclass(frozen=True, slots=True)
class SendRefusal:
    """Answer a request with an error."""

    client: int
    request: int
    error: PlainError


@dataclass(frozen=True, slots=True)
class SendMissing:
    """Answer a fetch: not there."""

    client: int
    request: int


@dataclass(frozen=True, slots=True)
class SendCleared:
    """Answer a clear."""

    client: int
    request: int
    generation: int


@dataclass(frozen=True, slots=True)
class SendEvicted:
    """Answer an evict."""

    client: int
    request: int
    entries: int
    charged_bytes: int


@dataclass(frozen=True, slots=True)
class DropSource:
    """Nobody needs that source any more."""

    source: Handle


# --- effects: workers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpawnWorker:
    """Start a worker process under that number."""

    worker: int


@dataclass(frozen=True, slots=True)
class KillWorker:
    """End a worker process. Answered by :class:`WorkerGone`."""

    worker: int
    reason: KillReason


@dataclass(frozen=True, slots=True)
class SendWarmUp:
    """Tell a worker to load its kernels. Answered by :class:`WorkerReported`."""

    worker: int


@dataclass(frozen=True, slots=True)
class SendJob:
    """Give a worker a compile. ``vocabulary_serial`` 0: the job needs none. The source stays the core's."""

    worker: int
    job: int
    tier: Tier
    key: bytes
    vocabulary_key: bytes
    vocabulary_serial: int
    generation: int
    source: Handle
    limits: Limits


@dataclass(frozen=True, slots=True)
class SendCancel:
    """Tell a worker that its job is wanted by nobody."""

    worker: int
    job: int


@dataclass(frozen=True, slots=True)
class SendAllocated:
    """Answer an alloc; ``serial`` 0 unless ``outcome`` is granted."""

    worker: int
    request: int
    outcome: str
    serial: int


@dataclass(frozen=True, slots=True)
class SendCommitted:
    """Answer a commit."""

    worker: int
    request: int
    outcome: str


@dataclass(frozen=True, slots=True)
class CompileEnded:
    """A compile that had begun has an outcome: ``succeeded``, ``fenced``, ``refused`` or ``failed``; to be counted.

    ``code`` is that of the error, ``cost_us`` what computing took (0: there is no image), ``asked_at`` when it was
    asked for, in seconds on the core's clock.
    """

    tier: Tier
    key: bytes
    generation: int
    outcome: str
    waiters: int
    asked_at: float
    code: str = ""
    cost_us: int = 0
    payload_bytes: int = 0


@dataclass(frozen=True, slots=True)
class EntryEvicted:
    """A READY entry was retired for one of :data:`~shmcache.memory.layout.EVICTION_REASONS`; to be counted."""

    tier: Tier
    key: bytes
    charged_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Count:
    """Add to one of the counters that the control segment keeps."""

    counter: str
    change: int = 1


Effect = (
    OpenGeneration
    | PlaceSlot
    | PublishSlot
    | RetireSlot
    | FreeSlot
    | SendEntry
    | SendImage
    | SendRefusal
    | SendMissing
    | SendCleared
    | SendEvicted
    | DropSource
    | SpawnWorker
    | KillWorker
    | SendWarmUp
    | SendJob
    | SendCancel
    | SendAllocated
    | SendCommitted
    | CompileEnded
    | EntryEvicted
    | Count
)
