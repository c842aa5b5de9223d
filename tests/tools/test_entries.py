"""``ls``, ``show``, ``evict`` and ``clear --tier``: what they say of entries, and which of them go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shmcache.client import GrammarCache, connect
from shmcache.memory import names
from shmcache.memory.names import Namespace
from shmcache_tools.mappers import mappers
from shmcache_tools.own_manager import own_manager, wait_until
from shmcache_tools.shared_stats import open_view
from tests.tools.support import BYTES, check_columns, document, invoke, run

SCHEMA = {
    "type": "object",
    "description": "not in the canonical text",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
GUARD_SECONDS = 10.0


@pytest.fixture(scope="module")
def cache() -> Iterator[tuple[Namespace, GrammarCache]]:
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as client:
        yield namespace, client


@pytest.fixture
def filled(cache: tuple[Namespace, GrammarCache]) -> Namespace:
    """A schema, a regex used thrice more, an EBNF grammar; the worker has stored its rows."""
    namespace, client = cache
    client.compile_json_schema(SCHEMA)
    for _ in range(4):
        client.compile_regex("ab*c")
    client.compile_grammar('root ::= "x" | "y" root')
    wait_until(
        lambda: all(worker["state"] != "busy" for worker in client.stats()["workers"]),
        seconds_max=GUARD_SECONDS,
        what="the worker to store its rows",
    )
    return namespace


def listed(namespace: Namespace, *arguments: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = document(invoke("ls", "-n", namespace.name, "--json", *arguments).stdout)["entries"]
    return entries


# --- ls ---------------------------------------------------------------------------------------------------------------


def test_kinds_uses_ages_and_readers(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    by_key = {entry["key"]: entry for entry in listed(filled)}
    regex = by_key[cache[1].compile_regex("ab*c").key.hex()]
    assert regex["kind"] == "regex"
    assert regex["hits"] >= 3
    assert regex["mapped_by"] == [os.getpid()]
    assert 0 <= regex["idle_seconds"] <= regex["age_seconds"] + 1
    kinds = [entry["kind"] for entry in by_key.values()]
    assert {"json_schema", "regex", "ebnf", "vocabulary"} <= set(kinds)


def test_what_is_selected(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    everything = listed(filled)
    for kind in ("regex", "ebnf", "rule", "vocabulary"):
        assert {entry["kind"] for entry in listed(filled, "--kind", kind)} <= {kind}
    sizes = sorted(entry["charged_bytes"] for entry in everything)
    larger = listed(filled, "--larger-than", str(sizes[0]))
    assert len(larger) == sum(size > sizes[0] for size in sizes)
    assert listed(filled, "--idle-for", "3600") == []
    mine = listed(filled, "--mapped-by", str(os.getpid()))
    assert mine
    assert all(os.getpid() in entry["mapped_by"] for entry in mine)
    assert listed(filled, "--mapped-by", "1") == []
    assert len(listed(filled, "--lines", "2")) == 2
    uses = [entry["hits"] for entry in listed(filled, "--sort", "hits")]
    assert uses == sorted(uses, reverse=True)


def test_the_table_fits(filled: Namespace) -> None:
    text = run("ls", "-n", filled.name, "--sort", "mapped").stdout
    check_columns(text)
    assert "json_schema" in text
    assert "maps" in text.splitlines()[0]


def test_who_maps_is_read_from_the_processes_that_may_be_looked_into(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    for pid, lines in (("7", "a-b r--s 0 0:1 9  {shm}/shmc-x-1\n"), ("8", "{shm}/other\n"), ("9", None)):
        (tmp_path / pid).mkdir()
        if lines is not None:
            text = f"a-b r--p 0 0:1 9  /usr/lib/x\n{lines}".replace("{shm}", str(names.SHM_DIRECTORY))
            (tmp_path / pid / "maps").write_text(text)
    assert mappers("/shmc-x", tmp_path) == {"/shmc-x-1": [7]}


# --- show -------------------------------------------------------------------------------------------------------------


def test_show_a_schema(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    grammar = cache[1].compile_json_schema(SCHEMA)
    told = document(run("show", grammar.key.hex()[:20], "-n", filled.name, "--json").stdout)
    assert told["key"] == grammar.key.hex()
    assert told["source"]["kind"] == "json_schema"
    assert "description" not in told["source"]["text"]
    assert told["source"]["options"]["strict_mode"] is True
    payload = told["payload"]
    assert payload["states"] == grammar.image.automaton.state_count
    assert payload["rules"] == grammar.image.automaton.rule_count
    assert sum(payload["rows"].values()) == len(grammar.image.rows.form)
    assert 0 <= payload["states_with_row"] <= payload["states"]
    assert payload["vocabulary"] == BYTES.fingerprint.hex()
    text = run("show", grammar.key.hex()[:20], "-n", filled.name).stdout
    check_columns(text)
    assert '"name": {' in text
    assert "automaton" in text


def test_show_says_what_was_ignored(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    schema = {"type": "string", "pattern": "(?<=a)b"}
    grammar = cache[1].compile_json_schema(schema, on_unsupported="ignore")
    told = document(invoke("show", grammar.key.hex(), "-n", filled.name, "--json").stdout)
    assert [(one["feature"], one["pointer"]) for one in told["payload"]["warnings"]] == [
        (one.feature, one.pointer) for one in grammar.warnings
    ]
    assert grammar.warnings
    assert "warning: " in invoke("show", grammar.key.hex(), "-n", filled.name).stdout


def test_a_long_source_is_cut_unless_all_is_wanted(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    schema = {"type": "object", "properties": {f"property_{number}": {"type": "null"} for number in range(60)}}
    key = cache[1].compile_json_schema(schema).key.hex()
    short, full = (invoke("show", key, "-n", filled.name, *more).stdout for more in ((), ("--full",)))
    check_columns(short)
    assert "more lines" in short
    assert "property_59" not in short
    assert "property_59" in full


def test_show_a_vocabulary(filled: Namespace) -> None:
    (vocabulary,) = listed(filled, "--tier", "vocabulary")
    told = document(invoke("show", vocabulary["key"], "-n", filled.name, "--json").stdout)
    assert told["payload"] == {"tokens": 257, "width": 257, "special_tokens": 1, "stop_tokens": [256]}
    assert told["source"] is None
    assert "257" in invoke("show", vocabulary["key"], "-n", filled.name).stdout


@pytest.mark.parametrize("command", ["show", "evict"])
def test_no_entry_and_several_entries(filled: Namespace, command: str) -> None:
    missing = run(command, "0" * 40, "-n", filled.name, "--json")
    assert missing.returncode == 3
    assert document(missing.stdout)["error"]["code"] == "NOT_FOUND"
    several = invoke(command, "", "-n", filled.name)
    assert several.exit_code == 2
    assert "entries have a key" in several.stderr
    assert invoke(command, "xyz", "-n", filled.name).exit_code == 2


# --- evict and clear of a tier ----------------------------------------------------------------------------------------


def test_evict_one(cache: tuple[Namespace, GrammarCache], filled: Namespace) -> None:
    before = document(invoke("status", "-n", filled.name, "--json").stdout)
    key = cache[1].compile_regex("ab*c").key.hex()
    gone = document(run("evict", key[:24], "-n", filled.name, "--json").stdout)
    assert gone["key"] == key
    assert gone["entries_evicted"] == 1
    assert run("show", key, "-n", filled.name).returncode == 3
    after = document(invoke("status", "-n", filled.name, "--json").stdout)
    assert after["charged_bytes"]["grammar"] == before["charged_bytes"]["grammar"] - gone["charged_bytes"]
    assert after["evictions_by_reason"]["request"] == before["evictions_by_reason"]["request"] + 1
    assert after["generation"] == before["generation"]
    other = cache[1].compile_regex("abc").key.hex()
    text = invoke("evict", other, "-n", filled.name)
    assert text.exit_code == 0
    assert other[:16] in text.stdout


def test_a_vocabulary_in_use_stays(filled: Namespace) -> None:
    (vocabulary,) = listed(filled, "--tier", "vocabulary")
    result = run("evict", vocabulary["key"], "-n", filled.name)
    assert result.returncode == 1
    assert "stays" in result.stderr
    assert len(listed(filled, "--tier", "vocabulary")) == 1


def test_one_tier_is_cleared_and_the_others_stay(filled: Namespace) -> None:
    before = document(invoke("status", "-n", filled.name, "--json").stdout)
    assert before["entries"]["grammar"] >= 3
    cleared = document(run("clear", "--tier", "grammar", "-n", filled.name, "--json").stdout)
    after = document(invoke("status", "-n", filled.name, "--json").stdout)
    assert cleared["entries_cleared"] == before["entries"]["grammar"]
    assert cleared["bytes_before"] == before["charged_bytes"]["grammar"]
    assert cleared["bytes_after"] == after["charged_bytes"]["grammar"] == 0
    assert cleared["old_generation"] == cleared["new_generation"] == before["generation"]
    assert after["entries"]["rule"] == before["entries"]["rule"]
    assert after["entries"]["vocabulary"] == 1
    text = invoke("clear", "--tier", "rule", "-n", filled.name).stdout
    check_columns(text)
    assert "as before" in text


def test_nothing_is_evicted_or_cleared_without_a_manager(namespace: str) -> None:
    with own_manager("test", workers=1) as names_:
        view = open_view(names_)
        assert view.stats()["manager"]["state"] == "serving"
    assert run("evict", "00", "-n", namespace).returncode == 4
