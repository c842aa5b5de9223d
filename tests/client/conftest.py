"""Fixtures of the client tests; what they need is imported when they run, as in the memory tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from shmcache.client import GrammarCache
    from shmcache.memory.names import Namespace
    from tests.client.processes import Process
    from tests.client.support import FakeManager


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    from tests.memory.support import own_namespace

    with own_namespace() as namespace:
        yield namespace


@pytest.fixture
def manager(namespace: Namespace) -> Iterator[FakeManager]:
    from tests.client.support import fake_manager

    with fake_manager(namespace) as manager:
        yield manager


@pytest.fixture
def client(namespace: Namespace) -> Iterator[Callable[[], GrammarCache]]:
    """Makes clients of the namespace, each as if of another process, and closes them at the end."""
    from shmcache.client import GrammarCache
    from tests.client.support import VOCABULARY

    with ExitStack() as stack:
        yield lambda: stack.enter_context(GrammarCache(VOCABULARY, namespace, may_start=False))


@pytest.fixture
def served(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Namespace]:
    """A namespace in which managers may be started; whatever is started has ended when the test has."""
    from shmcache.memory.election import holder_pid
    from tests.conftest import stop_manager, stop_process

    monkeypatch.setenv("SHMCACHE_WORKERS", "1")
    try:
        yield namespace
    finally:
        stop_manager(namespace.socket_path)
        if pid := holder_pid(namespace):
            stop_process(pid)


@pytest.fixture
def start(served: Namespace) -> Iterator[Callable[[int], list[Process]]]:
    """Starts processes, which have loaded everything but not connected."""
    from tests.client.processes import Process

    with ExitStack() as stack:

        @contextmanager
        def running() -> Iterator[Process]:
            process = Process(served)
            with process.process:
                try:
                    yield process
                finally:
                    process.process.kill()

        def start(count: int) -> list[Process]:
            processes = [stack.enter_context(running()) for _ in range(count)]
            for process in processes:
                assert process.hear() == {"ready": True}
            return processes

        yield start


@pytest.fixture
def cache(served: Namespace) -> Iterator[GrammarCache]:
    from shmcache.client import GrammarCache
    from tests.client.support import VOCABULARY

    with GrammarCache(VOCABULARY, served, may_start=True) as cache:
        assert cache.stats()["manager"]["state"] == "serving"
        yield cache
