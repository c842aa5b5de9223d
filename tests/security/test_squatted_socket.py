"""Somebody else listens where the manager should: the client trusts nothing it says, and gets its grammar."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from shmcache.client import GrammarCache
from shmcache.client.link import Link, UselessManagerError
from shmcache.errors import ManagerUnavailable
from shmcache.grammar.key import Source
from shmcache.image.image import write_image
from shmcache.limits import MESSAGE_BYTES_MAX
from shmcache.manager import wire
from shmcache.memory.names import Namespace
from tests.client.support import VOCABULARY, image_of
from tests.memory.support import own_namespace

GUARD_SECONDS = 10.0
WELCOME = wire.encode(wire.Welcome(1, wire.PROTOCOL_VERSION, 1, 1, 1, 1, 0))
IMAGE = wire.encode(wire.Image(1, bytes(32), 1, 1, 1))


@contextmanager
def saying(answer: bytes) -> Iterator[Namespace]:
    """A listener that says ``answer`` to everybody, and then nothing more."""
    with own_namespace() as names, socket.socket(socket.AF_UNIX) as listener:
        names.make_directory()
        listener.bind(str(names.socket_path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.settimeout(GUARD_SECONDS)
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield names
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(GUARD_SECONDS)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack("<I", MESSAGE_BYTES_MAX + 1) + b"x" * 100,
        struct.pack("<I", (1 << 32) - 1),
        struct.pack("<I", 4) + b"\xc1\xc1\xc1\xc1",
        random.Random(1).randbytes(300),
        WELCOME,
        IMAGE,
        wire.encode(wire.Refused(1, "WHATEVER", "no")),
        wire.encode(wire.StatusReply(1, {"deep": [[[]]]})),
        wire.encode(wire.Hello(1, wire.PROTOCOL_VERSION, "client", 1)),
    ],
    ids=lambda answer: answer[4:14].hex() or "nothing",
)
def test_the_client_gets_its_grammar_whatever_is_said(answer: bytes) -> None:
    """A welcome or an image without its descriptors, any other message, or none."""
    before = len(os.listdir("/proc/self/fd"))
    with saying(answer) as names, GrammarCache(VOCABULARY, names, may_start=False) as cache:
        grammar = cache.compile_regex("ab*c")
        assert write_image(grammar.image) == image_of(Source.regex("ab*c"))
        if answer != WELCOME:
            assert cache.stats()["clients"] == []
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_socket_of_another_user_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with saying(WELCOME) as names:
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        with pytest.raises(UselessManagerError, match="uid"):
            Link.open(names, VOCABULARY.fingerprint)


def test_a_socket_path_that_is_a_file_is_no_manager() -> None:
    with own_namespace() as names:
        names.make_directory()
        names.socket_path.write_bytes(b"not a socket")
        with pytest.raises(ManagerUnavailable):
            Link.open(names, VOCABULARY.fingerprint)
        assert names.socket_path.read_bytes() == b"not a socket"
