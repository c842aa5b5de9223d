"""Client, manager and workers as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest

from shmcache.client import GrammarCache
from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.key import Source
from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.memory.check import check
from shmcache.memory.control import open_control_reader
from shmcache.memory.election import holder_pid
from shmcache.memory.index import IndexReader
from shmcache.memory.names import Namespace
from tests.client.processes import Process
from tests.client.support import VOCABULARY, image_of

PROCESSES = 16


def _digest(pattern: str) -> str:
    return blake2b(image_of(Source.regex(pattern))).hexdigest()


def _findings(namespace: Namespace) -> list[Any]:
    control = open_control_reader(namespace)
    return list(check(control, IndexReader(control), namespace.prefix))


def test_sixteen_processes_asking_at_once_cost_one_compile(
    served: Namespace, cache: GrammarCache, start: Callable[[int], list[Process]]
) -> None:
    cache.compile_regex("warm")
    before = cache.stats()["compiles"]
    processes = start(PROCESSES)
    for process in processes:
        process.ask("connect")
    for process in processes:
        process.tell("regex", "(ab|cd)+x{3,9}")
    answers = [process.hear() for process in processes]
    assert answers == [{"generation": 1, "image": _digest("(ab|cd)+x{3,9}")}] * PROCESSES
    after = cache.stats()
    assert after["compiles"]["started"] - before["started"] == 1
    assert after["compiles"]["succeeded"] - before["succeeded"] == 1
    assert after["entries"]["grammar"] == 2
    assert len(after["clients"]) == PROCESSES + 1
    assert not any(process.ask("numba")["loaded"] for process in processes)
    assert _findings(served) == []


def test_many_processes_starting_at_once_have_one_manager(
    served: Namespace, start: Callable[[int], list[Process]]
) -> None:
    processes = start(4)
    for process in processes:
        process.tell("connect")
    pids = {process.hear()["stats"]["manager"]["pid"] for process in processes}
    assert len(pids) == 1
    assert 0 not in pids
    assert pids == {holder_pid(served)}
    for process in processes:
        process.tell("regex", "ab+")
    assert [process.hear()["image"] for process in processes] == [_digest("ab+")] * 4
    assert processes[0].ask("stats")["entries"]["grammar"] == 1


def test_a_clear_by_one_process_is_seen_by_all(cache: GrammarCache, start: Callable[[int], list[Process]]) -> None:
    processes = start(3)
    for process in processes:
        process.ask("connect")
        assert process.ask("regex", "ab+")["generation"] == 1
    assert processes[0].ask("clear") == {"bytes": 0}
    assert cache.get_cache_size_bytes() == 0
    assert [process.ask("regex", "ab+")["generation"] for process in processes] == [2, 2, 2]
    assert cache.compile_regex("ab+").generation == 2
    assert cache.stats()["entries"]["grammar"] == 1
    assert cache.get_cache_size_bytes() == cache.compile_regex("ab+").memory_size_bytes


def test_structural_tags_are_compiled_once_for_all(cache: GrammarCache) -> None:
    structures = [{"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"}]
    older = {"type": "structural_tag", "structures": structures, "triggers": ["<f="]}
    grammar = cache.compile_structural_tag(json.dumps(older))
    assert grammar.generation == 1
    assert cache.compile_structural_tag(json.dumps(older)) is grammar
    assert cache.compile_structural_tag(structures, ["<f="]) is grammar
    assert grammar.key == Source.structural_tag(older).key(VOCABULARY.fingerprint)
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_string("ab<f=a>12</f>ab")
    assert matcher.is_completed()
    assert not matcher.accept_string("<f=b")
    with pytest.raises(UnsupportedError) as caught:
        cache.compile_structural_tag({"format": {"type": "grammar", "grammar": "start: x", "syntax": "lark"}})
    assert (caught.value.feature, caught.value.pointer) == ("syntax lark", "/format/syntax")
    assert cache.stats()["entries"]["grammar"] == 1


def test_a_manager_killed_is_replaced_and_nothing_is_lost(
    served: Namespace, cache: GrammarCache, start: Callable[[int], list[Process]]
) -> None:
    (other,) = start(1)
    other.ask("connect")
    first = cache.compile_regex("ab+")
    killed = cache.stats()["manager"]["pid"]
    os.kill(killed, signal.SIGKILL)
    assert cache.compile_regex("ab+") is first
    assert other.ask("regex", "ab+") == {"generation": 1, "image": _digest("ab+")}
    assert cache.compile_regex("new").generation == 1
    stats = cache.stats()
    assert stats["manager"]["pid"] not in (0, killed)
    assert (stats["generation"], stats["epoch"], stats["entries"]["grammar"]) == (1, 2, 2)
    assert other.ask("regex", "new") == {"generation": 1, "image": _digest("new")}
    assert _findings(served) == []


def test_a_manager_that_dies_and_cannot_be_replaced(
    served: Namespace, cache: GrammarCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.compile_regex("ab+")
    monkeypatch.setattr("shmcache.client.starting.manager_command", lambda *_: ["/nonexistent/python"])
    os.kill(cache.stats()["manager"]["pid"], signal.SIGKILL)
    grammar = cache.compile_regex("new")
    assert grammar.generation == 0
    assert grammar.key == Source.regex("new").key(VOCABULARY.fingerprint)
    assert cache.compile_regex("ab+").generation == 1


def test_the_worker_is_killed_and_the_next_one_compiles(cache: GrammarCache) -> None:
    cache.compile_regex("ab+")
    for worker in cache.stats()["workers"]:
        os.kill(worker["pid"], signal.SIGKILL)
    assert cache.compile_regex("new").generation == 1


def test_a_text_is_found_without_being_read(
    cache: GrammarCache, served: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"title": "as it was written", "type": "object", "properties": {"a": {"type": "integer"}}}'
    tag = '{"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}'
    keys = [cache.compile_json_schema(text).key, cache.compile_structural_tag(tag).key]

    def refuse(_: str) -> None:
        raise AssertionError("a text was read")

    monkeypatch.setattr("shmcache.grammar.key.parse_json", refuse)
    monkeypatch.setattr("shmcache.grammar.structural_tag.plain.parse_json", refuse, raising=False)
    with GrammarCache(VOCABULARY, served, may_start=False) as other:
        assert [other.compile_json_schema(text).key, other.compile_structural_tag(tag).key] == keys


FIRST_MASK = """
import json, sys
from pathlib import Path
import numpy as np
from shmcache.client import GrammarCache
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.memory.names import Namespace
from shmcache.vocabulary.vocabulary import Vocabulary

name, directory, text = sys.argv[1:]
vocabulary = Vocabulary([bytes([byte]) for byte in range(256)] + [b"ab", b"</s>"], stop_token_ids=[257])
with GrammarCache(vocabulary, Namespace.of(name, directory=Path(directory)), may_start=False) as cache:
    matcher = GrammarMatcher(cache.compile_json_schema(text))
    row = np.zeros(9, dtype=np.int32)
    matcher.fill_next_token_bitmask(row)
    modules = [name for name in ("numba", "llvmlite", "shmcache.rows.entries") if name in sys.modules]
    print(json.dumps({"mask": row.tolist(), "modules": modules, "misses": cache.stats()["lookups"]["miss"]}))
"""


def test_a_first_mask_of_another_process_needs_no_compiled_code(cache: GrammarCache, served: Namespace) -> None:
    text = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    matcher = GrammarMatcher(cache.compile_json_schema(text))
    row = allocate_token_bitmask(1, VOCABULARY.width)
    matcher.fill_next_token_bitmask(row)
    misses = cache.stats()["lookups"]["miss"]
    command = [sys.executable, "-c", FIRST_MASK, served.name, str(served.directory), text]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)
    assert answer == {"mask": row[0].tolist(), "modules": [], "misses": misses}


def test_errors_come_typed_from_the_worker(cache: GrammarCache) -> None:
    with pytest.raises(SourceError) as caught:
        cache.compile_regex("(a")
    assert caught.value.column is not None
    with pytest.raises(LimitError):
        cache.compile_regex("[ab]*a[ab]{20}", timeout=5.0)
    assert cache.compile_regex("ab+").generation == 1


def test_a_large_source_is_compiled_by_a_worker(cache: GrammarCache) -> None:
    text = 'root ::= "a" "b"+\n# ' + "x" * 300_000
    grammar = cache.compile_grammar(text)
    assert grammar.generation == 1
    assert grammar.key == Source.ebnf(text).key(VOCABULARY.fingerprint)


def test_lookups_are_counted_over_all_processes(cache: GrammarCache, start: Callable[[int], list[Process]]) -> None:
    cache.compile_regex("ab+")
    cache.compile_regex("ab+")
    (other,) = start(1)
    other.ask("connect")
    other.ask("regex", "ab+")
    assert {name: cache.stats()["lookups"][name] for name in ("hit", "miss")} == {"hit": 2, "miss": 1}
    other.process.kill()
    other.process.wait(5)
    assert {name: cache.stats()["lookups"][name] for name in ("hit", "miss")} == {"hit": 2, "miss": 1}
