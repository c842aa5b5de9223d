"""Clients as processes: forked, spawned, stopped, and with few descriptors."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable

import pytest

from shmcache.client import GrammarCache
from shmcache.memory.names import Namespace
from shmcache.memory.segments import list_segments
from tests.client.processes import Process
from tests.client.support import VOCABULARY
from tests.manager.live import pause

GUARD_SECONDS = 30.0


def in_child(work: Callable[[], bool], *, ending: str) -> None:
    """Runs ``work`` in a forked child, which then ends in that way; fails unless it was content."""
    with warnings.catch_warnings():
        # The parent has a thread that receives; the child does not use it.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.alarm(int(GUARD_SECONDS))
        is_content = False
        try:
            is_content = work()
        finally:
            if ending == "killed" and is_content:
                os.kill(os.getpid(), signal.SIGKILL)
            if ending == "exit" and is_content:
                # As an interpreter ends: everything that is to be done at exit is done.
                import atexit

                atexit._run_exitfuncs()
            os._exit(0 if is_content else 1)
    _, status = os.waitpid(pid, 0)
    expected = -signal.SIGKILL if ending == "killed" else 0
    assert os.waitstatus_to_exitcode(status) == expected


@pytest.mark.parametrize("ending", ["exit", "killed", "closed"])
def test_a_forked_child_takes_nothing_with_it(cache: GrammarCache, served: Namespace, ending: str) -> None:
    grammar = cache.compile_regex("ab+")
    before = sorted(list_segments(served.prefix))

    def work() -> bool:
        is_hit = cache.compile_regex("ab+") is grammar
        made = cache.compile_regex("of the child")
        clients = cache.stats()["clients"]
        if ending == "closed":
            cache.close()
        return is_hit and made.generation == 1 and {"pid": os.getpid()} in clients

    in_child(work, ending=ending)
    pause(lambda: cache.stats()["clients"] == [{"pid": os.getpid()}], "the child is still counted")
    assert cache.compile_regex("ab+") is grammar
    assert cache.compile_regex("of the parent").generation == 1
    assert set(before) < set(list_segments(served.prefix))
    lookups = cache.stats()["lookups"]
    # Parent: miss, local hit, miss. Child: local hit, miss. What the child counted is in nobody's row twice.
    assert (lookups["hit"], lookups["miss"]) == (2, 3)


def test_grandchildren_have_connections_of_their_own(cache: GrammarCache) -> None:
    cache.compile_regex("ab+")

    def grandchild() -> bool:
        return len(cache.stats()["clients"]) == 3

    def child() -> bool:
        assert len(cache.stats()["clients"]) == 2
        in_child(grandchild, ending="exit")
        return True

    in_child(child, ending="exit")


def _compile_in_spawned(name: str, directory: str) -> None:
    from pathlib import Path

    signal.alarm(int(GUARD_SECONDS))
    with GrammarCache(VOCABULARY, Namespace.of(name, directory=Path(directory)), may_start=False) as cache:
        before = cache.stats()["compiles"]["started"]
        cache.compile_regex("ab+")
        sys.exit(0 if cache.stats()["compiles"]["started"] == before == 1 else 1)


def test_a_spawned_process_hits_what_its_parent_compiled(cache: GrammarCache, served: Namespace) -> None:
    cache.compile_regex("ab+")
    process = multiprocessing.get_context("spawn").Process(
        target=_compile_in_spawned, args=(served.name, str(served.directory))
    )
    process.start()
    process.join(GUARD_SECONDS)
    assert process.exitcode == 0


def test_a_stopped_client_holds_up_nobody(
    cache: GrammarCache, served: Namespace, start: Callable[[int], list[Process]]
) -> None:
    (stopped,) = start(1)
    stopped.ask("connect")
    assert stopped.ask("regex", "ab+")["generation"] == 1
    pidfd = os.pidfd_open(stopped.process.pid)
    try:
        # A request of it is on its way while it is stopped: its answer waits for it.
        os.kill(stopped.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PIDFD, pidfd, os.WSTOPPED)
        stopped.tell("regex", "asked while stopped")
        for number in range(5):
            assert cache.compile_regex(f"x{{{number + 1}}}").generation == 1
        cache.clear_cache()
        assert cache.get_cache_size_bytes() == 0
        assert cache.compile_regex("ab+").generation == 2
        # What the stopped client maps is retired, not forgotten.
        assert cache.stats()["retired_bytes"] > 0
        assert len(cache.stats()["clients"]) == 2
    finally:
        os.kill(stopped.process.pid, signal.SIGCONT)
        os.close(pidfd)
    assert stopped.hear()["generation"] == 2
    assert stopped.ask("regex", "ab+")["generation"] == 2
    pause(lambda: cache.stats()["retired_bytes"] == 0, "the stopped client never let go")


def test_a_stopped_client_that_is_killed_leaves_nothing(
    cache: GrammarCache, served: Namespace, start: Callable[[int], list[Process]]
) -> None:
    (stopped,) = start(1)
    stopped.ask("connect")
    stopped.ask("regex", "ab+")
    stopped.process.send_signal(signal.SIGSTOP)
    cache.clear_cache()
    stopped.process.kill()
    pause(lambda: cache.stats()["retired_bytes"] == 0, "its mapping is still counted")
    assert len(cache.stats()["clients"]) == 1


def test_a_client_with_256_descriptors_gets_every_grammar(
    cache: GrammarCache, start: Callable[[int], list[Process]]
) -> None:
    (few,) = start(1)
    resource.prlimit(few.process.pid, resource.RLIMIT_NOFILE, (256, 256))
    few.ask("connect")
    answer = few.ask("keep", "300")
    assert answer == {"kept": 300, "matching": 300}
