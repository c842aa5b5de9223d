"""Is the manager in a state to serve, and is its limit one that can be kept?

Owns the checks of one namespace's manager from outside. Must never send it anything but a status request.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from shmcache import settings
from shmcache.errors import ManagerUnavailable
from shmcache.memory.names import Namespace
from shmcache_tools.manager_link import manager_link
from shmcache_tools.output import bytes_text
from shmcache_tools.report import Report
from shmcache_tools.shared_stats import SharedView

DESCRIPTORS_FULL = 0.8
"""The share of its descriptors above which a manager is about to refuse clients."""

_PROC = Path("/proc")


def check_manager(report: Report, view: SharedView, stats: dict[str, Any]) -> None:
    """Whether the manager that holds the namespace answers, and has descriptors left."""
    namespace, pid = view.namespace, stats["manager"]["pid"]
    if pid is None:
        return
    if not namespace.socket_path.exists():
        report.find(
            "SOCKET_MISSING",
            f"a manager holds the namespace, but there is no socket {namespace.socket_path}: clients here only hit",
            "share the runtime directory among the containers that share /dev/shm: SHMCACHE_RUNTIME_DIR",
        )
    elif stats["manager"]["state"] == "serving":
        try:
            with manager_link(namespace) as link:
                link.status()
        except ManagerUnavailable:
            _find_silent(report, namespace, pid)
    facts = descriptors_of(pid)
    report.facts["cache"].update({f"manager_{name}": value for name, value in facts.items()})
    if facts and facts["open_files"] > DESCRIPTORS_FULL * facts["open_files_max"]:
        report.find(
            "MANAGER_DESCRIPTORS",
            f"the manager has {facts['open_files']} of {facts['open_files_max']} files open; each client takes two",
            "raise its limit: ulimit -n 65536, or LimitNOFILE=65536 in its unit",
        )


def _find_silent(report: Report, namespace: Namespace, pid: int) -> None:
    is_stopped = process_state(pid) in ("T", "t")
    report.find(
        "MANAGER_SILENT",
        f"the manager {pid} of {namespace.name!r} {'is stopped' if is_stopped else 'does not answer'}",
        f"kill -CONT {pid}" if is_stopped else f"kill {pid}; the next manager goes on with the cache as it is",
    )


def check_limit(report: Report, view: SharedView) -> None:
    """Whether the limit lies within what the host has: at a cgroup's limit the kernel kills instead of refusing."""
    limit_bytes = view.control.limit_bytes
    headroom = settings.cgroup_headroom_bytes()
    charged_bytes = view.control.totals().all_bytes
    status = os.statvfs(settings.shm_directory())
    size = status.f_blocks * status.f_frsize
    if limit_bytes < 0 and headroom < 1 << 60:
        report.find(
            "LIMIT_NONE",
            f"the cache has no limit, and the memory cgroup has {bytes_text(headroom)} left",
            "serve --limit-bytes, or SHMCACHE_LIMIT_BYTES",
        )
    elif limit_bytes > charged_bytes + headroom:
        report.find(
            "LIMIT_ABOVE_CGROUP",
            f"the limit is {bytes_text(limit_bytes)}, and the memory cgroup has {bytes_text(headroom)} left",
            "a smaller SHMCACHE_LIMIT_BYTES, or a larger memory limit of the container",
        )
    if limit_bytes > size:
        report.find(
            "LIMIT_ABOVE_SHM",
            f"the limit is {bytes_text(limit_bytes)}, and {settings.shm_directory()} has {bytes_text(size)} in all",
            "docker run --shm-size, or a smaller SHMCACHE_LIMIT_BYTES",
        )


def descriptors_of(pid: int, proc: Path = _PROC) -> dict[str, int]:
    """How many files a process has open and may have; empty where it may not be looked into."""
    try:
        text = (proc / str(pid) / "limits").read_text(encoding="ascii")
        count = len(os.listdir(proc / str(pid) / "fd"))
        line = next(line for line in text.splitlines() if line.startswith("Max open files"))
        return {"open_files": count, "open_files_max": int(line.split()[3])}
    except (OSError, StopIteration, ValueError):
        return {}


def process_state(pid: int, proc: Path = _PROC) -> str | None:
    """The letter of its state: R, S, D, T (stopped), Z; None where it is gone."""
    try:
        return (proc / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
