"""Does the kernel give what the cache is built on? Each thing is tried, on objects without a name.

Owns the probes and what to do where one fails. Must never touch an object of a cache.
"""

from __future__ import annotations

import fcntl
import os
import platform
import socket
from collections.abc import Callable
from dataclasses import dataclass

from shmcache import settings
from shmcache.manager.connection import peer_credentials
from shmcache.memory import lease
from shmcache.memory.names import Namespace
from shmcache.memory.words import LOCK_FREE, ORDERED_MACHINES, WEAK_MACHINES
from shmcache_tools.report import Report

_SECCOMP = "allow it in the container's seccomp profile"


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing tried: ``works`` returns normally or raises OSError."""

    name: str
    code: str
    works: Callable[[], None]
    loss: str
    remedy: str


def check_kernel(report: Report, namespace: Namespace) -> None:
    """Leases, sealed memory, pidfds, descriptors over sockets, allocation ahead of writing, ordered words."""
    lease.ignore_lease_signals()
    facts: dict[str, bool] = {"file_leases": lease.leases_work(namespace)}
    if not facts["file_leases"]:
        report.find(
            "LEASE",
            "the kernel gives no file leases on shared memory: retired bytes are known only when clients end",
            f"{_SECCOMP} (fcntl F_SETLEASE), and set sysctl fs.leases-enable=1",
        )
    for probe in PROBES:
        try:
            probe.works()
            facts[probe.name] = True
        except OSError as error:
            facts[probe.name] = False
            report.find(probe.code, f"{probe.loss} ({error.strerror or error})", probe.remedy)
    report.facts["kernel"] = facts
    check_ordering(report)


def check_ordering(report: Report) -> None:
    """Whether look-ups need no lock on this processor."""
    machine = platform.machine()
    path = "plain loads and stores" if machine in ORDERED_MACHINES else "acquire and release" if LOCK_FREE else "none"
    report.facts["processor"] = {"machine": machine, "lock_free_lookup": LOCK_FREE, "ordered_words": path}
    if not LOCK_FREE:
        report.find(
            "NOT_LOCK_FREE",
            f"look-ups without a lock are not possible on {machine}: each asks the manager",
            "pip install numba, which has the instructions for ARM64"
            if machine in WEAK_MACHINES
            else "use x86-64 or ARM64 where look-ups must be fast",
        )


def _seals() -> None:
    descriptor = os.memfd_create("shmcache doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    finally:
        os.close(descriptor)


def _pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))


def _passes_descriptors() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        socket.send_fds(one, [b"x"], [one.fileno()])
        _, received, _, _ = socket.recv_fds(other, 1, 1)
        for descriptor in received:
            os.close(descriptor)
        if not received:
            raise OSError("no descriptor came through")


def _peer_is_known() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        if peer_credentials(one)[1] != os.geteuid():
            raise OSError("the peer has another user id than it should")


def _allocates() -> None:
    """In the file system of the segments, in a file without a name."""
    descriptor = os.open(settings.shm_directory(), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, 4096)
    finally:
        os.close(descriptor)


PROBES = (
    Probe(
        "sealed_memory",
        "NO_SEALS",
        _seals,
        "memory files cannot be sealed: an image that finds no room cannot be handed over",
        f"{_SECCOMP} (memfd_create, fcntl F_ADD_SEALS)",
    ),
    Probe(
        "pidfds",
        "NO_PIDFD",
        _pidfd,
        "there are no pidfds: managers cannot watch their workers",
        f"{_SECCOMP} (pidfd_open, pidfd_send_signal); Linux 5.3 or later has them",
    ),
    Probe(
        "descriptor_passing",
        "NO_DESCRIPTORS",
        _passes_descriptors,
        "descriptors do not travel over Unix sockets: clients are given nothing",
        f"{_SECCOMP} (sendmsg with SCM_RIGHTS)",
    ),
    Probe(
        "peer_credentials",
        "NO_CREDENTIALS",
        _peer_is_known,
        "the kernel does not tell who is at the other end of a socket: managers refuse everybody",
        "run manager and clients in one user namespace",
    ),
    Probe(
        "allocation",
        "NO_FALLOCATE",
        _allocates,
        "memory cannot be allocated ahead: segments cannot be made",
        "let SHMCACHE_SHM_DIRECTORY name a directory on a tmpfs with room that you may write to",
    ),
)
