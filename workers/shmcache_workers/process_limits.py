"""What a worker process may use, and whose death is its own.

Owns the calls to the kernel that bound this process. Must never know jobs.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def die_with_parent(parent_pid: int) -> bool:
    """From here on the kernel kills this process when the thread that started it ends. False: it has ended already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    return os.getppid() == parent_pid


def address_space_bytes() -> int:
    """The size of this process's address space."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * _PAGE_BYTES


def resident_bytes() -> int:
    """The memory that this process holds."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * _PAGE_BYTES


def give_back() -> None:
    """Lets the system have the pages that were freed, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def collect_rarely() -> None:
    """Lets the garbage collector look at young objects only, and only when there are many.

    A compile makes hundreds of thousands of objects that live to its end; looked at every 700, they cost it a third.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@contextmanager
def memory_limit(growth_bytes_max: int) -> Iterator[None]:
    """Inside, the address space may grow by that much; asking for more is a MemoryError.

    The limit is on growth, since the kernels' compiler has reserved gigabytes of address space already that it hardly
    touches.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = address_space_bytes() + growth_bytes_max
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
