"""The messages between clients and the manager.

Owns their fields. Must never know how they are framed or what happens upon them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shmcache.errors import ShmCacheError, error_from_plain
from shmcache.manager.fields import (
    DESCRIPTORS_MAX,
    INLINE_SOURCE_BYTES_MAX,
    KEY_BYTES,
    KINDS,
    ROLES,
    TIERS,
    U32,
    U63,
    U64,
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

# --- client to manager -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """First message of every client. ``vocabulary_key`` (empty: none): the vocabulary to be kept while it stays."""

    op: ClassVar[str] = "hello"
    request: int = request_number()
    protocol: int = whole(0, U32)
    role: str = word(ROLES)
    pid: int = whole(0, U32)
    vocabulary_key: bytes = octets(KEY_BYTES, KEY_BYTES, or_empty="allowed", default=b"")


@dataclass(frozen=True, slots=True)
class Compile(Message):
    """Asks for the image of ``key``. The source is inline, or empty and in the one descriptor that travels with it.

    For kind ``vocabulary`` the source is the vocabulary's bytes and ``vocabulary_key`` equals ``key``.
    """

    op: ClassVar[str] = "compile"
    request: int = request_number()
    kind: str = word(KINDS)
    key: bytes = digest()
    vocabulary_key: bytes = digest()
    source: bytes = octets(0, INLINE_SOURCE_BYTES_MAX)
    seconds_max: float = seconds(default=0.0)
    states_max: int = whole(0, U63, default=0)
    edges_max: int = whole(0, U63, default=0)
    memory_bytes_max: int = whole(0, U63, default=0)
    descriptors: int = whole(0, 1, default=0)


@dataclass(frozen=True, slots=True)
class Cancel(Message):
    """The sender no longer waits for the compile that it asked for with request ``target``. No reply."""

    op: ClassVar[str] = "cancel"
    request: int = request_number()
    target: int = request_number()


@dataclass(frozen=True, slots=True)
class Fetch(Message):
    """Asks for a descriptor of an entry that is already in the cache: :class:`Image` or :class:`Missing`."""

    op: ClassVar[str] = "fetch"
    request: int = request_number()
    tier: str = word(TIERS)
    key: bytes = digest()


@dataclass(frozen=True, slots=True)
class Clear(Message):
    """Opens a new generation: :class:`Cleared`."""

    op: ClassVar[str] = "clear"
    request: int = request_number()


@dataclass(frozen=True, slots=True)
class Evict(Message):
    """Removes the entry of ``key`` from its tier: :class:`Evicted`."""

    op: ClassVar[str] = "evict"
    request: int = request_number()
    key: bytes = digest()


@dataclass(frozen=True, slots=True)
class Status(Message):
    """Asks for :class:`StatusReply`."""

    op: ClassVar[str] = "status"
    request: int = request_number()


# --- manager to client -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """Reply to hello, with two descriptors: control segment (read-only), recency segment (read and write).

    ``row``: the row of the recency segment that is this client's for its counters.
    """

    op: ClassVar[str] = "welcome"
    request: int = request_number()
    protocol: int = whole(0, U32)
    instance: int = whole(0, U64)
    epoch: int = whole(0, U63)
    generation: int = whole(0, U63)
    pid: int = whole(0, U32)
    row: int = whole(0, U32)
    descriptors: int = whole(0, DESCRIPTORS_MAX, default=DESCRIPTORS_MAX)


@dataclass(frozen=True, slots=True)
class Image(Message):
    """Reply to compile and fetch, with one descriptor of the image's memory.

    ``generation``: the one in which its lease was granted. ``serial`` 0: the image is in no index and not charged (it
    was compiled across a clear, or there was no room); otherwise the segment ``(instance, serial)`` holds it.
    """

    op: ClassVar[str] = "image"
    request: int = request_number()
    key: bytes = digest()
    generation: int = whole(0, U63)
    serial: int = whole(0, U63)
    payload_bytes: int = whole(0, U63)
    descriptors: int = whole(1, 1, default=1)


@dataclass(frozen=True, slots=True)
class Missing(Message):
    """Reply to fetch: there is no such entry in the current generation."""

    op: ClassVar[str] = "missing"
    request: int = request_number()


@dataclass(frozen=True, slots=True)
class Refused(Message):
    """Reply to any request that failed: an error in plain form, see :meth:`Refused.error`."""

    op: ClassVar[str] = "refused"
    request: int = request_number()
    code: str = text()
    message: str = text()
    details: Mapping[str, Any] = plain_map(default_factory=dict)

    def error(self) -> ShmCacheError:
        """The typed error that this message carries."""
        return error_from_plain({"code": self.code, "message": self.message, "details": dict(self.details)})


@dataclass(frozen=True, slots=True)
class Cleared(Message):
    """Reply to clear: the generation that is now open."""

    op: ClassVar[str] = "cleared"
    request: int = request_number()
    generation: int = whole(0, U63)


@dataclass(frozen=True, slots=True)
class Evicted(Message):
    """Reply to evict: how many entries left, and the bytes charged for them."""

    op: ClassVar[str] = "evicted"
    request: int = request_number()
    entries: int = whole(0, U32)
    charged_bytes: int = whole(0, U63)


@dataclass(frozen=True, slots=True)
class StatusReply(Message):
    """Reply to status: the shape that ``stats()`` documents."""

    op: ClassVar[str] = "status_reply"
    request: int = request_number()
    stats: Mapping[str, Any] = plain_map()
