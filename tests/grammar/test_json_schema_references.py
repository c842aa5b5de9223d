"""Dynamic references, drafts of embedded resources, and the metaschemas: against ``jsonschema`` and by hand."""

from __future__ import annotations

import itertools
import random
from typing import Any

import jsonschema
import pytest
import referencing
from jsonschema_specifications import REGISTRY

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.json_schema.document import Document
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import admits, check, grammar_of

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
INTEGER = {"type": "integer"}

TREE = {
    "$id": "http://x.org/tree",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}
STRICT_TREE = {
    "$id": "http://x.org/strict",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {"tree": TREE},
}


def test_a_dynamic_reference_leads_to_the_outermost_resource() -> None:
    good = {"data": 1, "children": [{"children": []}, {"data": [], "children": [{"data": 2}]}]}
    bad = {"data": 1, "children": [{"data": [], "children": [{"daat": 2}]}]}
    check(STRICT_TREE, [good, {}], [bad, {"daat": 1}, {"children": [1]}], strict_mode=False)
    check(TREE, [good, bad], [{"children": [1]}], strict_mode=False)
    inner = {"$ref": "http://x.org/tree", "$defs": {"a": TREE}}
    check(inner, [bad], [{"children": [{"children": 1}]}], strict_mode=False)


def test_the_same_resource_in_two_dynamic_scopes() -> None:
    """The list is of what the resource that led to it says."""
    items = {
        "$id": "http://x.org/list",
        "type": "array",
        "items": {"$dynamicRef": "#item"},
        "$defs": {"default": {"$dynamicAnchor": "item", "type": "null"}},
    }

    def of(kind: str) -> dict[str, Any]:
        own = {"$dynamicAnchor": "item", "type": kind}
        return {"$id": f"http://x.org/{kind}", "$ref": "list", "$defs": {"item": own}}

    schema = {
        "$id": "http://x.org/root",
        "type": "object",
        "properties": {"s": of("string"), "i": of("integer"), "n": {"$ref": "list"}},
        "$defs": {"list": items},
    }
    check(schema, [{"s": ["a"], "i": [1], "n": [None]}], [{"s": [1]}, {"i": ["a"]}, {"n": [1]}, {"i": [None]}])
    assert jsonschema.Draft202012Validator(schema).is_valid({"s": ["a"], "i": [1], "n": [None]})


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"$dynamicRef": "#a", "$defs": {"a": {"$anchor": "a", **INTEGER}}}, [1], ["s"]),
        ({"$dynamicRef": "#/examples/0", "examples": [{"$dynamicAnchor": "a", **INTEGER}]}, [1], ["s"]),
        ({"$dynamicRef": "#/$defs/a", "$defs": {"a": {"$dynamicAnchor": "a", **INTEGER}}}, [1], ["s"]),
        ({"items": {"$dynamicRef": "#"}, "type": "array"}, [[[]]], [[1]]),
        ({"$schema": DRAFT_2019, "items": {"$recursiveRef": "#"}, "type": ["array", "null"]}, [[None], [[]]], [[1]]),
        ({"$dynamicRef": "#a", "maximum": 3, "$defs": {"a": {"$dynamicAnchor": "a", **INTEGER}}}, [3], [4, "s"]),
    ],
)
def test_where_there_is_one_scope_it_is_a_reference(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid)


def test_recursive_references() -> None:
    tree = {
        "$id": "http://x.org/tree",
        "$recursiveAnchor": True,
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$recursiveRef": "#"}}},
    }
    schema = {
        "$schema": DRAFT_2019,
        "$id": "http://x.org/extended",
        "$recursiveAnchor": True,
        "$ref": "tree",
        "required": ["name"],
        "$defs": {"tree": tree},
    }
    check(
        schema,
        [{"name": 1, "children": [{"name": 2}]}],
        [{"children": []}, {"name": 1, "children": [{"children": []}]}],
        strict_mode=False,
        any_order=True,
    )
    plain = {**schema, "$recursiveAnchor": False}
    check(plain, [{"name": 1, "children": [{"children": []}]}], [{}], strict_mode=False, any_order=True)


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"$dynamicRef": "#nowhere"}, SourceError),
        ({"$dynamicRef": "other#a"}, UnsupportedError),
        ({"$dynamicRef": 1}, SourceError),
        ({"$recursiveRef": "#a"}, SourceError),
        ({"$dynamicAnchor": "a", "$dynamicRef": "#a"}, SourceError),
    ],
)
def test_references_that_lead_nowhere(schema: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        grammar_of(schema)


def test_random_dynamic_scopes() -> None:
    """Resources that refer to each other, each with or without the anchor, as ``jsonschema`` reads them."""
    rng = random.Random(5)
    kinds = ["string", "integer", "null", "boolean"]
    instances: list[Any] = [{"v": value} for value in ("s", 1, None, True)]
    instances += [{"n": {"v": value}} for value in ("s", 1, None, True)]
    for _ in range(60):
        resources = {}
        for at, kind in enumerate(kinds):
            anchor = rng.choice(["$dynamicAnchor", "$dynamicAnchor", "$anchor"])
            resources[str(at)] = {
                "$id": f"http://x.org/{at}",
                "type": "object",
                "properties": {"v": {"$dynamicRef": "#item"}, "n": {"$ref": rng.choice("0123")}},
                "additionalProperties": False,
                "$defs": {"item": {anchor: "item", "type": kind}},
            }
            if rng.random() < 0.5:
                resources[str(at)]["allOf"] = [{"$ref": rng.choice("0123"[at + 1 :])}] if at < 3 else []
        schema = {"$id": "http://x.org/root", "$ref": rng.choice("0123"), "$defs": resources}
        if not any(resource.get("allOf") == [] for resource in resources.values()):
            validator = jsonschema.Draft202012Validator(schema)
            grammar = grammar_of(schema)
            for instance in instances:
                assert admits(grammar, instance) == validator.is_valid(instance), (schema, instance)


def test_a_resource_may_be_of_another_draft() -> None:
    """In the embedded one siblings of a reference are ignored."""
    inner = {
        "$id": "http://x.org/inner",
        "$schema": DRAFT_7,
        "definitions": {"a": {"type": "integer"}},
        "properties": {"a": {"$ref": "#/definitions/a", "maximum": 3}},
    }
    outer = {"properties": {"a": {"$ref": "#/$defs/n", "maximum": 3}, "b": inner}, "$defs": {"n": INTEGER}}
    grammar = check(outer, [{"a": 3, "b": {"a": 4}}], [{"a": 4}, {"b": {"a": "s"}}])
    assert [warning.pointer for warning in grammar.warnings] == ["/properties/b/properties/a/$ref"]


@pytest.mark.parametrize(
    ("reference", "valid", "invalid"),
    [
        (f"{DRAFT_7}/definitions/nonNegativeInteger", [0, 5], [-1, "s"]),
        ("http://json-schema.org/draft-07/schema#/definitions/simpleTypes", ["array"], ["arra"]),
        ("https://json-schema.org/draft/2020-12/meta/validation#/$defs/nonNegativeInteger", [0], [-1]),
        ("http://json-schema.org/draft-04/schema#/definitions/positiveInteger", [1], [-1]),
    ],
)
def test_the_metaschemas_are_known(reference: str, valid: list[Any], invalid: list[Any]) -> None:
    check({"$ref": reference.replace("##", "#")}, valid, invalid)


def test_metaschemas_with_what_is_not_enforced_ignored() -> None:
    """Recursion through all vocabularies of the newest metaschema, by dynamic references."""
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    options: dict[str, Any] = {"on_unsupported": "ignore", "strict_mode": False}
    grammar = grammar_of(schema, **options)
    assert {warning.feature for warning in grammar.warnings} <= {"format", "uniqueItems"}
    for instance in (True, {}, {"type": "integer"}, {"properties": {"a": {"items": {"minimum": 1}}}}):
        assert admits(grammar, instance), instance
    for instance in (1, {"type": "x"}, {"properties": {"a": 1}}, {"properties": {"a": {"items": {"minimum": "s"}}}}):
        assert not admits(grammar, instance), instance


def test_references_lead_where_the_library_says() -> None:
    """Base URIs, embedded resources, anchors and pointers, as ``referencing`` resolves them."""
    schema = {
        "$id": "http://x.org/dir/root.json",
        "$defs": {
            "a": {"$id": "a.json", "$anchor": "here", "$defs": {"b~/": {"$anchor": "b", "title": "ab"}}},
            "c": {"$id": "sub/", "items": {"$id": "d", "$dynamicAnchor": "here"}, "properties": {"p q": {"not": {}}}},
        },
    }
    references = ["#", "", "a.json", "a.json#here", "a.json#b", "a.json#/$defs/b~0~1", "sub/", "sub/d", "sub/d#here"]
    references += ["sub/#/properties/p%20q", "http://x.org/dir/sub/d", "#/$defs/c/properties/p%20q/not", "/dir/a.json"]
    document = Document(schema, Budget())
    place = document.place(document.root)
    registry = REGISTRY.with_resource("", referencing.jsonschema.DRAFT202012.create_resource(schema)).crawl()
    resolver = registry.resolver("http://x.org/dir/root.json")
    for reference in references:
        expected = resolver.lookup(reference).contents
        found = document.place(document.resolve(reference, place, "/$ref"))
        assert found.schema == (expected or True), reference


def test_many_dynamic_anchors_are_bounded() -> None:
    names = [f"n{at}" for at in range(200)]
    resources = {
        one: {"$id": f"http://x.org/{one}", "$defs": {"d": {"$dynamicAnchor": one}}, "$ref": other}
        for one, other in itertools.pairwise(names)
    }
    resources[names[-1]] = {"$id": f"http://x.org/{names[-1]}", **INTEGER}
    schema = {"$id": "http://x.org/root", "$ref": names[0], "$defs": resources}
    check(schema, [1], ["s"])
