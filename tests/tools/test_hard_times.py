"""Commands that only look, where there is no manager, a stopped one, one that comes and goes, or another version."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcache.client import connect
from shmcache.memory import layout
from shmcache.memory.control import open_control_writer
from shmcache.memory.names import SHM_DIRECTORY, Namespace, object_path, object_prefix
from shmcache_tools.own_manager import own_manager
from tests.tools.support import BYTES, check_columns, document, run, serving, serving_metrics

LOOKING = ("status", "top", "ls", "show KEY", "metrics", "verify", "doctor")
CHANGING = ("clear", "clear --tier rule", "evict KEY", "warm /dev/null --vocabulary bytes")
STARTS = 4


def arguments(command: str, namespace: str, key: str) -> list[str]:
    name, *rest = command.replace("KEY", key).split()
    return [name, *rest, "--namespace", namespace]


@pytest.fixture
def filled(namespace: str) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """A namespace, the key of a grammar in it, and its manager's process."""
    with serving(namespace) as process:
        with connect(BYTES, namespace, autostart=False) as cache:
            key = cache.compile_regex("ab*c").key.hex()
        yield namespace, key, process


def digests(namespace: str) -> dict[str, str]:
    """What every object of the namespace holds."""
    prefix = Namespace.of(namespace).prefix[1:]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in SHM_DIRECTORY.glob(f"{prefix}*")}


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_without_a_manager_everything_is_told_and_nothing_written(
    filled: tuple[str, str, subprocess.Popen[str]], form: tuple[str, ...]
) -> None:
    namespace, key, process = filled
    process.kill()
    process.wait()
    before = digests(namespace)
    for command in LOOKING:
        result = run(*arguments(command, namespace, key), *form)
        assert result.returncode == 0 or command == "doctor", (command, result.stderr)
        assert result.returncode in (0, 6)
        if command != "metrics":
            check_columns(result.stdout if not form else "")
        if form:
            document(result.stdout)
    assert digests(namespace) == before
    told = document(run("status", "--namespace", namespace, "--json").stdout)
    assert told["manager"] == {"pid": None, "state": "absent"}
    assert told["entries"]["grammar"] == 1
    for command in CHANGING:
        assert run(*arguments(command, namespace, key)).returncode == 4, command


def test_a_stopped_manager_holds_nobody_up(filled: tuple[str, str, subprocess.Popen[str]]) -> None:
    namespace, key, process = filled
    process.send_signal(signal.SIGSTOP)
    try:
        for command in LOOKING:
            result = run(*arguments(command, namespace, key))
            assert result.returncode in (0, 6), (command, result.stderr)
        for command in CHANGING:
            result = run(*arguments(command, namespace, key))
            assert result.returncode == 4, (command, result.stderr)
            assert "MANAGER_UNAVAILABLE" in result.stderr
        told = document(run("status", "--namespace", namespace, "--json").stdout)
        assert told["manager"] == {"pid": process.pid, "state": "silent"}
        assert told["entries"]["grammar"] == 1
    finally:
        process.send_signal(signal.SIGCONT)
    told = document(run("status", "--namespace", namespace, "--json").stdout)
    assert told["manager"]["state"] == "serving"


def test_a_manager_that_comes_and_goes(filled: tuple[str, str, subprocess.Popen[str]]) -> None:
    namespace, key, process = filled
    process.kill()
    process.wait()
    is_over = threading.Event()
    starts: list[int] = []

    def come_and_go() -> None:
        while not is_over.is_set():
            with serving(namespace) as manager:
                starts.append(manager.pid)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        while len(starts) < STARTS:
            for command in LOOKING:
                result = run(*arguments(command, namespace, key))
                # What a manager changes between the two looks of `verify` and `doctor` may be a finding of theirs.
                assert result.returncode in ((0, 6) if command in ("verify", "doctor") else (0,)), result.stderr
                assert "Traceback" not in result.stderr
    finally:
        is_over.set()
        thread.join()
    assert run("verify", "--namespace", namespace).returncode == 0
    told = document(run("status", "--namespace", namespace, "--json").stdout)
    assert told["epoch"] > STARTS
    assert told["entries"]["grammar"] == 1


def test_a_control_segment_of_another_layout_is_named(namespace: str) -> None:
    with own_manager("test", workers=1) as names:
        control = open_control_writer(names)
        control.words[layout.LAYOUT_VERSION] = layout.CONTROL_LAYOUT_VERSION + 1
        try:
            _is_refused(names.name, "layout")
        finally:
            control.words[layout.LAYOUT_VERSION] = layout.CONTROL_LAYOUT_VERSION


@pytest.mark.parametrize("version", [layout.CONTROL_LAYOUT_VERSION - 1, layout.CONTROL_LAYOUT_VERSION + 1])
def test_so_is_a_cache_whose_objects_have_other_names(namespace: str, version: int) -> None:
    names = Namespace.of(namespace)
    path: Path = object_path(object_prefix(namespace, names.uid, version) + ".ctl")
    path.write_bytes(bytes(4096))
    try:
        _is_refused(namespace, f"control layout {version}")
    finally:
        path.unlink()


def _is_refused(namespace: str, reason: str) -> None:
    for command in LOOKING:
        result = run(*arguments(command, namespace, "00"))
        if command == "doctor":
            assert result.returncode == 6
            assert "CACHE_UNREADABLE" in result.stdout
            continue
        assert result.returncode == 5, command
        assert "error SEGMENT" in result.stderr
        assert reason in result.stderr.replace("\n", " ")
        assert "remedy: " in result.stderr
        told = document(run(*arguments(command, namespace, "00"), "--json").stdout)
        assert told["error"]["code"] == "SEGMENT"
    with serving_metrics(namespace) as address:
        import urllib.request

        assert b"shmcache_up 0.0" in urllib.request.urlopen(address, timeout=10).read()
