"""POSIX shared-memory objects: made under a private name, published whole, checked before use.

Owns creating, publishing, opening, listing and unlinking. Must never know what the bytes mean.

The objects are opened as files of the tmpfs behind ``shm_open`` (which on Linux does nothing else), because
``posix_ipc.SharedMemory`` can neither refuse symbolic links nor list, resizes a live object when given ``O_CREAT``
and a size, lets the umask change the mode, and has errors that are not OSErrors. ``multiprocessing.shared_memory`` is
out of the question: its tracker unlinks what other processes use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shmcache.errors import LimitError, SegmentError
from shmcache.memory import names, steps

Buffer = bytes | bytearray | memoryview

WRITABLE_MODE = 0o600
"""Control and recency segments: changed by their owner's processes only."""

SEALED_MODE = 0o440
"""Data segments once published."""

_SECURE_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


def open_object(name: str, *, mode: int, writable: bool = False) -> int:
    """A descriptor of the object, read-only unless ``writable``.

    Raises FileNotFoundError, or :class:`SegmentError` when it is not ours, or its mode is not exactly ``mode``.
    """
    return open_with_status(name, mode=mode, writable=writable)[0]


def open_with_status(name: str, *, mode: int, writable: bool = False) -> tuple[int, os.stat_result]:
    """The same with the descriptor's status, which was looked at anyway."""
    # Not a Path: making one takes as long as opening the file.
    path = os.path.join(names.SHM_DIRECTORY, name[1:])
    try:
        descriptor = steps.open_file(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_NONBLOCK | _SECURE_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO, errno.EISDIR):
            raise SegmentError(f"{name} is not ours: {error.strerror}") from error
        raise
    try:
        return descriptor, check_descriptor(descriptor, name, mode=mode)
    except BaseException:
        os.close(descriptor)
        raise


def check_descriptor(descriptor: int, name: str, *, mode: int) -> os.stat_result:
    """The status of a descriptor, after making sure that it is a regular file, ours, with exactly that mode."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise SegmentError(f"{name} is not a shared-memory object")
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != mode:
        raise SegmentError(
            f"{name} must belong to uid {os.geteuid()} with mode {mode:04o}, not to uid {status.st_uid} "
            f"with mode {stat.S_IMODE(status.st_mode):04o}"
        )
    return status


@contextmanager
def building(name: str, size_bytes: int) -> Iterator[int]:
    """A writable descriptor of a new, fully allocated, zeroed object under a private name, gone again on any error.

    The body fills it and calls :func:`publish`. Raises :class:`LimitError` (``shm_bytes``) when memory is short, and
    :class:`SegmentError` when the private name is taken.
    """
    private = name + names.BUILDING_SUFFIX
    path = names.object_path(private)
    try:
        descriptor = steps.open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SECURE_FLAGS, WRITABLE_MODE)
    except FileExistsError as error:
        raise SegmentError(f"{private} exists already") from error
    except OSError as error:
        raise _typed(error, name, size_bytes) from error
    try:
        try:
            steps.posix_fallocate(descriptor, 0, size_bytes)
        except OSError as error:
            raise _typed(error, name, size_bytes) from error
        yield descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            steps.unlink(path)


def create_hollow(name: str, size_bytes: int) -> None:
    """An object without memory behind it, never to be read: it can be made when memory is full. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _SECURE_FLAGS
    descriptor = steps.open_file(names.object_path(name), flags, WRITABLE_MODE)
    try:
        steps.ftruncate(descriptor, size_bytes)
        steps.fchmod(descriptor, SEALED_MODE)
    except BaseException:
        unlink_object(name)
        raise
    finally:
        os.close(descriptor)


def fill(descriptor: int, parts: Iterable[Buffer]) -> int:
    """Writes the parts one after the other from the start; returns the number of bytes."""
    offset = 0
    for part in parts:
        view = memoryview(part).cast("B")
        while view:
            written = steps.pwrite(descriptor, view, offset)
            offset += written
            view = view[written:]
    return offset


def publish(descriptor: int, name: str, *, mode: int) -> None:
    """Gives a built object its mode and its final name.

    Raises :class:`SegmentError` when the name is taken, :class:`LimitError` (``shm_bytes``) when no more names fit.
    """
    steps.fchmod(descriptor, mode)
    try:
        steps.link(names.object_path(name + names.BUILDING_SUFFIX), names.object_path(name))
    except FileExistsError as error:
        raise SegmentError(f"{name} exists already") from error
    except OSError as error:
        # A second name may need room, too.
        raise _typed(error, name, os.fstat(descriptor).st_size) from error


def unlink_object(name: str) -> bool:
    """Removes the name; mappings live on. False when there was none."""
    try:
        steps.unlink(names.object_path(name))
    except FileNotFoundError:
        return False
    return True


def list_objects(prefix: str) -> list[str]:
    """Names of all objects that start with ``prefix`` (and its leading ``/``), in no order."""
    start = prefix[1:]
    with os.scandir(names.SHM_DIRECTORY) as entries:
        return ["/" + entry.name for entry in entries if entry.name.startswith(start)]


def free_bytes() -> int:
    """Bytes that the shared-memory file system has left for us."""
    status = os.statvfs(names.SHM_DIRECTORY)
    return status.f_bavail * status.f_frsize


def _typed(error: OSError, name: str, size_bytes: int) -> LimitError | OSError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EFBIG):
        return LimitError(f"no room for the {size_bytes} bytes of {name} in shared memory", limit="shm_bytes")
    return error
