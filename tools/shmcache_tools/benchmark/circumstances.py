"""What one must know to compare figures: machine, Python, commit, load, seed, and the versions of the peers.

Owns finding it out. Must never time anything.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PEERS = ("llguidance", "xgrammar", "diskcache", "redis", "matplotlib")


def circumstances(seed: int) -> dict[str, Any]:
    """All of it."""
    return {
        "processor": processor_name(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")),
        "cores": len(os.sched_getaffinity(0)),
        "linux": platform.release(),
        "python": platform.python_version(),
        "commit": commit(),
        "seed": seed,
        "load_average": os.getloadavg()[0],
        "peers": {name: version(name) for name in PEERS},
    }


def version(name: str) -> str | None:
    """Of an installed package; None where it is not."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor_name(cpuinfo: str) -> str:
    """The processor's name in the text of ``/proc/cpuinfo``, else the machine's type."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def commit() -> str | None:
    """The commit this code is of, with ``+`` when the checkout differs from it; None outside of a checkout."""
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        is_changed = bool(git("status", "--porcelain", "--untracked-files=no"))
        return git("rev-parse", "--short", "HEAD") + ("+" if is_changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
