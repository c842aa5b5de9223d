"""How what a compile spends grows with its source: twice the source, about twice the states and transitions.

Counts are compared, not times, so the figures are the same on every machine. What is inherently quadratic (each of n
members with each number of members so far) is held to that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError
from shmcache.grammar.key import Source
from shmcache.limits import Budget

LINEAR, QUADRATIC = 2.6, 5.2


def spent(source: Source) -> int:
    """States and transitions that a compile makes up to the automaton, and those of the automaton."""
    budget = Budget(seconds_max=60.0)
    automaton = build_automaton(source.grammar(budget), budget)
    return budget.states + budget.edges + automaton.state_count + len(automaton.edge_low)


def schema(document: Any) -> Source:
    return Source.json_schema(document, strict_mode=False)


def properties(count: int, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"property_{at}": {"type": "string"} for at in range(count)}, **more}


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    inner: Any = {"type": "integer"}
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def dependent(count: int) -> dict[str, Any]:
    pairs = {f"property_{at}": [f"property_{at + 1}"] for at in range(0, count, 2)}
    return properties(count, dependentRequired=pairs, additionalProperties=False)


def conditions(count: int) -> dict[str, Any]:
    branches = [
        {"if": {"properties": {"kind": {"const": f"k{at}"}}}, "then": {"required": [f"p{at}"]}} for at in range(count)
    ]
    names = {f"p{at}": {"type": "integer"} for at in range(count)}
    return {
        "type": "object",
        "properties": {"kind": {"enum": [f"k{at}" for at in range(count)]}, **names},
        "required": ["kind"],
        "allOf": branches,
    }


def discriminated(count: int) -> dict[str, Any]:
    return {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": f"k{at}"}, f"b{at}": {}}, "required": ["kind"]}
            for at in range(count)
        ]
    }


def texts(count: int) -> list[str]:
    rng = random.Random(count)
    return [f"https://example.org/a/common/prefix/{rng.getrandbits(48):012x}" for _ in range(count)]


NEAR_LINEAR: dict[str, tuple[int, Callable[[int], Source]]] = {
    "optional properties": (300, lambda n: schema(properties(n))),
    "closed optional properties": (300, lambda n: schema(properties(n, additionalProperties=False))),
    "required properties": (300, lambda n: schema(properties(n, required=[f"property_{at}" for at in range(n)]))),
    "every third is required": (
        300,
        lambda n: schema(properties(n, required=[f"property_{at}" for at in range(0, n, 3)])),
    ),
    "few of many properties": (100, lambda n: schema(properties(n, additionalProperties=False, maxProperties=3))),
    "enum": (400, lambda n: schema({"enum": texts(n)})),
    "enum with siblings": (400, lambda n: schema({"enum": texts(n), "maxLength": 60, "pattern": "^https:"})),
    "enum of numbers": (400, lambda n: schema({"enum": [7919 * at for at in range(n)]})),
    "nested items": (200, lambda n: schema(nested(n, lambda inner: {"type": "array", "items": inner}))),
    "nested properties": (200, lambda n: schema(nested(n, lambda inner: {"properties": {"a": inner}}))),
    "maxLength": (500, lambda n: schema({"type": "string", "maxLength": n})),
    "maxLength in blocks": (20_000, lambda n: schema({"type": "string", "maxLength": n})),
    "maxLength and pattern": (
        400,
        lambda n: schema({"type": "string", "maxLength": n, "pattern": "^[a-z]+( [a-z]+)*$"}),
    ),
    "maxLength and pattern in blocks": (
        20_000,
        lambda n: schema({"type": "string", "maxLength": n, "pattern": "^[a-z]*$"}),
    ),
    "maxItems": (500, lambda n: schema({"type": "array", "items": {"type": "string"}, "maxItems": n})),
    "digits of bounds": (100, lambda n: schema({"type": "integer", "minimum": 10**n, "maximum": 10 ** (n + 1) - 7})),
    "dependentRequired of neighbours": (40, lambda n: schema(dependent(n))),
    "one of these is required": (
        40,
        lambda n: schema(properties(n, anyOf=[{"required": [f"property_{at}"]} for at in range(n)])),
    ),
    "branches with a constant": (40, lambda n: schema(discriminated(n))),
    "counted repetition": (400, lambda n: Source.regex(f"[a-z]{{1,{n}}}x")),
    "counted alternation": (400, lambda n: Source.regex(f"(a|b){{0,{n}}}c")),
    "counted words": (50, lambda n: Source.regex(rf"(\w+\s?){{1,{n}}}")),
    "counted search": (100, lambda n: schema({"pattern": f"(a|b){{0,{n}}}c"})),
    "alternation of words": (200, lambda n: Source.regex("|".join(texts(n)).replace(".", r"\."))),
    "repeated group of counts": (20, lambda n: Source.regex(f"([a-z]{{1,20}} ){{1,{n}}}")),
}


@pytest.mark.parametrize("name", NEAR_LINEAR)
def test_twice_the_source_spends_about_twice_as_much(name: str) -> None:
    count, source = NEAR_LINEAR[name]
    assert spent(source(2 * count)) < LINEAR * spent(source(count)) + 2_000


@pytest.mark.parametrize(
    ("count", "make"),
    [(20, lambda n: properties(n, additionalProperties=False, maxProperties=n // 2)), (8, conditions)],
)
def test_grids_grow_with_the_square(count: int, make: Callable[[int], Any]) -> None:
    assert spent(schema(make(2 * count))) < QUADRATIC * spent(schema(make(count)))


@pytest.mark.parametrize(
    "source",
    [
        schema(properties(2_000)),
        schema(properties(200, maxProperties=100)),
        schema(properties(200, additionalProperties=False, minProperties=50, maxProperties=150)),
        schema({"enum": texts(5_000)}),
        schema(nested(1_000, lambda inner: {"type": "array", "items": inner})),
        schema({"type": "string", "maxLength": 100_000, "pattern": "^[a-z]+( [a-z]+)*$"}),
        schema({"type": "array", "maxItems": 10_000, "items": {"type": "integer"}}),
        schema(conditions(30)),
    ],
    ids=["properties", "maxProperties", "both", "enum", "items", "maxLength", "maxItems", "conditions"],
)
def test_large_schemas_are_within_the_default_budget(source: Source) -> None:
    budget = Budget(seconds_max=120.0)  # counts are what is tested here, on machines of any speed
    assert build_automaton(source.grammar(budget), budget).state_count > 500


def test_a_pattern_that_explodes_meets_the_limit_of_states() -> None:
    with pytest.raises(LimitError) as caught:
        Source.regex("(a|b)*a(a|b){40}").grammar(Budget(states_max=20_000))
    assert caught.value.limit == "states"
