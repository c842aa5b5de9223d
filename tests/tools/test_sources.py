"""The packaged sources: twenty, all different, all within what the compiler supports, and each can be decoded."""

from __future__ import annotations

import json
import re

import pytest

from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.private import compile_source
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.sample_check import complaint
from shmcache_tools.sampling import Sampler
from shmcache_tools.sources import DemoSource, demo_sources, large_schema, tiny_pattern
from tests.tools.support import BYTES

SOURCES = demo_sources()


def test_there_are_twenty_of_all_kinds() -> None:
    assert len(SOURCES) == 20
    assert {source.kind for source in SOURCES} == {"json_schema", "ebnf", "regex"}
    assert [source.name[:2] for source in SOURCES] == [f"{number:02}" for number in range(1, 21)]


def test_no_two_are_the_same_grammar() -> None:
    assert len({source.source().key(BYTES.fingerprint) for source in SOURCES}) == 20


def test_what_the_demonstration_promises_is_among_them() -> None:
    texts = " ".join(source.text for source in SOURCES)
    for keyword in ("$ref", "anyOf", "enum", "const", "pattern", "prefixItems", "maxLength", "minimum", "maxItems"):
        assert f'"{keyword}"' in texts


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_each_compiles_and_its_samples_are_in_its_language(source: DemoSource, small_vocabulary: Vocabulary) -> None:
    grammar = compile_source(source.source(), small_vocabulary)
    assert grammar.warnings == ()
    sampler = Sampler(small_vocabulary, seed=1)
    for _ in range(5):
        assert complaint(source, sampler.decode(grammar).data.decode()) is None


def test_a_large_schema_is_large_and_the_same_for_a_seed() -> None:
    schema = json.loads(large_schema(60, seed=3))
    assert len(schema["properties"]) == 60
    assert large_schema(60, seed=3) == large_schema(60, seed=3) != large_schema(60, seed=4)
    assert Source.json_schema(schema).grammar(Budget()).rules


def test_tiny_patterns_differ_and_match() -> None:
    patterns = [tiny_pattern(number) for number in range(1000)]
    assert len(set(patterns)) == 1000
    assert re.fullmatch(patterns[7], "entry 7: abc")
