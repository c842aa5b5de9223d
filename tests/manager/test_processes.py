"""A manager and workers that are processes of their own: the fence across them, deaths, deadlines, restarts."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from shmcache.errors import SourceError
from shmcache.manager import wire
from shmcache.memory.index import IndexReader
from shmcache.memory.layout import ManagerState
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.segments import create_segment, map_segment
from tests.manager.live import (
    COMPILER,
    GUARD_SECONDS,
    START_GUARD_SECONDS,
    VOCABULARY,
    Asker,
    Live,
    fail,
    key,
    manager_process,
    pause,
)
from tests.workers.gated_compiler import source_of

BAD = SourceError("bad", line=2, column=3).to_plain()
ROW = key("a row").hex()
ASKERS = 16


@pytest.fixture
def live(namespace: str) -> Iterator[Live]:
    with manager_process(namespace, "--workers", "2") as live:
        live.asker().give_vocabulary()
        live.askers[0].await_workers(2)
        yield live


def worker_states(asker: Asker) -> set[str]:
    return {worker["state"] for worker in asker.stats()["workers"]}


def at_rest(live: Live, asker: Asker) -> None:
    def is_quiet() -> bool:
        stats = asker.stats()
        states = {worker["state"] for worker in stats["workers"]}
        return stats["retired_bytes"] == stats["compiles_in_flight"] == 0 and states <= {"idle", "cold"}

    pause(is_quiet, "the manager never came to rest")
    assert live.findings() == []


@pytest.mark.parametrize("limit", ["-1", "64M"])
@pytest.mark.parametrize("ending", ["value", "exception"])
def test_the_fence(namespace: str, limit: str, ending: str) -> None:
    with manager_process(namespace, "--workers", "2", "--limit-bytes", limit) as live:
        first, second = live.asker(), live.asker()
        first.give_vocabulary()
        first.await_workers(2)
        gate = live.gate()
        error = {"error": BAD} if ending == "exception" else {}
        held = first.start("g", gate=gate.path, rows={ROW: "old row"}, **error)
        worker = gate.arrive()
        assert worker not in (os.getpid(), live.pid)

        second.clear()
        generation = second.clear()
        assert second.stats()["charged_bytes"]["grammar"] == 0
        anew = second.compile("g")
        assert anew.image["pid"] != worker
        one_entry = second.stats()["charged_bytes"]
        assert one_entry["grammar"] == 4096
        assert not first.is_answered(held)

        gate.open()
        answer = first.wait(held)
        if ending == "value":
            assert answer.image["pid"] == worker
            assert (answer.serial, answer.message) == (0, answer.message)
            assert wire.expect(answer.message, wire.Image).generation == generation - 2
        else:
            assert answer.code == "SOURCE_ERROR"
        at_rest(live, second)
        assert second.stats()["charged_bytes"] == one_entry
        assert second.compile("h", rows={ROW: "new row"}).image["rows"] == {ROW: ""}
        found = second.look_up("g")
        assert found is not None
        assert found.header.serial == anew.serial


ASK = """
import os, sys
from shmcache.manager import wire
from shmcache.manager.channel import Channel
from shmcache.memory.names import Namespace

name, key, vocabulary_key, source = sys.argv[1], *map(bytes.fromhex, sys.argv[2:])
channel = Channel.connect(Namespace.of(name).socket_path)
channel.send(wire.Hello(1, wire.PROTOCOL_VERSION, "client", os.getpid(), vocabulary_key))
channel.receive()
channel.send(wire.Compile(2, "grammar", key, vocabulary_key, source))
print("asked", flush=True)
image, descriptors = channel.receive()
print(wire.expect(image, wire.Image).serial, os.pread(descriptors[0], 1000, 128), flush=True)
"""


def test_sixteen_processes_ask_and_one_compiles(live: Live) -> None:
    gate = live.gate()
    words = (key("g"), VOCABULARY.fingerprint, source_of(gate=gate.path))
    command = [sys.executable, "-c", ASK, live.namespace.name, *(word.hex() for word in words)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(ASKERS)]
    watchdog = threading.Timer(6 * GUARD_SECONDS, lambda: [process.kill() for process in processes])
    watchdog.start()
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
        gate.arrive()
        asker = live.askers[0]
        pause(lambda: asker.stats()["lookups"]["coalesced"] == ASKERS - 1, "not everybody joined")
        gate.open()
        answers = {process.communicate()[0] for process in processes}
    finally:
        watchdog.cancel()
        for process in processes:
            process.kill()
            with process:
                pass
    assert len(answers) == 1
    assert asker.stats()["compiles"]["started"] == 1


def test_the_compile_of_a_killed_worker_goes_to_another(live: Live) -> None:
    asker, gate = live.askers[0], live.gate()
    request = asker.start("g", gate=gate.path)
    victim = gate.arrive()
    os.kill(victim, signal.SIGKILL)
    second = gate.arrive()
    assert second != victim
    gate.open()
    assert asker.wait(request).image["pid"] == second
    asker.await_workers(2)
    at_rest(live, asker)


def test_a_grammar_that_kills_every_worker_is_a_limit_error(live: Live) -> None:
    asker = live.askers[0]
    answer = asker.wait(asker.start("g", die=signal.SIGSEGV), START_GUARD_SECONDS)
    assert answer.code == "LIMIT"
    assert wire.expect(answer.message, wire.Refused).details["limit"] == "compile_attempts"
    asker.await_workers(2)
    assert asker.compile("h").serial > 0


def test_a_worker_past_its_deadline_is_killed(live: Live) -> None:
    asker = live.askers[0]
    request = asker.start_source("g", source_of(spin="deaf"), seconds_max=0.1)
    answer = asker.wait(request)
    assert wire.expect(answer.message, wire.Refused).details == {"limit": "seconds", "value": 0.1}
    assert asker.compile("h").serial > 0
    asker.await_workers(2)


def test_a_compile_that_looks_at_the_time_ends_by_itself(live: Live) -> None:
    asker = live.askers[0]
    pids = {worker["pid"] for worker in asker.stats()["workers"]}
    answer = asker.wait(asker.start_source("g", source_of(spin="listening"), seconds_max=0.1))
    assert wire.expect(answer.message, wire.Refused).details["limit"] == "seconds"
    assert {worker["pid"] for worker in asker.stats()["workers"]} == pids


def test_a_worker_past_its_memory_limit_says_so_and_lives(live: Live) -> None:
    asker = live.askers[0]
    pids = {worker["pid"] for worker in asker.stats()["workers"]}
    source = source_of(grow=1 << 30, payload="g")
    answer = asker.wait(asker.start_source("g", source, memory_bytes_max=256 << 20))
    assert wire.expect(answer.message, wire.Refused).details["limit"] == "memory_bytes"
    assert asker.wait(asker.start_source("g", source, memory_bytes_max=2 << 30)).serial > 0
    assert {worker["pid"] for worker in asker.stats()["workers"]} == pids


def test_a_second_manager_says_why_it_does_not_start(live: Live) -> None:
    command = [sys.executable, "-P", "-m", "shmcache.manager", "--namespace", live.namespace.name]
    second = subprocess.run(command, capture_output=True, text=True, timeout=4 * GUARD_SECONDS, check=False)
    assert second.returncode == 3
    assert "another manager" in second.stderr
    assert live.askers[0].compile("g").serial > 0


def test_workers_die_with_their_manager(namespace: str) -> None:
    with manager_process(namespace, expected_exit=None) as live:
        asker, gate = live.asker(), live.gate()
        asker.give_vocabulary()
        asker.start("g", gate=gate.path)
        worker = os.pidfd_open(gate.arrive())
        os.kill(live.pid, signal.SIGKILL)
        if not _has_ended(worker):
            fail("a worker outlives its manager")
        os.close(worker)


def _has_ended(pidfd: int) -> bool:
    import select

    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(1000 * GUARD_SECONDS))


def test_a_killed_manager_loses_nothing(namespace: str) -> None:
    with manager_process(namespace, expected_exit=None) as live:
        asker, gate = live.asker(), live.gate()
        asker.give_vocabulary()
        kept = [asker.compile(name, rows={key(name).hex(): name}).serial for name in "abc"]
        pause(lambda: asker.stats()["entries"]["rule"] == 3, "rows are missing")
        asker.clear()
        kept = [asker.compile(name).serial for name in "abc"]
        asker.start("held", gate=gate.path)
        gate.arrive()
        before = asker.stats()
        os.kill(live.pid, signal.SIGKILL)
        # Readers keep hitting while there is no manager.
        pause(lambda: _is_unheld(live.namespace), "the lock outlives its holder")
        assert [_serial(asker, name) for name in "abc"] == kept
    # Files that no slot knows, as a worker killed between two steps leaves them.
    instance = before_instance = live.control().instance
    create_segment(live.namespace.data_name(instance, 9999), [b"x"], key=key("x"), generation=1, tier=0)
    object_path(live.namespace.data_name(instance, 9998) + ".new").write_bytes(b"half")
    with manager_process(namespace) as live:
        asker = live.asker()
        after = asker.stats()
        for same in ("generation", "entries", "charged_bytes", "compiles"):
            assert after[same] == before[same], same
        assert after["epoch"] == before["epoch"] + 1
        assert after["compiles_in_flight"] == 0
        assert live.control().instance == before_instance
        assert [_serial(asker, name) for name in "abc"] == kept
        assert asker.compile("a").serial == kept[0]
        assert asker.compile("new").serial > max(kept)
        at_rest(live, asker)


def _serial(asker: Asker, name: str) -> int:
    mapping = asker.look_up(name)
    assert mapping is not None
    return mapping.header.serial


def _is_unheld(namespace: Namespace) -> bool:
    from shmcache.memory.election import holder_pid

    return holder_pid(namespace) is None


def test_retired_bytes_outlive_their_manager(namespace: str) -> None:
    with manager_process(namespace, expected_exit=None) as live:
        asker = live.asker()
        asker.give_vocabulary()
        mapping = asker.compile("g").mapping
        asker.clear()
        pause(lambda: "ZOMBIE" in _states(live), "nothing was retired")
        os.kill(live.pid, signal.SIGKILL)
    with manager_process(namespace) as live:
        asker = live.asker()
        assert asker.stats()["retired_bytes"] == 4096
        assert mapping is not None
        del mapping
        at_rest(live, asker)


def _states(live: Live) -> list[str]:
    return [entry.state.name for entry in IndexReader(live.control()).read_all()]


def test_a_manager_that_ends_leaves_the_cache_or_nothing(namespace: str) -> None:
    with manager_process(namespace) as live:
        asker = live.asker()
        asker.give_vocabulary()
        kept = asker.compile("g").serial
    assert live.control().manager().state is ManagerState.ABSENT
    assert not live.namespace.socket_path.exists()
    with manager_process(namespace, "--remove-on-exit") as live:
        asker = live.asker()
        control = live.control()
        assert asker.compile("g").serial == kept
        name = live.namespace.data_name(control.instance, kept)
        mapping = map_segment(name)
    assert control.is_dissolved
    mapping.check_payload()
    assert list_objects(live.namespace.prefix) == []
    assert not live.namespace.lock_path.exists()


def test_a_manager_that_nobody_needs_ends(namespace: str) -> None:
    with manager_process(namespace, "--idle-seconds", "0.05") as live:
        asker = live.asker()
        asker.give_vocabulary()
        pidfd = os.pidfd_open(live.pid)
        assert asker.compile("g").serial > 0
        asker.close()
        if not _has_ended(pidfd):
            fail("an idle manager stays")
        os.close(pidfd)


def test_a_damaged_control_segment_is_replaced(namespace: str) -> None:
    with manager_process(namespace) as live:
        asker = live.asker()
        asker.give_vocabulary()
        asker.compile("g")
    path = object_path(live.namespace.control_name)
    path.write_bytes(b"\xff" * path.stat().st_size)
    with manager_process(namespace) as live:
        asker = live.asker()
        asker.give_vocabulary()
        assert asker.stats()["entries"]["grammar"] == 0
        assert asker.compile("g").serial > 0
        at_rest(live, asker)


def test_few_descriptors_are_enough_for_many_entries(namespace: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        with manager_process(namespace, "--compiler", COMPILER) as live:
            asker = live.asker()
            asker.give_vocabulary()
            for number in range(100):
                assert asker.compile(str(number)).serial > 0
            asker.clear()
            at_rest(live, asker)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_real_compiler(namespace: str) -> None:
    from shmcache.grammar.key import Source

    with manager_process(namespace, "--compiler", "shmcache_workers.grammar_compile:compile_source") as live:
        asker = live.asker()
        asker.give_vocabulary()
        fingerprint = asker._vocabulary.fingerprint
        source = Source.regex("[a-z]{1,3}")
        wanted = source.key(fingerprint)
        request = asker.send(wire.Compile, "grammar", wanted, fingerprint, source.to_bytes())
        mapping = asker.wait(request).mapping
        assert mapping is not None
        from shmcache.compiler import compile_image
        from shmcache.image.attached_source import attach_source
        from shmcache.image.first_mask import with_first_mask
        from shmcache.image.image import open_image
        from shmcache.limits import Budget
        from shmcache.matcher.beginning import first_mask_of

        image = compile_image(source, asker._vocabulary, budget=Budget())
        mask = first_mask_of(open_image(image), asker._vocabulary)
        assert bytes(mapping.payload) == attach_source(with_first_mask(image, mask), source.to_bytes())
        false = asker.send(wire.Compile, "grammar", key("false"), fingerprint, source.to_bytes())
        assert asker.wait(false).code == "KEY_MISMATCH"
