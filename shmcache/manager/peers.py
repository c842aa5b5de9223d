"""The clients that are connected to the manager.

Owns their connections, process descriptors and counter rows. Must never know what they ask for.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from shmcache.manager.connection import Connection
from shmcache.manager.recovery import fold_row
from shmcache.manager.shelf import Shelf

_log = logging.getLogger(__name__)

NO_ROW = (1 << 32) - 1
"""What a client gets when all counter rows are taken: it does not count."""


@dataclass(slots=True)
class Client:
    """One connected client. ``pidfd`` is -1 where its process cannot be watched; ``role`` is empty before its hello."""

    number: int
    connection: Connection
    pid: int
    pidfd: int
    role: str = ""
    row: int = NO_ROW
    is_leaving: bool = False
    """It is let go as soon as what waits for it is sent."""


class Clients:
    """All connected clients and the counter rows they have."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._clients: dict[int, Client] = {}
        self._number_last = 0
        self._free_rows = list(range(shelf.recency.row_count - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, number: int) -> Client | None:
        """The client of that number, if it is connected."""
        return self._clients.get(number)

    def all(self) -> list[Client]:
        """Every connected client."""
        return list(self._clients.values())

    def count(self, role: str) -> int:
        """How many clients of that role are connected."""
        return sum(client.role == role for client in self._clients.values())

    def pids(self) -> list[int]:
        """The process of every client that is no tool."""
        return [client.pid for client in self._clients.values() if client.role == "client"]

    def rows(self) -> Iterable[int]:
        """The counter rows in use."""
        return [client.row for client in self._clients.values() if client.row != NO_ROW]

    def admit(self, endpoint: socket.socket, pid: int) -> Client:
        """A new connection."""
        self._number_last += 1
        pidfd = -1
        if pid > 0:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                # It is gone already, or of another pid namespace: the stream's end tells as well.
                pidfd = -1
        client = Client(self._number_last, Connection(endpoint), pid, pidfd)
        self._clients[client.number] = client
        return client

    def welcome(self, client: Client, role: str, pid: int) -> None:
        """It said hello. Inside a container ``pid`` is its own idea of its number; the kernel's counts more."""
        client.role = role
        client.pid = client.pid or pid
        if role == "client" and self._free_rows:
            client.row = self._free_rows.pop()
        if role == "client":
            self._shelf.control.count("clients")

    def remove(self, client: Client) -> None:
        """It is gone: what it counted stays."""
        del self._clients[client.number]
        if client.role == "client":
            self._shelf.control.count("clients", -1)
        if client.row != NO_ROW:
            fold_row(self._shelf.control, self._shelf.recency, client.row)
            self._free_rows.append(client.row)
        client.connection.close()
        if client.pidfd >= 0:
            os.close(client.pidfd)
