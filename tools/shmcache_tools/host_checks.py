"""Is this host fit for the cache, and is the cache in order?

Owns the checks and what to do about each thing found. Must never change anything but its own lease probe, nor print.
Each check returns facts (what is so) and findings (what is wrong, with a remedy).
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shmcache import settings
from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.grammar.key import ENGINE_VERSION
from shmcache.memory.layout import CONTROL_LAYOUT_VERSION
from shmcache.memory.names import Namespace
from shmcache_tools.kernel_checks import check_kernel
from shmcache_tools.leftovers import damage, leftovers
from shmcache_tools.manager_checks import check_limit, check_manager
from shmcache_tools.output import bytes_text
from shmcache_tools.report import Report
from shmcache_tools.session_checks import check_session
from shmcache_tools.shared_stats import open_view

SHM_BYTES_MIN = 256 << 20
"""Less than this holds a few dozen grammars beside a vocabulary. Docker gives a container 64 MiB unless told."""

FREE_BYTES_MIN = 64 << 20
CGROUP_BYTES_MIN = 512 << 20
NOFILE_MIN = 1024
"""Each mapped grammar keeps a descriptor before Python 3.13, and a client that cannot open one compiles privately."""

NPROC_MIN = 256
"""Each worker is a process with some threads, and so is whatever else the user runs."""

PACKAGES = ("shmcache", "numpy", "numba", "msgpack", "click", "prometheus-client")


def check_host(name: str | None) -> Report:
    """Runs every check, for the namespace of that name (None: from the settings)."""
    report = Report()
    checks: tuple[Callable[[Report, Namespace], None], ...] = (
        check_versions,
        check_shared_memory,
        check_cgroup,
        check_directory,
        check_limits,
        check_kernel,
        check_session,
        check_cache,
        check_leftovers,
    )
    namespace = Namespace.of(name)
    for check in checks:
        check(report, namespace)
    return report


def check_versions(report: Report, _: Namespace) -> None:
    """Python, the packages, the kernel and the processor."""
    versions: dict[str, Any] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
            report.find("PACKAGE_MISSING", f"{package} is not installed", f"pip install {package}")
    versions["linux"] = platform.release()
    versions["control_layout"] = CONTROL_LAYOUT_VERSION
    versions["engine"] = ENGINE_VERSION
    report.facts["versions"] = versions
    if platform.system() != "Linux":
        report.find("SYSTEM", f"{platform.system()} is not supported", "use Linux; elsewhere every compile is private")


def check_shared_memory(report: Report, _: Namespace) -> None:
    """The file system that holds the segments: kind, size, what is free, and whether we may write there."""
    directory = settings.shm_directory()
    if not directory.is_dir():
        report.facts["shared memory"] = {"directory": str(directory), "mount": None}
        report.find("SHM_MISSING", f"{directory} is not a directory", f"mount -t tmpfs -o size=2g tmpfs {directory}")
        return
    status = os.statvfs(directory)
    size, free = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
    mount = mount_of(directory, Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace"))
    report.facts["shared memory"] = {
        "directory": str(directory),
        "mount": mount,
        "size_bytes": size,
        "free_bytes": free,
    }
    if mount and mount.split()[1] != "tmpfs":
        report.find(
            "SHM_NOT_MEMORY",
            f"{directory} lies on {mount}, not on a tmpfs",
            "unset SHMCACHE_SHM_DIRECTORY, or let it name a directory on a tmpfs",
        )
    if size < SHM_BYTES_MIN:
        report.find(
            "SHM_SMALL",
            f"{directory} has {bytes_text(size)} in all",
            "docker run --shm-size=2g (Kubernetes: an emptyDir with medium: Memory on /dev/shm)",
        )
    elif free < FREE_BYTES_MIN:
        report.find(
            "SHM_FULL",
            f"{directory} has {bytes_text(free)} free",
            f"see what takes it with `ls -lS {directory}`; `shmcache clear` gives back what this cache has",
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        report.find("SHM_READ_ONLY", f"{directory} cannot be written to", f"chmod 1777 {directory}")


def mount_of(directory: Path, mounts: str) -> str | None:
    """``mount point and type`` of the file system under ``directory``, from the text of ``/proc/self/mounts``."""
    best: tuple[int, str] | None = None
    path = directory.resolve()
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) < 3:
            continue
        point = Path(parts[1].encode().decode("unicode_escape"))
        # Later lines hide earlier ones of the same mount point.
        if (point == path or point in path.parents) and (best is None or len(point.parts) >= best[0]):
            best = len(point.parts), f"{point} {parts[2]}"
    return best[1] if best else None


def check_cgroup(report: Report, _: Namespace) -> None:
    """What the memory cgroup still allows: at its limit the kernel kills instead of refusing."""
    headroom = settings.cgroup_headroom_bytes()
    is_limited = headroom < 1 << 60
    report.facts["memory cgroup"] = {"headroom_bytes": headroom if is_limited else None}
    if is_limited and headroom < CGROUP_BYTES_MIN:
        report.find(
            "CGROUP_TIGHT",
            f"the memory cgroup has {bytes_text(headroom)} left",
            "raise the container's memory limit, or give the cache less: SHMCACHE_LIMIT_BYTES=128M",
        )


def check_directory(report: Report, namespace: Namespace) -> None:
    """The user, the namespace, and the directory of socket and lock."""
    facts: dict[str, Any] = {
        "name": namespace.name,
        "uid": namespace.uid,
        "user_namespace": _namespace_of("user"),
        "pid_namespace": _namespace_of("pid"),
        "objects": namespace.prefix,
        "directory": str(namespace.directory),
        "exists": namespace.directory.is_dir(),
    }
    report.facts["namespace"] = facts
    try:
        namespace.check_directory()
    except FileNotFoundError:
        parent = next(path for path in namespace.directory.parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            report.find(
                "DIRECTORY_UNWRITABLE",
                f"{namespace.directory} cannot be made: {parent} is not writable",
                "let SHMCACHE_RUNTIME_DIR name a directory that you may write to",
            )
    except (SegmentError, OSError) as error:
        report.find(
            "DIRECTORY_UNSAFE",
            str(error),
            f"chmod 700 {namespace.directory} if it is yours; else let SHMCACHE_RUNTIME_DIR name another directory",
        )


def _namespace_of(kind: str) -> str | None:
    """Which namespace of that kind this process is in; processes of two see different users or pids."""
    try:
        return os.readlink(f"/proc/self/ns/{kind}").partition(":")[2].strip("[]")
    except OSError:
        return None


def check_limits(report: Report, _: Namespace) -> None:
    """The process limits that a manager, a worker or a client started from here would have."""
    names = {
        "open files": resource.RLIMIT_NOFILE,
        "processes": resource.RLIMIT_NPROC,
        "file size": resource.RLIMIT_FSIZE,
        "memory": resource.RLIMIT_AS,
    }
    limits = {}
    for name, number in names.items():
        soft, _hard = resource.getrlimit(number)
        limits[name] = None if soft == resource.RLIM_INFINITY else soft
    report.facts["process limits"] = limits
    files, processes, size, memory = limits.values()
    if files is not None and files < NOFILE_MIN:
        report.find("NOFILE_LOW", f"a process may open {files} files", f"ulimit -n {8 * NOFILE_MIN}")
    if processes is not None and processes < NPROC_MIN:
        report.find("NPROC_LOW", f"a user may have {processes} processes and threads", "ulimit -u 4096")
    if size is not None:
        report.find("FILE_SIZE_LIMITED", f"a file may have {bytes_text(size)}, a segment too", "ulimit -f unlimited")
    if memory is not None and memory < 4 << 30:
        report.find("MEMORY_LIMITED", f"a process may map {bytes_text(memory)}", "ulimit -v unlimited")


def check_cache(report: Report, namespace: Namespace) -> None:
    """The namespace's own segments: readable, and does the account add up?"""
    try:
        view = open_view(namespace)
    except ManagerUnavailable:
        report.facts["cache"] = {"exists": False}
        return
    except (SegmentError, OSError) as error:
        report.facts["cache"] = {"exists": True, "readable": False}
        report.find(
            "CACHE_UNREADABLE",
            str(error),
            f"stop its manager and its clients, then rm {settings.shm_directory()}{namespace.prefix}*",
        )
        return
    stats = view.stats()
    report.facts["cache"] = {
        "exists": True,
        "manager": stats["manager"]["state"],
        "manager_pid": stats["manager"]["pid"],
        "generation": stats["generation"],
        "charged_bytes": stats["charged_bytes"]["total"],
        "retired_bytes": stats["retired_bytes"],
    }
    check_manager(report, view, stats)
    check_limit(report, view)
    for fault in damage(view):
        report.find(
            fault.code,
            f"{fault.subject}: {fault.message}",
            "start a manager (`shmcache serve`): it repairs the account and removes strays when it starts",
        )


def check_leftovers(report: Report, namespace: Namespace) -> None:
    """Objects in shared memory that belong to no cache."""
    groups = leftovers(namespace)
    report.facts["other caches of this user"] = {
        group.prefix: {"objects": group.object_count, "bytes": group.size_bytes, "manager": group.has_manager}
        for group in groups
        if group.has_control
    }
    for group in groups:
        if not group.has_control:
            report.find(
                "LEFTOVER",
                f"{group.object_count} objects {group.prefix}* of no cache take {bytes_text(group.size_bytes)}",
                f"rm {settings.shm_directory()}{group.prefix}*",
            )
