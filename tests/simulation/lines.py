"""Connections, processes and the selector as the simulation has them, in the shapes that the manager's loop expects.

Owns queues of messages between two ends, and which of them the loop is told about. Must never decide what happens
next: the simulation does.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.files import MANAGER, Files

Packet = tuple[Any, list[int]]


@dataclass(eq=False)
class Line:
    """One connection, seen from the manager's end; ``peer`` owns what is sent to it. Messages stay in order."""

    number: int
    peer: str
    files: Files
    to_manager: deque[Packet] = field(default_factory=deque)
    to_peer: deque[Packet] = field(default_factory=deque)
    is_cut: bool = False
    """The peer is gone; what it had sent is still there."""
    is_closed: bool = False
    """The manager is gone, or let the peer go."""
    is_watched_for_room: bool = False
    wants_to_send: bool = False
    is_between_messages: bool = True

    @property
    def socket(self) -> Line:
        return self

    def fileno(self) -> int:
        return self.number

    @property
    def has_input(self) -> bool:
        return bool(self.to_manager) or self.is_cut

    def receive(self) -> Iterable[Packet] | None:
        if not self.to_manager:
            return None if self.is_cut else ()
        message, descriptors = self.to_manager.popleft()
        return [(message, [self.files.take(descriptor, MANAGER) for descriptor in descriptors])]

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        if self.is_cut:
            raise ConnectionError("the peer is gone")
        copies = [self.files.send(descriptor, f"in flight to {self.number}") for descriptor in descriptors]
        self.to_peer.append((message, copies))

    def close(self) -> None:
        """The manager's end closes: what it had not read is gone, what it had sent still arrives."""
        self.is_closed = True
        while self.to_manager:
            self.files.close_all(self.to_manager.popleft()[1])

    # --- the peer's end ----------------------------------------------------------------------------------------------

    def say(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """The peer sends; into nowhere, if nobody listens any more."""
        copies = [self.files.send(descriptor, f"to {self.number}") for descriptor in descriptors]
        if self.is_closed:
            self.files.close_all(copies)
        else:
            self.to_manager.append((message, copies))

    def hear(self) -> Packet:
        """The peer receives."""
        message, descriptors = self.to_peer.popleft()
        return message, [self.files.take(descriptor, self.peer) for descriptor in descriptors]

    def hang_up(self) -> None:
        """The peer's process ends."""
        self.drop()
        self.files.close_owner(self.peer)

    def drop(self) -> None:
        """The peer's end closes; what was on its way to it is gone."""
        self.is_cut = True
        while self.to_peer:
            self.files.close_all(self.to_peer.popleft()[1])


@dataclass(frozen=True)
class Key:
    """What the selector tells: ``data`` as it was registered."""

    fd: int
    data: Any


class FakeSelector:
    """A selector that finds ready what the simulation says."""

    def __init__(self) -> None:
        self.map: dict[int, Key] = {}
        self.ready: list[tuple[Key, int]] = []

    def register(self, of: Any, events: int, data: Any = None) -> None:
        number = of if isinstance(of, int) else of.fileno()
        self.map[number] = Key(number, data)

    def unregister(self, of: Any) -> None:
        del self.map[of if isinstance(of, int) else of.fileno()]

    def modify(self, of: Any, events: int, data: Any = None) -> None:
        self.register(of, events, data)

    def get_map(self) -> dict[int, Key]:
        return self.map

    def select(self, timeout: float | None) -> list[tuple[Key, int]]:
        ready, self.ready = self.ready, []
        return ready

    def tell(self, number: int) -> None:
        """That descriptor is to be found ready."""
        self.ready.append((self.map[number], selectors.EVENT_READ))

    def close(self) -> None:
        self.map.clear()
