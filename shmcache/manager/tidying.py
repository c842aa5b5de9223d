"""Bringing a namespace to order where no manager is, and leaving none behind.

Owns a manager's start and end without its middle: recovery, the retirement of what no look-up can find any more, the
probe for who still maps it. Must never serve anybody, nor remove what is valid. The caller holds the manager's lock.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.manager import events as ev
from shmcache.manager.core import ManagerCore
from shmcache.manager.policy import Policy
from shmcache.manager.recovery import leave, recover, remove_objects
from shmcache.manager.shelf import Shelf, StoreEffect
from shmcache.memory import names, steps
from shmcache.memory.control import open_control_reader
from shmcache.memory.names import Namespace
from shmcache.memory.objects import WRITABLE_MODE, list_objects, open_object


@dataclass(frozen=True, slots=True)
class Tidied:
    """What was done, in objects and bytes of shared memory.

    ``entries`` are left and valid or retired; ``retired_bytes`` could not go yet, because somebody maps them.
    """

    objects_before: int
    objects_after: int
    bytes_before: int
    bytes_after: int
    entries: int
    retired_bytes: int


def tidy(namespace: Namespace) -> Tidied:
    """Recovers the namespace and removes from it what nobody uses. Valid entries stay for the next manager.

    Raises :class:`SegmentError` when the control segment's name is squatted.
    """
    objects, size_bytes = _objects(namespace), _size_bytes(namespace)
    limit_bytes = _limit_bytes(namespace)
    entries = retired_bytes = 0
    if limit_bytes is None:
        # Without a control segment that can be used nothing here can ever be found again.
        remove_objects(namespace)
    else:
        recovered = recover(namespace, limit_bytes)
        shelf = recovered.shelf
        _drain(ManagerCore(Policy(limit_bytes=limit_bytes), recovered.restored), shelf)
        entries, retired_bytes = len(shelf.index.entries()), shelf.index.totals.retired_bytes
        leave(shelf)
    with contextlib.suppress(FileNotFoundError):
        # Its manager is dead: the lock is ours.
        steps.unlink(namespace.socket_path)
    after = len(_objects(namespace))
    return Tidied(len(objects), after, size_bytes, _size_bytes(namespace), entries, retired_bytes)


def has_objects(namespace: Namespace) -> bool:
    """Whether anything of the namespace is in shared memory, its lock apart."""
    return bool(_objects(namespace))


def _limit_bytes(namespace: Namespace) -> int | None:
    """The limit that the cache has, which stays as it is; None when there is no cache that can be used."""
    try:
        # Apart from the rest: what is not ours is neither used nor removed.
        os.close(open_object(namespace.control_name, mode=WRITABLE_MODE))
    except FileNotFoundError:
        return None
    try:
        control = open_control_reader(namespace)
    except SegmentError:
        return None
    return None if control.is_dissolved else control.limit_bytes


def _drain(core: ManagerCore, shelf: Shelf) -> None:
    """Retires what is of older generations or over the limit, and frees what of it nobody maps."""
    _apply(core, shelf, ev.Began())
    while core.entries.has_backlog:
        _apply(core, shelf, ev.Tick())
    for entry in core.entries.zombies():
        _apply(core, shelf, ev.Probed(entry.serial, shelf.probe(entry.serial)))


def _apply(core: ManagerCore, shelf: Shelf, event: ev.Event) -> None:
    pending: deque[ev.Event] = deque([event])
    while pending:
        for effect in core.step(pending.popleft(), 0.0):
            if isinstance(effect, StoreEffect) and (follows := shelf.perform(effect)) is not None:
                pending.append(follows)


def _objects(namespace: Namespace) -> list[str]:
    return [name for name in list_objects(namespace.prefix) if not name.endswith(".lck")]


def _size_bytes(namespace: Namespace) -> int:
    total = 0
    for name in _objects(namespace):
        with contextlib.suppress(FileNotFoundError):
            total += os.lstat(names.object_path(name)).st_blocks * 512
    return total
