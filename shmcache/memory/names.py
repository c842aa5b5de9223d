"""The names of everything one namespace owns, and the checks that a name has not been squatted.

Owns the mapping from (user, namespace name) to object names and paths, and the runtime directory's permissions. Must
never know what the named things contain.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from shmcache import settings
from shmcache.errors import SegmentError
from shmcache.memory import steps
from shmcache.memory.layout import CONTROL_LAYOUT_VERSION

SHM_DIRECTORY = settings.shm_directory()
"""Where POSIX shared-memory objects live. Another tmpfs can be named for one with limits of its own."""

NAMESPACE_NAME_BYTES_MAX = 200
SOCKET_PATH_BYTES_MAX = 107
"""``sun_path`` holds 108 bytes with its terminator."""

BUILDING_SUFFIX = ".new"
"""A data object is built under its final name plus this, and published by a link without it."""

_DATA_NAME = re.compile(r"(?P<prefix>/shmc-[0-9a-f]{10})-(?P<instance>[0-9a-f]{16})-(?P<serial>[0-9a-f]{1,16})")


@dataclass(frozen=True, slots=True)
class Namespace:
    """One cache of one user on this host. Object names start with ``/``; paths are of ordinary files."""

    name: str
    uid: int
    prefix: str
    directory: Path

    @classmethod
    def of(cls, name: str | None = None, uid: int | None = None, directory: Path | None = None) -> Namespace:
        """The namespace of that ``name`` of that user (None: the effective one).

        ``directory`` is the runtime directory. What is None is taken from the settings. Raises :class:`SegmentError`
        when the name is empty or too long.
        """
        name = settings.NAMESPACE.value(name)
        uid = os.geteuid() if uid is None else uid
        encoded = name.encode("utf-8", "surrogatepass")
        if not 0 < len(encoded) <= NAMESPACE_NAME_BYTES_MAX:
            raise SegmentError(f"a namespace name has 1 to {NAMESPACE_NAME_BYTES_MAX} bytes, not {len(encoded)}")
        namespace = cls(name, uid, object_prefix(name, uid), settings.RUNTIME_DIRECTORY.value(directory))
        if len(os.fsencode(namespace.socket_path)) > SOCKET_PATH_BYTES_MAX:
            raise SegmentError(
                f"the socket's path {namespace.socket_path} is longer than {SOCKET_PATH_BYTES_MAX} bytes"
            )
        return namespace

    @property
    def control_name(self) -> str:
        """The control segment's object name."""
        return self.prefix + ".ctl"

    @property
    def recency_name(self) -> str:
        """The object name of the segment that readers write."""
        return self.prefix + ".rdr"

    @property
    def shm_lock_path(self) -> Path:
        """The lock that lies beside the control segment and guards it, whatever the runtime directory is."""
        return object_path(self.prefix + ".lck")

    def data_name(self, instance: int, serial: int) -> str:
        """The object name of one image, vocabulary or rule entry; ``serial`` is never used twice in an instance."""
        return data_name(self.prefix, instance, serial)

    @property
    def socket_path(self) -> Path:
        """The manager's Unix socket."""
        return self.directory / (self.prefix[1:] + ".sock")

    @property
    def lock_path(self) -> Path:
        """The lock in the runtime directory; it guards the socket."""
        return self.directory / (self.prefix[1:] + ".lock")

    @property
    def log_path(self) -> Path:
        """Where an embedded manager writes its log."""
        return self.directory / (self.prefix[1:] + ".log")

    def make_directory(self) -> None:
        """Makes the runtime directory (0700); raises :class:`SegmentError` when it is not ours alone."""
        steps.make_directory(self.directory, mode=0o700, parents=True, exist_ok=True)
        self.check_directory()

    def check_directory(self) -> None:
        """Raises :class:`SegmentError` unless the directory is a real one, ours, and closed to others.

        A missing directory is FileNotFoundError.
        """
        status = self.directory.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise SegmentError(f"{self.directory} is not a directory")
        if status.st_uid != self.uid or status.st_mode & 0o077:
            raise SegmentError(
                f"{self.directory} must belong to uid {self.uid} with mode 0700, not to uid {status.st_uid} "
                f"with mode {stat.S_IMODE(status.st_mode):04o}"
            )


@dataclass(frozen=True, slots=True)
class DataName:
    """The parts of a data object's name."""

    prefix: str
    instance: int
    serial: int
    building: bool


def object_prefix(name: str, uid: int, layout_version: int = CONTROL_LAYOUT_VERSION) -> str:
    """What the names of a namespace's objects begin with; those of another layout version have another prefix."""
    identity = b"%d\0%d\0%s" % (layout_version, uid, name.encode("utf-8", "surrogatepass"))
    return "/shmc-" + blake2b(identity, digest_size=5).hexdigest()


def data_name(prefix: str, instance: int, serial: int) -> str:
    """The object name of a data segment."""
    return f"{prefix}-{instance:016x}-{serial:x}"


def parse_data_name(name: str) -> DataName | None:
    """The parts of ``name``, or None when it is not the name of a data object."""
    building = name.endswith(BUILDING_SUFFIX)
    match = _DATA_NAME.fullmatch(name.removesuffix(BUILDING_SUFFIX))
    if match is None:
        return None
    return DataName(match["prefix"], int(match["instance"], 16), int(match["serial"], 16), building)


def object_path(name: str) -> Path:
    """The file behind an object name. Raises :class:`SegmentError` when the name could leave the directory."""
    if not name.startswith("/") or "/" in name[1:] or "\0" in name or len(name) < 2:
        raise SegmentError(f"{name!r} is not the name of a shared-memory object")
    return SHM_DIRECTORY / name[1:]
