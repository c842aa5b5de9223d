"""A manager for one purpose: there while it is needed, and no trace of it afterwards."""

from __future__ import annotations

import os

import pytest

from shmcache.client import connect
from shmcache.errors import ManagerUnavailable
from shmcache.memory import objects
from shmcache.memory.names import Namespace, object_path
from shmcache_tools.leftovers import own_objects
from shmcache_tools.own_manager import own_manager, remove_leftovers, wait_until
from shmcache_tools.shared_stats import open_view
from tests.tools.support import BYTES


def test_nothing_is_left() -> None:
    with own_manager("test", workers=1) as namespace:
        with connect(BYTES, namespace.name, autostart=False) as cache:
            cache.compile_regex("ab*c")
        assert len(own_objects(namespace)) > 3
        pid = open_view(namespace).control.manager().pid
    assert own_objects(namespace) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_nothing_is_left_after_a_failure() -> None:
    kept: list[Namespace] = []

    def fail(namespace: Namespace) -> None:
        kept.append(namespace)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), own_manager("test", workers=1) as started:
        fail(started)
    assert own_objects(kept[0]) == []


def test_a_manager_that_was_killed_is_cleaned_up_after() -> None:
    with own_manager("test", workers=1) as namespace:
        with connect(BYTES, namespace.name, autostart=False) as cache:
            cache.compile_regex("ab*c")
        os.kill(open_view(namespace).control.manager().pid, 9)
    assert own_objects(namespace) == []


def test_two_purposes_do_not_meet() -> None:
    with own_manager("test", workers=1) as first, own_manager("test", workers=1) as second:
        assert first.prefix != second.prefix


def test_one_that_cannot_start_is_an_error_that_tells_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHMCACHE_COMPILE_SECONDS", "soon")
    with pytest.raises(ManagerUnavailable, match="did not start") as caught, own_manager("test", workers=1):
        pass
    assert "SHMCACHE_COMPILE_SECONDS" in caught.value.details["log"]


def test_only_the_namespace_s_own_objects_are_removed(namespace: str) -> None:
    mine, other = Namespace.of(namespace), Namespace.of(namespace + "-other")
    for names in (mine, other):
        object_path(names.prefix + "-0000000000000001-1").touch()
    remove_leftovers(mine)
    assert own_objects(mine) == []
    assert objects.list_objects(other.prefix) == [other.prefix + "-0000000000000001-1"]
    remove_leftovers(other)


def test_a_wait_has_an_end() -> None:
    with pytest.raises(TimeoutError, match="for the impossible"):
        wait_until(lambda: False, seconds_max=0.01, what="the impossible")
    wait_until(lambda: True, seconds_max=0.0, what="nothing")
