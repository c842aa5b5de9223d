"""Fixtures of the memory tests.

What they need is imported when they run: importing it here would fix the directory of shared memory before
the run has chosen its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from shmcache.memory.names import Namespace
    from tests.memory.support import Cache


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    from tests.memory.support import own_namespace

    with own_namespace() as namespace:
        yield namespace


@pytest.fixture
def cache(namespace: Namespace) -> Cache:
    from tests.memory.support import Cache

    return Cache.create(namespace)
