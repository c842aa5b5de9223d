"""The messages on the socket: bytes to typed values and back.

Owns the framing and the table of messages. Must never know sockets, descriptors (only how many
travel with a message), the cache, or grammars. Bytes from outside are parsed here, once; what leaves is typed.

A frame is a 4-byte little-endian length and that many bytes of msgpack: one map of field names to values, with the
message's name under ``op``. Exactly the fields of that message must be there. ``descriptors`` counts the file
descriptors (SCM_RIGHTS) that were sent together with the first byte of the frame.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar

import msgpack

from shmcache.limits import MESSAGE_BYTES_MAX
from shmcache.manager.client_messages import (
    Cancel,
    Clear,
    Cleared,
    Compile,
    Evict,
    Evicted,
    Fetch,
    Hello,
    Image,
    Missing,
    Refused,
    Status,
    StatusReply,
    Welcome,
)
from shmcache.manager.fields import CHECK, INLINE_SOURCE_BYTES_MAX, KEY_BYTES, Check, Message, WireError
from shmcache.manager.worker_messages import (
    Abandon,
    Alloc,
    Allocated,
    CancelJob,
    Commit,
    Committed,
    Done,
    Fail,
    Job,
    WarmUp,
    WorkerState,
)

__all__ = [
    "FROM_CLIENT",
    "FROM_WORKER",
    "INLINE_SOURCE_BYTES_MAX",
    "KEY_BYTES",
    "PROTOCOL_VERSION",
    "Abandon",
    "Alloc",
    "Allocated",
    "Cancel",
    "CancelJob",
    "Clear",
    "Cleared",
    "Commit",
    "Committed",
    "Compile",
    "Decoder",
    "Done",
    "Evict",
    "Evicted",
    "Fail",
    "Fetch",
    "Hello",
    "Image",
    "Job",
    "Message",
    "Missing",
    "Refused",
    "Status",
    "StatusReply",
    "WarmUp",
    "Welcome",
    "WireError",
    "WorkerState",
    "decode_body",
    "descriptor_count",
    "encode",
    "expect",
]

PROTOCOL_VERSION = 1
"""Raised with every change of a message; ``hello`` compares it."""

LENGTH_BYTES = 4

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
    op: tuple((field.name, field.metadata[CHECK]) for field in dataclasses.fields(kind))
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
