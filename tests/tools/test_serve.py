"""A manager in the foreground: it says when it is ready, ends when told, and leaves the cache or nothing."""

from __future__ import annotations

import signal

import pytest

from shmcache.client import connect
from shmcache.errors import UnsupportedError
from shmcache.memory.names import Namespace
from shmcache_tools.leftovers import own_objects
from shmcache_tools.shared_stats import open_view
from tests.tools.support import BYTES, check_columns, document, ended, run, serving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(namespace: str, number: signal.Signals) -> None:
    with serving(namespace, "--limit-bytes", "64MiB") as process:
        with connect(BYTES, namespace, autostart=False) as cache:
            assert cache.compile_regex("ab*c").generation == 1
        output, log = ended(process, number)
    assert process.returncode == 0
    check_columns(output)
    assert output == f"serving {namespace}\npid {process.pid}, limit 64.0 MiB; Ctrl-C ends it\n"
    assert "Traceback" not in log
    stats = open_view(Namespace.of(namespace)).stats()
    assert stats["entries"]["grammar"] == 1
    assert stats["limit_bytes"] == 64 << 20
    assert stats["manager"]["state"] == "absent"


def test_the_next_one_goes_on_with_the_cache(namespace: str) -> None:
    for epoch in (1, 2):
        with serving(namespace) as process:
            with connect(BYTES, namespace, autostart=False) as cache:
                cache.compile_regex("ab*c")
                assert cache.stats()["compiles"]["started"] == 1
                assert cache.stats()["epoch"] == epoch
            ended(process, signal.SIGTERM)


def test_its_document(namespace: str) -> None:
    with serving(namespace, "--json", "--limit-bytes=-1", "--remove-on-exit") as process:
        output, _ = ended(process, signal.SIGTERM)
    told = document(output)
    names = Namespace.of(namespace)
    assert told == {
        "namespace": namespace,
        "pid": process.pid,
        "socket": str(names.socket_path),
        "limit_bytes": -1,
        "generation": 1,
    }
    assert [name for name in own_objects(names) if name.startswith("/shmc")] == []


def test_there_is_one_manager_of_a_namespace(namespace: str) -> None:
    with serving(namespace):
        second = run("serve", "--namespace", namespace)
    assert second.returncode == 1
    assert second.stdout == ""
    assert "another manager" in second.stderr


def test_a_silent_log_unless_asked(namespace: str) -> None:
    with serving(namespace):
        assert run("status", "--namespace", namespace).stderr == ""


def test_its_log_as_objects(namespace: str) -> None:
    """Of the manager and of its workers: each line is one, with the key's beginning, the code, the durations."""
    with serving(namespace, "--log-format", "json", "--limit-bytes", "32MiB") as process:
        with connect(BYTES, namespace, autostart=False) as cache:
            key = cache.compile_regex("ab*c").key.hex()
            with pytest.raises(UnsupportedError):
                cache.compile_regex("(?<=a)b")
            cache.clear_cache()
        run("warm", "/dev/null", "-n", namespace, "--vocabulary", "bytes")
        _, log = ended(process, signal.SIGTERM)
    lines = [document(line) for line in log.splitlines()]
    assert all({"time", "level", "logger", "pid", "message"} <= line.keys() for line in lines)
    ends = [line for line in lines if line.get("tier") == "grammar"]
    assert [(line["outcome"], line.get("code")) for line in ends] == [("succeeded", None), ("refused", "UNSUPPORTED")]
    assert ends[0]["key"] == key[:16]
    assert 0 < ends[0]["seconds"] <= ends[0]["waited_seconds"]
    (serves,) = [line for line in lines if "serving" in line["message"]]
    assert (serves["namespace"], serves["limit_bytes"]) == (namespace, 32 << 20)
    (cleared,) = [line for line in lines if "opened by" in line["message"]]
    assert cleared["generation"] == 2
    assert "ab*c" not in log, "no source is logged"


def test_workers_that_are_ready(namespace: str) -> None:
    """As many as are asked for start with the first compile, though one would do."""
    with serving(namespace, "--workers", "3", "--ready-workers", "2"):
        with connect(BYTES, namespace, autostart=False) as cache:
            cache.compile_regex("ab*c")
        told = document(run("status", "--json", "--namespace", namespace).stdout)
    assert len(told["workers"]) == 2
    assert run("serve", "--namespace", namespace, "--ready-workers", "0").returncode == 2


def test_the_log_format_is_a_setting(namespace: str) -> None:
    assert run("serve", "--namespace", namespace, SHMCACHE_LOG_FORMAT="xml").returncode == 2
    assert run("serve", "--namespace", namespace, "--log-format", "xml").returncode == 2
