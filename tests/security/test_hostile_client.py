"""A client of the same user that means harm: it wastes its own quota, and nobody else notices."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator

import pytest

from shmcache.manager import wire
from shmcache.manager.policy import Policy
from shmcache.manager.sources import SOURCE_MESSAGE_BYTES_MAX
from shmcache.memory import layout
from shmcache.memory.recency import open_recency
from tests.manager.live import Asker, Live, key, manager_thread, pause

QUOTA = 8


@pytest.fixture
def live(namespace: str) -> Iterator[Live]:
    with manager_thread(namespace, Policy(waiting_per_client_max=QUOTA, workers_max=2)) as live:
        live.asker().give_vocabulary()
        yield live


def test_who_asks_for_too_much_waits_alone(live: Live) -> None:
    honest, hostile = live.askers[0], live.asker()
    gate = live.gate()
    flood = [hostile.start(f"flood {number}", gate=gate.path) for number in range(10 * QUOTA)]
    gate.arrive()
    gate.arrive()
    refused = [request for request in flood if hostile.is_answered(request)]
    assert len(refused) == 9 * QUOTA
    assert {hostile.wait(request).code for request in refused} == {"LIMIT"}
    wanted = honest.start("honest")
    gate.open()
    assert honest.wait(wanted).serial > 0
    for request in set(flood) - set(refused):
        assert hostile.wait(request).serial > 0


@pytest.mark.parametrize("kind", ["pipe", "directory", "huge", "device"])
def test_a_source_that_is_no_plain_file_costs_the_connection_or_the_request(live: Live, kind: str) -> None:
    honest, hostile = live.askers[0], live.asker()
    opened: list[int] = []
    if kind == "pipe":
        opened += os.pipe()
    elif kind == "directory":
        opened.append(os.open("/", os.O_RDONLY | os.O_DIRECTORY))
    elif kind == "device":
        opened.append(os.open("/dev/zero", os.O_RDONLY))
    else:
        opened.append(os.memfd_create("huge"))
        os.ftruncate(opened[0], SOURCE_MESSAGE_BYTES_MAX + 1)
    before = len(os.listdir("/proc/self/fd"))
    try:
        request = hostile.send(
            wire.Compile,
            "grammar",
            key("g"),
            hostile._vocabulary.fingerprint,
            b"",
            descriptors=1,
            passed=opened[:1],
        )
        if kind == "huge":
            assert hostile.wait(request).code == "LIMIT"
        else:
            pause(lambda: len(honest.stats()["clients"]) == 1, "the connection stays")
        assert honest.compile("g").serial > 0
    finally:
        for descriptor in opened:
            os.close(descriptor)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_garbage_in_the_recency_segment_changes_no_answer(live: Live) -> None:
    honest, rng = live.askers[0], random.Random(3)
    honest.compile("g")
    recency = open_recency(live.namespace, live.control())
    for position in range(layout.RECENCY_SLOTS, len(recency.words)):
        recency.words[position] = rng.choice([0, 1, rng.getrandbits(64), (1 << 64) - 1])
    for number in range(5):
        assert honest.compile(f"g{number}").image["payload"] == f"g{number}"
    hits = honest.stats()["lookups"]["hit"]
    assert 0 <= hits < 1 << 60
    assert live.findings() == []


def test_nobody_but_the_manager_can_write_what_decides(live: Live) -> None:
    """Descriptors that a client is given are read-only for the control segment and for every data segment."""
    asker = live.askers[0]
    asker.compile("g")
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.connect(str(live.namespace.socket_path))
        endpoint.sendall(wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION, "tool", os.getpid())))
        data, descriptors, _, _ = socket.recv_fds(endpoint, 1 << 16, 4)
        assert data
        try:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.pwrite(descriptors[0], b"x", 0)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def test_clients_that_cancel_and_vanish_leave_workers_free(live: Live) -> None:
    honest = live.askers[0]
    gate = live.gate()
    for number in range(3):
        hostile = Asker(live.namespace)
        hostile.start(f"abandoned {number}", gate=gate.path)
        hostile.close()
    gate.open()
    assert honest.compile("honest").serial > 0
    pause(lambda: honest.stats()["compiles_in_flight"] == 0, "a compile for nobody goes on")
