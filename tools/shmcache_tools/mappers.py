"""Which processes map which segments, asked of ``/proc``.

Owns the reading of the kernel's lists of mappings. Must never open a segment, nor be taken for the whole truth: what
runs as another user or in another pid namespace is not seen.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

from shmcache.memory import names

PROC = Path("/proc")


def mappers(prefix: str, proc: Path = PROC) -> dict[str, list[int]]:
    """The ids of this user's processes by the name of the object that they map, of those that start with ``prefix``."""
    pattern = re.compile(re.escape(f" {names.SHM_DIRECTORY}{prefix}") + r"[^\s]*")
    found: dict[str, set[int]] = defaultdict(set)
    uid = os.geteuid()
    for directory in proc.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            if directory.stat().st_uid != uid:
                continue
            text = (directory / "maps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            # It has ended, or is not ours to look into.
            continue
        for match in pattern.finditer(text):
            found["/" + match[0].rpartition("/")[2]].add(int(directory.name))
    return {name: sorted(pids) for name, pids in found.items()}
