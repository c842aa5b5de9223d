"""``check``: what is accepted, where what is not stops, and what could have come there."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.private import compile_json_schema, compile_regex
from shmcache_tools.checking import check_instance, expected_text, json_pointer
from shmcache_tools.vocabulary_choice import byte_vocabulary
from tests.tools.support import check_columns, document, invoke, run

BYTES = byte_vocabulary()
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"enum": ["ä", "b"]}},
        "inner": {"type": "object", "properties": {"x/y": {"type": "integer", "minimum": 0}}},
    },
    "required": ["name"],
}


@pytest.fixture(scope="module")
def grammar() -> CompiledGrammar:
    return compile_json_schema(SCHEMA, BYTES)


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return str(path)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_the_whole_is_accepted(grammar: CompiledGrammar) -> None:
    verdict = check_instance(grammar, '{"name": "Ann", "tags": ["ä"], "inner": {"x/y": 7}}'.encode())
    assert verdict.is_accepted
    assert (verdict.reason, verdict.hint, verdict.may_end) == ("", "", True)


@pytest.mark.parametrize(
    ("text", "offset", "pointer", "expected"),
    [
        ('{"name":"x","tags":["ä","c"]}', 26, "/tags/1", "\\ b 0xC3"),
        ('{"name":"x","inner":{"x/y":-1}}', 27, "/inner/x~1y", "\\t–\\n \\r space 0–9"),
        ('{"name":1}', 8, "/name", '\\t–\\n \\r space "'),
        ('{"tags":[]}', 2, "", "n"),
        ("", 0, "", "{"),
    ],
)
def test_where_it_stops_and_what_could_have_come(
    grammar: CompiledGrammar, text: str, offset: int, pointer: str, expected: str
) -> None:
    verdict = check_instance(grammar, text.encode())
    assert not verdict.is_accepted
    assert verdict.offset == offset
    assert verdict.pointer == pointer
    assert expected_text(verdict.expected, verdict.may_end) == expected


def test_lines_and_columns_are_in_characters() -> None:
    verdict = check_instance(compile_regex("é\nüx", BYTES), "é\nüy".encode())
    assert (verdict.offset, verdict.line, verdict.column) == (5, 2, 2)
    assert (verdict.before, verdict.after) == ("é\\nü", "y")
    assert verdict.pointer is None


def test_a_text_that_ends_too_early(grammar: CompiledGrammar) -> None:
    verdict = check_instance(grammar, b'{"name":"x"')
    assert (verdict.reason, verdict.may_end) == ("incomplete", False)
    assert ord("}") in verdict.expected


def test_only_the_spelling_is_at_fault() -> None:
    grammar = compile_json_schema(SCHEMA, BYTES, any_whitespace=False, separators=(",", ":"))
    verdict = check_instance(grammar, b'{"name": "x"}')
    assert not verdict.is_accepted
    assert "compact separators" in verdict.hint
    assert check_instance(grammar, b'{"name": 1}').hint == ""


def test_the_expected_bytes_are_those_that_are_accepted() -> None:
    rng = random.Random(3)
    grammar = compile_regex("(ab|a[c-f]{2,3}|[^a]é?)+", BYTES)
    for _ in range(200):
        head = bytes(rng.choices(b"abcde\xc3\xa9\xff", k=rng.randrange(6)))
        verdict = check_instance(grammar, head)
        accepted = head[: verdict.offset]
        for byte in range(256):
            further = check_instance(grammar, accepted + bytes([byte])).offset == verdict.offset + 1
            assert further == (byte in verdict.expected)
        assert verdict.is_accepted == (verdict.offset == len(head) and verdict.may_end)


# --- pointers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "pointer"),
    [
        ("", ""),
        ("12", ""),
        ("{", ""),
        ('{"a', ""),
        ('{"a"', "/a"),
        ('{"a":', "/a"),
        ('{"a":1,', ""),
        ('{"a":1,"b":[', "/b/0"),
        ('{"a":1,"b":[true,', "/b/1"),
        ('{"a":1,"b":[true,{"c\\"~/":', '/b/1/c"~0~1'),
        ('{"a":{"b":1}', "/a"),
        ('[{"a":"x,{[y"},', "/1"),
        ('["a\\\\",', "/1"),
        ("yes", None),
        ("[]]", None),
    ],
)
def test_where_in_a_document_a_text_goes_on(head: str, pointer: str | None) -> None:
    assert json_pointer(head.encode()) == pointer


def test_any_beginning_of_a_document_has_a_place() -> None:
    value = {"a": [1, {"é/~": ["x", None, {"k": []}]}, "]}"], "b": {"c": {"d": -1.5e3}}, "": "\\"}
    text = json.dumps(value, ensure_ascii=False).encode()
    for end in range(len(text)):
        pointer = json_pointer(text[:end])
        assert pointer is not None
        found: Any = value
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                # One place behind the last member is where the next would come.
                assert int(name) <= len(found)
                found = found[int(name)] if int(name) < len(found) else None
            else:
                found = found[name]


# --- the command ------------------------------------------------------------------------------------------------------


def test_as_text_and_as_a_document(schema: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"name": "Ann"}\n', encoding="utf-8")
    bad.write_text('{"name": 7}', encoding="utf-8")
    assert invoke("check", schema, str(good)).exit_code == 0
    result = run("check", schema, str(good), str(bad), "-i", '{"name":""}')
    assert result.returncode == 6
    check_columns(result.stdout.replace(str(tmp_path), "…"))
    assert result.stdout.count("accepted  ") == 2
    assert "expected: " in result.stdout
    assert "in the value at /name" in result.stdout
    told = document(invoke("check", schema, str(good), str(bad), "--json").stdout)
    assert [one["is_accepted"] for one in told["instances"]] == [True, False]
    assert told["instances"][1]["offset"] == 9
    assert ord('"') in told["instances"][1]["expected"]


@pytest.mark.parametrize(
    ("name", "text", "good", "bad"),
    [
        ("a.regex", "[a-z]+\n", "abc", "aBc"),
        ("a.ebnf", 'root ::= "x" root | "y"', "xxy", "xx"),
        ("a.txt", "[a-z]+", "abc", ""),
    ],
)
def test_other_kinds_by_suffix_or_name(tmp_path: Path, name: str, text: str, good: str, bad: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    kind = ("--kind", "regex") if name.endswith(".txt") else ()
    assert invoke("check", str(path), *kind, "-i", good).exit_code == 0
    assert invoke("check", str(path), *kind, "-i", bad).exit_code == 6
    if kind:
        assert invoke("check", str(path)).exit_code == 2
    assert "expected: " in invoke("check", str(path), *kind).stdout


def test_options_and_warnings(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '{"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}}', encoding="utf-8"
    )
    refused = run("check", str(path), "--json")
    assert refused.returncode == 1
    assert document(refused.stdout)["error"]["details"]["pointer"] == "/properties/a/pattern"
    ignored = invoke("check", str(path), "-o", "on_unsupported=ignore", "-o", "strict_mode=false", "-i", '{"b":1}')
    assert ignored.exit_code == 0
    assert "warning: " in ignored.stdout
    for wrong in ("no_such=1", "strict_mode"):
        assert invoke("check", str(path), "-o", wrong).exit_code == 2
    assert invoke("check", str(path), "-o", "indent=x").exit_code == 1


def test_what_cannot_be_read(tmp_path: Path) -> None:
    missing = invoke("check", str(tmp_path / "missing.json"))
    assert missing.exit_code == 1
    assert "cannot be read" in missing.stderr
    binary = tmp_path / "a.regex"
    binary.write_bytes(b"\xff\xfe")
    assert invoke("check", str(binary)).exit_code == 1
