"""Does the end of a login session take the cache with it?

Owns the reading of logind's configuration. Must never ask logind itself: a container has none.
"""

from __future__ import annotations

import pwd
from pathlib import Path

from shmcache import settings
from shmcache.memory.names import Namespace
from shmcache_tools.report import Report

SYSTEM_UID_MAX = 999
"""Users up to this are system users, whose objects logind leaves alone."""

_ROOT = Path("/")
_PLACES = ("usr/lib/systemd", "usr/local/lib/systemd", "run/systemd", "etc/systemd")
"""From the weakest to the strongest; a drop-in of a name hides those of weaker places."""


def check_session(report: Report, namespace: Namespace, root: Path = _ROOT) -> None:
    """Whether logind removes this user's shared memory when the last session ends."""
    runs = (root / "run/systemd/seats").is_dir()
    setting = remove_ipc(root) if runs else None
    lingers = (root / "var/lib/systemd/linger" / _user_name(namespace.uid)).exists()
    report.facts["login sessions"] = {"logind": runs, "remove_ipc": setting, "linger": lingers}
    is_watched = settings.shm_directory() == Path("/dev/shm") and namespace.uid > SYSTEM_UID_MAX
    if runs and is_watched and not lingers and setting != "no":
        user = _user_name(namespace.uid)
        report.find(
            "REMOVE_IPC",
            f"logind removes the shared memory of {user} when the last session ends, the cache too",
            f"loginctl enable-linger {user}; or RemoveIPC=no in /etc/systemd/logind.conf and restart systemd-logind; "
            "or run the manager as a system user",
        )


def remove_ipc(root: Path = _ROOT) -> str:
    """``yes`` or ``no`` as logind's files say; ``yes``, systemd's default, where they do not."""
    value = "yes"
    files: list[Path] = [place for name in _PLACES if (place := root / name / "logind.conf").is_file()][-1:]
    drop_ins: dict[str, Path] = {}
    for name in _PLACES:
        for path in sorted((root / name / "logind.conf.d").glob("*.conf")):
            drop_ins[path.name] = path
    files += [drop_ins[name] for name in sorted(drop_ins)]
    for path in files:
        value = _value(path) or value
    return value


def _value(path: Path) -> str | None:
    """What the file says under ``[Login]``; the last line counts."""
    found, section = None, ""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in map(str.strip, lines):
        if line.startswith("["):
            section = line
        name, equals, text = line.partition("=")
        if section == "[Login]" and equals and name.strip() == "RemoveIPC":
            found = "no" if text.strip().lower() in ("no", "false", "off", "0") else "yes"
    return found


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
