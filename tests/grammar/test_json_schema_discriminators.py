"""Branches of ``oneOf`` that constant members tell apart, and those that only look so."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.errors import SourceError
from shmcache.grammar.json_schema.discriminators import are_apart
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import check, grammar_of


def branch(tag: Any, *, required: bool = True, **more: Any) -> dict[str, Any]:
    properties = {"tag": tag, "value": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return schema | ({"required": ["tag"]} if required else {})


def test_only_disjoint_constants_of_one_name_are_apart() -> None:
    one, other = frozenset("ab"), frozenset("c")
    assert are_apart({"x": one, "y": one}, {"y": other})
    assert not are_apart({"x": one}, {"y": other})
    assert not are_apart({"x": one}, {"x": one | other})
    assert not are_apart({}, {})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"const": "a"}, {"const": "b"}),
        ({"enum": ["a", "c"]}, {"const": "b"}),
        ({"type": "string", "enum": ["a"]}, {"allOf": [{"const": "b"}]}),
        ({"const": "a"}, {"$ref": "#/$defs/b"}),
    ],
)
def test_tagged_branches(first: Any, second: Any) -> None:
    schema = {"$defs": {"b": {"const": "b"}}, "oneOf": [branch(first), branch(second)]}
    check(
        schema,
        [{"tag": "a"}, {"tag": "b", "value": 1}],
        [{}, {"value": 1}, {"tag": "d"}, {"tag": "a", "value": "b"}],
        strict_mode=False,
    )


def test_tags_that_may_be_absent_do_not_tell_apart() -> None:
    schema = {"oneOf": [branch({"const": "a"}, required=False), branch({"const": "b"}, required=False)]}
    check(schema, [{"tag": "a"}, {"tag": "b", "value": 1}], [{}, {"value": 1}], strict_mode=False)


def test_tags_in_common_do_not_tell_apart() -> None:
    schema = {"oneOf": [branch({"enum": ["a", "b"]}), branch({"enum": ["b", "c"]})]}
    check(schema, [{"tag": "a"}, {"tag": "c", "value": 1}], [{"tag": "b"}, {"tag": "b", "value": 1}], strict_mode=False)


def test_values_beside_objects_are_still_looked_at() -> None:
    schema = {
        "oneOf": [
            {"properties": {"tag": {"const": "a"}}, "required": ["tag"]},
            {"properties": {"tag": {"const": "b"}}, "required": ["tag"]},
        ]
    }
    check(schema, [{"tag": "a"}, {"tag": "b"}], [1, "a", None, [], {}, {"tag": "c"}], strict_mode=False)


def test_in_an_older_draft_a_reference_hides_the_constant_beside_it() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"any": {"type": "string"}},
        "oneOf": [branch({"$ref": "#/definitions/any", "const": "a"}), branch({"const": "b"})],
    }
    check(schema, [{"tag": "a"}, {"tag": "z"}], [{"tag": "b"}], strict_mode=False)


def test_constants_that_are_no_strings_are_left_to_exploring() -> None:
    schema = {"oneOf": [branch({"const": 1}), branch({"const": 1.0}), branch({"const": 2})]}
    check(schema, [{"tag": 2}], [{"tag": 1}], strict_mode=False)


def test_all_branches_the_same_have_no_value() -> None:
    with pytest.raises(SourceError):
        grammar_of({"oneOf": [branch({"const": "a"}), branch({"const": "a"})]}, strict_mode=False)


def test_hundreds_of_tagged_branches_are_not_explored_in_pairs() -> None:
    budgets = []
    for count in (100, 200):
        budget = Budget()
        schema = {"oneOf": [branch({"const": f"tag {at}"}) for at in range(count)]}
        Source.json_schema(schema, strict_mode=False).grammar(budget)
        budgets.append(budget.states)
    assert budgets[1] < 2.2 * budgets[0]
