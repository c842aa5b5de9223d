"""A tool's conversation with a manager that answers, is missing, is stopped, or speaks otherwise."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from time import monotonic

import pytest

from shmcache.client import connect
from shmcache.errors import ManagerUnavailable
from shmcache.memory.names import Namespace
from shmcache_tools.manager_link import current_stats, manager_link
from shmcache_tools.own_manager import own_manager
from shmcache_tools.shared_stats import open_view
from tests.tools.support import BYTES

GUARD_SECONDS = 5.0


def test_a_clear_raises_the_generation_by_one() -> None:
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as cache:
        cache.compile_regex("ab*c")
        with manager_link(namespace) as link:
            before = link.status()["generation"]
            assert link.clear() == before + 1
            assert link.status()["charged_bytes"]["grammar"] == 0
            assert link.status()["entries"]["grammar"] == 0


def test_no_manager(namespace: str) -> None:
    with pytest.raises(ManagerUnavailable), manager_link(Namespace.of(namespace)):
        pass


def test_a_stopped_manager_does_not_hold_up_who_looks() -> None:
    with own_manager("test", workers=1) as namespace:
        pid = open_view(namespace).control.manager().pid
        os.kill(pid, signal.SIGSTOP)
        try:
            started = monotonic()
            with pytest.raises(ManagerUnavailable, match="does not answer"), manager_link(namespace, seconds_max=0.2):
                pass
            assert monotonic() - started < GUARD_SECONDS
            stats = current_stats(namespace)
            assert stats["manager"] == {"pid": pid, "state": "silent"}
            assert stats["workers"] == []
        finally:
            os.kill(pid, signal.SIGCONT)
        assert current_stats(namespace)["manager"]["state"] == "serving"


@pytest.mark.parametrize("answer", [b"", b"\xff\xff\xff\xff", b"\x05\0\0\0hello", b"\x04\0\0\0\x81"])
def test_whoever_answers_with_something_else_is_no_manager(namespace: str, answer: bytes) -> None:
    names = Namespace.of(namespace)
    names.make_directory()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(names.socket_path))
        listener.listen()
        listener.settimeout(GUARD_SECONDS)

        def reply() -> None:
            connection, _ = listener.accept()
            with contextlib.closing(connection):
                connection.settimeout(GUARD_SECONDS)
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        try:
            with pytest.raises(ManagerUnavailable), manager_link(names, seconds_max=GUARD_SECONDS):
                pass
        finally:
            thread.join(2 * GUARD_SECONDS)
    assert not thread.is_alive()
