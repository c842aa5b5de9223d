"""A thousand clients that come and die, and a manager that may open few files."""

from __future__ import annotations

import os
import resource
import socket

from shmcache.manager import wire
from tests.manager.live import Live, key, manager_process, pause

GUARD_SECONDS = 30.0
CLIENTS = 1000
AT_ONCE = 50


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _connect(live: Live, number: int) -> socket.socket:
    """A client that will die: after its hello, within a message, without a word, or waiting for a compile."""
    endpoint = socket.socket(socket.AF_UNIX)
    endpoint.connect(str(live.namespace.socket_path))
    fingerprint = live.askers[0]._vocabulary.fingerprint
    hello = wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION, "client", os.getpid(), fingerprint))
    compile_ = wire.encode(wire.Compile(2, "grammar", key(f"never {number}"), fingerprint, b"{"))
    says = [b"", hello, hello + compile_[:20], hello + compile_, b"\xff" * 12]
    endpoint.sendall(says[number % len(says)])
    return endpoint


def test_a_thousand_clients_come_and_die(namespace: str) -> None:
    with manager_process(namespace, "--workers", "1") as live:
        asker = live.asker()
        asker.give_vocabulary()
        assert asker.compile("g").serial > 0
        before = descriptors_of(live.pid)
        for first in range(0, CLIENTS, AT_ONCE):
            endpoints = [_connect(live, number) for number in range(first, first + AT_ONCE)]
            for endpoint in endpoints:
                endpoint.close()
        pause(lambda: len(asker.stats()["clients"]) == 1, "clients stay", GUARD_SECONDS)
        pause(lambda: asker.stats()["compiles_in_flight"] == 0, "compiles for the dead go on", GUARD_SECONDS)
        pause(lambda: descriptors_of(live.pid) <= before, "descriptors of the dead stay open", GUARD_SECONDS)
        assert asker.compile("after").serial > 0
        assert live.findings() == []


def test_a_manager_with_256_descriptors_serves_who_gets_in(namespace: str) -> None:
    with manager_process(namespace, "--workers", "1") as live:
        asker = live.asker()
        asker.give_vocabulary()
        resource.prlimit(live.pid, resource.RLIMIT_NOFILE, (256, 256))
        hello = wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION, "client", os.getpid()))
        endpoints: list[socket.socket] = []
        try:
            for _ in range(200):
                endpoint = socket.socket(socket.AF_UNIX)
                endpoints.append(endpoint)
                endpoint.connect(str(live.namespace.socket_path))
                endpoint.sendall(hello)
            # Those that are in are served, though no descriptor is left; an image may then go to nobody, but no harm.
            assert asker.stats()["manager"]["state"] == "serving"
        finally:
            for endpoint in endpoints:
                endpoint.close()
        pause(lambda: len(asker.stats()["clients"]) == 1, "clients stay", GUARD_SECONDS)
        assert asker.compile("g").serial > 0
        assert live.asker().compile("g").serial > 0
