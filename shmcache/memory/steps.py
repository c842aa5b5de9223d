"""The steps: everything by which a manager or a worker changes what another process can see.

Owns one name for each kind of step: stores into shared words, system calls on files, locks, leases and processes, and
sends. Must never know why a step is made. ``memory/``, ``manager/`` and the workers make such changes through this
module and in no other way (``tests/crash/test_seam.py`` reads their source for it), so that a test which replaces the
names here stands before every step: it can end the process there, refuse the call, or let something else happen first.

Each name but :func:`store` *is* the system's own function, so that the detour costs one attribute. Looking (``stat``,
``pread``, ``recv``, read-only mappings) and letting go (``close``) are no steps: a process killed before them leaves
what it leaves after the step before. Opening is one, since it may create, and is what the lease probe counts.
"""

from __future__ import annotations

import fcntl as _fcntl
import os
import signal
import socket
import subprocess
from pathlib import Path

# Files.
open_file = os.open
posix_fallocate = os.posix_fallocate
ftruncate = os.ftruncate
pwrite = os.pwrite
write = os.write
fchmod = os.fchmod
chmod = os.chmod
link = os.link
unlink = os.unlink
make_directory = Path.mkdir
memfd_create = os.memfd_create

# Locks, leases, seals.
lockf = _fcntl.lockf
fcntl = _fcntl.fcntl

# Sockets.
bind = socket.socket.bind
listen = socket.socket.listen
send = socket.socket.send
sendall = socket.socket.sendall
sendmsg = socket.socket.sendmsg

# Processes.
spawn = subprocess.Popen
pidfd_send_signal = signal.pidfd_send_signal
send_signal = subprocess.Popen.send_signal


def store(words: memoryview, position: int, value: int) -> None:
    """Stores one aligned 8-byte word, in one move."""
    words[position] = value


NAMES = (
    "store",
    "open_file",
    "posix_fallocate",
    "ftruncate",
    "pwrite",
    "write",
    "fchmod",
    "chmod",
    "link",
    "unlink",
    "make_directory",
    "memfd_create",
    "lockf",
    "fcntl",
    "bind",
    "listen",
    "send",
    "sendall",
    "sendmsg",
    "spawn",
    "pidfd_send_signal",
    "send_signal",
)
"""The names of all kinds of steps."""
