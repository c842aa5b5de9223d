"""What shared memory says alone, and that it is what the manager says."""

from __future__ import annotations

import os

import pytest

from shmcache.client import connect
from shmcache.errors import ManagerUnavailable
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.recency import now_ns
from shmcache_tools.manager_link import current_stats, manager_link
from shmcache_tools.own_manager import own_manager, wait_until
from shmcache_tools.shared_stats import open_view
from tests.tools.support import BYTES, STATS_SHAPE, check_shape

GUARD_SECONDS = 5.0


def test_there_is_nothing_to_read_where_there_is_no_cache(namespace: str) -> None:
    with pytest.raises(ManagerUnavailable, match="no cache named"):
        open_view(Namespace.of(namespace))


def test_both_accounts_are_the_same_at_rest() -> None:
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as cache:
        for _ in range(2):
            cache.compile_regex("ab*c")
            cache.compile_regex("x{3}")
        with manager_link(namespace) as link:
            wait_until(
                lambda: all(worker["state"] != "busy" for worker in link.status()["workers"]),
                seconds_max=GUARD_SECONDS,
                what="the worker to store its rows",
            )
            theirs = link.status()
            ours = open_view(namespace).stats()
        check_shape(ours, STATS_SHAPE)
        check_shape(theirs, STATS_SHAPE)
        for stats in (ours, theirs):
            del stats["workers"], stats["clients"], stats["shm_free_bytes"]
        assert ours == theirs
        assert ours["compiles"]["started"] == 2
        assert ours["lookups"]["hit"] == 2
        assert ours["charged_bytes"]["grammar"] > 0


def test_who_is_there_comes_from_the_manager() -> None:
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as cache:
        cache.compile_regex("ab*c")
        stats = current_stats(namespace)
        check_shape(stats, STATS_SHAPE)
        assert {"pid": os.getpid()} in stats["clients"]
        assert [worker["pid"] > 0 for worker in stats["workers"]] == [True] * len(stats["workers"])
        assert stats["manager"]["state"] == "serving"


def test_an_entry_that_was_just_used_is_not_idle() -> None:
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as cache:
        started = now_ns()
        key = cache.compile_regex("ab*c").key
        view = open_view(namespace)
        entry = view.index.look_up(key)
        assert entry is not None
        idle = view.idle_seconds(entry)
        assert idle is not None
        assert 0 <= idle <= (now_ns() - started) / 1e9


def test_without_the_hints_the_account_can_be_read() -> None:
    with own_manager("test", workers=1) as namespace:
        object_path(namespace.recency_name).unlink()
        view = open_view(namespace)
        assert view.recency is None
        check_shape(view.stats(), STATS_SHAPE)
