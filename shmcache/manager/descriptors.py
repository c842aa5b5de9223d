"""File descriptors beside bytes on a Unix stream socket.

Owns sending and receiving with SCM_RIGHTS, and which descriptors belong to which message. Must never know what a
descriptor is of. Descriptors that were received and are not handed on are closed here, whatever happens.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shmcache.manager.fields import DESCRIPTORS_MAX, INLINE_SOURCE_BYTES_MAX
from shmcache.manager.wire import Decoder, Message, WireError, descriptor_count
from shmcache.memory import steps

RECEIVE_BYTES = 1 << 16
_ANCILLARY_BYTES = socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize)


@contextmanager
def in_memory(data: bytes) -> Iterator[int]:
    """A descriptor of a memory file that holds ``data``, to be sent to somebody else."""
    descriptor = steps.memfd_create("shmcache source", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[steps.write(descriptor, view) :]
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inline_or_in_memory(data: bytes) -> Iterator[tuple[bytes, list[int]]]:
    """A source as a message carries it: its bytes and no descriptor, or where it is too large no bytes and one."""
    if len(data) <= INLINE_SOURCE_BYTES_MAX:
        yield data, []
        return
    with in_memory(data) as descriptor:
        yield b"", [descriptor]


def send_some(connection: socket.socket, data: bytes | memoryview, descriptors: Sequence[int] = ()) -> int:
    """Sends what the socket takes of ``data``; the descriptors go with its first byte. Returns the bytes sent."""
    if not descriptors:
        return steps.send(connection, data, socket.MSG_NOSIGNAL)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    return steps.sendmsg(connection, [data], rights, socket.MSG_NOSIGNAL)


def receive_some(connection: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """What has arrived, and the descriptors that came with it, close-on-exec; no bytes at the end of the stream.

    Raises :class:`WireError` when there were more descriptors than a message may have, or no room for them.
    """
    flags |= socket.MSG_CMSG_CLOEXEC
    data, ancillary, answer_flags, _ = connection.recvmsg(RECEIVE_BYTES, _ANCILLARY_BYTES, flags)
    descriptors: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
            descriptors += numbers
    if answer_flags & socket.MSG_CTRUNC:
        close_all(descriptors)
        raise WireError("more descriptors than a message may have, or than this process may open")
    return data, descriptors


def close_all(descriptors: Sequence[int]) -> None:
    """Closes descriptors that are ours."""
    for descriptor in descriptors:
        os.close(descriptor)


class Intake:
    """Puts messages and their descriptors back together. After a :class:`WireError` it is of no more use."""

    __slots__ = ("_decoder", "_descriptors")

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._descriptors: deque[int] = deque()

    @property
    def is_between_messages(self) -> bool:
        """Whether the stream may end here without a message being cut."""
        return self._decoder.is_between_messages

    def feed(self, data: bytes, descriptors: Sequence[int]) -> Iterator[tuple[Message, list[int]]]:
        """The messages that are complete now, each with its descriptors, which then belong to the caller.

        A generator; whoever does not run it to its end calls :meth:`close`.
        """
        self._descriptors.extend(descriptors)
        for message in self._decoder.feed(data):
            count = descriptor_count(message)
            if count > len(self._descriptors):
                raise WireError(f"message {message.op} lacks descriptors")
            yield message, [self._descriptors.popleft() for _ in range(count)]
        kept_max = 0 if self._decoder.is_between_messages else DESCRIPTORS_MAX
        if len(self._descriptors) > kept_max:
            raise WireError("descriptors that no message claims")

    def close(self) -> None:
        """Closes descriptors whose message never became complete."""
        while self._descriptors:
            os.close(self._descriptors.popleft())
