"""How much memory processes take, with what they share divided among those who share it.

Owns the reading of the kernel's accounts. Must never know what the processes do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_FIELDS = {"Pss_Anon": "anonymous_bytes", "Pss_File": "file_bytes", "Pss_Shmem": "shared_memory_bytes"}


@dataclass(frozen=True, slots=True)
class ProportionalSize:
    """A proportional set size in bytes, by kind of page. Files are program code and libraries."""

    anonymous_bytes: int = 0
    file_bytes: int = 0
    shared_memory_bytes: int = 0

    @property
    def data_bytes(self) -> int:
        """Without files: those are shared by all processes of a host, with this cache or without."""
        return self.anonymous_bytes + self.shared_memory_bytes

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.data_bytes + self.file_bytes

    def __add__(self, other: ProportionalSize) -> ProportionalSize:
        return ProportionalSize(
            self.anonymous_bytes + other.anonymous_bytes,
            self.file_bytes + other.file_bytes,
            self.shared_memory_bytes + other.shared_memory_bytes,
        )


def parse_rollup(text: str) -> ProportionalSize:
    """The sizes in the text of ``/proc/<pid>/smaps_rollup``. Raises ValueError when they are not there."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in _FIELDS:
            amount, unit = rest.split()
            if unit != "kB":
                raise ValueError(f"an amount in {unit}: {line!r}")
            found[_FIELDS[name]] = 1024 * int(amount)
    if len(found) != len(_FIELDS):
        raise ValueError("the kernel does not divide proportional set sizes by kind of page (Linux 5.4 does)")
    return ProportionalSize(**found)


def proportional_size(pid: int) -> ProportionalSize:
    """The proportional set size of a process of ours. Raises OSError or ValueError."""
    return parse_rollup(Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))


def sum_of(pids: Iterable[int]) -> ProportionalSize:
    """The sum over processes, in which a page that only they share counts once."""
    return sum((proportional_size(pid) for pid in pids), ProportionalSize())
