"""Stores that processes of a host could keep another engine's serialised grammars in: Redis and diskcache.

Owns starting and ending them. Must never know what is kept in them.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shmcache_tools.benchmark.processes import folder_bytes, processor_seconds
from shmcache_tools.memory_usage import sum_of
from shmcache_tools.own_manager import end, wait_until

START_SECONDS_MAX = 10.0


class Store(Protocol):
    """Texts by key, of one process's connection."""

    def get(self, key: str) -> Any:
        """The text of a key, as str or bytes; None where there is none."""

    def set(self, key: str, text: str) -> Any:
        """Puts it there."""


@dataclass(frozen=True, slots=True)
class Service:
    """A store that is running: how a process connects to it, and what it costs."""

    connect: Callable[[], Store]
    folder: Path
    pids: list[int] = field(default_factory=list)

    def size_bytes(self) -> int:
        """Of its processes and its files."""
        return sum_of(self.pids).data_bytes + folder_bytes(self.folder)

    def processor_seconds(self) -> float:
        """Of its processes."""
        return processor_seconds(self.pids)


@contextmanager
def disk_store() -> Iterator[Service]:
    """diskcache in a folder of its own."""
    import diskcache

    with tempfile.TemporaryDirectory(prefix="shmcache-bench-") as name:
        folder = Path(name)
        yield Service(lambda: diskcache.Cache(str(folder), size_limit=1 << 40), folder)


@contextmanager
def redis_store() -> Iterator[Service]:
    """A Redis server of our own on a socket in a folder of its own, which keeps nothing on disk."""
    import redis

    with tempfile.TemporaryDirectory(prefix="shmcache-bench-") as name:
        socket = f"{name}/redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"]
        process = subprocess.Popen(
            [*command, "--dir", name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )

        def connected() -> Store:
            store: Store = redis.Redis(unix_socket_path=socket)
            return store

        def answers() -> bool:
            with suppress(redis.exceptions.ConnectionError):
                return bool(redis.Redis(unix_socket_path=socket).ping())
            return False

        try:
            wait_until(answers, seconds_max=START_SECONDS_MAX, what="redis-server to answer")
            yield Service(connected, Path(name), [process.pid])
        finally:
            end(process)


def missing(name: str) -> str | None:
    """Why a store of this name cannot be had here; None where it can."""
    if importlib.util.find_spec(name) is None:
        return f"{name} is not installed (extra 'bench')"
    if name == "redis" and shutil.which("redis-server") is None:
        return "there is no redis-server on PATH"
    return None


STORES = {"diskcache": disk_store, "redis": redis_store}
"""By the package that it needs."""
