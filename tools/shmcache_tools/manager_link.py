"""A tool's short conversation with the manager.

Owns one connection of role ``tool``, and the bound on how long a manager may take to answer. Must never start a
manager: a tool that looks should not change what it looks at.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.manager.channel import Channel
from shmcache.manager.fields import Message, WireError
from shmcache.manager.wire import (
    PROTOCOL_VERSION,
    Clear,
    Cleared,
    Evict,
    Evicted,
    Hello,
    Refused,
    Status,
    StatusReply,
    Welcome,
    expect,
)
from shmcache.memory.names import Namespace
from shmcache_tools.shared_stats import open_view

ANSWER_SECONDS_MAX = 2.0
"""A manager that takes longer is stopped or stuck; what shared memory says is shown without it."""

ASKED_AT_ONCE = 256

Reply = TypeVar("Reply", bound=Message)


class ManagerLink:
    """A connection on which the manager has said welcome; requests one after the other."""

    def __init__(self, channel: Channel, seconds_max: float) -> None:
        self._channel = channel
        self._seconds_max = seconds_max
        self._request = 0

    def ask(self, make: Callable[[int], Message], kind: type[Reply]) -> Reply:
        """The reply to ``make(request number)``; other messages' descriptors are closed.

        Raises :class:`ManagerUnavailable` when it does not come in time, and the manager's own error.
        """
        request = self.start(make)
        deadline = time.monotonic() + self._seconds_max
        while True:
            answered, message = self.next_answer(max(0.0, deadline - time.monotonic()))
            if answered == request:
                return _expected(message, kind)

    def start(self, make: Callable[[int], Message], descriptors: Sequence[int] = ()) -> int:
        """Sends ``make(request number)`` and returns the number, without waiting for an answer."""
        self._request += 1
        try:
            self._channel.send(make(self._request), descriptors)
        except (OSError, WireError) as error:
            raise _silent(error) from error
        return self._request

    def next_answer(self, seconds_max: float) -> tuple[int, Message]:
        """The next answer to whatever request, and the request's number; its descriptors are closed."""
        try:
            message, descriptors = self._channel.receive(seconds_max)
        except (OSError, EOFError, WireError) as error:
            raise _silent(error) from error
        for descriptor in descriptors:
            os.close(descriptor)
        return int(getattr(message, "request", 0)), message

    def status(self) -> dict[str, Any]:
        """What the manager knows, in the shape of ``GrammarCache.stats()``."""
        return dict(self.ask(Status, StatusReply).stats)

    def clear(self) -> int:
        """Opens a new generation, waiting for nothing, and returns it."""
        return self.ask(Clear, Cleared).generation

    def evict(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Removes the entries of the keys from all tiers; how many went, and the bytes charged for them."""
        entries = charged_bytes = 0
        for start in range(0, len(keys), ASKED_AT_ONCE):
            # Many are on their way at once: the manager would otherwise wait for us between any two.
            batch = keys[start : start + ASKED_AT_ONCE]
            requests = {self.start(lambda request, key=key: Evict(request, key)) for key in batch}  # type: ignore[misc]
            while requests:
                request, message = self.next_answer(self._seconds_max)
                if request in requests:
                    requests.remove(request)
                    evicted = _expected(message, Evicted)
                    entries += evicted.entries
                    charged_bytes += evicted.charged_bytes
        return entries, charged_bytes


def _expected(message: Message, kind: type[Reply]) -> Reply:
    if isinstance(message, Refused):
        raise message.error()
    try:
        return expect(message, kind)
    except WireError as error:
        raise _silent(error) from error


def _silent(error: Exception) -> ManagerUnavailable:
    return ManagerUnavailable(f"the manager does not answer: {error or type(error).__name__}")


@contextmanager
def manager_link(namespace: Namespace, *, seconds_max: float = ANSWER_SECONDS_MAX) -> Iterator[ManagerLink]:
    """A connection to the manager, which may take ``seconds_max`` for each answer.

    Raises :class:`ManagerUnavailable` when there is none.
    """
    try:
        namespace.check_directory()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except (OSError, SegmentError) as error:
        raise ManagerUnavailable(f"there is no manager of {namespace.name!r}: {error}") from error
    with contextlib.closing(connection):
        try:
            connection.settimeout(seconds_max)
            connection.connect(str(namespace.socket_path))
            connection.settimeout(None)
        except OSError as error:
            raise ManagerUnavailable(f"no manager of {namespace.name!r} answers at {namespace.socket_path}") from error
        with contextlib.closing(Channel(connection)) as channel:
            link = ManagerLink(channel, seconds_max)
            link.ask(lambda request: Hello(request, PROTOCOL_VERSION, "tool", os.getpid()), Welcome)
            yield link


def current_stats(namespace: Namespace) -> dict[str, Any]:
    """The shape of ``GrammarCache.stats()``: the account from shared memory, workers and clients from the manager.

    A manager that holds its lock and does not answer has the state ``silent``. Raises :class:`ManagerUnavailable` when
    there is no cache of that name, :class:`SegmentError` when it cannot be read.
    """
    stats = open_view(namespace).stats()
    try:
        with manager_link(namespace) as link:
            known = link.status()
    except ManagerUnavailable:
        if stats["manager"]["state"] == "serving":
            stats["manager"]["state"] = "silent"
        return stats
    stats["workers"], stats["clients"] = known["workers"], known["clients"]
    return stats
