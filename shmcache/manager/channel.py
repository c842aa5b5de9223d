"""A blocking end of the socket, for clients and workers.

Owns one connection: whole messages in, whole messages out, each with its descriptors. Must never know which messages
follow which. One thread at a time sends and one receives; they may be two.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from shmcache.manager.descriptors import Intake, close_all, receive_some, send_some
from shmcache.manager.wire import Message, WireError, encode
from shmcache.memory import steps


class ChannelClosed(ConnectionError):  # noqa: N818  (a condition, as StopIteration is)
    """The other end is gone."""


class Channel:
    """Messages over a connected Unix stream socket, which the channel owns from now on."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(True)
        self._intake = Intake()
        self._received: deque[tuple[Message, list[int]]] = deque()

    @classmethod
    def connect(cls, path: Path, timeout: float | None = None) -> Channel:
        """A channel to the manager that listens at ``path``. Raises OSError (nobody there, or TimeoutError)."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.settimeout(timeout)
            connection.connect(str(path))
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Sends a whole message; the descriptors stay the caller's. Raises :class:`ChannelClosed` or WireError."""
        view = memoryview(encode(message))
        try:
            sent = send_some(self._socket, view, descriptors)
            if sent < len(view):
                steps.sendall(self._socket, view[sent:], socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other end is gone") from error

    def receive(self, timeout: float | None = None) -> tuple[Message, list[int]]:
        """The next message and its descriptors, which are the caller's to close.

        Waits at most ``timeout`` seconds between two arrivals of bytes (None: for ever, 0: not at all). Raises
        TimeoutError, :class:`ChannelClosed`, or :class:`~shmcache.manager.wire.WireError`.
        """
        while not self._received:
            if timeout is not None:
                self._wait(timeout)
            data, descriptors = self._receive_some()
            if not data:
                if not self._intake.is_between_messages:
                    raise WireError("the stream ends within a message")
                raise ChannelClosed("the other end is gone")
            self._received.extend(self._intake.feed(data, descriptors))
        return self._received.popleft()

    def shut_down(self) -> None:
        """Ends the conversation for both ends: who waits in :meth:`receive`, here or there, gets ChannelClosed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the socket and every descriptor that nobody took."""
        self._socket.close()
        self._intake.close()
        while self._received:
            close_all(self._received.popleft()[1])

    def _wait(self, timeout: float) -> None:
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLIN)
        if not poller.poll(1000 * timeout):
            raise TimeoutError(f"no answer for {timeout} s")

    def _receive_some(self) -> tuple[bytes, list[int]]:
        try:
            return receive_some(self._socket)
        except ConnectionResetError:
            return b"", []
