"""Processes that the memory tests start: ``python -m tests.memory.programs <name> <namespace> <directory> ...``."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from shmcache.memory.control import open_control_writer
from shmcache.memory.election import ManagerLock
from shmcache.memory.index import IndexWriter
from shmcache.memory.names import Namespace
from shmcache.memory.segments import map_segment
from tests.memory.support import GUARD_SECONDS, key_of, place_consistent


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def hammer(namespace: Namespace) -> None:
    """Publishes and removes entries of keys that share one slot, and raises the generation, until killed."""
    control = open_control_writer(namespace)
    index = IndexWriter(control)
    _say("ready")
    deadline = time.monotonic() + GUARD_SECONDS
    while time.monotonic() < deadline:
        for number in range(4):
            for _ in range(20):
                entry = place_consistent(index, control, key_of(number, fingerprint=9))
                assert entry is not None
                index.retire(entry.slot)
                index.release(entry.slot)
            entry = place_consistent(index, control, key_of(number, fingerprint=9))
            assert entry is not None
            index.raise_generation()
            index.retire(entry.slot)
            index.release(entry.slot)


def hold_lock(namespace: Namespace) -> None:
    """Says whether it got the manager's lock and keeps it until its input ends."""
    lock = ManagerLock(namespace)
    _say("held" if lock.acquire() else "refused")
    sys.stdin.read()


def hold_mapping(namespace: Namespace, name: str) -> None:
    """Maps a segment and keeps it until killed."""
    mapping = map_segment(name)
    _say(str(len(mapping.payload)))
    sys.stdin.read()


def main() -> None:
    signal.alarm(int(2 * GUARD_SECONDS))
    name, namespace_name, directory, *arguments = sys.argv[1:]
    programs = {"hammer": hammer, "hold_lock": hold_lock, "hold_mapping": hold_mapping}
    programs[name](Namespace.of(namespace_name, directory=Path(directory)), *arguments)


if __name__ == "__main__":
    main()
