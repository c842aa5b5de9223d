"""What processes cost: processor seconds and bytes; and what is left for them.

Owns reading both from the kernel. Must never know what the processes do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_USER_FIELD, _FIELDS = 11, 4
"""In ``/proc/<pid>/stat`` behind the name: utime, stime, and those of children that were waited for."""


def processor_seconds(pids: Iterable[int]) -> float:
    """Used so far by the processes and by the children that they have waited for."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        ticks += sum(map(int, fields[_USER_FIELD : _USER_FIELD + _FIELDS]))
    return ticks / _TICKS


def own_processor_seconds() -> float:
    """Used so far by this process."""
    times = os.times()
    return times.user + times.system


def free_memory_share() -> float:
    """How much of the host's memory may still be had."""
    amounts = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, amount = line.partition(":")
        amounts[name] = int(amount.split()[0])
    return amounts["MemAvailable"] / amounts["MemTotal"]


def folder_bytes(folder: Path) -> int:
    """What the files of a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
