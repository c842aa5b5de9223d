"""Who still maps it? The kernel's answer, asked with a file lease.

Owns the probe and its self-test. Must never decide what follows from the answer.

A write lease (``fcntl(F_SETLEASE, F_WRLCK)``) is granted only when the file has no other descriptor and no mapping
anywhere on the host, also after unlink and after ``kill -9`` of a user. So nobody has to report that it let go.

The kernel counts *opens*, not descriptors: copies of one descriptor (``dup``, ``fork``, SCM_RIGHTS, and mappings made
through it) are all the same user. So a descriptor kept for probing must come from an open of its own, and must never be
mapped or handed to another process.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import signal

from shmcache.memory import steps
from shmcache.memory.names import Namespace
from shmcache.memory.objects import SEALED_MODE, create_hollow, open_object, unlink_object


def ignore_lease_signals() -> None:
    """Someone who opens a leased file raises SIGIO here, whose default is death. Main thread only."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)


def is_unused(descriptor: int) -> bool:
    """Whether ``descriptor`` (read-only, the only one in this process) is the file's only user. Takes microseconds.

    Raises OSError where the kernel or file system gives no leases; see :func:`leases_work`.
    """
    return _try_lease(descriptor, fcntl.F_WRLCK)


def has_no_writer(descriptor: int) -> bool:
    """Whether no descriptor that may write the file is left; ``descriptor`` itself is read-only."""
    return _try_lease(descriptor, fcntl.F_RDLCK)


def leases_work(namespace: Namespace) -> bool:
    """Tries the probe on an object of our own: used, then no longer used. Call once at start, after ignoring SIGIO."""
    try:
        probe, user = _open_twice(f"{namespace.prefix}.lease-{os.getpid()}")
        try:
            with mmap.mmap(user, mmap.PAGESIZE, prot=mmap.PROT_READ):
                os.close(user)
                unused_while_mapped = is_unused(probe)
            return not unused_while_mapped and is_unused(probe) and has_no_writer(probe)
        finally:
            os.close(probe)
    except OSError:
        return False


def _open_twice(name: str) -> tuple[int, int]:
    """Two descriptors of one file without a name, opened apart from each other; nobody else has any."""
    try:
        create_hollow(name, mmap.PAGESIZE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # Not one name more fits in: memory of the same kind that needs none.
        maker = steps.memfd_create(name[1:], os.MFD_CLOEXEC)
        try:
            steps.ftruncate(maker, mmap.PAGESIZE)
            path = f"/proc/self/fd/{maker}"
            return steps.open_file(path, os.O_RDONLY | os.O_CLOEXEC), steps.open_file(path, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(maker)
    try:
        return open_object(name, mode=SEALED_MODE), open_object(name, mode=SEALED_MODE)
    finally:
        unlink_object(name)


def _try_lease(descriptor: int, kind: int) -> bool:
    try:
        steps.fcntl(descriptor, fcntl.F_SETLEASE, kind)
    except BlockingIOError:
        return False
    # At once: whoever opens the file meanwhile waits for this.
    steps.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True
