"""Proportional set sizes: read as the kernel writes them, and true to what is shared."""

from __future__ import annotations

import mmap
import os

import pytest

from shmcache_tools.memory_usage import ProportionalSize, parse_rollup, proportional_size, sum_of

ROLLUP = """\
55d0c0000000-7ffd00000000 ---p 00000000 00:00 0                          [rollup]
Rss:                9000 kB
Pss:                6000 kB
Pss_Dirty:          4000 kB
Pss_Anon:           3000 kB
Pss_File:           1000 kB
Pss_Shmem:          2000 kB
Shared_Clean:       1000 kB
"""


def test_a_rollup_is_read() -> None:
    size = parse_rollup(ROLLUP)
    assert size == ProportionalSize(3000 << 10, 1000 << 10, 2000 << 10)
    assert size.data_bytes == 5000 << 10
    assert size.total_bytes == 6000 << 10


@pytest.mark.parametrize("text", ["", "Pss: 10 kB\n", ROLLUP.replace("3000 kB", "3000 MB")])
def test_what_is_no_rollup_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"kind of page|amount"):
        parse_rollup(text)


def test_what_is_allocated_counts() -> None:
    before = proportional_size(os.getpid())
    with mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(b"\1" * len(memory))
        after = proportional_size(os.getpid())
    assert (32 << 20) - (4 << 20) < after.anonymous_bytes - before.anonymous_bytes < (32 << 20) + (4 << 20)


def test_the_sum_over_no_process_is_nothing() -> None:
    assert sum_of([]) == ProportionalSize()
    assert sum_of([os.getpid()]).total_bytes > 0
