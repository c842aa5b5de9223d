"""What is not admitted: ``not``, ``oneOf`` with common values, conditions, and dependent members."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.errors import SourceError
from tests.grammar.json_schema_cases import admits, check, grammar_of

A_INTEGER: dict[str, Any] = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    # Types and constants.
    ({"not": {"type": "string"}}, [1, None, True, [], {"a": "s"}], ["", "a"]),
    ({"not": {"type": ["integer", "null"]}}, ["a", 1.5, False, [1]], [1, None]),
    ({"not": {"const": "a"}}, ["b", "aa", "", 1, None, {}], ["a", b'"\\u0061"']),
    ({"not": {"enum": [1, "é", None, True]}}, [2, 1.5, "e", False, []], [1, "é", b'"\\u00e9"', None, True, b"1.0"]),
    ({"type": "integer", "not": {"enum": [0, 5]}}, [1, -5, 50], [0, 5, 1.5]),
    ({"type": "number", "not": {"const": 0.5}}, [0, 0.25, 5, 0.51], [0.5, b"0.50", b"5e-1"]),
    ({"type": "number", "not": {"type": "integer"}}, [0.5, -1.25], [1, 0, b"2.0", "a"]),
    ({"not": {"type": "boolean", "const": 1}}, [1, True], []),
    # Scalar constraints.
    ({"type": "integer", "not": {"minimum": 3}}, [2, -9], [3, 4]),
    ({"type": "number", "not": {"exclusiveMaximum": 3}}, [3, 3.5], [2.9, -3]),
    ({"type": "integer", "not": {"multipleOf": 3}}, [1, 2, 4], [0, 3, -6]),
    ({"type": "integer", "not": {"minimum": 3, "maximum": 5}}, [2, 6], [3, 4, 5]),
    ({"type": "string", "not": {"pattern": "^a"}}, ["b", "", "ba"], ["a", "ab"]),
    ({"type": "string", "not": {"minLength": 2}}, ["", "é"], ["ab"]),
    ({"type": "string", "not": {"maxLength": 2}}, ["abc"], ["ab", ""]),
    ({"type": "string", "not": {"format": "ipv4"}}, ["", "1.2.3"], ["1.2.3.4"]),
    ({"enum": ["a", "b", "c"], "not": {"enum": ["b", "x"]}}, ["a", "c"], ["b", "x"]),
    ({"not": {"type": "string", "minLength": 1}}, ["", 1], ["a"]),
    # Containers.
    ({"not": {"required": ["a"]}}, [{}, {"b": 1}], [{"a": 1}, {"b": 1, "a": 2}, 1]),
    ({"not": {"required": ["a", "b"]}}, [{"a": 1}, {"b": 1}, {}], [{"a": 1, "b": 2}]),
    ({"not": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}, [{"c": 1}, {}], [{"a": 1}, {"b": 1}]),
    ({"not": A_INTEGER}, [{}], [{"a": 1}, 1, "a"]),
    ({"not": {"type": "object", **A_INTEGER}}, [{}, {"a": "s"}, 1, {"a": None, "b": 1}], [{"a": 1}, {"a": 1, "b": 2}]),
    ({"not": {"type": "array", "minItems": 2}}, [[], [1], 1], [[1, 2]]),
    ({"type": "array", "not": {"maxItems": 1}}, [[1, 2]], [[], [1]]),
    (
        {"type": "array", "not": {"prefixItems": [{"type": "integer"}, {"type": "null"}]}},
        [["a"], [1, 2], ["a", None, 3]],
        [[], [1], [1, None], [1, None, 3]],
    ),
    ({"not": {"not": {"type": "integer"}}}, [1], ["a"]),
    ({"not": {"allOf": [{"not": {"type": "integer"}}]}}, [1], ["a"]),
    ({"properties": {"a": {"not": {"type": "string"}}}}, [{"a": 1}, {}], [{"a": "s"}]),
    (
        {
            "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}, "v": {"const": 1}}}},
            "not": {"$ref": "#/$defs/n"},
        },
        [1, {"v": 2}, {"n": {"v": 2}}, {"n": 5}],
        [{}, {"v": 1}, {"n": {"v": 1}}],
    ),
    # Exactly one.
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [1.5], [1, "a"]),
    ({"oneOf": [{"minimum": 3}, {"maximum": 5}], "type": "integer"}, [2, 6], [3, 4, 5]),
    ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}, {"const": 6}], "type": "integer"}, [2, 3, 4, 9], [6, 12, 1]),
    (
        {
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "b": 1}],
    ),
    ({"oneOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}, ["a", "b"], ["ab", "c"]),
    ({"oneOf": [{"type": "string"}, {"enum": ["x", 1]}]}, ["a", 1], ["x", 2]),
    ({"oneOf": [{}, {"type": "null"}]}, [1, "a"], [None]),
    # Conditions.
    (
        {"if": {"properties": {"k": {"const": "a"}}, "required": ["k"]}, "then": {"required": ["x"]}, "type": "object"},
        [{"k": "a", "x": 1}, {"k": "b"}, {}],
        [{"k": "a"}],
    ),
    ({"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "string"}}, [3, "a"], [2, None, 1.5]),
    ({"if": {"type": "integer"}, "else": {"type": "string"}}, [3, "a"], [None]),
    ({"if": {"minLength": 2}, "then": False}, ["a"], ["ab", 1]),
    ({"then": {"type": "null"}, "else": False}, [1], []),
    ({"if": False, "then": False}, [1, None], []),
    # Dependent members.
    ({"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 2}, 1], [{"a": 1}, {"a": 1, "c": 2}]),
    ({"dependentRequired": {"a": ["b"], "b": ["a"]}}, [{}, {"a": 1, "b": 2}, {"c": 1}], [{"a": 1}, {"b": 1}]),
    (
        {"dependentSchemas": {"a": {"properties": {"b": {"const": 1}}}}},
        [{"b": 2}, {"a": 0, "b": 1}],
        [{"a": 0, "b": 2}],
    ),
    ({"dependentSchemas": {"a": False}}, [{"b": 1}, 1], [{"a": 1}]),
    ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"c": 1, "d": 2}, {"b": 1}], [{"a": 1}, {"c": 1}]),
    ({"dependencies": {"a": []}}, [{"a": 1}], []),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_what_is_left(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid, strict_mode=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"not": True},
        {"not": {}},
        {"not": {"anyOf": [{"type": "string"}, {"not": {"type": "string"}}]}},
        {"oneOf": [{}, {}]},
        {"type": "string", "not": {"type": ["string", "null"]}},
    ],
)
def test_nothing_is_left(schema: Any) -> None:
    with pytest.raises(SourceError):
        grammar_of(schema)


def test_what_is_ignored_within_is_not_negated() -> None:
    """The complement of a schema that admits too much would admit too little."""
    schema = {
        "not": {"type": "string", "pattern": "(?<=a)b"},
        "oneOf": [{"items": {}, "uniqueItems": True}, {"minItems": 0}],
    }
    grammar = grammar_of(schema, on_unsupported="ignore", strict_mode=False)
    assert {warning.feature for warning in grammar.warnings} >= {"not", "oneOf"}
    for value in (["b"], []):
        assert admits(grammar, value)


@pytest.mark.parametrize(
    "schema",
    [
        {"dependentRequired": {"a": "b"}},
        {"dependentRequired": {"a": [1]}},
        {"dependencies": 3},
        {"dependentSchemas": []},
    ],
)
def test_malformed(schema: Any) -> None:
    with pytest.raises(SourceError) as caught:
        grammar_of(schema)
    assert caught.value.pointer == "/" + next(iter(schema))


def test_an_object_that_needs_a_member_and_admits_none_is_not_the_empty_one() -> None:
    needing = {"not": {"patternProperties": {"[ab]": {"type": "integer"}}}}
    closed = {"properties": {"c": True}, "additionalProperties": False, "propertyNames": {"pattern": "[abd]"}}
    check({"anyOf": [{"type": "null"}, {"allOf": [needing, closed]}]}, [None], [{}, {"c": 1}, {"a": "x"}])
