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


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"anyOf": [{"properties": {"a": {}}}, {"required": ["b"]}], "unevaluatedProperties": False}, "Properties"),
        (
            {"if": {"patternProperties": {"a": {}}}, "then": {"minProperties": 1}, "unevaluatedProperties": False},
            "Properties",
        ),
        ({"dependentSchemas": {"a": {"allOf": [{"properties": {}}]}}, "unevaluatedProperties": False}, "Properties"),
        ({"contains": {}, "unevaluatedItems": False}, "Items"),
        ({"oneOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"items": {}}}, "unevaluatedItems": INTEGER}, "Items"),
    ],
)
def test_what_depends_on_the_instance_is_refused(schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        grammar_of(schema)
    assert (caught.value.feature, caught.value.pointer) == (f"unevaluated{keyword}", f"/unevaluated{keyword}")
    grammar = grammar_of(schema, on_unsupported="ignore", strict_mode=False)
    assert [warning.feature for warning in grammar.warnings] == [f"unevaluated{keyword}"]
    assert admits(grammar, 1)


def test_without_effect_it_is_not_refused() -> None:
    check({"type": "string", "anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, ["s"], [1])
