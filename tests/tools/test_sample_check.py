"""The second opinion on samples agrees with a full validator, and says what is wrong."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from shmcache.private import compile_source
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.sample_check import complaint
from shmcache_tools.sampling import Sampler
from shmcache_tools.sources import DemoSource, demo_sources

SCHEMAS = [source for source in demo_sources() if source.kind == "json_schema"]


def changed(value: Any, rng: random.Random) -> Any:
    """``value`` with one thing in it different."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(sorted(value))
        if rng.random() < 0.3:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [changed(item, rng) if place == number else item for number, item in enumerate(value)]
    return rng.choice([None, True, 0, -7, 3.5, 10**9, "", "x" * 500, [], {}, {"extra": 1}, value])


@pytest.mark.parametrize("source", SCHEMAS, ids=lambda source: source.name)
def test_it_agrees_with_a_full_validator(source: DemoSource, small_vocabulary: Vocabulary) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(source.text))
    sampler = Sampler(small_vocabulary, seed=11)
    grammar = compile_source(source.source(), small_vocabulary)
    rng = random.Random(3)
    verdicts = set()
    for _ in range(5):
        sample = json.loads(sampler.decode(grammar).data)
        for value in [sample, *(changed(sample, rng) for _ in range(30))]:
            is_valid = validator.is_valid(value)
            assert (complaint(source, json.dumps(value)) is None) == is_valid, value
            verdicts.add(is_valid)
    assert verdicts == {True, False}


def test_what_is_no_json_is_named() -> None:
    assert complaint(SCHEMAS[0], '{"name":').startswith("not JSON")  # type: ignore[union-attr]


def test_a_huge_exponent_is_no_huge_integer() -> None:
    source = DemoSource("one", "json_schema", '{"type": "integer"}')
    assert complaint(source, "1e999999") is None
    assert complaint(source, "1e-999999") is not None


def test_a_keyword_it_does_not_know_is_not_passed_over() -> None:
    source = DemoSource("one", "json_schema", '{"uniqueItems": true}')
    with pytest.raises(ValueError, match="uniqueItems"):
        complaint(source, "[]")


@pytest.mark.parametrize(("text", "is_right"), [("1.2.3", True), ("v1.2.3-rc.4", True), ("1.2", False), ("", False)])
def test_regular_expressions(text: str, is_right: bool) -> None:
    source = next(source for source in demo_sources() if source.kind == "regex")
    assert (complaint(source, text) is None) == is_right


@pytest.mark.parametrize(("text", "is_right"), [("(a)", True), ("f('(')", True), ("(a", False)])
def test_brackets_of_grammars(text: str, is_right: bool) -> None:
    source = next(source for source in demo_sources() if source.kind == "ebnf")
    assert (complaint(source, text) is None) == is_right
