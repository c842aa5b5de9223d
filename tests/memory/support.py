"""What the memory tests share: a namespace, entries with fields that check each other, a second process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shmcache.memory.account import Entry
from shmcache.memory.control import ControlWriter, create_control
from shmcache.memory.hints import Hints
from shmcache.memory.index import IndexWriter
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.objects import list_objects, unlink_object
from shmcache.memory.recency import Recency, create_recency
from shmcache.memory.segments import NO_TEXT, create_segment

GUARD_SECONDS = 5.0
SMALL_HOME_COUNT = 64


@contextmanager
def own_namespace() -> Iterator[Namespace]:
    """A namespace that nobody else uses, with its runtime directory; nothing of it is left afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="shmc-"))
    namespace = Namespace.of(f"test-{os.urandom(8).hex()}", directory=directory)
    try:
        yield namespace
    finally:
        for name in list_objects(namespace.prefix):
            unlink_object(name)
        shutil.rmtree(directory, ignore_errors=True)


@dataclass
class Cache:
    """A cache in the hands of its writer."""

    namespace: Namespace
    control: ControlWriter
    recency: Recency
    index: IndexWriter

    @classmethod
    def create(cls, namespace: Namespace, *, home_count: int = SMALL_HOME_COUNT) -> Cache:
        control = create_control(namespace, home_count=home_count, row_count=8)
        return cls(namespace, control, create_recency(namespace, control), IndexWriter(control))

    def add(
        self,
        key: bytes,
        payload: bytes,
        *,
        tier: Tier = Tier.GRAMMAR,
        generation: int | None = None,
        text_digest: bytes = NO_TEXT,
    ) -> Entry:
        """A published entry with its segment, and the hint to it if it was made of a text."""
        generation = self.control.generation if generation is None else generation
        serial = self.control.next_serial()
        entry = self.index.reserve(key, tier=tier, generation=generation, serial=serial, reserved_bytes=4096, owner=0)
        assert entry is not None
        name = self.namespace.data_name(self.control.instance, serial)
        info = create_segment(name, [payload], key=key, generation=generation, tier=tier, text_digest=text_digest)
        published = self.index.publish(
            entry.slot, charged_bytes=info.charged_bytes, payload_bytes=len(payload), cost_us=1
        )
        assert published is not None
        if text_digest != NO_TEXT:
            Hints(self.control).place(text_digest, entry.slot, lambda slot: True)
        return published


def key_of(number: int, *, fingerprint: int = 0) -> bytes:
    """A key; with the same ``fingerprint`` two keys have the same home and the same fingerprint word."""
    return fingerprint.to_bytes(8, sys.byteorder) + number.to_bytes(24, "little")


def is_consistent(entry: Entry) -> bool:
    """Whether the fields are of one record, as :func:`place_consistent` wrote it."""
    return (entry.charged_bytes, entry.payload_bytes, entry.cost_us) == (
        entry.serial * 4096,
        entry.serial * 3,
        entry.serial * 7,
    )


def place_consistent(index: IndexWriter, control: ControlWriter, key: bytes) -> Entry | None:
    """A READY entry without a file, whose fields all follow from its serial."""
    serial = control.next_serial()
    entry = index.reserve(
        key, tier=Tier.GRAMMAR, generation=control.generation, serial=serial, reserved_bytes=0, owner=serial
    )
    if entry is None:
        return None
    return index.publish(entry.slot, charged_bytes=serial * 4096, payload_bytes=serial * 3, cost_us=serial * 7)


@contextmanager
def program(name: str, namespace: Namespace, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A function of :mod:`tests.memory.programs` in a process of its own, killed at the end."""
    command = [
        sys.executable,
        "-m",
        "tests.memory.programs",
        name,
        namespace.name,
        str(namespace.directory),
        *arguments,
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                close_quietly(stream)
        process.wait(GUARD_SECONDS)


def close_quietly(stream: IO[bytes]) -> None:
    """Closes a pipe whose other end may be gone."""
    with suppress(BrokenPipeError):
        stream.close()


def read_line(process: subprocess.Popen[bytes]) -> str:
    """The next line of a program; the program ends by itself after the guard, so this never hangs."""
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()
