"""The manager's end of one connection: never waits, whoever is at the other end.

Owns what has been received in part and what is still to be sent, both bounded. Must never know what messages mean.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence

from shmcache.limits import MESSAGE_BYTES_MAX
from shmcache.manager.descriptors import Intake, close_all, receive_some, send_some
from shmcache.manager.wire import Message, encode

OUTGOING_BYTES_MAX = 16 * MESSAGE_BYTES_MAX
OUTGOING_DESCRIPTORS_MAX = 128
"""A peer that does not read is let go when so much waits for it."""

_CREDENTIALS = struct.Struct("3i")


class OverflowingError(ConnectionError):
    """The peer does not read what it asked for."""


class Connection:
    """A non-blocking Unix stream socket with messages in both directions."""

    def __init__(self, endpoint: socket.socket) -> None:
        endpoint.setblocking(False)
        self.socket = endpoint
        self.is_watched_for_room = False
        """Whether the loop is to be woken when the peer has read something."""
        self._intake = Intake()
        self._outgoing: deque[tuple[memoryview, list[int]]] = deque()
        self._outgoing_bytes = 0

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.socket.fileno()

    @property
    def wants_to_send(self) -> bool:
        """Whether anything waits for the peer to read."""
        return bool(self._outgoing)

    @property
    def has_input(self) -> bool:
        """Whether bytes, or the stream's end, have arrived."""
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        return bool(poller.poll(0))

    def receive(self) -> Iterator[tuple[Message, list[int]]] | None:
        """What has arrived, as messages and their descriptors, which become the caller's; None at the stream's end.

        Raises :class:`~shmcache.manager.wire.WireError`, also from the iterator.
        """
        try:
            data, descriptors = receive_some(self.socket, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return iter(())
        except ConnectionError:
            return None
        return self._intake.feed(data, descriptors) if data else None

    @property
    def is_between_messages(self) -> bool:
        """Whether the stream may end here without a message being cut."""
        return self._intake.is_between_messages

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Sends now what can be sent and keeps the rest. The descriptors stay the caller's.

        Raises ConnectionError when the peer is gone, or reads so little that it is to be let go.
        """
        frame = memoryview(encode(message))
        waiting = sum(len(kept) for _, kept in self._outgoing)
        if self._outgoing_bytes + len(frame) > OUTGOING_BYTES_MAX or waiting > OUTGOING_DESCRIPTORS_MAX:
            raise OverflowingError("the peer does not read its answers")
        if self._outgoing:
            self._keep(frame, descriptors)
            return
        try:
            sent = send_some(self.socket, frame, descriptors)
        except BlockingIOError:
            self._keep(frame, descriptors)
        else:
            if sent < len(frame):
                self._keep(frame[sent:], ())

    def flush(self) -> None:
        """Sends what the peer takes of what waits. Raises ConnectionError when it is gone."""
        while self._outgoing:
            frame, descriptors = self._outgoing[0]
            try:
                sent = send_some(self.socket, frame, descriptors)
            except BlockingIOError:
                return
            close_all(descriptors)
            self._outgoing_bytes -= sent
            if sent < len(frame):
                self._outgoing[0] = frame[sent:], []
            else:
                self._outgoing.popleft()

    def close(self) -> None:
        """Closes the socket, and every descriptor that came or was to go."""
        self.socket.close()
        self._intake.close()
        while self._outgoing:
            close_all(self._outgoing.popleft()[1])

    def _keep(self, frame: memoryview, descriptors: Sequence[int]) -> None:
        kept: list[int] = []
        try:
            kept += (os.dup(descriptor) for descriptor in descriptors)
        except OSError as error:
            close_all(kept)
            raise OverflowingError(f"no descriptor left to keep an answer: {error.strerror}") from error
        self._outgoing.append((frame, kept))
        self._outgoing_bytes += len(frame)


def peer_credentials(endpoint: socket.socket) -> tuple[int, int]:
    """Process id (0 when it is of another container) and user id of the peer, as the kernel knows them."""
    content = endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(content)
    return int(pid), int(uid)
