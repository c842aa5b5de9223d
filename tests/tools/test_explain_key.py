"""``explain-key``: whether two sources share a key, and the first difference that matters, against the keys."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from shmcache.client import connect
from shmcache.grammar.key import Source
from shmcache_tools.key_comparison import NO_VOCABULARY, first_difference
from shmcache_tools.own_manager import own_manager
from tests.tools.support import BYTES, check_columns, document, invoke, run

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a/b": {"type": "integer", "minimum": 1}, "c": {"enum": ["x", 1, 1.5]}},
    "required": ["c"],
}


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("change", "where", "note"),
    [
        ({"title": "no matter"}, None, ""),
        ({"required": ["a/b"]}, "/required/0", ""),
        ({"required": ["c", "a/b"]}, "/required", "lengths"),
        ({"properties": {"c": SCHEMA["properties"]["c"], "a/b": SCHEMA["properties"]["a/b"]}}, "/properties", "order"),
        ({"properties": {**SCHEMA["properties"], "d": True}}, "/properties", "only one"),
        (
            {"properties": {**SCHEMA["properties"], "a/b": {"type": "integer", "minimum": 1.0}}},
            "/properties/a~1b/minimum",
            "",
        ),
    ],
)
def test_the_first_difference_of_schemas(change: dict[str, Any], where: str | None, note: str) -> None:
    first, second = Source.json_schema(SCHEMA), Source.json_schema({**SCHEMA, **change})
    for one, other in ((first, second), (second, first)):
        difference = first_difference(one, other)
        assert (difference is None) == (one.key(NO_VOCABULARY) == other.key(NO_VOCABULARY))
        if where is None:
            assert difference is None
        else:
            assert difference is not None
            assert (difference.what, difference.where) == ("text", where)
            assert difference.first != difference.second or "lengths" in difference.note
            assert note in difference.note


def test_kinds_options_and_texts() -> None:
    kinds = first_difference(Source.regex("a"), Source.ebnf("root ::= 'a'"))
    assert kinds is not None
    assert (kinds.what, kinds.first, kinds.second) == ("kind", "regex", "ebnf")
    options = first_difference(Source.json_schema(True), Source.json_schema(True, indent=2))
    assert options is not None
    assert (options.what, options.where, options.first, options.second) == ("option", "indent", "null", "2")
    texts = first_difference(Source.ebnf('root ::= a\na ::= "x"'), Source.ebnf('root ::= a\na ::= "y"'))
    assert texts is not None
    assert texts.where == "line 2, column 8"
    ends = first_difference(Source.regex("ab"), Source.regex("abc"))
    assert ends is not None
    assert (ends.where, ends.first, ends.second) == ("line 1, column 3", "ab", "abc")


def test_a_difference_is_found_exactly_when_the_keys_differ() -> None:
    rng = random.Random(11)

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth else 5)
        if kind == 5:
            return {name: value(depth - 1) for name in rng.sample(["a", "b", "title", "properties", "enum"], 2)}
        return [value(depth - 1) for _ in range(2)] if kind == 6 else [None, True, 1, 1.0, "1"][kind]

    sources = [Source.json_schema({"properties": {"p": True}, "enum": [value(3)]}) for _ in range(80)]
    same = 0
    for one in sources:
        for other in sources:
            is_same = one.key(NO_VOCABULARY) == other.key(NO_VOCABULARY)
            same += is_same
            assert (first_difference(one, other) is None) == is_same
    assert same > len(sources)


def test_the_command(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", json.dumps(SCHEMA))
    spaced = write(tmp_path / "b.json", json.dumps({"title": "T", **dict(reversed(SCHEMA.items()))}, indent=3))
    other = write(tmp_path / "c.json", json.dumps({**SCHEMA, "required": []}))
    same = run("explain-key", first, spaced)
    assert same.returncode == 0
    assert "one key" in same.stdout
    assert "nothing that matters" in same.stdout
    differs = run("explain-key", first, other)
    assert differs.returncode == 6
    check_columns(differs.stdout)
    assert "/required" in differs.stdout
    told = document(invoke("explain-key", first, spaced, "--second", "strict_mode=false", "--json").stdout)
    assert told["same"] is False
    assert told["difference"]["where"] == "strict_mode"
    assert told["keys"][0] != told["keys"][1]
    alone = document(invoke("explain-key", first, "--json").stdout)
    assert alone["key"] == told["keys"][0]
    assert alone["options"]["strict_mode"] is True
    check_columns(invoke("explain-key", first).stdout)
    assert invoke("explain-key", first, "--second", "indent=1").exit_code == 2


def test_with_the_vocabulary_it_is_the_key_that_the_cache_has(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps(SCHEMA))
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as cache:
        key = cache.compile_json_schema(SCHEMA).key.hex()
        for vocabulary in ("cache", "bytes", f"cache:{BYTES.fingerprint.hex()[:8]}"):
            arguments = ("explain-key", path, "-n", namespace.name, "--vocabulary", vocabulary, "--json")
            assert document(invoke(*arguments).stdout)["key"] == key
