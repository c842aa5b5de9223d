"""Random schemas against ``jsonschema``: what is admitted is valid, and what is valid is admitted in some order."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.reference.grammar_recogniser import recognises

NAMES = ("a", "b", "c", "d")
SCALARS: tuple[Any, ...] = (None, True, False, -3, 0, 1, 2, 2.5, 7, "", "a", "ab", "b1", "é", "😀\n")
PATTERNS = ("a", "^a", "b$", "^(a|b)+$", "^.{2}$")

MAYBE_SCHEMA = st.deferred(lambda: SCHEMAS)


def optional(keyword: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The keyword, in one schema of three."""
    present = values.map(lambda value: {keyword: value})
    return st.one_of(st.just({}), st.just({}), present)


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """All parts in one schema."""
    return st.tuples(*parts).map(lambda drawn: {name: value for part in drawn for name, value in part.items()})


TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
COUNTS = st.integers(0, 3)
SCALAR_KEYWORDS = merged(
    optional("type", TYPES | st.lists(TYPES, min_size=1, max_size=3)),
    optional("enum", st.lists(st.sampled_from(SCALARS), min_size=1, max_size=6)),
    optional("minimum", st.sampled_from([-3, 0, 1, 1.5])),
    optional("maximum", st.sampled_from([0, 2, 2.5])),
    optional("exclusiveMinimum", st.sampled_from([-3, 0, 2])),
    optional("exclusiveMaximum", st.sampled_from([1, 7])),
    optional("multipleOf", st.sampled_from([1, 2, 0.5, 3])),
    optional("minLength", COUNTS),
    optional("maxLength", COUNTS),
    optional("pattern", st.sampled_from(PATTERNS)),
)
ARRAY_KEYWORDS = merged(
    optional("prefixItems", st.lists(MAYBE_SCHEMA, min_size=1, max_size=2)),
    optional("items", MAYBE_SCHEMA),
    optional("minItems", COUNTS),
    optional("maxItems", COUNTS),
    optional("contains", MAYBE_SCHEMA),
    optional("minContains", COUNTS),
    optional("maxContains", COUNTS),
    optional("uniqueItems", st.booleans()),
)
OBJECT_KEYWORDS = merged(
    optional("properties", st.dictionaries(st.sampled_from(NAMES), MAYBE_SCHEMA, max_size=3)),
    optional("required", st.lists(st.sampled_from(NAMES), max_size=2, unique=True)),
    optional("additionalProperties", MAYBE_SCHEMA),
    optional("minProperties", COUNTS),
    optional("maxProperties", COUNTS),
    optional("patternProperties", st.dictionaries(st.sampled_from(("a", "^b", "[cd]")), MAYBE_SCHEMA, max_size=2)),
    optional("propertyNames", st.sampled_from([True, {"pattern": "[abc]"}, {"enum": ["a", "b"]}, {"maxLength": 0}])),
)
BRANCHES = st.lists(MAYBE_SCHEMA, min_size=1, max_size=3)
APPLICATORS = merged(
    optional("anyOf", BRANCHES),
    optional("allOf", BRANCHES),
    optional("oneOf", BRANCHES),
    optional("$ref", st.sampled_from(["#/$defs/one", "#/$defs/two", "#"])),
    optional("not", MAYBE_SCHEMA),
    optional("if", MAYBE_SCHEMA),
    optional("then", MAYBE_SCHEMA),
    optional("else", MAYBE_SCHEMA),
    optional(
        "dependentRequired", st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES)), max_size=2)
    ),
    optional("dependentSchemas", st.dictionaries(st.sampled_from(NAMES), MAYBE_SCHEMA, max_size=2)),
)
SCHEMAS: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    SCALAR_KEYWORDS,
    SCALAR_KEYWORDS,
    ARRAY_KEYWORDS,
    OBJECT_KEYWORDS,
    merged(optional("type", TYPES), ARRAY_KEYWORDS, OBJECT_KEYWORDS),
    merged(SCALAR_KEYWORDS, APPLICATORS),
    merged(OBJECT_KEYWORDS, APPLICATORS),
)
EVALUATING = merged(
    APPLICATORS,
    OBJECT_KEYWORDS,
    optional("prefixItems", st.lists(MAYBE_SCHEMA, min_size=1, max_size=2)),
    optional("contains", MAYBE_SCHEMA),
    st.sampled_from(["unevaluatedProperties", "unevaluatedItems"]).flatmap(
        lambda keyword: st.sampled_from([False, {"type": "integer"}]).map(lambda value: {keyword: value})
    ),
)
DOCUMENTS = st.builds(
    lambda root, one, two: {
        **(root if isinstance(root, dict) else {"allOf": [root]}),
        "$defs": {"one": one, "two": two},
    },
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
)


def instance_for(schema: Any, document: Any, rng: random.Random, depth: int = 0) -> Any:
    """A value that has a fair chance to satisfy the schema, and a fair chance not to."""
    if not isinstance(schema, dict) or depth > 3 or rng.random() < 0.1:
        return rng.choice(SCALARS) if depth > 2 or rng.random() < 0.6 else rng.choice(([], {}, [1], {"a": 1}))
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema and rng.random() < 0.4:
            return instance_for(rng.choice(schema[keyword]), document, rng, depth + 1)
    if "$ref" in schema and rng.random() < 0.4:
        name = schema["$ref"].rpartition("/")[2]
        return instance_for(document if name == "#" else document["$defs"][name], document, rng, depth + 1)
    if "enum" in schema and rng.random() < 0.8:
        return rng.choice(schema["enum"])
    kind = schema.get("type", "object" if "properties" in schema or "required" in schema else "array")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        inner = schema.get("properties", {})
        names = [name for name in NAMES if name in schema.get("required", ()) or rng.random() < 0.4]
        other = schema.get("additionalProperties", True)
        return {name: instance_for(inner.get(name, other), document, rng, depth + 1) for name in names}
    if kind == "array":
        prefix = schema.get("prefixItems", [])
        count = max(rng.randint(0, 3), schema.get("minItems", 0))
        schemas = [*prefix, *[schema.get("items", True)] * 3][:count]
        return [instance_for(one, document, rng, depth + 1) for one in schemas]
    if kind == "string":
        return "".join(rng.choice("ab1é😀") for _ in range(rng.randint(0, 4)))
    return rng.choice(SCALARS)


def orders(value: Any) -> Iterator[Any]:
    """The value with the members of its objects in every order."""
    if isinstance(value, list):
        yield from map(list, itertools.product(*(list(orders(one)) for one in value)))
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            inner = [list(orders(value[name])) for name in names]
            for members in itertools.product(*inner):
                yield dict(zip(names, members, strict=True))
    else:
        yield value


def admitted(grammar: Any, instance: Any) -> bool:
    return any(recognises(grammar, json.dumps(order).encode()) for order in itertools.islice(orders(instance), 200))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_agreement_with_jsonschema(document: Any, rng: random.Random) -> None:
    agree(document, rng)


def agree(document: Any, rng: random.Random) -> None:
    """Asserts that random instances are judged as ``jsonschema`` judges them."""
    source = Source.json_schema(document, strict_mode=False)
    try:
        grammar = source.grammar(Budget())
    except UnsupportedError:
        return
    except SourceError as error:
        if "refers to itself" in error.message:
            return
        grammar = None
    validator = jsonschema.Draft202012Validator(document)
    for _ in range(12):
        instance = instance_for(document, document, rng)
        is_valid = validator.is_valid(instance)
        if grammar is None:
            assert not is_valid, instance
            continue
        compact = json.dumps(instance, separators=(",", ":"), ensure_ascii=False).encode()
        assert is_valid or not recognises(grammar, compact), instance
        assert admitted(grammar, instance) == is_valid, instance


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.tuples(EVALUATING, SCHEMAS, SCHEMAS), st.randoms(use_true_random=False))
def test_what_is_unevaluated_agrees_with_jsonschema(schemas: tuple[Any, Any, Any], rng: random.Random) -> None:
    root, one, two = schemas
    agree({**root, "$defs": {"one": one, "two": two}}, rng)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(DOCUMENTS | EVALUATING, st.randoms(use_true_random=False))
def test_members_in_any_order_agree_with_jsonschema(document: Any, rng: random.Random) -> None:
    """With ``any_order`` there is no order to be searched for."""
    document = {"$defs": {"one": True, "two": {"type": "object"}}, **document}
    try:
        grammar = Source.json_schema(document, strict_mode=False, any_order=True).grammar(Budget())
    except (UnsupportedError, SourceError):
        return
    validator = jsonschema.Draft202012Validator(document)
    for _ in range(12):
        instance = instance_for(document, document, rng)
        if isinstance(instance, dict):
            names = rng.sample(list(instance), len(instance))
            instance = {name: instance[name] for name in names}
        assert recognises(grammar, json.dumps(instance).encode()) == validator.is_valid(instance), instance


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_strict_mode_only_narrows(document: Any, rng: random.Random) -> None:
    try:
        lax = Source.json_schema(document, strict_mode=False).grammar(Budget())
        strict = Source.json_schema(document).grammar(Budget())
    except (UnsupportedError, SourceError):
        return
    for _ in range(12):
        text = json.dumps(instance_for(document, document, rng)).encode()
        assert not recognises(strict, text) or recognises(lax, text)


@pytest.mark.parametrize("seed", range(3))
def test_the_instances_are_worth_testing(seed: int) -> None:
    """Random instances of a schema like those above are valid often enough, and invalid often enough."""
    rng = random.Random(seed)
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"items": {"type": "string"}, "type": "array"}},
        "required": ["a"],
    }
    valid = sum(jsonschema.Draft202012Validator(schema).is_valid(instance_for(schema, schema, rng)) for _ in range(200))
    assert 20 < valid < 180
