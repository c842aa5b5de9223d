"""Masks of schemas that need more than one rule a place: a token's bit is set exactly when the token is accepted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from shmcache.compiler import compile_image
from shmcache.grammar.key import Source
from shmcache.image.image import open_image
from shmcache.limits import Budget
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.masks import mask_bits

STEPS_MAX = 40
MEMBERS = {"name": {"type": "string", "maxLength": 3}, "age": {"type": "integer"}, "type": {"enum": ["a", "ab"]}}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "any order": ({"type": "object", "properties": MEMBERS, "required": ["age"]}, {"any_order": True}),
    "any order, open": (
        {"type": "object", "properties": MEMBERS, "additionalProperties": {"type": "null"}, "maxProperties": 4},
        {"any_order": True},
    ),
    "distinct items": ({"type": "array", "items": {"enum": ["a", "ab", "abc", 1, 12, True]}, "uniqueItems": True}, {}),
    "nested expressions": ({"type": "array", "items": {"type": "string", "format": "regex"}}, {}),
    "evaluated by branches": (
        {
            "type": "object",
            "anyOf": [{"properties": {name: schema}, "required": [name]} for name, schema in MEMBERS.items()],
            "unevaluatedProperties": {"type": "boolean"},
        },
        {},
    ),
    "dynamic references": (
        {
            "$id": "http://x.org/root",
            "$dynamicAnchor": "node",
            "$ref": "tree",
            "properties": {"name": {"type": "null"}},
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    "type": "object",
                    "properties": {"value": {"$dynamicRef": "#node"}, "name": True},
                }
            },
        },
        {},
    ),
}


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_masks_are_what_is_accepted(name: str, small_vocabulary: Vocabulary) -> None:
    schema, options = CASES[name]
    data = compile_image(Source.json_schema(schema, **options), small_vocabulary, budget=Budget())
    grammar = CompiledGrammar(open_image(data), small_vocabulary, generation=0, memory_size_bytes=len(data))
    row = np.zeros(-(-small_vocabulary.width // 32), dtype=np.int32)
    for seed in range(3):
        rng = random.Random(seed)
        matcher = GrammarMatcher(grammar)
        for _ in range(STEPS_MAX):
            matcher.fill_next_token_bitmask(row)
            allowed = mask_bits(row)
            accepted = {token for token in range(small_vocabulary.size) if matcher.fork().accept_token(token)}
            assert allowed == accepted
            if matcher.is_terminated():
                break
            assert matcher.accept_token(rng.choice(sorted(allowed)))
