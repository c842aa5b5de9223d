"""Findings on hosts that are unfit, each with a remedy, and none on one that is fit."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from shmcache.client import connect
from shmcache.memory import lease
from shmcache.memory.control import open_control_writer
from shmcache.memory.layout import FILLING_BYTES
from shmcache.memory.names import Namespace, object_path
from shmcache_tools import host_checks, kernel_checks, manager_checks, session_checks
from shmcache_tools.host_checks import Report, check_host
from shmcache_tools.kernel_checks import PROBES, Probe, check_kernel
from shmcache_tools.leftovers import leftovers
from shmcache_tools.own_manager import own_manager
from tests.tools.support import BYTES, check_columns, document, invoke, run, serving


def found_by(check: Callable[[Report, Namespace], None], namespace: Namespace) -> list[str]:
    """The codes of what one check finds; each finding has a message and a remedy."""
    report = Report()
    check(report, namespace)
    assert all(finding.message and finding.remedy for finding in report.findings)
    return [finding.code for finding in report.findings]


def filesystem(size_bytes: int, free_bytes: int) -> Callable[[object], SimpleNamespace]:
    """A ``statvfs`` of a file system of that size."""
    status = SimpleNamespace(f_frsize=4096, f_blocks=size_bytes // 4096, f_bavail=free_bytes // 4096)
    return lambda _: status


@pytest.fixture
def names(namespace: str) -> Namespace:
    return Namespace.of(namespace)


def test_this_host_has_every_fact(namespace: str) -> None:
    report = check_host(namespace)
    assert list(report.facts) == [
        "versions",
        "shared memory",
        "memory cgroup",
        "namespace",
        "process limits",
        "kernel",
        "processor",
        "login sessions",
        "cache",
        "other caches of this user",
    ]
    assert report.facts["namespace"]["uid"] == os.geteuid()
    assert report.facts["versions"]["shmcache"]
    assert set(report.facts["kernel"].values()) == {True}
    assert report.facts["processor"]["lock_free_lookup"] is True
    assert report.facts["cache"] == {"exists": False}


def test_a_cache_in_order_has_no_findings() -> None:
    with own_manager("test", workers=1) as names, connect(BYTES, names.name, autostart=False) as cache:
        cache.compile_regex("ab*c")
        assert found_by(host_checks.check_cache, names) == []
        report = check_host(names.name)
        assert report.facts["cache"]["manager"] == "serving"
        assert report.facts["cache"]["charged_bytes"] > 0


@pytest.mark.parametrize(
    ("size", "free", "codes"),
    [
        (64 << 20, 64 << 20, ["SHM_SMALL"]),
        (1 << 30, 1 << 20, ["SHM_FULL"]),
        (1 << 30, 1 << 29, []),
    ],
)
def test_size_of_shared_memory(
    names: Namespace, monkeypatch: pytest.MonkeyPatch, size: int, free: int, codes: list[str]
) -> None:
    monkeypatch.setattr(host_checks.os, "statvfs", filesystem(size, free))
    assert found_by(host_checks.check_shared_memory, names) == codes


def test_shared_memory_that_is_none(names: Namespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHMCACHE_SHM_DIRECTORY", str(tmp_path / "missing"))
    assert found_by(host_checks.check_shared_memory, names) == ["SHM_MISSING"]
    monkeypatch.setenv("SHMCACHE_SHM_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(host_checks, "mount_of", lambda *_: "/ ext4")
    assert "SHM_NOT_MEMORY" in found_by(host_checks.check_shared_memory, names)


MOUNTS = """\
/dev/root / ext4 rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
tmpfs /dev/shm/with\\040space tmpfs rw 0 0
none /tmp overlay rw 0 0
none /tmp tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/dev/shm", "/dev/shm tmpfs"),
        ("/dev/shm/below", "/dev/shm tmpfs"),
        ("/dev/shm/with space/x", "/dev/shm/with space tmpfs"),
        ("/dev/shmother", "/ ext4"),
        ("/tmp", "/tmp tmpfs"),
    ],
)
def test_the_mount_of_a_path(path: str, mount: str) -> None:
    assert host_checks.mount_of(Path(path), MOUNTS) == mount


def test_no_mount_is_known_from_nothing() -> None:
    assert host_checks.mount_of(Path("/dev/shm"), "") is None


def test_a_tight_cgroup(names: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks.settings, "cgroup_headroom_bytes", lambda: 100 << 20)
    assert found_by(host_checks.check_cgroup, names) == ["CGROUP_TIGHT"]


def test_tight_process_limits(names: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: 100,
        resource.RLIMIT_FSIZE: 1 << 20,
        resource.RLIMIT_AS: 1 << 30,
    }
    codes = ["NOFILE_LOW", "NPROC_LOW", "FILE_SIZE_LIMITED", "MEMORY_LIMITED"]
    monkeypatch.setattr(host_checks.resource, "getrlimit", lambda number: (limits[number], -1))
    assert found_by(host_checks.check_limits, names) == codes


def test_no_leases(names: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "leases_work", lambda _: False)
    assert found_by(check_kernel, names) == ["LEASE"]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_what_a_kernel_does_not_give(names: Namespace, monkeypatch: pytest.MonkeyPatch, probe: Probe) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(
        kernel_checks, "PROBES", [replace(one, works=refuse) if one is probe else one for one in PROBES]
    )
    assert found_by(check_kernel, names) == [probe.code]


@pytest.mark.parametrize(("machine", "remedy"), [("aarch64", "pip install numba"), ("riscv64", "use x86-64 or ARM64")])
def test_a_processor_without_ordered_words(monkeypatch: pytest.MonkeyPatch, machine: str, remedy: str) -> None:
    monkeypatch.setattr(kernel_checks, "LOCK_FREE", False)
    monkeypatch.setattr(kernel_checks.platform, "machine", lambda: machine)
    report = Report()
    kernel_checks.check_ordering(report)
    (finding,) = report.findings
    assert finding.code == "NOT_LOCK_FREE"
    assert finding.remedy.startswith(remedy)


def logind(root: Path, **files: str) -> Path:
    """A system with logind, and its configuration; ``etc`` is the main file, others are drop-ins."""
    (root / "run/systemd/seats").mkdir(parents=True)
    for name, text in files.items():
        path = root / ("etc/systemd/logind.conf" if name == "etc" else f"etc/systemd/logind.conf.d/{name}.conf")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({}, "yes"),
        ({"etc": "[Login]\n#RemoveIPC=no\n"}, "yes"),
        ({"etc": "[Login]\nRemoveIPC=no\n"}, "no"),
        ({"etc": "[Other]\nRemoveIPC=no\n"}, "yes"),
        ({"etc": "[Login]\nRemoveIPC=no\n", "a": "[Login]\nRemoveIPC = yes"}, "yes"),
        ({"b": "[Login]\nRemoveIPC=off", "a": "[Login]\nRemoveIPC=yes"}, "no"),
    ],
)
def test_what_logind_is_told(tmp_path: Path, files: dict[str, str], value: str) -> None:
    assert session_checks.remove_ipc(logind(tmp_path, **files)) == value


def test_whose_shared_memory_logind_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHMCACHE_SHM_DIRECTORY", "/dev/shm")

    def codes(uid: int, root: Path) -> list[str]:
        report = Report()
        session_checks.check_session(report, Namespace.of("x", uid=uid), root)
        return [finding.code for finding in report.findings]

    none, root = tmp_path / "none", logind(tmp_path / "some")
    assert codes(64_123, none) == []
    assert codes(64_123, root) == ["REMOVE_IPC"]
    assert codes(7, root) == [], "a system user"
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger/64123").touch()
    assert codes(64_123, root) == []
    (root / "var/lib/systemd/linger/64123").unlink()
    monkeypatch.setenv("SHMCACHE_SHM_DIRECTORY", str(tmp_path))
    assert codes(64_123, root) == [], "logind looks into /dev/shm only"


def test_a_limit_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with own_manager("test", workers=1, limit_bytes=1 << 40) as names:
        monkeypatch.setattr(host_checks.settings, "cgroup_headroom_bytes", lambda: 1 << 30)
        assert found_by(host_checks.check_cache, names) == ["LIMIT_ABOVE_CGROUP", "LIMIT_ABOVE_SHM"]
    with own_manager("test", workers=1, limit_bytes=-1) as names:
        assert found_by(host_checks.check_cache, names) == ["LIMIT_NONE"]
        monkeypatch.undo()
        headroom_is_limited = host_checks.settings.cgroup_headroom_bytes() < 1 << 60
        assert found_by(host_checks.check_cache, names) == (["LIMIT_NONE"] if headroom_is_limited else [])


def test_a_manager_that_does_not_answer(namespace: str) -> None:
    with serving(namespace, "--limit-bytes", "16MiB") as process:
        names = Namespace.of(namespace)
        assert found_by(host_checks.check_cache, names) == []
        process.send_signal(signal.SIGSTOP)
        report = Report()
        host_checks.check_cache(report, names)
        assert [(one.code, one.remedy) for one in report.findings] == [("MANAGER_SILENT", f"kill -CONT {process.pid}")]
        process.send_signal(signal.SIGCONT)
        names.socket_path.unlink()
        assert found_by(host_checks.check_cache, names) == ["SOCKET_MISSING"]


def test_a_manager_that_has_hardly_a_descriptor_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with own_manager("test", workers=1, limit_bytes=16 << 20) as names:
        facts = manager_checks.descriptors_of(os.getpid())
        assert 0 < facts["open_files"] <= facts["open_files_max"]
        monkeypatch.setattr(manager_checks, "descriptors_of", lambda _: {"open_files": 9, "open_files_max": 10})
        assert found_by(host_checks.check_cache, names) == ["MANAGER_DESCRIPTORS"]


def test_a_process_that_is_gone() -> None:
    assert manager_checks.descriptors_of(1 << 30) == {}
    assert manager_checks.process_state(1 << 30) is None
    assert manager_checks.process_state(os.getpid()) in ("R", "S")


BAD_SET_UP = """
mount -t tmpfs -o size=64m,mode=1777 shmcache "$1" && touch "$1/shmc-0123456789-0000000000000001-1" &&
ulimit -n 200 && ulimit -v 3000000 && SHMCACHE_SHM_DIRECTORY="$1" exec "$2" -m shmcache_tools.main doctor --json
"""


def test_a_host_that_is_set_up_badly(tmp_path: Path) -> None:
    """64 MB as Docker gives them, tight limits, a segment that nobody owns: each is named, with what to do."""
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no mounts of one's own")
    command = [*unshare, "sh", "-c", BAD_SET_UP, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "mount:" in done.stderr:
        pytest.skip(f"no tmpfs may be mounted here: {done.stderr.strip()}")
    assert done.returncode == 6, done.stderr
    found = {finding["code"]: finding["remedy"] for finding in document(done.stdout)["findings"]}
    assert {"SHM_SMALL", "NOFILE_LOW", "MEMORY_LIMITED", "LEFTOVER"} <= found.keys()
    assert "--shm-size" in found["SHM_SMALL"]
    assert found["LEFTOVER"] == f"rm {tmp_path}/shmc-0123456789*"
    assert found["NOFILE_LOW"].startswith("ulimit -n")


def test_a_directory_that_others_may_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert found_by(host_checks.check_directory, Namespace.of("x", directory=tmp_path)) == ["DIRECTORY_UNSAFE"]
    tmp_path.chmod(0o700)
    assert found_by(host_checks.check_directory, Namespace.of("x", directory=tmp_path)) == []


def test_a_directory_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by its mode: root may write anywhere.
    monkeypatch.setattr(host_checks.os, "access", lambda path, _: path != tmp_path)
    names = Namespace.of("x", directory=tmp_path / "deeper" / "still")
    assert found_by(host_checks.check_directory, names) == ["DIRECTORY_UNWRITABLE"]


def test_a_package_that_is_missing(names: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks, "PACKAGES", ("shmcache", "no-such-package-here"))
    assert found_by(host_checks.check_versions, names) == ["PACKAGE_MISSING"]


def test_an_account_that_does_not_add_up() -> None:
    with own_manager("test", workers=1) as names:
        writer = open_control_writer(names)
        writer.words[FILLING_BYTES] = 4096
        assert found_by(host_checks.check_cache, names) == ["TOTALS"]
        writer.words[FILLING_BYTES] = 0


def test_a_stray_file() -> None:
    with own_manager("test", workers=1) as names:
        object_path(names.data_name(1, 77)).touch()
        assert found_by(host_checks.check_cache, names) == ["FILE_STRAY"]


def test_a_cache_that_cannot_be_read(names: Namespace) -> None:
    path = object_path(names.control_name)
    path.write_bytes(b"?" * 8192)
    path.chmod(0o600)
    assert found_by(host_checks.check_cache, names) == ["CACHE_UNREADABLE"]


def test_segments_of_no_cache_are_findings_and_other_caches_are_facts(names: Namespace) -> None:
    orphan = Namespace.of(names.name + "-orphan")
    path = object_path(orphan.data_name(1, 1))
    path.write_bytes(b"x" * 8192)
    try:
        with own_manager("test", workers=1) as other:
            groups = {group.prefix: group for group in leftovers(names)}
            assert groups[other.prefix].has_control
            assert groups[other.prefix].has_manager
            assert groups[orphan.prefix].size_bytes == 8192
            report = Report()
            host_checks.check_leftovers(report, names)
            assert other.prefix in report.facts["other caches of this user"]
            messages = [finding.message for finding in report.findings if finding.code == "LEFTOVER"]
            assert [message for message in messages if orphan.prefix in message]
            assert not [message for message in messages if other.prefix in message]
    finally:
        path.unlink()
    assert orphan.prefix not in {group.prefix for group in leftovers(names)}


def test_the_command_on_a_bad_set_up(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks.os, "statvfs", filesystem(64 << 20, 64 << 20))
    monkeypatch.setattr(host_checks.settings, "cgroup_headroom_bytes", lambda: 100 << 20)
    result = invoke("doctor", "--namespace", namespace)
    assert result.exit_code == 6
    check_columns(result.output)
    assert "SHM_SMALL" in result.output
    assert "remedy: docker run --shm-size=2g" in result.output
    as_json = document(invoke("doctor", "--namespace", namespace, "--json").stdout)
    assert [finding["code"] for finding in as_json["findings"]] == ["SHM_SMALL", "CGROUP_TIGHT"]


def test_the_command_as_a_process(namespace: str) -> None:
    result = run("doctor", "--namespace", namespace, "--json")
    told = document(result.stdout)
    assert result.returncode == (6 if told["findings"] else 0)
    assert set(told) == {"facts", "findings"}
    text = run("doctor", "--namespace", namespace)
    assert text.returncode == result.returncode
    check_columns(text.stdout)
    for topic in told["facts"]:
        assert topic in text.stdout
