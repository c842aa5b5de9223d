"""What lies in shared memory: our objects by cache, and what is wrong with one cache's.

Owns the grouping of object names, and asking twice. Must never remove anything.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass

from shmcache.memory import check, names, objects
from shmcache.memory.election import holder_pid
from shmcache.memory.names import Namespace
from shmcache_tools.shared_stats import SharedView

_PREFIX = re.compile(r"/shmc-[0-9a-f]{10}(?=[.-])")
_CONTROL_SUFFIX = ".ctl"
_LOCK_SUFFIX = ".lck"


@dataclass(frozen=True, slots=True)
class Group:
    """This user's objects of one prefix, other than those of the namespace that was asked about."""

    prefix: str
    object_count: int
    size_bytes: int
    has_control: bool
    has_manager: bool


def leftovers(namespace: Namespace) -> list[Group]:
    """This user's objects by prefix, without those of ``namespace``, in order of prefix."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for name in objects.list_objects("/shmc-"):
        match = _PREFIX.match(name)
        if match is None or match[0] == namespace.prefix:
            continue
        try:
            status = os.lstat(names.object_path(name))
        except FileNotFoundError:
            continue
        if status.st_uid == namespace.uid:
            found[match[0]][name] = status.st_blocks * 512
    groups = []
    for prefix, sizes in sorted(found.items()):
        has_manager = holder_pid(Namespace("", namespace.uid, prefix, namespace.directory)) is not None
        # A lock file alone is what an ended manager may leave; it takes no memory.
        if has_manager or sizes.keys() != {prefix + _LOCK_SUFFIX}:
            has_control = prefix + _CONTROL_SUFFIX in sizes
            groups.append(Group(prefix, len(sizes), sum(sizes.values()), has_control or has_manager, has_manager))
    return groups


def own_objects(namespace: Namespace) -> list[str]:
    """What is left of one namespace, in shared memory and in its runtime directory: names, sorted."""
    left = objects.list_objects(namespace.prefix)
    if namespace.directory.is_dir():
        left += [str(path) for path in namespace.directory.glob(f"{namespace.prefix[1:]}*")]
    return sorted(left)


def damage(view: SharedView) -> list[check.Finding]:
    """What is wrong with a cache: what two looks in a row both found, since a manager may be changing things."""
    first = check.check(view.control, view.index, view.namespace.prefix)
    if not first:
        return []
    again = set(check.check(view.control, view.index, view.namespace.prefix))
    return [finding for finding in first if finding in again]
