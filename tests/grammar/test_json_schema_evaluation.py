"""Members and items that no other keyword evaluates."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from shmcache.errors import UnsupportedError
from tests.grammar.json_schema_cases import admits, check, grammar_of

INTEGER: dict[str, Any] = {"type": "integer"}
STRING: dict[str, Any] = {"type": "string"}

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"unevaluatedProperties": False}, [{}, 1], [{"a": 1}]),
    ({"properties": {"a": {}}, "unevaluatedProperties": INTEGER}, [{"a": "s", "b": 1}], [{"b": "s"}]),
    (
        {"allOf": [{"properties": {"a": {}}}, {"patternProperties": {"^x": {}}}], "unevaluatedProperties": False},
        [{"a": 1}, {"x1": 1}, {"a": 1, "x": 2}],
        [{"b": 1}, {"a": 1, "b": 2}],
    ),
    (
        {"$ref": "#/$defs/d", "$defs": {"d": {"properties": {"a": INTEGER}}}, "unevaluatedProperties": STRING},
        [{"a": 1, "b": "s"}],
        [{"a": "s"}, {"b": 1}],
    ),
    ({"allOf": [{"additionalProperties": INTEGER}], "unevaluatedProperties": False}, [{"a": 1}], [{"a": "s"}]),
    ({"allOf": [{"unevaluatedProperties": INTEGER}], "unevaluatedProperties": False}, [{"a": 1}], [{"a": "s"}]),
    (
        {
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            "properties": {"a": {}, "b": {}},
            "unevaluatedProperties": False,
        },
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "c": 1}],
    ),
    ({"not": {"properties": {"a": {}}, "required": ["a"]}, "unevaluatedProperties": False}, [{}], [{"b": 1}]),
    ({"unevaluatedItems": False}, [[], {}], [[1]]),
    ({"prefixItems": [{}], "unevaluatedItems": INTEGER}, [[], ["s"], ["s", 1]], [["s", "s"]]),
    ({"allOf": [{"prefixItems": [{}, {}]}], "unevaluatedItems": False}, [[1, 2]], [[1, 2, 3]]),
    ({"items": STRING, "unevaluatedItems": False}, [["s"]], [[1]]),
    (
        {"properties": {"a": {"properties": {"b": {}}, "unevaluatedProperties": False}}},
        [{"a": {"b": 1}}],
        [{"a": {"c": 1}}],
    ),
    ({"$ref": "#/$defs/d", "$defs": {"d": {"items": {"$ref": "#/$defs/d"}}}, "unevaluatedItems": False}, [[[]]], []),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_what_is_left_unevaluated(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid, strict_mode=False)
    validator = jsonschema.Draft202012Validator(schema)
    assert all(map(validator.is_valid, valid))
    assert not any(map(validator.is_valid, invalid))


def branches(*names: str) -> list[dict[str, Any]]:
    """For each name a schema that evaluates the member, which must be an integer."""
    return [{"properties": {name: INTEGER}, "required": [name]} for name in names]


BY_BRANCH: list[tuple[Any, list[Any], list[Any]]] = [
    (
        {"anyOf": branches("a", "b"), "unevaluatedProperties": False},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{}, {"a": 1, "b": "s"}, {"a": "s"}, {"a": 1, "c": 1}],
    ),
    (
        {"oneOf": branches("a", "b"), "unevaluatedProperties": STRING},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": "s"}, {"b": 1, "a": "s"}, {"a": 1, "c": "s"}],
        [{}, {"a": 1, "b": 1}, {"a": 1, "c": 1}],
    ),
    (
        {
            "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
            "then": {"properties": {"b": {}}},
            "else": {"properties": {"c": {}}},
            "unevaluatedProperties": False,
        },
        [{}, {"a": 1}, {"a": 1, "b": 1}, {"c": 1}],
        [{"a": 2}, {"a": 1, "c": 1}, {"b": 1}],
    ),
    ({"if": {"patternProperties": {"a": INTEGER}}, "unevaluatedProperties": False}, [{}, {"a": 1}], [{"a": "s"}]),
    (
        {"dependentSchemas": {"a": {"properties": {"b": {}}}}, "properties": {"a": {}}, "unevaluatedProperties": False},
        [{}, {"a": 1}, {"a": 1, "b": 1}],
        [{"b": 1}, {"a": 1, "c": 1}],
    ),
    (
        {"anyOf": [{"anyOf": branches("a", "b")}, {"required": ["c"]}], "unevaluatedProperties": INTEGER},
        [{"a": 1}, {"c": 1}, {"b": 1, "c": 1}, {"a": 1, "b": 1}],
        [{"a": "s"}, {"c": "s"}, {"b": "s", "c": 1}, {}],
    ),
    (
        {"anyOf": [{"unevaluatedProperties": INTEGER}, True], "unevaluatedProperties": False},
        [{}, {"a": 1}],
        [{"a": "s"}],
    ),
    ({"not": {"anyOf": branches("a", "b"), "unevaluatedProperties": False}}, [{}, {"a": "s"}, {"c": 1}], [{"a": 1}]),
    ({"contains": INTEGER, "unevaluatedItems": STRING}, [[1], ["s", 1], [1, 1]], [[], ["s"], [1, None]]),
    ({"contains": INTEGER, "minContains": 0, "unevaluatedItems": False}, [[], [1]], [["s"], [1, "s"]]),
    (
        {"prefixItems": [{}], "anyOf": [{"contains": INTEGER}, {"contains": STRING}], "unevaluatedItems": False},
        [[1], ["s"], [1, "s"], [None, 1], [None, 1, "s"]],
        [[None], [1, None], []],
    ),
    (
        {"oneOf": [{"prefixItems": [INTEGER, {}], "minItems": 2}, {"items": STRING}], "unevaluatedItems": False},
        [[], ["s", "s", "s"], [1, 2]],
        [[1, 2, 3], [1], [None]],
    ),
    (
        {"if": {"prefixItems": [INTEGER]}, "else": {"items": STRING}, "unevaluatedItems": False},
        [[], [1], ["s", "s"]],
        [[1, 1], [None], ["s", 1]],
    ),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), BY_BRANCH)
def test_what_is_left_unevaluated_by_branches(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid, strict_mode=False)
    validator = jsonschema.Draft202012Validator(schema)
    assert all(map(validator.is_valid, valid))
    assert not any(map(validator.is_valid, invalid))


def test_before_2020_contains_evaluates_nothing() -> None:
    schema = {"contains": INTEGER, "unevaluatedItems": False}
    check({"$schema": "https://json-schema.org/draft/2019-09/schema", **schema, "minContains": 0}, [[]], [[1]])


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"anyOf": [{"properties": {one: {}}} for one in "abcdefghi"], "unevaluatedProperties": False}, "Properties"),
        ({"anyOf": [{"$ref": "http://x.org/a"}, {}], "unevaluatedProperties": False}, "Properties"),
    ],
)
def test_too_many_cases_and_what_is_not_known_are_refused(schema: Any, keyword: str) -> None:
    grammar = grammar_of(schema, on_unsupported="ignore", strict_mode=False)
    name = f"unevaluated{keyword}"
    assert (name, f"/{name}") in [(warning.feature, warning.pointer) for warning in grammar.warnings]
    assert admits(grammar, 1)
    with pytest.raises(UnsupportedError):
        grammar_of(schema)


def test_branches_of_one_of_are_no_many_cases() -> None:
    named = [(f"kind {at}", f"name {at}") for at in range(100)]
    kinds = [
        {"properties": {"kind": {"const": kind}, name: INTEGER}, "required": ["kind", name]} for kind, name in named
    ]
    schema = {"type": "object", "oneOf": kinds, "unevaluatedProperties": False}
    valid = [{"kind": "kind 7", "name 7": 1}]
    check(schema, valid, [{"kind": "kind 7", "name 8": 1}, {"kind": "kind 7", "name 7": 1, "name 8": 1}, {}])


def test_without_effect_it_is_not_refused() -> None:
    check({"type": "string", "anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, ["s"], [1])
