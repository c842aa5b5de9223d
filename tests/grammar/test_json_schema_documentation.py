"""The tables of keywords in the documentation, against the code and against the standard's own list of keywords."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema_specifications import REGISTRY

from shmcache.errors import UnsupportedError
from shmcache.grammar.json_schema import formats
from shmcache.grammar.json_schema.refusals import CONTENT_KEYWORDS
from tests.conftest import REPOSITORY
from tests.grammar.json_schema_cases import admits, grammar_of

TEXT = (REPOSITORY / "docs" / "languages.md").read_text(encoding="utf-8")
BEFORE_2019 = ("draft-03", "draft/next")

REFUSED_IN_PART = {"uniqueItems", "unevaluatedItems", "unevaluatedProperties"}

NARROWED: dict[str, tuple[Any, Any]] = {
    "type": ({"type": "null"}, 1),
    "const": ({"const": 1}, 2),
    "enum": ({"enum": [1]}, 2),
    "allOf": ({"allOf": [{"type": "null"}]}, 1),
    "anyOf": ({"anyOf": [{"type": "null"}]}, 1),
    "oneOf": ({"oneOf": [{"type": "null"}]}, 1),
    "not": ({"not": {"type": "integer"}}, 1),
    "if": ({"if": {"type": "integer"}, "then": False}, 1),
    "then": ({"if": {"type": "integer"}, "then": False}, 1),
    "else": ({"if": {"type": "string"}, "else": False}, 1),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    "dependentSchemas": ({"dependentSchemas": {"a": False}}, {"a": 1}),
    "dependencies": ({"dependencies": {"a": ["b"]}}, {"a": 1}),
    "$ref": ({"$ref": "#/x", "x": {"type": "null"}}, 1),
    "$defs": ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}, 1),
    "definitions": ({"$ref": "#/definitions/x", "definitions": {"x": {"type": "null"}}}, 1),
    "$id": ({"$id": "http://x.org", "$ref": "http://x.org#/x", "x": {"type": "null"}}, 1),
    "id": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "definitions": {"x": {"id": "#i", "type": "null"}},
            "allOf": [{"$ref": "#i"}],
        },
        1,
    ),
    "$anchor": ({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}}, 1),
    "$dynamicRef": ({"$dynamicRef": "#/x", "x": {"type": "null"}}, 1),
    "$recursiveRef": ({"not": {"items": {"$recursiveRef": "#"}}}, []),
    "$recursiveAnchor": ({"$recursiveAnchor": True, "not": {"items": {"$recursiveRef": "#"}}}, []),
    "$dynamicAnchor": ({"$ref": "#a", "$defs": {"x": {"$dynamicAnchor": "a", "type": "null"}}}, 1),
    "minimum": ({"minimum": 2}, 1),
    "maximum": ({"maximum": 2}, 3),
    "exclusiveMinimum": ({"exclusiveMinimum": 2}, 2),
    "exclusiveMaximum": ({"exclusiveMaximum": 2}, 2),
    "multipleOf": ({"multipleOf": 2}, 3),
    "minLength": ({"minLength": 2}, "a"),
    "maxLength": ({"maxLength": 2}, "abc"),
    "format": ({"format": "date"}, "b"),
    "pattern": ({"pattern": "a"}, "b"),
    "items": ({"items": {"type": "null"}}, [1]),
    "prefixItems": ({"prefixItems": [{"type": "null"}]}, [1]),
    "additionalItems": ({"items": [{}], "additionalItems": False}, [1, 2]),
    "minItems": ({"minItems": 1}, []),
    "maxItems": ({"maxItems": 1}, [1, 2]),
    "contains": ({"contains": {"type": "null"}}, [1]),
    "minContains": ({"contains": {"type": "null"}, "minContains": 2}, [None]),
    "maxContains": ({"contains": {"type": "null"}, "maxContains": 1}, [None, None]),
    "uniqueItems": ({"items": {"type": "null"}, "uniqueItems": True}, [None, None]),
    "unevaluatedItems": ({"unevaluatedItems": False}, [1]),
    "unevaluatedProperties": ({"unevaluatedProperties": False}, {"a": 1}),
    "properties": ({"properties": {"a": {"type": "null"}}}, {"a": 1}),
    "required": ({"required": ["a"]}, {}),
    "patternProperties": ({"patternProperties": {"a": False}}, {"a": 1}),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, {"ab": 1}),
    "minProperties": ({"minProperties": 1}, {}),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}),
    "additionalProperties": ({"additionalProperties": False}, {"a": 1}),
}
"""Keyword → a schema with it, and an instance that it alone excludes."""


def section(title: str) -> str:
    """The text under a heading."""
    return re.split(r"^#+ .*$", TEXT.partition(f"\n### {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(title: str) -> set[str]:
    """The names in the first column of the table under a heading."""
    rows = re.findall(r"^\| (`[^|]*?)(?: with .*?)? \|", section(title), flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def keywords_of_the_standard() -> set[str]:
    """Every keyword that a metaschema of draft 4 to 2020-12 describes."""
    names: set[str] = set()
    for uri in REGISTRY:
        if not any(draft in uri for draft in BEFORE_2019):
            names |= REGISTRY.contents(uri).get("properties", {}).keys()
    return names


def test_the_refused_keywords_are_those_of_the_code() -> None:
    assert first_cells("Refused keywords") == {*REFUSED_IN_PART, *CONTENT_KEYWORDS}


def test_every_keyword_of_the_standard_is_in_one_list() -> None:
    lists = [first_cells("Enforced keywords"), first_cells("Refused keywords")]
    lists.append(set(re.findall(r"`([^`]+)`", section("Keywords without effect"))))
    assert set().union(*lists) >= keywords_of_the_standard()
    assert sum(map(len, lists)) == len(set().union(*lists)) + len(REFUSED_IN_PART)


def test_the_formats_are_those_of_the_code() -> None:
    row = next(line for line in section("Enforced keywords").splitlines() if line.startswith("| `format` |"))
    assert set(re.findall(r"`([^`]+)`", row)) == formats.SUPPORTED | {"format"}


def test_every_enforced_keyword_has_a_case() -> None:
    assert first_cells("Enforced keywords") == NARROWED.keys()


@pytest.mark.parametrize("keyword", sorted(NARROWED))
def test_enforced_keywords_are_enforced(keyword: str) -> None:
    schema, instance = NARROWED[keyword]
    assert keyword in str(schema)
    try:
        grammar = grammar_of(schema, strict_mode=False)
    except UnsupportedError:
        pytest.fail(f"{keyword} is refused")
    assert not admits(grammar, instance)
    without = {"$schema": schema.get("$schema", ""), **{name: {} for name in ("x", "$defs") if name in schema}}
    assert admits(grammar_of(without, strict_mode=False), instance)
