"""One client's connection to the manager: requests of many threads, replies in any order.

Owns the socket, the numbering of requests, and the thread that receives. Must never know what a reply is good for, nor
outlive a fork: a child closes its copy of the socket and opens a connection of its own.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from shmcache.errors import ManagerUnavailable, SegmentError, ShmCacheError
from shmcache.manager.channel import Channel
from shmcache.manager.client_messages import Cancel, Hello, Refused, Welcome
from shmcache.manager.fields import Message, WireError
from shmcache.manager.wire import PROTOCOL_VERSION, expect
from shmcache.memory.names import Namespace

HELLO_SECONDS_MAX = 5.0
"""How long a manager that accepted a connection may take to say welcome."""

_CREDENTIALS = struct.Struct("3i")


class UselessManagerError(ManagerUnavailable):
    """Somebody listens, but does not say welcome: no other manager can be started, and asking again soon is no use."""


class LinkClosedError(Exception):
    """The connection ended, and with it every request on it."""


class ReplyTimeoutError(Exception):
    """The reply did not come in time; the request was cancelled."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and the descriptors that came with it. Use as a context manager: it closes them."""

    message: Message
    descriptors: Sequence[int]

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class _Waiter:
    """Who waits for one reply. Its gate opens once; an Event would do, at several times the steps of a lock."""

    __slots__ = ("_gate", "answer", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self.answer: Answer | None = None
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, timeout: float) -> bool:
        """Whether it was over within so many seconds."""
        return self._gate.acquire(timeout=timeout)

    def end(self) -> None:
        """Lets it go on. Called once, by who has taken it out of the waiting."""
        self.is_over = True
        self._gate.release()


class Link:
    """A connection on which the manager has said welcome."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = count(2)
        self._waiters: dict[int, _Waiter] = {}
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._pid = os.getpid()
        self.is_open = True
        threading.Thread(target=self._receive, name="shmcache link", daemon=True).start()

    @classmethod
    def open(cls, namespace: Namespace, vocabulary_key: bytes) -> tuple[Link, Answer]:
        """Connects; the answer is the :class:`Welcome`, with descriptors of control and recency segment.

        Raises :class:`ManagerUnavailable` when nobody listens, :class:`UselessManagerError` when somebody else does.
        """
        try:
            namespace.check_directory()
            channel = Channel(_connect(namespace))
        except (OSError, SegmentError) as error:
            useless = isinstance(error, (SegmentError, TimeoutError))
            kind = UselessManagerError if useless else ManagerUnavailable
            raise kind(f"no manager answers at {namespace.socket_path}: {error}") from error
        try:
            channel.send(Hello(1, PROTOCOL_VERSION, "client", os.getpid(), vocabulary_key))
            answer = Answer(*channel.receive(HELLO_SECONDS_MAX))
            if isinstance(answer.message, Refused):
                raise UselessManagerError(f"the manager refuses this client: {answer.message.message}")
            expect(answer.message, Welcome)
        except TimeoutError as error:
            channel.close()
            raise UselessManagerError(f"the manager did not say welcome in {HELLO_SECONDS_MAX} s") from error
        except (OSError, WireError) as error:
            channel.close()
            raise ManagerUnavailable(f"the manager did not say welcome: {error}") from error
        except BaseException:
            channel.close()
            raise
        return cls(channel), answer

    def ask(self, make: Callable[[int], Message], *, descriptors: Sequence[int] = (), timeout: float) -> Answer:
        """Sends ``make(request number)`` and waits for its reply, at most ``timeout`` seconds.

        Raises :class:`LinkClosedError` or :class:`ReplyTimeoutError`. Descriptors sent stay the caller's.
        """
        waiter = _Waiter()
        number = next(self._numbers) & 0xFFFF_FFFF
        with self._lock:
            if not self.is_open:
                raise LinkClosedError
            self._waiters[number] = waiter
        try:
            self._send(make(number), descriptors)
            if not waiter.wait(timeout):
                self._send(Cancel(next(self._numbers) & 0xFFFF_FFFF, number))
        finally:
            with self._lock:
                self._waiters.pop(number, None)
        if waiter.answer is not None:
            return waiter.answer
        raise LinkClosedError if waiter.is_over else ReplyTimeoutError

    def close(self) -> None:
        """Ends the connection; whoever waits on it gets :class:`LinkClosedError`. Idempotent."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
        if was_open and self._pid == os.getpid():
            # Wakes the receiving thread, which closes the socket.
            self._channel.shut_down()

    def after_fork(self) -> None:
        """In a child: lets go of the parent's connection without ending it."""
        self.is_open = False
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._channel.close()

    def _send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        try:
            with self._send_lock:
                self._channel.send(message, descriptors)
        except OSError as error:
            self.close()
            raise LinkClosedError from error

    def _receive(self) -> None:
        try:
            while True:
                answer = Answer(*self._channel.receive(None))
                with self._lock:
                    waiter = self._waiters.pop(getattr(answer.message, "request", -1), None)
                if waiter is None:
                    # Nobody waits any more.
                    answer.__exit__()
                else:
                    waiter.answer = answer
                    waiter.end()
        except (OSError, ShmCacheError):
            pass
        finally:
            with self._lock:
                self.is_open = False
                waiters, self._waiters = self._waiters, {}
            for waiter in waiters.values():
                waiter.end()
            self._channel.close()


def _connect(namespace: Namespace) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(HELLO_SECONDS_MAX)
        connection.connect(str(namespace.socket_path))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid = _CREDENTIALS.unpack(credentials)[1]
        if uid != os.geteuid():
            raise SegmentError(f"the socket belongs to uid {uid}")
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection
