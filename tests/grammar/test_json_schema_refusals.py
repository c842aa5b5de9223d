"""What is malformed, what is refused, what is too much, and where the errors say it is."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.json_schema import JsonSchemaOptions, json_schema_grammar
from shmcache.grammar.key import Source
from shmcache.limits import SCHEMA_DEPTH_MAX, Budget
from tests.grammar.json_schema_cases import admits, check, grammar_of


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ([], ""),
        ("x", ""),
        ({"type": 5}, "/type"),
        ({"type": "strin"}, "/type"),
        ({"type": []}, "/type"),
        ({"type": ["string", 1]}, "/type"),
        ({"properties": []}, "/properties"),
        ({"properties": {"a/b~": 1}}, "/properties/a~1b~0"),
        ({"type": "object", "properties": {"a": {"items": 3}}}, "/properties/a/items"),
        ({"required": "a"}, "/required"),
        ({"required": [1]}, "/required"),
        ({"type": "string", "required": True}, "/required"),
        ({"additionalProperties": 1}, "/additionalProperties"),
        ({"items": "x"}, "/items"),
        ({"items": [{}, 1]}, "/items/1"),
        ({"prefixItems": {}}, "/prefixItems"),
        ({"minItems": -1}, "/minItems"),
        ({"minItems": 1.5}, "/minItems"),
        ({"maxLength": "3"}, "/maxLength"),
        ({"minLength": True}, "/minLength"),
        ({"pattern": 1}, "/pattern"),
        ({"type": "string", "pattern": "("}, "/pattern"),
        ({"minimum": "1"}, "/minimum"),
        ({"exclusiveMinimum": None}, "/exclusiveMinimum"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"multipleOf": -1}, "/multipleOf"),
        ({"enum": {}}, "/enum"),
        ({"anyOf": []}, "/anyOf"),
        ({"anyOf": {}}, "/anyOf"),
        ({"allOf": [True, {"anyOf": [{"type": "x"}]}]}, "/allOf/1/anyOf/0/type"),
        ({"$ref": 1}, "/$ref"),
        ({"type": "string", "format": 3}, "/format"),
        ({"$ref": "#/$defs/missing"}, "/$ref"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/nowhere"}}}, "/$defs/a/$ref"),
        ({"$ref": "#/prefixItems/2", "prefixItems": [{}]}, "/$ref"),
        ({"$ref": "#/prefixItems/00", "prefixItems": [{}]}, "/$ref"),
        ({"$ref": "#anchor"}, "/$ref"),
        ({"$ref": "#/required", "required": ["a"]}, "/required"),
        ({"$ref": "#"}, ""),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "/$defs/a"),
        ({"anyOf": [{"type": "null"}, {"allOf": [{"$ref": "#"}]}]}, ""),
        # Nothing satisfies these.
        (False, ""),
        ({"enum": []}, ""),
        ({"type": "integer", "minimum": 3, "maximum": 2}, ""),
        ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}, ""),
        ({"type": "integer", "minimum": 0.1, "maximum": 0.9}, ""),
        ({"type": "string", "minLength": 3, "maxLength": 2}, ""),
        ({"type": "string", "pattern": "^ab$", "minLength": 3}, ""),
        ({"const": "a", "type": "integer"}, ""),
        ({"const": 1, "enum": [2, "1"]}, ""),
        ({"const": [1], "items": {"type": "string"}}, ""),
        ({"const": {"a": 1}, "required": ["b"]}, ""),
        ({"type": "array", "minItems": 2, "maxItems": 1}, ""),
        ({"type": "array", "minItems": 2, "prefixItems": [{}, False]}, ""),
        ({"type": "array", "minItems": 2, "prefixItems": [{}], "items": False}, ""),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, ""),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, ""),
        ({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}, ""),
        ({"type": "array", "minItems": 1, "items": {"$ref": "#"}}, ""),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ""),
    ],
)
def test_malformed_and_unsatisfiable_schemas_are_source_errors(schema: Any, pointer: str) -> None:
    with pytest.raises(SourceError) as caught:
        json_schema_grammar(schema, JsonSchemaOptions(), Budget())
    assert caught.value.pointer == pointer


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
MANY_CASES = {"anyOf": [{"properties": {name: {}}} for name in "abcdefghi"]}
REFUSED: list[tuple[Any, str, str]] = [
    ({"$dynamicRef": "x.json#a"}, "$dynamicRef", "/$dynamicRef"),
    ({"items": {}, "uniqueItems": True}, "uniqueItems", "/uniqueItems"),
    ({**MANY_CASES, "unevaluatedProperties": False}, "unevaluatedProperties", "/unevaluatedProperties"),
    ({"$schema": DRAFT_7, "contentEncoding": "base64"}, "contentEncoding", "/contentEncoding"),
    ({"$schema": DRAFT_7, "contentMediaType": "a/b"}, "contentMediaType", "/contentMediaType"),
    ({"items": {"anyOf": [{}, {"$dynamicRef": "x"}]}}, "$dynamicRef", "/items/anyOf/1/$dynamicRef"),
    ({"$ref": "https://example.com/x.json"}, "$ref", "/$ref"),
    ({"$ref": "other.json#/a"}, "$ref", "/$ref"),
    ({"pattern": "(?<=a)b"}, "look-behind", "/pattern"),
]


@pytest.mark.parametrize(("schema", "feature", "pointer"), REFUSED)
def test_what_is_not_enforced_is_refused_by_name(schema: Any, feature: str, pointer: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        grammar_of(schema)
    assert caught.value.pointer == pointer
    if feature != "look-behind":
        assert caught.value.feature == feature


@pytest.mark.parametrize(("schema", "feature", "pointer"), REFUSED)
def test_what_is_ignored_is_recorded(schema: Any, feature: str, pointer: str) -> None:
    grammar = grammar_of(schema, on_unsupported="ignore")
    assert [warning.pointer for warning in grammar.warnings] == [pointer]
    assert feature == "look-behind" or grammar.warnings[0].feature == feature
    assert admits(grammar, 1)


def test_ignoring_keeps_what_is_enforced() -> None:
    schema = {"type": "string", "format": "ipv4", "maxLength": 7, "pattern": "(?<=a)b"}
    grammar = check(schema, ["1.2.3.4"], ["1.2.3.40", "ab", 1], on_unsupported="ignore")
    assert [warning.pointer for warning in grammar.warnings] == ["/pattern"]


def test_other_formats_constrain_nothing_and_are_recorded() -> None:
    grammar = check({"type": ["string", "integer"], "format": "int32"}, ["x", 2**40], [])
    assert [(warning.feature, warning.pointer) for warning in grammar.warnings] == [("format", "/format")]
    assert grammar_of({"type": "integer", "format": "int32"}).warnings == ()


def test_unused_definitions_are_not_read() -> None:
    check({"type": "null", "$defs": {"a": {"not": {}}, "b": {"type": 5}, "c": {"$ref": "#/x"}}}, [None], [1])


def deep(keyword: str, depth: int) -> dict[str, Any]:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {keyword: [schema] if keyword in ("allOf", "anyOf", "oneOf", "prefixItems") else schema}
    return {"type": "array", **schema} if keyword == "items" else dict(schema)


@pytest.mark.parametrize("keyword", ["items", "allOf", "anyOf", "oneOf", "prefixItems", "additionalProperties"])
def test_depth_is_no_recursion(keyword: str) -> None:
    levels = (SCHEMA_DEPTH_MAX - 2) // (2 if keyword in ("allOf", "anyOf", "oneOf", "prefixItems") else 1)
    assert grammar_of(deep(keyword, levels)).rules
    with pytest.raises(LimitError):
        grammar_of(deep(keyword, 2 * SCHEMA_DEPTH_MAX))


def test_long_chains_of_references() -> None:
    definitions: dict[str, Any] = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(3000)}
    definitions["d3000"] = {"type": "null"}
    check({"$ref": "#/$defs/d0", "$defs": definitions}, [None], [1])
    for name, definition in definitions.items():
        if "$ref" in definition:
            definitions[name] = {"type": "object", "properties": {"n": definition}, "required": ["n"]}
    assert len(grammar_of({"$ref": "#/$defs/d0", "$defs": definitions}).rules) == 3000


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 10**9 + 7},
        {"type": "string", "pattern": "[ab]*a[ab]{18}$"},
        {"type": "string", "pattern": "^a", "maxLength": 10**9},
        {
            "type": "object",
            "allOf": [{"anyOf": [{"properties": {f"a{i}{j}": {"const": j}}} for j in range(20)]} for i in range(8)],
        },
    ],
)
def test_explosions_are_limits(schema: Any) -> None:
    with pytest.raises(LimitError):
        Source.json_schema(schema).grammar(Budget(states_max=10_000))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ('{"type": "number", "maximum": 1e308}', [b"1e300", b"-1"], [b"1e309", b"2e308"]),
        ('{"enum": [1e400000000, 2]}', [b"2", b"1E+400000000"], [b"1"]),
        ('{"type": "integer", "minimum": 123456789012345678901234567890}', [10**30], [10**28, 1]),
    ],
)
def test_huge_numbers(schema: str, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid)


@pytest.mark.parametrize("schema", ['{"minimum": 1e400000000}', '{"multipleOf": 1e-400000000}'])
def test_numbers_that_cannot_be_written_out_are_limits(schema: str) -> None:
    with pytest.raises(LimitError):
        grammar_of(schema)


KEYWORDS = sorted(
    {
        *("$ref", "$id", "$schema", "$anchor", "$defs", "type", "enum", "const", "properties", "required", "items"),
        *("prefixItems", "additionalItems", "additionalProperties", "minItems", "maxItems", "minLength", "maxLength"),
        *("pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "anyOf"),
        *("allOf", "oneOf", "not", "uniqueItems", "patternProperties", "dependencies", "title", "definitions", "id"),
    }
)
FRAGMENTS = st.recursive(
    st.sampled_from(
        [None, True, False, 0, 1, -1, 2.5, "", "a", "object", "array", "string", "#", "#/$defs/a", "^a$", "["]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from(KEYWORDS), FRAGMENTS, max_size=4), st.sampled_from(["error", "ignore"]))
def test_nonsense_is_answered_or_refused(schema: dict[str, Any], on_unsupported: str) -> None:
    with contextlib.suppress(SourceError, UnsupportedError):
        assert grammar_of(schema, on_unsupported=on_unsupported).rules
