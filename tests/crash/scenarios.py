"""What a manager is killed in the middle of: for each scenario how it is prepared, and the steps that are then tried.

A scenario runs in a process of its own. ``prepare`` brings the namespace into a state, and ``act`` is what the process
is killed in. Names of entries say what must become of them: ``kept-…`` is in the cache after any kill, unless it was
cleared away; ``old-…`` is gone if the scenario came that far.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from shmcache.manager import wire
from shmcache.manager.tidying import tidy
from shmcache.memory import layout
from shmcache.memory.election import ManagerLock
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import unlink_object
from shmcache.memory.segments import create_segment
from tests.crash.rig import Rig, key_of, payload_of, text_of

LIMIT_BYTES = 24 * 4096


@dataclass(frozen=True)
class Scenario:
    """``mapped`` names an entry that a reader maps all the time; ``limit_bytes`` is the limit of every manager."""

    name: str
    prepare: Callable[[Namespace], Rig | None]
    act: Callable[[Namespace, Rig | None], object]
    mapped: str = ""
    limit_bytes: int = -1


def _in_use(namespace: Namespace, *, limit_bytes: int = -1) -> Rig:
    """A cache with a vocabulary, three grammars and two rows."""
    rig = Rig(namespace, limit_bytes=limit_bytes)
    rig.compile("vocabulary")
    rig.compile("kept-a", rows=["kept-row", "old-row"])
    rig.compile("old-b")
    rig.compile("kept-c")
    return rig


def _cleared(namespace: Namespace) -> Rig:
    """A cache cleared once, with grammars of the new generation and one of the old one that is still compiled."""
    rig = _in_use(namespace)
    rig.ask_for("old-late")
    return rig


def _clear(namespace: Namespace, rig: Rig | None) -> None:
    assert rig is not None
    job = rig.take_job()
    rig.ask(wire.Clear)
    rig.settle()
    rig.finish(job, rows=["old-row"])
    rig.answer()


def _publish(namespace: Namespace, rig: Rig | None) -> None:
    assert rig is not None
    rig.compile("new", rows=["new-row"])


def _publish_fenced(namespace: Namespace, rig: Rig | None) -> None:
    """The room is granted before the clear, the commit comes after it."""
    assert rig is not None
    job, storage = rig.take_job(), rig._storage
    allocated = storage._alloc(job, Tier.GRAMMAR, job.key, len(payload_of(job.key)))
    is_filled = storage._fill(job, Tier.GRAMMAR, job.key, [payload_of(job.key)], allocated, text_of(job.key))
    rig.ask(wire.Clear)
    if is_filled:
        assert storage._commit(job, Tier.GRAMMAR, job.key, allocated.serial, [payload_of(job.key)], 1) == "fenced"
    rig.finish(job)
    rig.answer()
    rig.settle()


def _evict(namespace: Namespace, rig: Rig | None) -> None:
    assert rig is not None
    rig.ask(wire.Evict, key_of("old-b"))
    rig.ask(wire.Evict, key_of("old-row"))
    rig.settle()


def _full(namespace: Namespace) -> Rig:
    rig = Rig(namespace, limit_bytes=LIMIT_BYTES)
    rig.compile("vocabulary")
    for number in range(12):
        rig.compile(f"old-{number}", rows=[f"old-row-{number}"])
    return rig


def _make_room(namespace: Namespace, rig: Rig | None) -> None:
    assert rig is not None
    for number in range(3):
        rig.compile(f"new-{number}", rows=[f"new-row-{number}"])
    rig.settle()


def _disorder(namespace: Namespace) -> None:
    """What a manager killed in many places at once would leave: every kind of leftover that recovery knows."""
    rig = _in_use(namespace)
    rig.compile("old-lost")
    shelf = rig.server.shelf
    control, index = shelf.control, shelf.index
    lost = index.look_up(key_of("old-lost"))
    assert lost is not None
    unlink_object(shelf.name(lost.serial))
    fields = {"tier": Tier.GRAMMAR, "generation": control.generation, "reserved_bytes": 8192, "owner": 1}
    for name in ("never", "unfinished", "uncommitted"):
        serial = control.next_serial()
        assert index.reserve(key_of(f"old-{name}"), serial=serial, **fields) is not None  # type: ignore[arg-type]
        if name == "unfinished":
            object_path(shelf.name(serial) + ".new").write_bytes(b"half")
        elif name == "uncommitted":
            _segment(namespace, control.instance, serial, f"old-{name}", control.generation)
    _segment(namespace, control.instance, control.next_serial(), "stray", control.generation)
    retired = index.look_up(key_of("old-b"))
    assert retired is not None
    index.retire(retired.slot)
    half_written = index.look_up(key_of("old-row"))
    assert half_written is not None
    control.words[control.records_start + layout.RECORD_WORDS * half_written.slot] = 0
    os.close(os.open(object_path(namespace.control_name + ".new"), os.O_CREAT | os.O_RDWR, 0o600))


def _segment(namespace: Namespace, instance: int, serial: int, name: str, generation: int) -> None:
    key = key_of(name)
    create_segment(
        namespace.data_name(instance, serial), [payload_of(key)], key=key, generation=generation, tier=Tier.GRAMMAR
    )


def _dissolved(namespace: Namespace) -> None:
    """A cache whose last manager was killed while it removed it."""
    rig = _in_use(namespace)
    rig.server.shelf.control.dissolve()


def _stop(namespace: Namespace, rig: Rig | None) -> None:
    assert rig is not None
    rig.stop()


def _remove(namespace: Namespace, rig: Rig | None) -> None:
    assert rig is not None
    rig.stop(remove=True)


def _start(namespace: Namespace, rig: Rig | None) -> None:
    rig = Rig(namespace)
    rig.settle()


def _tidy(namespace: Namespace, rig: Rig | None) -> None:
    """What ``shmcache gc`` does where no manager is."""
    lock = ManagerLock(namespace)
    assert lock.acquire()
    tidy(namespace)
    lock.release()


SCENARIOS = [
    Scenario("first start", lambda namespace: None, _start),
    Scenario("first vocabulary", Rig, lambda namespace, rig: rig and rig.compile("vocabulary")),
    Scenario("publish", _in_use, _publish),
    Scenario("publish in an old generation", _cleared, _publish_fenced),
    Scenario("evict", _in_use, _evict),
    Scenario("evict what is mapped", _in_use, _evict, mapped="old-b"),
    Scenario("evict for room", _full, _make_room, limit_bytes=LIMIT_BYTES),
    Scenario("clear", _cleared, _clear),
    Scenario("clear what is mapped", _cleared, _clear, mapped="old-b"),
    Scenario("recover", _disorder, _start),
    Scenario("recover what is mapped", _disorder, _start, mapped="old-b"),
    Scenario("recover a cache being removed", _dissolved, _start, mapped="kept-a"),
    Scenario("tidy without a manager", _disorder, _tidy),
    Scenario("tidy what is mapped", _disorder, _tidy, mapped="old-b"),
    Scenario("stop", _in_use, _stop),
    Scenario("stop and remove", _in_use, _remove),
]
