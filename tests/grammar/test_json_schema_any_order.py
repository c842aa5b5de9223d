"""Members of objects in any order: against the definition, in size, and what is refused."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.automaton.build import build_automaton
from shmcache.errors import UnsupportedError
from shmcache.grammar.ir import Expression, Grammar, Literal
from shmcache.grammar.json_schema.layout import Layout
from shmcache.grammar.json_schema.members import Levels, Member, Other, Way
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.grammar.json_schema.rules import ROOT, Rules
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.json_schema.unordered_members import unordered_graph
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import admits, check, grammar_of
from tests.reference.configurations import advance, initial
from tests.reference.grammar_recogniser import recognises

COMMA = Literal(b",")
OTHER = Literal(b'"?":9')
NAMES = st.lists(st.text("abé", max_size=2), unique=True, min_size=1, max_size=3)
LEVELS = st.just(Levels()) | st.builds(Levels, st.integers(0, 3), st.none() | st.integers(1, 4))


def graph(members: list[tuple[str, bool]], other: Expression | None, levels: Levels) -> Grammar:
    listed = [
        Member(name, (Way(Literal(b":" + str(at).encode()), 0),), needed) for at, (name, needed) in enumerate(members)
    ]
    others = [] if other is None else [Other(other, (Way(Literal(b""), 0),))]
    budget = Budget()
    rules = Rules(Layout(JsonSchemaOptions()), budget)
    rules.define(ROOT, unordered_graph(listed, others, COMMA, Strings(budget), levels, rules))
    return rules.grammar(())


def is_expected(pieces: tuple[int, ...], members: list[tuple[str, bool]], levels: Levels) -> bool:
    """Whether members by their numbers (others: -1) are a whole object."""
    declared = [piece for piece in pieces if piece >= 0]
    if not pieces or len(set(declared)) != len(declared):
        return False
    if any(needed and at not in declared for at, (_, needed) in enumerate(members)):
        return False
    return len(pieces) >= levels.minimum and (levels.maximum is None or len(pieces) <= levels.maximum)


@settings(deadline=None, max_examples=40)
@given(
    NAMES.flatmap(lambda names: st.tuples(*(st.tuples(st.just(name), st.booleans()) for name in names))),
    st.booleans(),
    LEVELS,
)
def test_the_graph_is_the_definition(members: tuple[tuple[str, bool], ...], with_other: bool, levels: Levels) -> None:
    listed = list(members)
    sequences = [
        pieces
        for length in range(1, 5)
        for pieces in itertools.product(range(-1 if with_other else 0, len(listed)), repeat=length)
    ]
    expected = [is_expected(pieces, listed, levels) for pieces in sequences]
    if not any(expected):
        return
    grammar = graph(listed, OTHER if with_other else None, levels)
    automaton = build_automaton(grammar, Budget())
    texts = [f'"{name}":{at}'.encode() for at, (name, _) in enumerate(listed)] + [OTHER.data]
    for pieces, is_member in zip(sequences, expected, strict=True):
        text = b",".join(texts[piece] for piece in pieces)
        assert recognises(grammar, text) == is_member, text
        assert advance(automaton, initial(automaton), text).ended == is_member, text


CASES: list[dict[str, Any]] = [
    {"properties": {"a": {"type": "integer"}, "b": {}, "c": {"type": "string"}}, "required": ["a", "c"]},
    {"properties": {"a": {}}, "required": ["b", "a"], "additionalProperties": {"type": "integer"}},
    {"properties": {"a": {}, "b": {}}, "patternProperties": {"^c": {"type": "integer"}}, "minProperties": 2},
    {"properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": False, "maxProperties": 2},
    {"properties": {"a": {}, "b": {}, "c": False}, "dependentRequired": {"b": ["a"]}},
    {"enum": [{"a": 1, "b": {"c": 2, "a": 1}}]},
    {"not": {"additionalProperties": {"type": "integer"}}},
]


@pytest.mark.parametrize("schema", CASES)
def test_any_order_is_that_of_the_standard(schema: dict[str, Any]) -> None:
    """Every object of up to 3 members, in every order, is judged as ``jsonschema`` judges it."""
    schema = {"type": "object", **schema}
    grammar = grammar_of(schema, strict_mode=False, any_order=True)
    validator = jsonschema.Draft202012Validator(schema)
    values = {"a": [1, "s"], "b": [1, {"a": 1, "c": 2}, {"c": 2, "a": 1}], "c": [1, "s"], "d": [1, "s"]}
    for length in range(4):
        for names in itertools.permutations(values, length):
            for chosen in itertools.product(*(values[name] for name in names)):
                instance = dict(zip(names, chosen, strict=True))
                assert admits(grammar, instance) == validator.is_valid(instance), instance


def test_a_declared_name_occurs_once() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "é": {}}, "type": "object", "additionalProperties": True}
    valid: list[Any] = [{"é": 1, "x": 2, "a": 3}, b'{"x":1,"\\u00e9":1,"x":1}']
    check(schema, valid, [b'{"a":1,"x":1,"a":1}', b'{"\xc3\xa9":1,"\\u00e9":1}'], any_order=True)


def test_by_default_the_order_is_the_declared_one() -> None:
    schema = {"properties": {"a": {}, "b": {}}, "type": "object"}
    check(schema, [{"a": 1, "b": 1}], [{"b": 1, "a": 1}])
    check(schema, [{"a": 1, "b": 1}, {"b": 1, "a": 1}], [], any_order=True)
    assert Source.json_schema(schema).key(b"") != Source.json_schema(schema, any_order=True).key(b"")


def wide(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"name {at}": {"type": "integer"} for at in range(count)}}


def test_many_members_are_refused_by_name() -> None:
    schema = {"type": "object", "properties": {"inner": wide(13), "a": {}}}
    with pytest.raises(UnsupportedError) as caught:
        grammar_of(schema, any_order=True)
    assert (caught.value.feature, caught.value.pointer) == ("any_order", "/properties/inner")
    grammar = grammar_of(schema, any_order=True, on_unsupported="ignore")
    assert [(warning.feature, warning.pointer) for warning in grammar.warnings] == [("any_order", "/properties/inner")]
    assert admits(grammar, {"a": 1, "inner": {"name 1": 1, "name 2": 2}})
    assert not admits(grammar, {"a": 1, "inner": {"name 2": 1, "name 1": 2}})
    assert grammar_of({**wide(40), "maxProperties": 2}, any_order=True)


def test_twelve_members_come_in_any_order() -> None:
    grammar = grammar_of({**wide(12), "required": ["name 3"]}, any_order=True)
    automaton = build_automaton(grammar, Budget())
    names = [f"name {at}" for at in (5, 11, 0, 3, 10, 1, 2, 4, 9, 8, 7, 6)]
    for length in range(13):
        text = json.dumps({name: at for at, name in enumerate(names[:length])}).encode()
        assert advance(automaton, initial(automaton), text).ended == (length >= 4)
