"""What schemas admit, keyword by keyword, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.grammar.json_schema import builtin_json_grammar
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import admits, check, grammar_of

STRING_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
}
LINKED_LIST: dict[str, Any] = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
            },
            "required": ["value", "next"],
        }
    },
    "$ref": "#/$defs/node",
}

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    # Types.
    (True, [None, True, 0, -1.5e10, "", [], {}, [{"a": [None]}], {"": {"é": [1, "x"]}}], [b"", b"01", b"[1,]", b"nul"]),
    ({}, [None, {"a": 1}], [b"{a:1}", b"'a'"]),
    ({"type": "null"}, [None], [0, False, "null", b"Null"]),
    ({"type": "boolean"}, [True, False], [0, None, b"True"]),
    (
        {"type": "string"},
        ["", "a", "\u0000", "😀", b'"\\/\\u00e9\\ud83d\\ude00"'],
        [1, b'"', b'"\n"', b'"\\x"', b'"\\ud800"'],
    ),
    ({"type": "integer"}, [0, -1, 10**30], [1.5, "1", b"1.0", b"-0", b"01", b"+1", b"1e3"]),
    (
        {"type": "number"},
        [0, 1.5, -2e-7, b"1E+3", b"-0", b"1.0"],
        ["1", None, b"1.", b".5", b"1e", b"NaN", b"Infinity"],
    ),
    (STRING_OR_NULL, ["a", None], [1, [], {}]),
    ({"type": ["integer", "string", "array"], "minimum": 3}, [3, "", []], [2, None]),
    # Without a type, each keyword constrains its own type only.
    ({"minimum": 5}, [5, "a", None, [], {}, [1], {"a": 1}], [4]),
    ({"minLength": 2}, ["ab", 1, [], {"a": 1}], ["a"]),
    ({"minItems": 1}, [[0], "", {}, {"x": []}], [[]]),
    ({"required": ["a"]}, [{"a": 1}, {"a": {"b": []}}, 1, None, [], "a"], [{}]),
    # Enumerations and constants.
    ({"const": 'a"b\\c\n'}, ['a"b\\c\n'], ["a", b'"a\\"b\\\\c\n"']),
    ({"const": "é😀"}, ["é😀", b'"\\u00e9\\uD83D\\uDE00"', '"é\\uD83d\\ude00"'.encode()], ["e", "é", b'"\\u00e9"']),
    ({"const": "ab"}, ["ab"], [b'"\\u0061b"', "a", "abc"]),
    ({"enum": ["東京", "大阪", "京都"]}, ["東京", "大阪", "京都"], ["東", "京", "東京都", ""]),
    ({"enum": [1, 1.5, -2, 1000.0]}, [1, 1.5, -2, 1000, b"1000.0"], [2, b"1.50", b"1.0", 1001, "1"]),
    ({"enum": [None, True, "true", 0]}, [None, True, "true", 0], [False, "null", b'"0"', 1]),
    ({"enum": [1, True, "a"], "type": "integer"}, [1], [True, "a"]),
    ({"enum": ["a", "bb", "ccc", 7], "minLength": 2, "pattern": "b|c"}, ["bb", "ccc", 7], ["a"]),
    ({"enum": [1, 2, 3, 4.5, "x"], "minimum": 2, "exclusiveMaximum": 4.5}, [2, 3, "x"], [1, 4.5]),
    ({"const": [1, {"a": None}, []]}, [[1, {"a": None}, []]], [[], [1], [1, {"a": None}, [], 1], [1, {}, []]]),
    ({"enum": [{"a": 1, "b": [2]}, {}]}, [{"a": 1, "b": [2]}, {}], [{"a": 1}, {"a": 1, "b": [2], "c": 3}]),
    ({"const": {"a": 1}, "properties": {"a": {"type": ["integer", "null"]}}}, [{"a": 1}], [{"a": None}, {}]),
    ({"enum": [{"a": 1}, {"a": "x"}], "properties": {"a": {"type": "string"}}}, [{"a": "x"}], [{"a": 1}]),
    ({"enum": [{"a": 1}, {"b": 1}], "required": ["b"]}, [{"b": 1}], [{"a": 1}]),
    ({"enum": [[1], [1, 2], []], "minItems": 1, "items": {"maximum": 1}}, [[1]], [[], [1, 2]]),
    ({"const": 1, "enum": [1.0, 2]}, [1, b"1.0"], [2]),
    # Strings.
    ({"type": "string", "pattern": "^(cat|dog)$|^bird$"}, ["cat", "dog", "bird"], ["catdog", "birds", "ca"]),
    ({"type": "string", "pattern": "cat|dog"}, ["hotdog", "cat", "a cat"], ["ca", "", "d og"]),
    ({"type": "string", "pattern": "^a", "minLength": 2, "maxLength": 3}, ["ab", "abc", "aé😀"], ["a", "abcd", "ba"]),
    ({"type": "string", "pattern": "^\\d$"}, ["7"], ["٧", "77", "x"]),
    ({"type": "string", "pattern": "^\\S+$"}, ['a"b', b'"\\u0061"'], ["", "a b", b'"\\u0020"', b'"a\\n"']),
    (
        {"type": "string", "minLength": 1, "maxLength": 2},
        [b'"\\""', "é", "😀😀", b'"\\ud83d\\ude00\\ud83d\\ude00"', "\n"],
        ["", "abc", b'"\n"', b'"\\ud83d"', b'"\\ude00\\ud83d"', "😀😀😀"],
    ),
    ({"type": "string", "minLength": 3}, ["abc", "ab\\", "a" * 99], ["", "ab"]),
    ({"type": "string", "maxLength": 0}, [""], ["a"]),
    ({"type": "string", "minLength": 1.0, "maxLength": 2.0}, ["a"], ["abc"]),
    (
        {"type": "string", "maxLength": 2000},
        ["", "a" * 2000, "é" * 256, "a" * 255, "a" * 1999],
        ["a" * 2001, "a" * 3000],
    ),
    ({"type": "string", "minLength": 1100}, ["a" * 1100, "a" * 1200], ["a" * 1099]),
    ({"type": "string", "minLength": 1500, "maxLength": 1500}, ["a" * 1500], ["a" * 1499, "a" * 1501]),
    ({"type": "string", "minLength": 600, "maxLength": 3000}, ["a" * 600, "a" * 3000], ["a" * 599, "a" * 3001]),
    ({"anyOf": [{"pattern": "^a"}, {"maxLength": 1}], "type": "string"}, ["abc", "", "b"], ["bc"]),
    ({"anyOf": [{"const": "a"}, {"const": "b"}, {"enum": ["c", 1]}]}, ["a", "b", "c", 1], ["d", "ab", 2]),
    # Arrays.
    ({"type": "array"}, [[], [1, [2]]], [{}, 1]),
    ({"properties": {"a": {"type": "object"}}, "type": "object"}, [{"a": {"b": 1}}, {}], [{"a": []}, {"b": 1}]),
    ({"type": "array", "items": True}, [[], [1, "a", [None]]], [b"[1 2]", b"[,]"]),
    ({"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 2, 3]], [["a"], [1, None]]),
    ({"items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, [[1, 2], [1, 2, 3], "x"], [[], [1], [1, 2, 3, 4]]),
    ({"type": "array", "minItems": 2}, [[1, "a"], [[], {}, None]], [[], [1]]),
    ({"items": {}, "maxItems": 0}, [[]], [[1]]),
    ({"type": "array", "items": False}, [[]], [[1], [None]]),
    (
        {"prefixItems": [{"type": "integer"}, STRING_OR_NULL]},
        [[], [1], [1, None], [1, "a"]],
        [["a"], [1, 2], [1, "a", 3]],
    ),
    (
        {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}, "minItems": 1},
        [[1], [1, "a"], [1, "a", "b"]],
        [[], ["a"], [1, 2]],
    ),
    ({"prefixItems": [{}, {}, {}], "minItems": 2, "maxItems": 2}, [[1, 2]], [[1], [1, 2, 3]]),
    ({"prefixItems": [{}, False, {}]}, [[], [1]], [[1, 2]]),
    ({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}}, [[], [1], [1, None]], [[None], [1, 1]]),
    ({"items": [{"type": "integer"}], "additionalItems": False}, [[], [1]], [[1, 1]]),
    ({"items": {"type": "integer"}, "additionalItems": False}, [[], [1, 2]], [["a"]]),
    ({"items": {"type": "array", "items": {"type": "null"}}}, [[], [[]], [[None], []]], [[None], [[1]]]),
    # Objects.
    ({"type": "object"}, [{}, {"a": 1, "b": {"c": 2}}], [[], 1]),
    ({"type": "object", "additionalProperties": True}, [{}, {"a": {"b": 1}}, b'{"a":1,"a":2}'], [b'{"a"}', b"{1:2}"]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1, "b": 2}], [{"a": "x"}]),
    (
        POINT,
        [{"x": 1, "y": 2}],
        [{}, {"x": 1}, {"y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": "a", "y": 2}],
    ),
    (
        {**POINT, "required": []},
        [{}, {"x": 1}, {"y": 2}, {"x": 1, "y": 2}],
        [{"z": 1}, {"y": 2, "x": 1}, b'{,"x":1}', b'{"x":1,}', b'{"x":1"y":2}'],
    ),
    (
        {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"], "additionalProperties": False},
        [{"b": 1}, {"a": 1, "b": 2}, {"b": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}],
        [{}, {"a": 1}, {"a": 1, "c": 2}, {"c": 1, "b": 2}],
    ),
    (
        {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        [{}, {"a": 1}, {"b": "x"}, {"a": 1, "b": "x", "ab": "y", "": ""}],
        [{"a": "x"}, {"b": 1}, b'{"\\u0061":"x"}', b'{"b":"x","\\u0061":"x"}', {"b": "x", "a": 1}],
    ),
    ({"required": ["a", "b"], "type": "object"}, [{"a": 1, "b": None}], [{"a": 1}, {"b": 1}, {"a": 1, "b": 2, "c": 3}]),
    (
        {"properties": {"b": {}}, "required": ["z", "b"], "additionalProperties": {"type": "null"}},
        [{"b": 1, "z": None}, {"b": 1, "z": None, "y": None}],
        [{"b": 1}, {"z": None}, {"b": 1, "z": 1}],
    ),
    ({"properties": {"a": False, "b": {}}, "type": "object"}, [{}, {"b": 1}], [{"a": 1}, {"a": 1, "b": 1}]),
    ({"properties": {"a": False}, "additionalProperties": True}, [{}, {"b": 1}, 1], [{"a": 1}]),
    (
        {"properties": {'a"\\\n': {"const": 1}, "é": {"const": 2}}},
        [{'a"\\\n': 1}, {"é": 2}, {'a"\\\n': 1, "é": 2}],
        [{"a": 1}],
    ),
    (
        {"properties": {"é": {"const": 2}}, "additionalProperties": {"const": 1}},
        [{"é": 2}, {"è": 1}],
        [{"é": 1}, {"e": 2}],
    ),
    (
        {"properties": {"": {"const": 1}, "a": {"const": 2}, "aa": {"const": 3}}},
        [{"": 1, "a": 2, "aa": 3}, {"aa": 3}],
        [{"aa": 2}],
    ),
    # Applicators, together with their siblings.
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [1, "a"], [None, 1.5]),
    ({"anyOf": [{"type": "integer"}, {"type": "number", "minimum": 10}]}, [1, 10.5, 12], [9.5]),
    ({"anyOf": [{"minimum": 3}, {"maximum": 1}], "type": "integer"}, [0, 1, 3, 4], [2, "a"]),
    (
        {"anyOf": [POINT, {"type": "null"}], "properties": {"x": {"minimum": 5}}},
        [{"x": 5, "y": 1}, None],
        [{"x": 4, "y": 1}],
    ),
    (
        {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}},
            "anyOf": [
                {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
                {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            ],
        },
        [{"kind": "a", "n": 1}, {"kind": "b"}],
        [{"kind": "a"}, {"kind": "b", "n": 1}, {"n": 1}, {}],
    ),
    (
        {"allOf": [POINT, {"type": "object", "properties": {"z": {"type": "null"}}}]},
        [{"x": 1, "y": 2}, {"x": 1, "y": 2, "z": None}],
        [{"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": 1, "y": 2, "w": 1}],
    ),
    ({"allOf": [{"minimum": 2}, {"maximum": 4}, {"type": "integer"}]}, [2, 3, 4], [1, 5, 2.5, "a"]),
    (
        {"allOf": [{"additionalProperties": {"type": "integer"}}, {"properties": {"a": {"minimum": 3}}}]},
        [{"a": 3}, {"a": 3, "b": 1}, {}],
        [{"a": 2}, {"a": "x"}, {"b": "x"}],
    ),
    (
        {"allOf": [{"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}]},
        [{}, {"a": 1}],
        [{"b": 1}, {"a": 1, "b": 1}],
    ),
    (
        {"allOf": [{"prefixItems": [{"minimum": 1}]}, {"items": {"type": "integer"}, "maxItems": 2}]},
        [[], [1], [1, 0]],
        [[0], ["a"], [1, 1, 1]],
    ),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}, {"maxLength": 3}], "type": "string"}, ["ab", "bca"], ["a", "abcd"]),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, [1, "a"], [None]),
    ({"oneOf": [{"minimum": 3}, {"maximum": 1}], "type": "integer"}, [0, 1, 3], [2]),
    (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": 2}, "v": {}}, "required": ["k"]},
            ]
        },
        [{"k": 1}, {"k": 2}, {"k": 2, "v": 0}],
        [{"k": 1, "v": 0}, {"k": 3}, {}],
    ),
    # References.
    (LINKED_LIST, [{"value": 1, "next": None}, {"value": 1, "next": {"value": 2, "next": None}}], [{"value": 1}, None]),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}, "minimum": 3}, [3], [2, "a"]),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": POINT}, "properties": {"x": {"maximum": 0}}},
        [{"x": 0, "y": 1}],
        [{"x": 1, "y": 1}],
    ),
    (
        {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
        [{}, {"a": {"a": {}}}, {"a": 1}],
        [{"a": {"b": 1}}],
    ),
    ({"items": {"$ref": "#"}, "type": "array"}, [[], [[], [[]]]], [[1], {}]),
    # Keywords without effect are not refused.
    ({"type": "integer", "pattern": "(?<=a)", "format": "date", "uniqueItems": True, "minProperties": 2}, [1], ["a"]),
    ({"type": "array", "items": {}, "uniqueItems": False}, [[1, 1]], []),
    (
        {"type": "object", "patternProperties": {}, "propertyNames": True, "minProperties": 0, "dependencies": {}},
        [{}],
        [],
    ),
    ({"if": {"type": "integer"}, "not": False, "type": "null"}, [None], [1]),
    ({"type": "string", "x-unknown": {"type": "integer"}, "title": 5}, ["a"], [1]),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_what_a_schema_admits(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid)


def test_the_builtin_grammar_admits_all_json_and_nothing_else() -> None:
    grammar = builtin_json_grammar(Budget())
    for text in ('{"a":[1,{"b":null}],"a":2}', "[\r\n1\t, 2 ]", '"\\u12aB"', "-1.5E-7", "{ }", "[ ]"):
        assert admits(grammar, text.encode()), text
    for text in ("", " 1", "1 ", "{} {}", "{,}", "[1,]", '{"a":}', '{"a" 1}', "tru", "1.", "--1", "'a'", '"\t"'):
        assert not admits(grammar, text.encode()), text
    assert Source.builtin_json().grammar(Budget()) == grammar


def test_strict_mode_closes_what_does_not_say_otherwise() -> None:
    schema: Any = {
        "properties": {
            "closed": {"type": "object", "properties": {"a": {}}},
            "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
            "needy": {"type": "object", "required": ["b"]},
            "tuple": {"prefixItems": [{"type": "integer"}]},
            "long": {"type": "array", "minItems": 1},
            "any": {},
        },
        "type": "object",
    }
    strict, lax = grammar_of(schema), grammar_of(schema, strict_mode=False)
    for name, both, only_lax in (
        ("closed", [{}, {"a": {"x": [1]}}], [{"b": 1}, {"a": 1, "b": 1}]),
        ("open", [{}, {"a": 1, "b": 1}, {"b": {"c": 1}}], []),
        ("needy", [{"b": {"c": 1}}], [{"b": 1, "c": 2}]),
        ("tuple", [[], [1], "a", {"x": 1}], [[1, 2]]),
        ("long", [["a"], [1, {"b": 2}]], []),
        ("any", [1, {"a": {"b": []}}, [[1]]], []),
        ("other", [], [1]),
    ):
        for value in both:
            assert admits(strict, {name: value}), (name, value)
            assert admits(lax, {name: value}), (name, value)
        for value in only_lax:
            assert not admits(strict, {name: value}), (name, value)
            assert admits(lax, {name: value}), (name, value)


def test_strict_mode_closes_the_conjunction_not_its_parts() -> None:
    schema = {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}], "type": "object"}
    check(schema, [{"a": 1, "b": 2}, {"b": 2}], [{"c": 1}, {"a": 1, "c": 1}])


def test_generic_rules_are_shared_and_the_same_in_every_grammar() -> None:
    one = grammar_of({"type": "object", "properties": {"a": {}, "b": {"type": "string"}}})
    other = grammar_of({"type": "array", "items": {"anyOf": [{"type": "object", "additionalProperties": True}, {}]}})
    generic = {"json_string", "json_value", "json_object", "json_array"}
    for grammar in (one, other):
        assert generic <= grammar.shared_rules <= grammar.rules.keys()
    assert {name: one.rules[name] for name in generic} == {name: other.rules[name] for name in generic}


def test_equal_schemas_are_one_rule() -> None:
    thing = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}}
    schema = {"type": "object", "properties": {f"p{number}": thing for number in range(50)}}
    assert len(grammar_of(schema).rules) < 5
