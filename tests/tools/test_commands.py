"""Each command, in this process and as one of its own: output, documents, exit codes, 80 columns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from shmcache.client import GrammarCache, connect
from shmcache.memory import layout, objects
from shmcache.memory.control import open_control_writer
from shmcache.memory.names import Namespace, object_path
from shmcache_tools.main import COMMANDS, main
from shmcache_tools.own_manager import own_manager
from tests.conftest import stop_process
from tests.tools.support import BYTES, STATS_SHAPE, check_columns, check_shape, command, document, invoke, run

WITHOUT_A_CACHE = (
    *("status", "top", "ls", "show 00", "evict 00", "clear", "metrics", "verify", "gc"),
    "warm /dev/null --vocabulary bytes",
)
PATTERNS = ("ab*c", "x{3}", "[0-9]+")


@pytest.fixture(scope="module")
def cache() -> Iterator[tuple[Namespace, GrammarCache]]:
    """A manager and a client of it, which has three grammars."""
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as client:
        yield namespace, client


@pytest.fixture
def filled(cache: tuple[Namespace, GrammarCache]) -> Namespace:
    for pattern in PATTERNS:
        cache[1].compile_regex(pattern)
    return cache[0]


# --- help and usage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_has_an_example_and_fits_the_terminal(name: str | None) -> None:
    result = invoke(*([name] if name else []), "--help")
    assert result.exit_code == 0
    assert "Example:" in result.output
    check_columns(result.output)
    if name is None:
        assert all(f"  {command_name} " in result.output for command_name in COMMANDS)
    else:
        assert ("--json" in result.output) == (name != "demo")


def test_no_command_shows_the_help() -> None:
    result = invoke()
    assert result.exit_code in (0, 2)
    assert "Commands:" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["status", "--what"],
        ["ls", "xyz"],
        ["ls", "--tier", "other"],
        ["serve", "--limit-bytes", "plenty"],
        ["serve", "--workers", "0"],
        ["demo", "--seed", "x"],
        ["show"],
        ["top", "--interval", "0"],
        ["warm"],
        ["check", "a.unknown"],
        ["ls", "--larger-than", "much"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_a_malformed_setting_is_wrong_usage() -> None:
    result = run("serve", SHMCACHE_LIMIT_BYTES="plenty")
    assert result.returncode == 2
    assert "SHMCACHE_LIMIT_BYTES" in result.stderr


def test_the_version() -> None:
    assert invoke("--version").output == f"shmcache, version {version('shmcache')}\n"


# --- without a cache --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITHOUT_A_CACHE)
def test_without_a_cache(name: str, namespace: str) -> None:
    result = run(*name.split(), "--namespace", namespace)
    assert result.returncode == 4
    assert result.stdout == ""
    assert "MANAGER_UNAVAILABLE" in result.stderr
    assert "remedy: " in result.stderr
    check_columns(result.stderr)
    as_json = run(*name.split(), "--namespace", namespace, "--json")
    assert as_json.returncode == 4
    assert document(as_json.stdout)["error"]["code"] == "MANAGER_UNAVAILABLE"


def test_a_namespace_with_an_impossible_name() -> None:
    assert invoke("status", "--namespace", "x" * 300).exit_code == 5


# --- with a manager ---------------------------------------------------------------------------------------------------


def test_status(filled: Namespace) -> None:
    for result in (invoke("status", "-n", filled.name), run("status", SHMCACHE_NAMESPACE=filled.name)):
        text = result.stdout
        check_columns(text)
        assert f"cache {filled.name}" in text
        assert "serving" in text
        assert "grammar" in text
        assert "\x1b" not in text


def test_status_as_a_document(filled: Namespace) -> None:
    result = run("status", "-n", filled.name, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    stats = document(result.stdout)
    check_shape(stats, STATS_SHAPE)
    assert stats["entries"]["grammar"] == len(PATTERNS)
    assert stats["charged_bytes"]["total"] == sum(
        stats["charged_bytes"][tier] for tier in ("grammar", "rule", "vocabulary")
    )


def test_ls(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    result = run("ls", "-n", filled.name)
    assert result.returncode == 0
    check_columns(result.stdout)
    for pattern in PATTERNS:
        assert cache[1].compile_regex(pattern).key.hex()[:16] in result.stdout
    items = document(run("ls", "-n", filled.name, "--json").stdout)
    stats = document(run("status", "-n", filled.name, "--json").stdout)
    assert items["generation"] == stats["generation"]
    assert sum(item["charged_bytes"] for item in items["entries"]) == stats["charged_bytes"]["total"]
    sizes = [item["charged_bytes"] for item in items["entries"]]
    assert sizes == sorted(sizes, reverse=True)
    grammars = document(run("ls", "-n", filled.name, "--tier", "grammar", "--json").stdout)["entries"]
    assert len(grammars) == len(PATTERNS)
    assert all(item["cost_us"] > 0 and item["idle_seconds"] >= 0 for item in grammars)


@pytest.mark.parametrize("order", ["bytes", "cost", "age", "idle", "hits", "mapped", "key"])
def test_ls_in_every_order(filled: Namespace, order: str) -> None:
    result = invoke("ls", "-n", filled.name, "--sort", order, "--all", "--json")
    assert result.exit_code == 0
    keys = [item["key"] for item in document(result.stdout)["entries"]]
    assert len(keys) > len(PATTERNS)
    assert order != "key" or keys == sorted(keys)


def test_ls_of_one_key(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    key = cache[1].compile_regex(PATTERNS[0]).key.hex()
    items = document(invoke("ls", key[:20], "-n", filled.name, "--json").stdout)["entries"]
    assert [item["key"] for item in items] == [key]
    missing = invoke("ls", "0" * 64, "-n", filled.name)
    assert missing.exit_code == 3
    assert "no entry" in missing.stderr


def test_clear(filled: Namespace) -> None:
    before = document(run("status", "-n", filled.name, "--json").stdout)
    cleared = document(run("clear", "-n", filled.name, "--json").stdout)
    after = document(run("status", "-n", filled.name, "--json").stdout)
    charged = before["charged_bytes"]
    assert cleared["bytes_before"] == charged["grammar"] + charged["rule"] > 0
    assert cleared["entries_cleared"] == before["entries"]["grammar"] + before["entries"]["rule"]
    assert cleared["bytes_after"] == 0
    assert (cleared["old_generation"], cleared["new_generation"]) == (before["generation"], after["generation"])
    assert after["generation"] == before["generation"] + 1
    assert after["charged_bytes"]["grammar"] == after["charged_bytes"]["rule"] == 0
    text = invoke("clear", "-n", filled.name)
    assert text.exit_code == 0
    check_columns(text.output)
    assert f"generation {after['generation']} → {after['generation'] + 1}" in text.output


def test_a_cache_outlives_its_manager_and_can_be_looked_at(namespace: str) -> None:
    names = Namespace.of(namespace)
    with connect(BYTES, namespace) as cache:
        key = cache.compile_regex("ab*c").key.hex()
        pid = cache.stats()["manager"]["pid"]
    stop_process(pid)
    stats = document(run("status", "-n", namespace, "--json").stdout)
    check_shape(stats, STATS_SHAPE)
    assert stats["manager"] == {"pid": None, "state": "absent"}
    assert stats["entries"]["grammar"] == 1
    assert run("ls", key[:8], "-n", namespace).returncode == 0
    assert run("clear", "-n", namespace).returncode == 4
    assert objects.list_objects(names.control_name) == [names.control_name]


def test_a_damaged_control_segment_is_incompatible(filled: Namespace, namespace: str) -> None:
    names = Namespace.of(namespace)
    good = object_path(filled.control_name).read_bytes()
    for data in (good[:4096], b"\0" * len(good), b"x" * 100):
        object_path(names.control_name).write_bytes(data)
        object_path(names.control_name).chmod(0o600)
        result = run("status", "-n", namespace, "--json")
        assert result.returncode == 5
        assert document(result.stdout)["error"]["code"] == "SEGMENT"


def test_the_control_segment_of_a_newer_layout_is_incompatible(namespace: str) -> None:
    with own_manager("test", workers=1) as names:
        control = open_control_writer(names)
        control.words[layout.LAYOUT_VERSION] = layout.CONTROL_LAYOUT_VERSION + 1
        result = invoke("status", "-n", names.name)
        control.words[layout.LAYOUT_VERSION] = layout.CONTROL_LAYOUT_VERSION
        assert result.exit_code == 5
        assert "layout" in result.stderr


# --- terminals and pipes ----------------------------------------------------------------------------------------------


def test_colour_on_a_terminal_only_and_not_where_it_is_not_wanted(
    filled: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" in CliRunner().invoke(main, ["status", "-n", filled.name], color=True).output
    monkeypatch.setenv("NO_COLOR", "1")
    plain = CliRunner().invoke(main, ["status", "-n", filled.name], color=True).output
    assert plain == click.unstyle(plain)


def test_a_reader_that_has_seen_enough_is_no_error(filled: Namespace) -> None:
    with subprocess.Popen(
        command("status", "-n", filled.name), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
