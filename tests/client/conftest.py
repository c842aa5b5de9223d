"""Fixtures of the client tests; what they need is imported when they run, as in the memory tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from shmcache.client import GrammarCache
    from shmcache.memory.names import Namespace
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
