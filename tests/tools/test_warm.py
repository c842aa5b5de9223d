"""``warm``: what is compiled, skipped, refused and interrupted, and that a second run goes on."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shmcache.client import connect
from shmcache.memory.names import Namespace
from shmcache_tools.own_manager import own_manager, wait_until
from shmcache_tools.progress import Progress, clock_text
from shmcache_tools.shared_stats import open_view
from tests.tools.support import BYTES, PROCESS_SECONDS_MAX, check_columns, command, document, invoke, run

COUNT = 20
GUARD_SECONDS = 30.0


def lines() -> list[dict[str, Any]]:
    """Small sources of every kind, no two alike."""
    made: list[dict[str, Any]] = [{"builtin_json": True}, {"ebnf": 'start ::= "x"', "root_rule_name": "start"}]
    for number in range(COUNT - len(made)):
        if number % 2:
            made.append({"id": f"schema {number}", "schema": {"type": "string", "maxLength": number}, "tests": []})
        else:
            made.append({"regex": f"warm-{number}"})
    return made


def write(path: Path, documents: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in documents), encoding="utf-8")
    return path


@pytest.fixture
def manager() -> Iterator[Namespace]:
    with own_manager("test", workers=1) as namespace:
        yield namespace


def warmed(manager: Namespace, path: Path, *more: str) -> dict[str, Any]:
    result = run("warm", str(path), "-n", manager.name, "--vocabulary", "bytes", "--json", *more)
    told: dict[str, Any] = document(result.stdout)
    assert "Traceback" not in result.stderr
    return {**told, "exit_code": result.returncode}


def test_everything_is_compiled_once_and_found_by_a_client(manager: Namespace, tmp_path: Path) -> None:
    path = write(tmp_path / "sources.jsonl", lines())
    first = warmed(manager, path)
    assert (first["compiled"], first["cached_before"], first["left"], first["exit_code"]) == (COUNT, 0, 0, 0)
    assert first["in_cache_now"] == COUNT
    second = warmed(manager, path, "--vocabulary", "cache")
    assert (second["compiled"], second["cached_before"]) == (0, COUNT)
    with connect(BYTES, manager.name, autostart=False) as cache:
        cache.compile_regex("warm-4")
        cache.compile_json_schema({"type": "string", "maxLength": 3})
        cache.compile_grammar('start ::= "x"', "start")
        cache.compile_builtin_json_grammar()
        stats = cache.stats()
    assert stats["lookups"] == {"hit": 4, "miss": 0, "coalesced": 0}
    assert stats["compiles"]["started"] == COUNT


def test_an_interrupted_run_is_gone_on_with(manager: Namespace, tmp_path: Path) -> None:
    slow = [
        {"schema": {"type": "array", "items": {"type": "string", "pattern": f"^[ab]*a[ab]{{{n}}}$"}}} for n in range(9)
    ]
    path = write(tmp_path / "sources.jsonl", [*lines(), *slow])
    view = open_view(manager)
    process = subprocess.Popen(
        command("warm", str(path), "-n", manager.name, "--vocabulary", "bytes", "--at-once", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(
            lambda: view.control.totals().entries[0] >= 3,
            seconds_max=GUARD_SECONDS,
            what="the first sources to be warm",
        )
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PROCESS_SECONDS_MAX)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert "interrupted with" in output
    check_columns(output)
    second = warmed(manager, path)
    assert second["cached_before"] >= 3
    assert second["compiled"] == COUNT + len(slow) - second["cached_before"] > 0
    assert second["in_cache_now"] == COUNT + len(slow)


def test_a_manager_that_dies_is_an_error_with_what_was_done(tmp_path: Path) -> None:
    path = write(tmp_path / "sources.jsonl", [{"regex": f"[ab]*a[ab]{{{size}}}"} for size in range(11)])
    with own_manager("test", workers=1) as manager:
        view = open_view(manager)
        pid = view.stats()["manager"]["pid"]
        process = subprocess.Popen(
            command("warm", str(path), "-n", manager.name, "--vocabulary", "bytes", "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: view.control.totals().entries[0] >= 1, seconds_max=GUARD_SECONDS, what="the first entry")
            os.kill(pid, signal.SIGKILL)
            output, _ = process.communicate(timeout=PROCESS_SECONDS_MAX)
        finally:
            process.kill()
            process.communicate()
        told = document(output)
        assert process.returncode == 4
        assert told["error"]["code"] == "MANAGER_UNAVAILABLE"
        # What the manager had answered may be lost with it.
        assert 0 < told["left"] == told["total"] - told["compiled"]


def test_what_is_refused_is_told_and_stops_nothing(manager: Namespace, tmp_path: Path) -> None:
    bad = [
        {"id": "look behind", "regex": "(?<=a)b"},
        {"id": "malformed", "regex": "("},
        {"id": "nothing"},
        {"id": "two", "regex": "a", "ebnf": "b"},
        {"id": "an option", "schema": True, "options": {"no_such": 1}},
        {"id": "options", "regex": "a", "options": {"strict_mode": True}},
        {"id": "a type", "schema": {"type": "strin"}},
    ]
    path = tmp_path / "sources.jsonl"
    write(path, [lines()[2], *bad, lines()[3]])
    with path.open("a", encoding="utf-8") as file:
        file.write("[1]\n\nnot json\n")
    told = warmed(manager, path)
    assert told["exit_code"] == 6
    assert (told["compiled"], told["left"], told["total"]) == (2, 0, 11)
    codes = {one["id"]: one["code"] for one in told["refused"]}
    assert codes == {
        "look behind": "UNSUPPORTED",
        **dict.fromkeys(("malformed", "nothing", "two", "an option", "options", "a type"), "SOURCE_ERROR"),
        f"{path}:10": "SOURCE_ERROR",
        f"{path}:12": "SOURCE_ERROR",
    }
    text = invoke("warm", str(path), "-n", manager.name, "--vocabulary", "bytes")
    assert text.exit_code == 6
    check_columns(text.stdout.replace(str(path), "sources"))
    assert "look behind: UNSUPPORTED" in text.stdout


def test_options_of_the_command_are_defaults_of_the_lines(manager: Namespace, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": True}}
    path = write(tmp_path / "a.jsonl", [{"schema": schema}, {"schema": schema, "options": {"strict_mode": True}}])
    warmed(manager, path, "-o", "strict_mode=false", "-o", "indent=2")
    listed = document(invoke("ls", "-n", manager.name, "--kind", "json_schema", "--json").stdout)["entries"]
    options = [
        document(invoke("show", one["key"], "-n", manager.name, "--json").stdout)["source"]["options"] for one in listed
    ]
    assert sorted(one["strict_mode"] for one in options) == [False, True]
    assert all(one["indent"] == 2 for one in options)


def test_a_source_too_large_for_a_message(manager: Namespace, tmp_path: Path) -> None:
    schema = {"enum": [f"value {number} {'x' * 60}" for number in range(1500)]}
    told = warmed(manager, write(tmp_path / "a.jsonl", [{"schema": schema}, {"schema": schema}]))
    assert (told["compiled"], told["cached_before"], told["refused"]) == (1, 1, [])


def test_what_had_to_go_for_others_is_told(tmp_path: Path) -> None:
    with own_manager("test", workers=1, limit_bytes=12 * 4096) as manager:
        path = write(tmp_path / "a.jsonl", [{"regex": f"entry-{number}"} for number in range(COUNT)])
        told = warmed(manager, path)
        assert told["compiled"] == COUNT
        assert 0 < told["in_cache_now"] < COUNT


def test_a_vocabulary_is_named(manager: Namespace, tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.jsonl", lines()))
    none = run("warm", path, "-n", manager.name)
    assert none.returncode == 3
    assert "0 vocabularies" in none.stderr
    for wrong in ("other", "huggingface", "huggingface:"):
        assert invoke("warm", path, "-n", manager.name, "--vocabulary", wrong).exit_code == 2
    lost = invoke("warm", path, "-n", manager.name, "--vocabulary", f"huggingface:{tmp_path}/missing.json")
    assert lost.exit_code == 1
    assert "cannot be loaded" in lost.stderr


def test_without_a_manager_nothing_is_begun(namespace: str, tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.jsonl", lines()))
    result = run("warm", path, "-n", namespace, "--vocabulary", "bytes", "--json")
    assert result.returncode == 4
    assert document(result.stdout)["error"]["code"] == "MANAGER_UNAVAILABLE"
    assert invoke("warm", str(tmp_path / "missing"), "-n", namespace).exit_code == 2


# --- progress ---------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_with_rate_and_remaining_time() -> None:
    times = iter([0.0, 0.05, 10.0, 20.0])
    terminal = Terminal()
    progress = Progress(100, stream=terminal, clock=lambda: next(times))
    progress.show(10, 10)
    progress.show(50, 25)
    progress.show(100, 75, "2 refused", is_last=True)
    shown = terminal.getvalue().split("\r")
    assert shown[0] == ""
    assert shown[1].rstrip() == "[############............] 50/100  2.5/s  0:20 left"
    assert shown[2] == "[########################] 100/100  3.8/s  0:00 left  2 refused\n"


def test_lines_where_there_is_no_terminal() -> None:
    times = iter([0.0, 9.0, 11.0, 12.0, 13.0])
    stream = io.StringIO()
    progress = Progress(4, stream=stream, clock=lambda: next(times))
    for done in (1, 2, 3):
        progress.show(done, 0)
    progress.show(4, 0, is_last=True)
    assert stream.getvalue() == "[############............] 2/4  0.0/s  –:–– left\n"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (7.4, "0:07"), (750, "12:30"), (3723, "1:02:03")])
def test_time_as_a_clock_has_it(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_structural_tags(manager: Namespace, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    content = {"type": "json_schema", "json_schema": schema}
    new = {"type": "structural_tag", "format": {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}}
    old = {"structures": [{"begin": "<g>", "schema": schema, "end": "</g>"}], "triggers": ["<g"]}
    path = write(tmp_path / "a.jsonl", [{"structural_tag": new}, {"structural_tag": old}])
    told = warmed(manager, path)
    assert (told["compiled"], told["refused"]) == (2, [])
    listed = document(invoke("ls", "-n", manager.name, "--kind", "structural_tag", "--json").stdout)["entries"]
    assert len(listed) == 2
    for one in listed:
        text = invoke("show", one["key"], "-n", manager.name)
        assert text.exit_code == 0
        check_columns(text.stdout)
