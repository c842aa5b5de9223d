"""The messages on the socket: bytes to typed values and back.

Owns every message, its fields and their bounds, and the framing. Must never know sockets, descriptors (only how many
travel with a message), the cache, or grammars. Bytes from outside are parsed here, once; what leaves is typed.

A frame is a 4-byte little-endian length and that many bytes of msgpack: one map of field names to values, with the
message's name under ``op``. Exactly the fields of that message must be there. ``descriptors`` counts the file
descriptors (SCM_RIGHTS) that were sent together with the first byte of the frame.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgpack

from shmcache.errors import ShmCacheError, error_from_plain
from shmcache.limits import COMPILE_SECONDS_CEILING, MESSAGE_BYTES_MAX

PROTOCOL_VERSION = 1
"""Raised with every change of a message; ``hello`` compares it."""

LENGTH_BYTES = 4
KEY_BYTES = 32
INLINE_SOURCE_BYTES_MAX = MESSAGE_BYTES_MAX - 1024
"""Largest source that travels inside a message; a larger one is sent as a descriptor."""

TEXT_BYTES_MAX = 8 << 10
NESTING_MAX = 5
DESCRIPTORS_MAX = 2

ROLES = ("client", "tool")
KINDS = ("grammar", "vocabulary")
TIERS = ("grammar", "rule", "vocabulary")
WORKER_STATES = ("cold", "idle")
ALLOCATION_OUTCOMES = ("granted", "fenced", "exists", "full")
COMMIT_OUTCOMES = ("ready", "fenced", "unindexed")


class WireError(ShmCacheError):
    """The peer sent bytes that are no message. The connection they came from cannot be used any further."""

    code = "WIRE"


Check = Callable[[Any], Any]
"""Returns the value, normalised, or raises :class:`WireError`."""

_CHECK = "check"


def _field(check: Check, **options: Any) -> Any:
    return dataclasses.field(metadata={_CHECK: check}, **options)


def _whole(low: int, high: int, **options: Any) -> Any:
    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise WireError(f"expected a whole number in {low}..{high}")
        return value

    return _field(check, **options)


def _seconds(**options: Any) -> Any:
    def check(value: Any) -> float:
        if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= COMPILE_SECONDS_CEILING:
            raise WireError(f"expected seconds in 0..{COMPILE_SECONDS_CEILING}")
        return float(value)

    return _field(check, **options)


def _octets(low: int, high: int, *, or_empty: str = "never", **options: Any) -> Any:
    def check(value: Any) -> bytes:
        if type(value) is not bytes or not (low <= len(value) <= high or (or_empty == "allowed" and not value)):
            raise WireError(f"expected {low}..{high} bytes")
        return value

    return _field(check, **options)


def _word(allowed: tuple[str, ...], **options: Any) -> Any:
    def check(value: Any) -> str:
        if type(value) is not str or value not in allowed:
            raise WireError(f"expected one of {', '.join(allowed)}")
        return value

    return _field(check, **options)


def _text(**options: Any) -> Any:
    def check(value: Any) -> str:
        if type(value) is not str or len(value) > TEXT_BYTES_MAX:
            raise WireError(f"expected a text of at most {TEXT_BYTES_MAX} characters")
        return value

    return _field(check, **options)


def _check_plain(value: Any, depth: int) -> None:
    if depth > NESTING_MAX:
        raise WireError(f"nested deeper than {NESTING_MAX}")
    if type(value) is dict:
        for name, item in value.items():
            if type(name) is not str:
                raise WireError("expected text as name of a map")
            _check_plain(item, depth + 1)
    elif type(value) is list:
        for item in value:
            _check_plain(item, depth + 1)
    elif value is not None and type(value) not in (bool, int, float, str, bytes):
        raise WireError("expected plain data")


def _plain_map(**options: Any) -> Any:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise WireError("expected a map")
        _check_plain(value, 1)
        return value

    return _field(check, **options)


_U32 = (1 << 32) - 1
_U63 = (1 << 63) - 1


def _request() -> Any:
    return _whole(0, _U32)


def _key() -> Any:
    return _octets(KEY_BYTES, KEY_BYTES)


@dataclass(frozen=True, slots=True)
class Message:
    """Root of all messages. ``descriptors``: how many file descriptors travel with it."""

    op: ClassVar[str] = ""


# --- client to manager -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """First message of every client. ``vocabulary_key`` (empty: none): the vocabulary to be kept while it stays."""

    op: ClassVar[str] = "hello"
    request: int = _request()
    protocol: int = _whole(0, _U32)
    role: str = _word(ROLES)
    pid: int = _whole(0, _U32)
    vocabulary_key: bytes = _octets(KEY_BYTES, KEY_BYTES, or_empty="allowed", default=b"")


@dataclass(frozen=True, slots=True)
class Compile(Message):
    """Asks for the image of ``key``. The source is inline, or empty and in the one descriptor that travels with it.

    For kind ``vocabulary`` the source is the vocabulary's bytes and ``vocabulary_key`` equals ``key``.
    """

    op: ClassVar[str] = "compile"
    request: int = _request()
    kind: str = _word(KINDS)
    key: bytes = _key()
    vocabulary_key: bytes = _key()
    source: bytes = _octets(0, INLINE_SOURCE_BYTES_MAX)
    seconds_max: float = _seconds(default=0.0)
    states_max: int = _whole(0, _U63, default=0)
    edges_max: int = _whole(0, _U63, default=0)
    memory_bytes_max: int = _whole(0, _U63, default=0)
    descriptors: int = _whole(0, 1, default=0)


@dataclass(frozen=True, slots=True)
class Cancel(Message):
    """The sender no longer waits for the compile that it asked for with request ``target``. No reply."""

    op: ClassVar[str] = "cancel"
    request: int = _request()
    target: int = _request()


@dataclass(frozen=True, slots=True)
class Fetch(Message):
    """Asks for a descriptor of an entry that is already in the cache: :class:`Image` or :class:`Missing`."""

    op: ClassVar[str] = "fetch"
    request: int = _request()
    tier: str = _word(TIERS)
    key: bytes = _key()


@dataclass(frozen=True, slots=True)
class Clear(Message):
    """Opens a new generation: :class:`Cleared`."""

    op: ClassVar[str] = "clear"
    request: int = _request()


@dataclass(frozen=True, slots=True)
class Evict(Message):
    """Removes the entry of ``key`` from its tier: :class:`Evicted`."""

    op: ClassVar[str] = "evict"
    request: int = _request()
    key: bytes = _key()


@dataclass(frozen=True, slots=True)
class Status(Message):
    """Asks for :class:`StatusReply`."""

    op: ClassVar[str] = "status"
    request: int = _request()


# --- manager to client -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """Reply to hello, with two descriptors: control segment (read-only), recency segment (read and write).

    ``row``: the row of the recency segment that is this client's for its counters.
    """

    op: ClassVar[str] = "welcome"
    request: int = _request()
    protocol: int = _whole(0, _U32)
    instance: int = _whole(0, _U63)
    epoch: int = _whole(0, _U63)
    generation: int = _whole(0, _U63)
    pid: int = _whole(0, _U32)
    row: int = _whole(0, _U32)
    descriptors: int = _whole(0, DESCRIPTORS_MAX, default=DESCRIPTORS_MAX)


@dataclass(frozen=True, slots=True)
class Image(Message):
    """Reply to compile and fetch, with one descriptor of the image's memory.

    ``generation``: the one in which its lease was granted. ``serial`` 0: the image is in no index and not charged (it
    was compiled across a clear, or there was no room); otherwise the segment ``(instance, serial)`` holds it.
    """

    op: ClassVar[str] = "image"
    request: int = _request()
    key: bytes = _key()
    generation: int = _whole(0, _U63)
    serial: int = _whole(0, _U63)
    payload_bytes: int = _whole(0, _U63)
    descriptors: int = _whole(1, 1, default=1)


@dataclass(frozen=True, slots=True)
class Missing(Message):
    """Reply to fetch: there is no such entry in the current generation."""

    op: ClassVar[str] = "missing"
    request: int = _request()


@dataclass(frozen=True, slots=True)
class Refused(Message):
    """Reply to any request that failed: an error in plain form, see :meth:`Refused.error`."""

    op: ClassVar[str] = "refused"
    request: int = _request()
    code: str = _text()
    message: str = _text()
    details: Mapping[str, Any] = _plain_map(default_factory=dict)

    def error(self) -> ShmCacheError:
        """The typed error that this message carries."""
        return error_from_plain({"code": self.code, "message": self.message, "details": dict(self.details)})


@dataclass(frozen=True, slots=True)
class Cleared(Message):
    """Reply to clear: the generation that is now open."""

    op: ClassVar[str] = "cleared"
    request: int = _request()
    generation: int = _whole(0, _U63)


@dataclass(frozen=True, slots=True)
class Evicted(Message):
    """Reply to evict: how many entries left, and the bytes charged for them."""

    op: ClassVar[str] = "evicted"
    request: int = _request()
    entries: int = _whole(0, _U32)
    charged_bytes: int = _whole(0, _U63)


@dataclass(frozen=True, slots=True)
class StatusReply(Message):
    """Reply to status: the shape that ``stats()`` documents."""

    op: ClassVar[str] = "status_reply"
    request: int = _request()
    stats: Mapping[str, Any] = _plain_map()


# --- manager to worker -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job(Message):
    """One compile for a worker. Descriptors, in this order: vocabulary segment if ``vocabulary_bytes`` is not 0,
    source if ``source_bytes`` is not 0 and ``source`` is empty. ``generation``: that of its lease.
    """

    op: ClassVar[str] = "job"
    job: int = _whole(1, _U63)
    kind: str = _word(KINDS)
    key: bytes = _key()
    vocabulary_key: bytes = _key()
    generation: int = _whole(0, _U63)
    source: bytes = _octets(0, INLINE_SOURCE_BYTES_MAX)
    source_bytes: int = _whole(0, _U63)
    vocabulary_bytes: int = _whole(0, _U63)
    seconds_max: float = _seconds()
    states_max: int = _whole(1, _U63)
    edges_max: int = _whole(1, _U63)
    memory_bytes_max: int = _whole(1, _U63)
    descriptors: int = _whole(0, DESCRIPTORS_MAX, default=0)


@dataclass(frozen=True, slots=True)
class WarmUp(Message):
    """Load (on a fresh host: compile) the kernels now; answered by :class:`WorkerState` ``idle``."""

    op: ClassVar[str] = "warm_up"


@dataclass(frozen=True, slots=True)
class CancelJob(Message):
    """Nobody waits for that job any more. The worker gives up at its next look, and says :class:`Done`."""

    op: ClassVar[str] = "cancel_job"
    job: int = _whole(1, _U63)


@dataclass(frozen=True, slots=True)
class Allocated(Message):
    """Reply to alloc. ``granted``: create the segment of ``serial``; otherwise that is 0 and ``outcome`` says why."""

    op: ClassVar[str] = "allocated"
    request: int = _request()
    outcome: str = _word(ALLOCATION_OUTCOMES)
    instance: int = _whole(0, _U63)
    serial: int = _whole(0, _U63)


@dataclass(frozen=True, slots=True)
class Committed(Message):
    """Reply to commit: what became of the image."""

    op: ClassVar[str] = "committed"
    request: int = _request()
    outcome: str = _word(COMMIT_OUTCOMES)


# --- worker to manager -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerState(Message):
    """``cold``: can build vocabularies; ``idle``: kernels are loaded too. Sent at start and after :class:`WarmUp`."""

    op: ClassVar[str] = "worker_state"
    pid: int = _whole(0, _U32)
    state: str = _word(WORKER_STATES)


@dataclass(frozen=True, slots=True)
class Alloc(Message):
    """Asks for room and a serial. ``reclaim_bytes`` > 0: the host's memory was full, evict at least that much first."""

    op: ClassVar[str] = "alloc"
    request: int = _request()
    job: int = _whole(1, _U63)
    tier: str = _word(TIERS)
    key: bytes = _key()
    segment_bytes: int = _whole(1, _U63)
    reclaim_bytes: int = _whole(0, _U63, default=0)


@dataclass(frozen=True, slots=True)
class Commit(Message):
    """The image is complete. ``serial`` 0: it is in no segment but in memory of its own. One descriptor of it, always.

    ``cost_us``: microseconds that computing it took.
    """

    op: ClassVar[str] = "commit"
    request: int = _request()
    job: int = _whole(1, _U63)
    tier: str = _word(TIERS)
    key: bytes = _key()
    serial: int = _whole(0, _U63)
    payload_bytes: int = _whole(0, _U63)
    cost_us: int = _whole(0, _U63)
    descriptors: int = _whole(1, 1, default=1)


@dataclass(frozen=True, slots=True)
class Abandon(Message):
    """The worker will not commit the segment of ``serial``. No reply."""

    op: ClassVar[str] = "abandon"
    job: int = _whole(1, _U63)
    serial: int = _whole(1, _U63)


@dataclass(frozen=True, slots=True)
class Fail(Message):
    """The job ended with an error, in plain form. ``cancelled`` as code: the worker gave up because it was told to."""

    op: ClassVar[str] = "fail"
    job: int = _whole(1, _U63)
    code: str = _text()
    message: str = _text()
    details: Mapping[str, Any] = _plain_map(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done(Message):
    """The worker has nothing more to say about the job, and takes the next one."""

    op: ClassVar[str] = "done"
    job: int = _whole(1, _U63)


_MESSAGES: dict[str, type[Message]] = {
    kind.op: kind
    for kind in (
        *(Hello, Compile, Cancel, Fetch, Clear, Evict, Status),
        *(Welcome, Image, Missing, Refused, Cleared, Evicted, StatusReply),
        *(Job, WarmUp, CancelJob, Allocated, Committed),
        *(WorkerState, Alloc, Commit, Abandon, Fail, Done),
    )
}

FROM_CLIENT: frozenset[type[Message]] = frozenset((Hello, Compile, Cancel, Fetch, Clear, Evict, Status))
FROM_WORKER: frozenset[type[Message]] = frozenset((WorkerState, Alloc, Commit, Abandon, Fail, Done))

_FIELDS: dict[str, tuple[tuple[str, Check], ...]] = {
    op: tuple((field.name, field.metadata[_CHECK]) for field in dataclasses.fields(kind))
    for op, kind in _MESSAGES.items()
}


def descriptor_count(message: Message) -> int:
    """How many file descriptors travel with this message."""
    return int(getattr(message, "descriptors", 0))


def encode(message: Message) -> bytes:
    """One frame. Raises :class:`WireError` when a field is out of bounds or the frame would be too long."""
    plain: dict[str, Any] = {"op": message.op}
    for name, check in _FIELDS[message.op]:
        plain[name] = check(getattr(message, name))
    body: bytes = msgpack.packb(plain, use_bin_type=True)
    if len(body) > MESSAGE_BYTES_MAX:
        raise WireError(f"message {message.op} of {len(body)} bytes is over the limit of {MESSAGE_BYTES_MAX}")
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def decode_body(body: bytes) -> Message:
    """The message in a frame's body. Raises :class:`WireError` and nothing else, whatever the bytes are."""
    if len(body) > MESSAGE_BYTES_MAX:
        raise WireError(f"a message of {len(body)} bytes is over the limit of {MESSAGE_BYTES_MAX}")
    try:
        plain = msgpack.unpackb(body, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        raise WireError(f"not msgpack: {type(error).__name__}") from error
    if type(plain) is not dict:
        raise WireError("a message must be a map")
    op = plain.pop("op", None)
    if type(op) is not str or op not in _MESSAGES:
        raise WireError("unknown message")
    return _typed(op, plain)


def _typed(op: str, plain: dict[Any, Any]) -> Message:
    fields = _FIELDS[op]
    if len(plain) != len(fields):
        raise WireError(f"message {op} needs exactly the fields {', '.join(name for name, _ in fields)}")
    values: dict[str, Any] = {}
    for name, check in fields:
        if name not in plain:
            raise WireError(f"message {op} lacks {name}")
        try:
            values[name] = check(plain[name])
        except WireError as error:
            raise WireError(f"message {op}, {name}: {error.message}") from None
    return _MESSAGES[op](**values)


class Decoder:
    """Cuts a byte stream into messages. After a :class:`WireError` it is dead: the stream cannot be trusted again."""

    __slots__ = ("_buffer", "_dead")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._dead = False

    @property
    def is_between_messages(self) -> bool:
        """Whether the stream may end here without a message being cut."""
        return not self._buffer

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes, in order; at most one incomplete message stays buffered.

        A generator: it must be run to its end. Messages before a broken one are given before the error is raised.
        """
        if self._dead:
            raise WireError("the stream is broken")
        self._buffer += data
        while len(self._buffer) >= LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:LENGTH_BYTES], "little")
            if length > MESSAGE_BYTES_MAX:
                self._dead = True
                raise WireError(f"a message of {length} bytes is over the limit of {MESSAGE_BYTES_MAX}")
            if len(self._buffer) < LENGTH_BYTES + length:
                return
            body = bytes(self._buffer[LENGTH_BYTES : LENGTH_BYTES + length])
            del self._buffer[: LENGTH_BYTES + length]
            try:
                message = decode_body(body)
            except WireError:
                self._dead = True
                raise
            yield message


M = TypeVar("M", bound=Message)


def expect(message: Message, kind: type[M]) -> M:
    """``message`` if it is of that kind; otherwise :class:`WireError`."""
    if not isinstance(message, kind):
        raise WireError(f"expected {kind.op}, got {message.op}")
    return message
