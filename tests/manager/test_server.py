"""A manager in a thread, with threads for workers: the fence, single flight, and whoever misbehaves on the socket."""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence

import pytest

from shmcache.errors import SourceError
from shmcache.manager import server, wire
from shmcache.manager.connection import OUTGOING_BYTES_MAX, Connection
from shmcache.manager.policy import Policy
from shmcache.memory import objects, steps
from shmcache.memory.index import IndexReader
from shmcache.memory.recency import now_ns, open_recency
from shmcache.memory.segments import map_segment
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_workers import compile_worker
from tests.manager.live import GUARD_SECONDS, Asker, Live, fail, key, manager_thread, pause
from tests.workers.gated_compiler import source_of

BAD = SourceError("bad", line=2, column=3).to_plain()
MODES = [pytest.param(-1, id="unlimited"), pytest.param(64 << 20, id="finite")]
ROW = key("a row").hex()
LATE_ROW = key("a late row").hex()


@pytest.fixture
def live(namespace: str) -> Iterator[Live]:
    with manager_thread(namespace) as live:
        live.asker().give_vocabulary()
        yield live


def at_rest(live: Live, asker: Asker) -> None:
    """Waits until nothing is in flight or retired, and then everything must agree."""
    pause(lambda: is_quiet(asker), "the manager never came to rest")
    assert live.findings() == []


def is_quiet(asker: Asker) -> bool:
    stats = asker.stats()
    workers = {worker["state"] for worker in stats["workers"]}
    return stats["retired_bytes"] == stats["compiles_in_flight"] == 0 and workers <= {"idle", "cold"}


@pytest.mark.parametrize("limit_bytes", MODES)
@pytest.mark.parametrize("ending", ["value", "exception"])
def test_the_fence(namespace: str, limit_bytes: int, ending: str) -> None:
    with manager_thread(namespace, Policy(limit_bytes=limit_bytes)) as live:
        first, second = live.asker(), live.asker()
        first.give_vocabulary()
        gate = live.gate()
        error = {"error": BAD} if ending == "exception" else {}
        held = first.start("g", gate=gate.path, rows={ROW: "old row"}, version="old", **error)
        gate.arrive()

        second.clear()
        generation = second.clear()
        stats = second.stats()
        assert stats["charged_bytes"]["grammar"] == stats["charged_bytes"]["rule"] == 0
        assert stats["compiles_in_flight"] == 1

        anew = second.compile("g")
        assert anew.serial > 0
        one_entry = second.stats()["charged_bytes"]
        assert one_entry["grammar"] == 4096

        assert not first.is_answered(held)
        gate.open()
        answer = first.wait(held)
        if ending == "value":
            assert answer.image["payload"] == "g"
            assert answer.serial == 0
            assert wire.expect(answer.message, wire.Image).generation == generation - 2
        else:
            assert answer.code == "SOURCE_ERROR"
        at_rest(live, second)
        assert second.stats()["charged_bytes"] == one_entry
        assert second.stats()["compiles"]["fenced"] == (ending == "value")
        # The row that the old compile left is not in the new generation.
        assert second.compile("h", rows={ROW: "new row"}).image["rows"] == {ROW: ""}
        found = second.look_up("g")
        assert found is not None
        assert found.header.serial == anew.serial
        assert second.compile("g").serial == anew.serial


def test_rows_are_shared_across_grammars(live: Live) -> None:
    asker = live.askers[0]
    assert asker.compile("g", rows={ROW: "the row"}).image["rows"] == {ROW: ""}
    at_rest(live, asker)
    assert asker.stats()["entries"]["rule"] == 1
    assert asker.compile("h", rows={ROW: "other"}).image["rows"] == {ROW: "the row"}


def test_sixteen_ask_and_one_compiles(live: Live) -> None:
    gate = live.gate()
    askers = [live.asker() for _ in range(16)]
    requests = [asker.start("g", gate=gate.path) for asker in askers]
    gate.arrive()
    pause(lambda: askers[0].stats()["lookups"]["coalesced"] == 15, "not everybody joined")
    gate.open()
    serials = {asker.wait(request).serial for asker, request in zip(askers, requests, strict=True)}
    assert len(serials) == 1
    assert askers[0].stats()["compiles"]["started"] == 1


def test_an_image_by_descriptor_is_the_segment_by_name(live: Live) -> None:
    asker = live.askers[0]
    answer = asker.compile("g")
    assert answer.mapping is not None
    by_name = asker.look_up("g")
    assert by_name is not None
    assert by_name.payload == answer.mapping.payload
    fetched = asker.wait(asker.send(wire.Fetch, "grammar", key("g")))
    assert fetched.serial == answer.serial
    assert asker.ask(wire.Fetch, wire.Missing, "grammar", key("other"))


def test_welcome_hands_out_what_another_container_needs(live: Live) -> None:
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.connect(str(live.namespace.socket_path))
        channel = server.Connection(endpoint)
        channel.send(wire.Hello(1, wire.PROTOCOL_VERSION, "client", os.getpid()))
        pause(lambda: channel.has_input, "no welcome")
        messages = channel.receive()
        assert messages is not None
        ((welcome, descriptors),) = messages
        from shmcache.memory.control import open_control_reader

        control = open_control_reader(descriptors[0])
        assert control.instance == wire.expect(welcome, wire.Welcome).instance
        assert open_recency(descriptors[1], control).row_count == control.row_count
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.pwrite(descriptors[0], b"x", 0)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.close()


def test_evict_removes_the_file(live: Live) -> None:
    asker = live.askers[0]
    answer = asker.compile("g")
    name = live.namespace.data_name(live.control().instance, answer.serial)
    del answer
    evicted = asker.ask(wire.Evict, wire.Evicted, key("g"))
    assert (evicted.entries, evicted.charged_bytes) == (1, 4096)
    assert asker.look_up("g") is None
    pause(lambda: not objects.names.object_path(name).exists(), "the file stays")
    at_rest(live, asker)


def test_retired_bytes_are_exact_until_the_last_reader_lets_go(live: Live) -> None:
    asker = live.askers[0]
    answer = asker.compile("g")
    mapping = answer.mapping
    del answer
    asker.clear()
    pause(lambda: not [e for e in live_states(live) if e == "READY GRAMMAR"], "nothing was retired")
    assert asker.stats()["retired_bytes"] == 4096
    assert mapping is not None
    assert bytes(mapping.payload[:1]) == b"{"
    del mapping
    at_rest(live, asker)


def test_what_readers_noted_without_a_lock_decides_what_is_evicted(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of equal cost, so that nothing but the last use decides.
    monkeypatch.setattr(compile_worker, "elapsed_us", lambda _: 1000)
    with manager_thread(namespace, Policy(limit_bytes=9 * 4096)) as live:
        asker = live.asker()
        asker.give_vocabulary()
        for number in range(6):
            assert asker.compile(f"g{number}").serial > 0
        recency = open_recency(live.namespace, live.control())
        entry = IndexReader(live.control()).look_up(key("g0"))
        assert entry is not None
        recency.touch(entry.slot, now_ns())
        assert asker.compile("g6").serial > 0
        assert asker.look_up("g0") is not None
        assert asker.look_up("g1") is None
        at_rest(live, asker)


def live_states(live: Live) -> list[str]:
    return [f"{entry.state.name} {entry.tier.name}" for entry in IndexReader(live.control()).read_all()]


def test_a_full_host_gives_the_image_unindexed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = live.askers[0]
    asker.compile("before")

    def no_room(descriptor: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(steps, "posix_fallocate", no_room)
    answer = asker.compile("g", rows={ROW: "a row"})
    assert answer.image["payload"] == "g"
    assert answer.serial == 0
    assert asker.look_up("g") is None
    monkeypatch.undo()
    at_rest(live, asker)
    assert asker.compile("g").serial > 0


def test_an_image_larger_than_the_limit_is_given_unindexed(namespace: str) -> None:
    with manager_thread(namespace, Policy(limit_bytes=30_000)) as live:
        asker = live.asker()
        asker.give_vocabulary()
        assert asker.compile("big", size=40_000).serial == 0
        for name in "abcdef":
            assert asker.compile(name, size=6_000).serial > 0
        at_rest(live, asker)
        stats = asker.stats()
        assert stats["charged_bytes"]["grammar"] <= 20_000
        assert stats["evictions"] == 4


@pytest.mark.parametrize("crash", ["MemoryError", "RecursionError", "KeyError"])
def test_whatever_a_compile_raises_is_typed(live: Live, crash: str) -> None:
    asker = live.askers[0]
    expected = "SHMCACHE_ERROR" if crash == "KeyError" else "LIMIT"
    assert asker.compile("g", crash=crash).code == expected
    assert asker.compile("h").serial > 0


def test_a_source_too_large_for_a_message_travels_as_a_descriptor(live: Live) -> None:
    asker = live.askers[0]
    source = server.__doc__ or ""
    descriptor = os.memfd_create("source", os.MFD_CLOEXEC)
    os.write(descriptor, source_of(payload="large", filler=source * 500))
    fingerprint = asker._vocabulary.fingerprint
    request = asker.send(wire.Compile, "grammar", key("large"), fingerprint, b"", descriptors=1, passed=[descriptor])
    os.close(descriptor)
    assert asker.wait(request).image["payload"] == "large"


def test_a_cancelled_compile_stops(live: Live) -> None:
    asker = live.askers[0]
    request = asker.start("g", spin="listening")
    pause(lambda: asker.stats()["compiles"]["started"] == 1, "it never started")
    asker.send(wire.Cancel, request)
    pause(lambda: is_quiet(asker), "it never stopped")
    assert asker.stats()["compiles"]["failed"] == 1
    assert asker.compile("g").serial > 0


def test_a_client_that_dies_cancels(live: Live) -> None:
    asker, other = live.askers[0], live.asker()
    other.start("g", spin="listening")
    pause(lambda: asker.stats()["compiles"]["started"] == 1, "it never started")
    other.close()
    pause(lambda: is_quiet(asker), "it never stopped")


def test_grammars_need_their_vocabulary_first(namespace: str) -> None:
    with manager_thread(namespace) as live:
        asker = live.asker()
        assert asker.compile("g").code == "VOCABULARY_MISSING"
        assert asker.give_vocabulary().serial > 0
        assert asker.compile("g").serial > 0


def test_a_vocabulary_under_a_false_fingerprint_is_refused(live: Live) -> None:
    asker = live.askers[0]
    descriptor = os.memfd_create("vocabulary", os.MFD_CLOEXEC)
    os.write(descriptor, asker._vocabulary.to_bytes())
    false = key("false")
    request = asker.send(wire.Compile, "vocabulary", false, false, b"", descriptors=1, passed=[descriptor])
    os.close(descriptor)
    assert asker.wait(request).code == "KEY_MISMATCH"


# --- whoever misbehaves ----------------------------------------------------------------------------------------------


GARBAGE = {
    "a length over the limit": struct.pack("<I", 1 << 30),
    "no msgpack": struct.pack("<I", 3) + b"\xc1\xc1\xc1",
    "an unknown message": struct.pack("<I", 9) + b"\x81\xa2op\xa4boom",
    "a worker's message": wire.encode(wire.Done(1)),
    "a request before hello": wire.encode(wire.Clear(1)),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_costs_only_its_connection(live: Live, garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    asker = live.askers[0]
    generation = asker.stats()["generation"]
    with caplog.at_level(logging.WARNING), socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.settimeout(GUARD_SECONDS)
        endpoint.connect(str(live.namespace.socket_path))
        endpoint.sendall(garbage)
        assert endpoint.recv(1) == b""
    assert "closed the connection" in caplog.text
    assert asker.stats()["generation"] == generation
    assert asker.compile("g").serial > 0


def test_a_truncated_message_is_logged(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    asker = live.askers[0]
    with caplog.at_level(logging.WARNING):
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.connect(str(live.namespace.socket_path))
            endpoint.sendall(wire.encode(wire.Clear(1))[:-1])
        pause(lambda: "ends within a message" in caplog.text, "nothing was logged")
    assert asker.compile("g").serial > 0


def test_another_protocol_is_told_so(live: Live) -> None:
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.settimeout(GUARD_SECONDS)
        endpoint.connect(str(live.namespace.socket_path))
        endpoint.sendall(wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION + 1, "client", 1)))
        answer = b""
        while chunk := endpoint.recv(4096):
            answer += chunk
    (refused,) = wire.Decoder().feed(answer)
    assert "protocol" in wire.expect(refused, wire.Refused).message


def test_another_user_is_refused(live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    asker = live.askers[0]
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(server, "peer_credentials", lambda endpoint: (4242, os.geteuid() + 1))
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.settimeout(GUARD_SECONDS)
            endpoint.connect(str(live.namespace.socket_path))
            assert endpoint.recv(1) == b""
    assert "refused a connection of uid" in caplog.text
    assert asker.compile("g").serial > 0


def test_who_does_not_read_is_let_go_and_blocks_nobody(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    asker, deaf = live.askers[0], live.asker()
    status = wire.encode(wire.Status(7))
    answer_bytes = len(wire.encode(wire.StatusReply(7, asker.stats())))
    with caplog.at_level(logging.WARNING):
        try:
            for _ in range(4 * OUTGOING_BYTES_MAX // answer_bytes):
                deaf.channel._socket.sendall(status)
        except OSError:
            pass
        else:
            fail("a client that does not read was kept")
    assert "does not read" in caplog.text
    assert asker.compile("g").serial > 0


def test_a_hundred_clients_come_and_go_without_a_trace(live: Live) -> None:
    asker = live.askers[0]
    before = len(os.listdir("/proc/self/fd"))
    threads = [threading.Thread(target=lambda: Asker(live.namespace).close()) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_SECONDS)
    pause(lambda: len(asker.stats()["clients"]) == 1, "clients stay")
    # A worker that looks at its size has a descriptor for an instant.
    pause(lambda: len(os.listdir("/proc/self/fd")) <= before, "descriptors stay")


def test_a_client_that_is_gone_when_it_is_welcomed_leaves_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = live.askers[0]
    other = live.asker(vocabulary=Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2]))
    other.give_vocabulary()
    hello = wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION, "client", os.getpid(), other._vocabulary.fingerprint))
    send = Connection.send

    def send_unless_gone(self: Connection, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        if isinstance(message, wire.Welcome):
            raise BrokenPipeError("gone")
        send(self, message, descriptors)

    with monkeypatch.context() as patch, socket.socket(socket.AF_UNIX) as endpoint:
        patch.setattr(Connection, "send", send_unless_gone)
        endpoint.connect(str(live.namespace.socket_path))
        endpoint.sendall(hello)
        endpoint.settimeout(GUARD_SECONDS)
        assert endpoint.recv(1) == b""
    other.close()
    pause(lambda: len(asker.stats()["clients"]) == 1, "clients stay")
    asker.clear()
    assert asker.stats()["entries"]["vocabulary"] == 1, "a vocabulary is kept for somebody who is gone"


def test_counts_of_clients_outlive_them(live: Live) -> None:
    asker, other = live.askers[0], live.asker()
    recency = open_recency(live.namespace, live.control())
    recency.row(other.welcome.row)[0] = 5
    assert asker.stats()["lookups"]["hit"] == 5
    other.close()
    pause(lambda: len(asker.stats()["clients"]) == 1, "the client stays")
    assert asker.stats()["lookups"]["hit"] == 5


def test_a_lost_file_is_compiled_again(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    asker = live.askers[0]
    first = asker.compile("g")
    objects.unlink_object(live.namespace.data_name(live.control().instance, first.serial))
    with caplog.at_level(logging.WARNING):
        again = asker.compile("g")
    assert again.serial > first.serial
    assert "is lost" in caplog.text
    at_rest(live, asker)


def test_a_mapping_outlives_everything(namespace: str) -> None:
    with manager_thread(namespace) as live:
        asker = live.asker()
        asker.give_vocabulary()
        mapping = asker.compile("g").mapping
    assert mapping is not None
    mapping.check_payload()
    with pytest.raises(FileNotFoundError):
        map_segment(live.namespace.data_name(mapping.header.instance, mapping.header.serial))
