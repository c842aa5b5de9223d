"""More clients than descriptors, and a thousand that come and die: a manager that may open 256 files."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcache.manager import wire
from shmcache.memory.check import check
from shmcache.memory.control import open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.names import Namespace
from shmcache.memory.recency import ClientCounts, open_recency
from tests.crash.managers import serves, starting
from tests.manager.live import VOCABULARY, Asker, pause

FILES_MAX = 256
AT_ONCE = 300
IN_ALL = 1000


@pytest.fixture
def names(namespace: str) -> Iterator[Namespace]:
    if shutil.which("prlimit") is None:
        pytest.skip("there is no prlimit command")
    names = Namespace.of(namespace)
    with starting(names, "prlimit", f"--nofile={FILES_MAX}:{FILES_MAX}") as (_, ready):
        assert serves(ready)
        yield names


def connect(names: Namespace) -> socket.socket:
    """A client that has said hello and does not wait for the answer."""
    endpoint = socket.socket(socket.AF_UNIX)
    endpoint.connect(str(names.socket_path))
    endpoint.sendall(wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION, "client", os.getpid(), VOCABULARY.fingerprint)))
    return endpoint


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_thousand_clients_come_and_die(names: Namespace) -> None:
    asker = Asker(names)
    manager = holder_pid(names)
    assert manager
    before = open_files(manager)
    for start in range(0, IN_ALL, AT_ONCE):
        endpoints = [connect(names) for _ in range(min(AT_ONCE, IN_ALL - start))]
        # There are more of them than the manager has descriptors; who is there already is served.
        assert asker.stats()["generation"] == 1
        for endpoint in endpoints:
            endpoint.close()
    pause(lambda: len(asker.stats()["clients"]) == 1, "clients stay", 60)
    pause(lambda: open_files(manager) == before, "descriptors stay", 60)
    control = open_control_reader(names)
    recency = open_recency(names, control)
    assert all(recency.counts(row) == ClientCounts() for row in range(recency.row_count))
    assert check(control, IndexReader(control), names.prefix) == []
    another = Asker(names)
    assert len(asker.stats()["clients"]) == 2
    another.close()
    asker.close()
