"""Names of properties: patterns, what all names must be like, and what is left for additional ones."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.automaton.build import build_automaton
from shmcache.errors import SourceError, UnsupportedError
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import admits, check, grammar_of

INTEGER: dict[str, Any] = {"type": "integer"}
STRING: dict[str, Any] = {"type": "string"}

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (
        {"patternProperties": {"^x": INTEGER}},
        [{}, {"x": 1, "xy": 2, "y": "s"}, {"ax": "s"}, 1],
        [{"x": "s"}, {"y": 1, "xx": None}],
    ),
    (
        {"patternProperties": {"^x": INTEGER}, "additionalProperties": False},
        [{}, {"x": 1}, {"x1": 1, "x2": 2}],
        [{"y": 1}, {"x": "s"}, {"ax": 1}, b'{"\\u0078":"s"}'],
    ),
    # Overlapping patterns apply together.
    (
        {"patternProperties": {"a": {"type": "integer"}, "b": {"minimum": 5}}, "additionalProperties": STRING},
        [{"a": 1, "b": 5, "ab": 6, "c": "s"}, {"b": "s"}],
        [{"ab": 4}, {"ab": "s"}, {"a": "s"}, {"b": 4}, {"c": 1}],
    ),
    # A declared name that matches has both schemas; the additional one applies to neither.
    (
        {
            "properties": {"a1": {"minimum": 3}, "b": {}},
            "patternProperties": {"^a": INTEGER},
            "additionalProperties": False,
        },
        [{"a1": 3, "b": "s"}, {"b": None, "a2": 0}],
        [{"a1": 2}, {"a1": "s"}, {"a2": "s"}, {"c": 1}, {"a1": 3.5}],
    ),
    ({"patternProperties": {"^a": False}}, [{}, {"b": 1}], [{"a": 1}, {"ab": 1}]),
    ({"patternProperties": {"": INTEGER}}, [{}, {"": 1, "x": 2}], [{"x": "s"}]),
    (
        {"patternProperties": {"^a": INTEGER}, "required": ["a", "z"]},
        [{"a": 1, "z": "s"}, {"a": 1, "z": None, "ab": 2}],
        [{"a": "s", "z": 1}, {"a": 1}, {"z": 1}, {"a": 1, "z": 1, "ab": "s"}],
    ),
    # Names beyond ASCII, and their escapes.
    (
        {"patternProperties": {"^é$": INTEGER}, "additionalProperties": STRING},
        [{"é": 1, "è": "s"}, b'{"\\u00e9":1}'],
        [{"é": "s"}, b'{"\\u00e9":"s"}', {"è": 1}],
    ),
    # Each schema's additional properties are those that it does not name itself.
    (
        {
            "allOf": [
                {"patternProperties": {"^a": INTEGER}, "additionalProperties": False},
                {"patternProperties": {"b$": {"minimum": 2}}},
            ]
        },
        [{"a": 1}, {"ab": 2}],
        [{"b": 2}, {"ab": 1}, {"a": "s"}],
    ),
    (
        {
            "allOf": [
                {"properties": {"p": {}}, "patternProperties": {"^a": INTEGER}, "additionalProperties": STRING},
                {"properties": {"q": {"minLength": 2}, "a": {"minimum": 1}}},
            ]
        },
        [{"p": None, "q": "ss", "a": 1}, {"a": 1, "ab": 0, "c": "s"}],
        [{"q": 1}, {"q": "s"}, {"a": 0}, {"a": "s"}, {"c": 1}],
    ),
    (
        {"additionalProperties": INTEGER, "allOf": [{"patternProperties": {"^a": {"minimum": 3}}}]},
        [{"a": 3, "b": 1}],
        [{"a": 2}, {"b": "s"}, {"a": "s"}],
    ),
    # Names.
    ({"propertyNames": {"pattern": "^a"}}, [{}, {"a": 1, "ab": "s"}, [], 1], [{"b": 1}, {"ba": 1}]),
    ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}, {"😀😀": 1}], [{"abc": 1}, {"😀😀😀": 1}]),
    ({"propertyNames": {"enum": ["a", "b", 1]}}, [{}, {"a": 1, "b": 2}], [{"c": 1}]),
    ({"propertyNames": {"type": "integer"}}, [{}], [{"a": 1}]),
    ({"propertyNames": False}, [{}], [{"": 1}]),
    ({"propertyNames": {"anyOf": [{"const": "x"}, {"minLength": 3}]}}, [{"x": 1, "abc": 2}], [{"y": 1}]),
    ({"propertyNames": {"format": "date"}}, [{"2024-01-01": 1}], [{"x": 1}]),
    (
        {"propertyNames": {"pattern": "^a"}, "properties": {"b": {}, "ab": {}}, "additionalProperties": INTEGER},
        [{"ab": "s"}, {"a": 1}, {"ab": "s", "a": 1}],
        [{"b": 1}, {"a": "s"}],
    ),
    (
        {"propertyNames": {"maxLength": 2}, "patternProperties": {"a": INTEGER}, "additionalProperties": STRING},
        [{"a": 1, "b": "s", "ab": 2}],
        [{"abc": 1}, {"a": "s"}, {"b": 1}],
    ),
    (
        {"allOf": [{"propertyNames": {"pattern": "^a"}}, {"propertyNames": {"pattern": "b$"}}]},
        [{"ab": 1}],
        [{"a": 1}, {"b": 1}],
    ),
    (
        {"propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"pattern": "^[a-z]+$"}}, "items": INTEGER},
        [{"abc": 1}],
        [{"a1": 1}, ["s"]],
    ),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_what_names_are_admitted(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid, strict_mode=False)


def test_strict_mode_leaves_open_what_names_describe() -> None:
    check({"type": "object", "patternProperties": {"^a": INTEGER}}, [{}, {"a": 1}], [{"b": 1}, {"a": "s"}])
    check({"type": "object", "propertyNames": {"pattern": "^a"}}, [{}, {"a": 1}], [{"b": 1}])


COUNTED: list[tuple[Any, list[Any], list[Any]]] = [
    ({"minProperties": 1}, [{"a": 1}, {"a": 1, "b": 2}, 1], [{}]),
    ({"minProperties": 2, "maxProperties": 3}, [{"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}], [{}, {"a": 1}]),
    ({"maxProperties": 1}, [{}, {"x": 1}], [{"a": 1, "b": 2}]),
    ({"maxProperties": 0}, [{}, [1]], [{"a": 1}]),
    ({"maxProperties": 1.0}, [{"x": 1}], [{"a": 1, "b": 2}]),
    (
        {"properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": False, "minProperties": 2},
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}, {"b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}],
        [{}, {"a": 1}, {"c": 1}],
    ),
    (
        {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"], "maxProperties": 2},
        [{"b": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}, {"b": 1, "x": 1}],
        [{"a": 1, "b": 1, "c": 1}, {"a": 1}, {"b": 1, "x": 1, "y": 1}, {"a": 1, "b": 1, "x": 1}],
    ),
    ({"patternProperties": {"^a": INTEGER}, "minProperties": 1, "additionalProperties": False}, [{"a": 1}], [{}]),
    ({"required": ["a", "b"], "minProperties": 1, "maxProperties": 2}, [{"a": 1, "b": 2}], [{"a": 1, "b": 2, "c": 3}]),
    # Needed members, from complements.
    ({"type": "object", "not": {"additionalProperties": INTEGER}}, [{"a": "s"}, {"a": 1, "b": "s"}], [{}, {"a": 1}]),
    (
        {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": False}},
        [{"b": 1}, {"a": 1, "b": 1}],
        [{}, {"a": 1}],
    ),
    (
        {"type": "object", "not": {"patternProperties": {"^a": INTEGER}}},
        [{"a": "s"}, {"b": 1, "a": []}],
        [{"a": 1}, {}],
    ),
    ({"type": "object", "not": {"propertyNames": {"pattern": "^a"}}}, [{"b": 1}, {"a": 1, "b": 1}], [{}, {"a": 1}]),
    ({"type": "object", "not": {"const": {}}}, [{"a": 1}], [{}]),
    ({"not": {"const": {"a": 1}}}, [{"a": 2}, {}, {"a": 1, "b": 1}, 1], [{"a": 1}]),
    ({"type": "object", "not": {"minProperties": 2}}, [{}, {"a": 1}], [{"a": 1, "b": 1}]),
    (
        {"type": "object", "not": {"anyOf": [{"additionalProperties": INTEGER}, {"additionalProperties": STRING}]}},
        [{"a": None}, {"a": 1, "b": "s"}],
        [{"a": 1}, {"a": "s", "b": "t"}, {}],
    ),
    (
        {"type": "object", "not": {"not": {"not": {"patternProperties": {"^a": INTEGER}}}}},
        [{"a": "s"}],
        [{"a": 1}, {"b": 1}],
    ),
    (
        {
            "oneOf": [
                {"properties": {"a": {}, "b": {}}, "additionalProperties": False},
                {"properties": {"a": {}, "c": {}}, "additionalProperties": False},
            ],
            "type": "object",
        },
        [{"b": 1}, {"c": 1}, {"a": 1, "b": 1}, {"a": 1, "c": 1}],
        [{}, {"a": 1}, {"b": 1, "c": 1}],
    ),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), COUNTED)
def test_how_many_members_and_of_which_kind(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid, strict_mode=False)


def test_strict_mode_leaves_open_what_needs_more_members() -> None:
    check({"type": "object", "minProperties": 1}, [{"a": 1}], [{}])
    check({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1}, [{"b": 1}], [{}, {"c": 1}])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "minProperties": 2, "maxProperties": 1},
        {"type": "object", "minProperties": 2, "properties": {"a": {}}, "additionalProperties": False},
        {"type": "object", "required": ["a", "b"], "maxProperties": 1},
        {"type": "object", "propertyNames": {"pattern": "^a"}, "required": ["b"]},
        {"type": "object", "patternProperties": {"^b": False}, "required": ["b"]},
        {"type": "object", "patternProperties": {"^b": {"$ref": "#"}}, "required": ["b"]},
    ],
)
def test_required_names_that_nothing_may_have(schema: Any) -> None:
    with pytest.raises(SourceError):
        build_automaton(grammar_of(schema), Budget())


def test_patterns_that_are_not_supported() -> None:
    schema = {"patternProperties": {"(?<=a)b": INTEGER, "^c": STRING}, "additionalProperties": False}
    with pytest.raises(UnsupportedError) as caught:
        grammar_of(schema)
    assert caught.value.pointer == "/patternProperties/(?<=a)b"
    grammar = grammar_of(schema, on_unsupported="ignore")
    assert admits(grammar, {"c": 1, "x": 2})
    assert grammar_of({"type": "null", **schema}).warnings == ()
    with pytest.raises(SourceError) as malformed:
        grammar_of({"patternProperties": {"(": {}}})
    assert malformed.value.pointer == "/patternProperties/("


def test_many_patterns() -> None:
    schema = {
        "patternProperties": {f"^p{at}_": {"const": at} for at in range(60)},
        "properties": {f"p{at}_x": {} for at in range(0, 60, 7)},
        "additionalProperties": False,
        "type": "object",
    }
    check(schema, [{"p3_": 3, "p59_a": 59}, {"p7_x": 7, "p8_y": 8}], [{"p3_": 4}, {"p60_": 60}, {"p7_x": 8}])
