"""Which items an array has: how many of a kind, and no two that are equal."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import admits, check, grammar_of

INTEGER: dict[str, Any] = {"type": "integer"}

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"contains": INTEGER}, [[1], ["a", 1], [1, "a", 2], 1, {}], [[], ["a"], [[1]]]),
    ({"contains": {"minimum": 3}, "items": INTEGER}, [[3], [1, 5, 2]], [[], [1, 2], ["a", 3]]),
    ({"contains": INTEGER, "minContains": 2}, [[1, 2], [1, "a", 2]], [[1], ["a", "b", 1]]),
    ({"contains": INTEGER, "minContains": 0}, [[], ["a"], [1]], []),
    ({"contains": INTEGER, "maxContains": 1}, [[1], ["a", 1, "b"]], [[], [1, 2], ["a"]]),
    ({"contains": INTEGER, "minContains": 0, "maxContains": 1}, [[], ["a"], [1]], [[1, 2]]),
    ({"contains": INTEGER, "minContains": 2, "maxContains": 2}, [[1, 2], ["a", 1, 2]], [[1], [1, 2, 3]]),
    ({"contains": INTEGER, "maxItems": 2, "minItems": 2}, [[1, "a"], ["a", 1]], [[1], ["a", "b"], ["a", "b", 1]]),
    ({"contains": INTEGER, "prefixItems": [{"type": "string"}]}, [["a", 1]], [["a"], [1], ["a", "b"]]),
    ({"allOf": [{"contains": INTEGER}, {"contains": {"type": "null"}}]}, [[1, None], [None, 1]], [[1], [None]]),
    ({"allOf": [{"contains": {"minimum": 3}}, {"contains": {"maximum": 5}}], "items": INTEGER}, [[4], [1, 9]], [[9]]),
    ({"contains": False, "minContains": 0}, [[], [1]], []),
    # In older drafts the bounds are no keywords.
    ({"$schema": "http://json-schema.org/draft-07/schema#", "contains": INTEGER, "maxContains": 1}, [[1, 2]], [[]]),
    # From complements.
    ({"type": "array", "not": {"items": INTEGER}}, [["a"], [1, "a"]], [[], [1], [1, 2]]),
    ({"type": "array", "not": {"contains": INTEGER}}, [[], ["a"]], [[1], ["a", 1]]),
    ({"type": "array", "not": {"contains": INTEGER, "maxContains": 2}}, [[], [1, 2, 3]], [[1], [1, "a", 2]]),
    (
        {"type": "array", "not": {"prefixItems": [INTEGER], "items": {"type": "null"}}},
        [["a"], [1, 1], [1, None, 2]],
        [[], [1], [1, None]],
    ),
    ({"type": "array", "not": {"const": [1, 2]}}, [[], [1], [2, 1], [1, 2, 3]], [[1, 2]]),
    # Distinct items.
    ({"items": {"enum": ["a", "b", 1]}, "uniqueItems": True}, [[], ["a"], [1, "b", "a"]], [["a", "a"], [1, "a", 1]]),
    ({"items": {"type": "boolean"}, "uniqueItems": True}, [[], [True, False], [False]], [[True, True]]),
    ({"items": {"enum": [0, False, 1, True]}, "uniqueItems": True}, [[0, False, True, 1]], [[0, 0], [1, True, 1]]),
    ({"items": {"enum": [1, 1.0, 2]}, "uniqueItems": True}, [[1, 2], [2, 1]], [[1, b"1.0"], [1, 1]][1:]),
    (
        {"items": {**INTEGER, "minimum": 1, "maximum": 3}, "uniqueItems": True, "minItems": 3},
        [list(order) for order in itertools.permutations((1, 2, 3))],
        [[1, 2], [1, 2, 2], [1, 2, 3, 1]],
    ),
    ({"items": {"enum": list("abcdefghijklmno")}, "maxItems": 2, "uniqueItems": True}, [["a", "o"]], [["a", "a"]]),
    (
        {"prefixItems": [{"const": "a"}, {"enum": ["a", "b"]}], "items": {"enum": ["b", "c"]}, "uniqueItems": True},
        [["a", "b", "c"], ["a"]],
        [["a", "a"], ["b"], ["a", "b", "b"], ["a", "c"]],
    ),
    ({"items": {}, "maxItems": 1, "uniqueItems": True}, [[], [1]], [[1, 2]]),
    ({"items": {"enum": list(range(12))}, "uniqueItems": True}, [list(range(12)), [11, 0]], [[*range(12), 0], [3, 3]]),
    # Items that cannot be equal.
    (
        {
            "prefixItems": [{"type": "string"}, INTEGER, {"type": ["object", "null"]}],
            "maxItems": 3,
            "uniqueItems": True,
        },
        [[], ["a", 1, {"a": 1}], ["a", 1, None]],
        [[1], ["a", "a"], ["a", 1, None, 2]],
    ),
    (
        {
            "prefixItems": [{"type": "number", "minimum": 3}, {"type": "number", "maximum": 2}],
            "items": False,
            "uniqueItems": True,
        },
        [[], [3], [4.5, 1]],
        [[1], [3, 3]],
    ),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_what_items_are_admitted(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid, strict_mode=False)


def test_strict_mode_leaves_open_what_must_contain_something() -> None:
    check({"type": "array", "contains": INTEGER}, [[1, "a"]], [["a"], []])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "contains": False},
        {"type": "array", "contains": INTEGER, "items": {"type": "string"}},
        {"type": "array", "contains": INTEGER, "minContains": 2, "maxItems": 1},
        {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 3},
    ],
)
def test_arrays_that_cannot_be(schema: Any) -> None:
    with pytest.raises(SourceError):
        build_automaton(grammar_of(schema), Budget())


@pytest.mark.parametrize("items", [{"type": "string"}, INTEGER, {}, {"enum": list(range(13))}, {"enum": [[1], 2]}])
def test_distinct_items_of_many_values_are_refused(items: Any) -> None:
    schema = {"properties": {"a": {"type": "array", "items": items, "uniqueItems": True}}}
    with pytest.raises(UnsupportedError) as caught:
        grammar_of(schema)
    assert (caught.value.feature, caught.value.pointer) == ("uniqueItems", "/properties/a/uniqueItems")
    grammar = grammar_of(schema, on_unsupported="ignore")
    assert [warning.pointer for warning in grammar.warnings] == ["/properties/a/uniqueItems"]
    assert admits(grammar, {"a": []})


def test_distinct_items_are_not_negated() -> None:
    with pytest.raises(UnsupportedError) as caught:
        grammar_of({"not": {"items": {"enum": [1, 2]}, "uniqueItems": True}})
    assert caught.value.pointer == "/not"


def test_many_kinds_of_items_are_a_limit() -> None:
    with pytest.raises(LimitError):
        grammar_of({"allOf": [{"contains": {"const": value}} for value in range(6)]})
