"""Settings: a flag beats an ``SHMCACHE_*`` variable, which beats the default.

Owns the variables' names, their parsing and the defaults, also the one that is computed from the host's free memory.
Must never keep a value: the environment is read when a setting is asked for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from shmcache.errors import SegmentError
from shmcache.limits import COMPILE_SECONDS_MAX

T = TypeVar("T")

UNLIMITED_BYTES = -1
"""The limit that means none."""

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str) -> int:
    """A number of bytes: ``1048576``, ``512M``, ``2GiB``, or ``-1`` for no limit. Raises ValueError."""
    plain = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = plain[-1:] if plain[-1:] in "kmgt" else ""
    number = float(plain.removesuffix(unit) if unit else plain)
    if number == UNLIMITED_BYTES and not unit:
        return UNLIMITED_BYTES
    if not 0 <= number < 1 << 62:
        raise ValueError(f"{text!r} is not a number of bytes")
    return int(number * _UNITS[unit])


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"{text!r} is not at least 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise ValueError(f"{text!r} is not a number of seconds")
    return number


def _log_format(text: str) -> str:
    if text not in ("text", "json"):
        raise ValueError(f"{text!r} is neither text nor json")
    return text


def _free_quarter() -> int:
    shm = os.statvfs(shm_directory())
    return min(shm.f_bavail * shm.f_frsize, cgroup_headroom_bytes()) // 4


def _worker_count() -> int:
    # Two at least: what one compile holds up must not wait for its end, after a clear for instance.
    return max(2, min(4, len(os.sched_getaffinity(0)) // 2))


def _runtime_directory() -> Path:
    session = os.environ.get("XDG_RUNTIME_DIR")
    return Path(session) / "shmcache" if session else Path("/tmp") / f"shmcache-{os.geteuid()}"


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting: its variable, how its text is read, what it is without, and what it means (units last in names)."""

    variable: str
    parse: Callable[[str], T]
    default: Callable[[], T]
    meaning: str

    def value(self, flag: T | None = None) -> T:
        """The flag if given, else the variable, else the default. Raises ValueError for a malformed variable."""
        if flag is not None:
            return flag
        text = os.environ.get(self.variable)
        if not text:
            return self.default()
        try:
            return self.parse(text)
        except ValueError as error:
            raise ValueError(f"{self.variable}={text!r}: {error}") from None


NAMESPACE = Setting("SHMCACHE_NAMESPACE", str, lambda: "default", "the cache to use; each name is a cache of its own")
LIMIT_BYTES = Setting(
    "SHMCACHE_LIMIT_BYTES",
    parse_bytes,
    _free_quarter,
    "bytes that grammars and rules may take, -1 for no limit; default: a quarter of what /dev/shm and the cgroup leave",
)
WORKERS = Setting("SHMCACHE_WORKERS", _count, _worker_count, "compile workers of a manager")
COMPILE_SECONDS = Setting(
    "SHMCACHE_COMPILE_SECONDS", _seconds, lambda: COMPILE_SECONDS_MAX, "deadline of one compile, in seconds"
)
START_SECONDS = Setting(
    "SHMCACHE_START_SECONDS",
    _seconds,
    lambda: 20.0,
    "how long a client waits for a manager that it started, in seconds",
)
REQUEST_SECONDS = Setting(
    "SHMCACHE_REQUEST_SECONDS",
    _seconds,
    lambda: 120.0,
    "how long a client waits for the manager's answer before it compiles by itself, in seconds",
)
IDLE_SECONDS = Setting(
    "SHMCACHE_IDLE_SECONDS", _seconds, lambda: 600.0, "when a manager without clients ends, in seconds; the cache stays"
)
RUNTIME_DIRECTORY = Setting(
    "SHMCACHE_RUNTIME_DIR", Path, _runtime_directory, "directory (0700) of socket, lock, log, and vocabularies"
)
LOG_FORMAT = Setting(
    "SHMCACHE_LOG_FORMAT", _log_format, lambda: "text", "how managers and their workers log: text, or json (one a line)"
)
SHM_DIRECTORY = Setting(
    "SHMCACHE_SHM_DIRECTORY", Path, lambda: Path("/dev/shm"), "the tmpfs that holds the shared-memory objects"
)

ALL: tuple[Setting[str] | Setting[int] | Setting[float] | Setting[Path], ...] = (
    NAMESPACE,
    LIMIT_BYTES,
    WORKERS,
    COMPILE_SECONDS,
    START_SECONDS,
    REQUEST_SECONDS,
    IDLE_SECONDS,
    RUNTIME_DIRECTORY,
    LOG_FORMAT,
    SHM_DIRECTORY,
)
"""Every setting, for the documentation and ``doctor``."""


def runtime_folder(name: str) -> Path:
    """A folder in the runtime directory for what this user alone may change, made if need be.

    Raises :class:`SegmentError` where others can write to it.
    """
    folder = RUNTIME_DIRECTORY.value() / name
    for directory in (folder.parent, folder):
        # One by one: parents that are made on the way are open to others, and then of no use as a runtime directory.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise SegmentError(f"{directory} must be a directory that no one else can write")
    return folder


def shm_directory() -> Path:
    """Where shared-memory objects live."""
    return SHM_DIRECTORY.value()


def cgroup_headroom_bytes(root: Path = _CGROUP_ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that this process's memory cgroup and its parents still allow; a very large number without a limit.

    At such a limit the kernel kills instead of refusing, so a cache must stay below it by itself.
    """
    headroom = 1 << 62
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return headroom
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            headroom = min(headroom, _headroom(root, path, "memory.max", "memory.current"))
        elif "memory" in controllers.split(","):
            headroom = min(headroom, _headroom(root / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes"))
    return max(0, headroom)


def _headroom(root: Path, path: str, limit_file: str, usage_file: str) -> int:
    """The least of the headrooms from the cgroup ``path`` up to ``root``; inside a container ``path`` may not exist."""
    headroom = 1 << 62
    group = root / path.lstrip("/")
    while group == root or root in group.parents:
        try:
            limit = (group / limit_file).read_text().strip()
            usage = int((group / usage_file).read_text())
            if limit != "max":
                headroom = min(headroom, int(limit) - usage + _reclaimable_bytes(group))
        except (OSError, ValueError):
            pass
        group = group.parent
    return headroom


def _reclaimable_bytes(group: Path) -> int:
    """File pages that nobody used lately: counted as used, given back at once when needed."""
    for line in (group / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0
