"""Conjunctions of choices between objects: the same whether they are followed or multiplied out, and as the standard
says.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.json_schema import objects
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import check
from tests.grammar.test_json_schema_oracle import DOCUMENTS, admitted, instance_for
from tests.survey.walker import Walker

NAMES = ("a", "b", "c", "d")
VALUES: tuple[Any, ...] = (0, "x", {})
ABSENT = object()

NAME = st.sampled_from(NAMES)
VALUE = st.sampled_from(
    [
        *(True, False, {"const": 0}, {"const": 1}, {"enum": [0, "x"]}, {"type": "integer"}, {"not": {"const": 1}}),
        *({"type": "object"}, {"type": "object", "maxProperties": 0}, {"type": ["string", "object"]}),
    ]
)
RECORD: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda properties, required, closed, more: {
        **({"properties": properties} if properties else {}),
        **({"required": required} if required else {}),
        **({"additionalProperties": False} if closed else {}),
        **more,
    },
    st.dictionaries(NAME, VALUE, max_size=3),
    st.lists(NAME, max_size=2, unique=True),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(
        [
            *({}, {}, {}, {"minProperties": 2}, {"maxProperties": 2}),
            *({"patternProperties": {"[ab]": {"type": "integer"}}}, {"propertyNames": {"pattern": "[abd]"}}),
            {"additionalProperties": {"type": "integer"}},
        ]
    ),
)
CHOICE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.lists(RECORD, min_size=2, max_size=4).map(lambda branches: {"anyOf": branches}),
    st.lists(RECORD, min_size=2, max_size=3).map(lambda branches: {"oneOf": branches}),
    st.tuples(RECORD, RECORD, RECORD).map(lambda one: {"if": one[0], "then": one[1], "else": one[2]}),
    st.dictionaries(NAME, st.lists(NAME, max_size=2), max_size=3).map(lambda one: {"dependentRequired": one}),
    st.dictionaries(NAME, RECORD, max_size=2).map(lambda one: {"dependentSchemas": one}),
    RECORD.map(lambda record: {"not": record}),
)
ROOT: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda base, choices, required: {**base, "type": "object", "required": required, "allOf": choices},
    st.sampled_from([{"properties": dict.fromkeys(NAMES, True)}, {"properties": {"b": True, "a": True}}, {}]),
    st.lists(CHOICE, min_size=2, max_size=4, unique_by=json.dumps),
    st.lists(NAME, max_size=1),
)


def instances(names: tuple[str, ...] = NAMES) -> list[dict[str, Any]]:
    """All objects of these names and VALUES."""
    choices = itertools.product((ABSENT, *VALUES), repeat=len(names))
    return [{name: one for name, one in zip(names, row, strict=True) if one is not ABSENT} for row in choices]


def acceptance(schema: Any, **options: Any) -> Callable[[Any], bool] | None:
    """Whether the compact text of an instance is admitted; None: the schema is refused."""
    try:
        grammar = Source.json_schema(schema, **options).grammar(Budget())
        walker = Walker(build_automaton(grammar, Budget()))
    except UnsupportedError:
        return None
    except SourceError as error:
        if "satisfies" not in error.message:
            raise
        return lambda _instance: False
    return lambda instance: walker.accepts(json.dumps(instance, separators=(",", ":")).encode())


def orders(instance: dict[str, Any]) -> list[dict[str, Any]]:
    """The instance with its members in every order."""
    return list(map(dict, itertools.permutations(instance.items())))


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two unions are multiplied out."""
    monkeypatch.setattr(objects, "PRODUCT_MAX", 1)


@pytest.mark.usefixtures("followed")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROOT)
def test_followed_choices_agree_with_jsonschema(schema: dict[str, Any]) -> None:
    accepts = acceptance({**schema, "properties": dict.fromkeys(NAMES, True)}, strict_mode=False)
    if accepts is None:
        return
    validator = jsonschema.Draft202012Validator({**schema, "properties": {}})
    for instance in instances():
        assert accepts(instance) == validator.is_valid(instance), instance


# Always the same examples: where two unions are equal, a follower sees one, and its strict mode may name fewer members.
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(ROOT)
def test_strict_mode_is_the_same_for_followed_and_multiplied_choices(schema: dict[str, Any]) -> None:
    found = []
    for product_max in (1, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objects, "PRODUCT_MAX", product_max)
            found.append(acceptance(schema))
    assert (found[0] is None) == (found[1] is None)
    if found[0] is None or found[1] is None:
        return
    for instance in [*instances(("a", "b", "c")), *instances(("b", "d"))]:
        # In which order names come may differ: each combination of alternatives has an order of its own.
        assert any(map(found[0], orders(instance))) == any(map(found[1], orders(instance))), instance


@pytest.mark.usefixtures("followed")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_any_schema_followed_agrees_with_jsonschema(document: Any, rng: random.Random) -> None:
    try:
        grammar = Source.json_schema(document, strict_mode=False).grammar(Budget())
    except (UnsupportedError, SourceError):
        return
    validator = jsonschema.Draft202012Validator(document)
    for _ in range(12):
        instance = instance_for(document, document, rng)
        assert admitted(grammar, instance) == validator.is_valid(instance), instance


PAIRS = 30


def test_thirty_conditions_on_one_member() -> None:
    kinds = [f"k{at}" for at in range(PAIRS)]
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": kinds}, **{f"p{at}": {"type": "integer"} for at in range(PAIRS)}},
        "required": ["kind"],
        "additionalProperties": False,
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": {"required": [f"p{at}"]}}
            for at, kind in enumerate(kinds)
        ],
    }
    check(
        schema,
        [{"kind": "k0", "p0": 1}, {"kind": "k29", "p29": 1}, {"kind": "k7", "p3": 1, "p7": 1}],
        [{"kind": "k0"}, {"kind": "k1", "p0": 1}, {"p0": 1}, {"kind": "k7", "p3": 1}],
    )


def test_twenty_dependent_members_of_each_kind() -> None:
    names = [f"n{at}" for at in range(40)]
    base = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    required = {**base, "dependentRequired": {names[at]: [names[at + 1]] for at in range(0, 40, 2)}}
    valid = [{}, {"n1": ""}, {"n0": "", "n1": ""}, dict.fromkeys(names, "")]
    invalid: list[Any] = [{"n0": ""}, {"n1": "", "n38": ""}]
    check(required, valid, invalid)
    bounded = {
        names[at]: {"properties": {names[at + 1]: {"maxLength": 1}}, "required": [names[at + 1]]}
        for at in range(0, 40, 2)
    }
    check({**base, "dependentSchemas": bounded}, valid, [*invalid, {"n0": "", "n1": "ab"}])


def test_needs_of_many_kinds() -> None:
    schema = {"type": "object", "allOf": [{"not": {"additionalProperties": {"maxLength": at}}} for at in range(12)]}
    valid = [{"a": "x" * 12}, {"b": "x", "c": "x" * 13}]
    check(schema, valid, [{}, {"a": "x"}, {"a": 1, "b": "x" * 11}], strict_mode=False)


def test_conditions_far_from_what_they_ask_for_meet_the_limit_of_states() -> None:
    names = [f"f{at}" for at in range(40)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in (*names, *(f"p{at}" for at in range(40)))},
        "dependentRequired": {name: [f"p{at}"] for at, name in enumerate(names)},
    }
    with pytest.raises(LimitError) as caught:
        Source.json_schema(schema).grammar(Budget(states_max=20_000))
    assert caught.value.limit == "states"
