"""Which process is the manager: locks that die with their holder.

Owns the two lock files of a namespace. Must never be opened twice in one process: closing any descriptor of a file
drops this process's ``fcntl`` locks on it. A child made by ``fork`` does not inherit them, and the descriptors are
close-on-exec.

Two locks are needed, because two things must have one owner: the socket, which lies in the runtime directory, and the
control segment, which lies in shared memory. Containers may share either one without the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

from shmcache.errors import SegmentError
from shmcache.memory import steps
from shmcache.memory.names import Namespace

_FLOCK = struct.Struct("hhqqi4x")
"""``struct flock`` on 64-bit Linux: type, whence, start, length, pid."""


class ManagerLock:
    """The right to be the manager of a namespace, held by this process or not."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._descriptors: list[int] = []

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return bool(self._descriptors)

    def acquire(self) -> bool:
        """Takes both locks without waiting; False when another process has one. Makes the runtime directory."""
        if self._descriptors:
            return True
        self._namespace.make_directory()
        taken: list[int] = []
        for path in (self._namespace.lock_path, self._namespace.shm_lock_path):
            descriptor = _lock(path)
            if descriptor is None:
                for other in taken:
                    os.close(other)
                return False
            taken.append(descriptor)
        self._descriptors = taken
        return True

    def release(self, *, remove: bool = False) -> None:
        """Gives the locks back; with ``remove`` their files go too (only after everything they guard is gone)."""
        if remove and self._descriptors:
            # While locked: whoever opened the file before this sees, once it has the lock, that its name is gone.
            for path in (self._namespace.shm_lock_path, self._namespace.lock_path):
                with contextlib.suppress(FileNotFoundError):
                    steps.unlink(path)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def holder_pid(namespace: Namespace) -> int | None:
    """The pid of the process that holds the shared-memory lock, 0 when it is in another container, None when nobody.

    Not to be called by the holder itself: it would lose its lock.
    """
    try:
        descriptor = steps.open_file(namespace.shm_lock_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        answer = steps.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, pid = _FLOCK.unpack(answer)
        return None if kind == fcntl.F_UNLCK else max(0, pid)
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int | None:
    """An open, locked descriptor of the file that has that name now; None when another process has the lock."""
    while True:
        descriptor = steps.open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise SegmentError(f"{path} belongs to uid {status.st_uid}")
            steps.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.stat(path), status):
                return descriptor
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        # The former holder removed the name between our open and our lock: there may be a new file by now.
        os.close(descriptor)
