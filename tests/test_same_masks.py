"""One grammar, three ways to it: compiled for the cache, found there by another process, compiled in private."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys

import numpy as np
import pytest

import shmcache
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.conftest import REPOSITORY

SCHEMA = """
{"type": "object",
 "properties": {
   "name": {"type": "string", "minLength": 1, "maxLength": 12},
   "tags": {"type": "array", "items": {"enum": ["red", "grün", "\\ud83d\\ude00"]}, "maxItems": 3},
   "price": {"type": "number", "minimum": 0, "maximum": 100},
   "next": {"$ref": "#"}},
 "required": ["name", "price"]}
"""
GRAMMAR = 'root ::= root "+" term | term\nterm ::= [0-9]+ | "(" root ")" | "é" root'
STEPS_MAX = 60
SEED = 20


def walk(grammar: shmcache.CompiledGrammar, vocabulary: Vocabulary) -> str:
    """The digest of all masks along a random walk that the grammar alone determines."""
    rng = random.Random(SEED)
    digest = hashlib.blake2b(digest_size=16)
    matcher = shmcache.GrammarMatcher(grammar)
    bitmask = shmcache.allocate_token_bitmask(1, vocabulary.width)
    for _ in range(STEPS_MAX):
        matcher.fill_next_token_bitmask(bitmask)
        digest.update(bitmask.tobytes())
        allowed = np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little"))
        if matcher.is_terminated():
            break
        assert matcher.accept_token(int(rng.choice(allowed)))
    return digest.hexdigest()


OTHER_PROCESS = """
import sys
import shmcache
from tests.test_same_masks import GRAMMAR, SCHEMA, walk
vocabulary = shmcache.Vocabulary.from_mistral()
with shmcache.connect(vocabulary, name=sys.argv[1], autostart=False) as cache:
    for grammar in (cache.compile_json_schema(SCHEMA), cache.compile_grammar(GRAMMAR)):
        assert grammar.generation == 1, "it was not found in the cache"
        print(walk(grammar, vocabulary))
    print(cache.stats()["compiles"]["started"])
"""


@pytest.mark.tekken
def test_masks_are_equal_bit_for_bit_however_the_grammar_was_come_by(namespace: str, tekken: Vocabulary) -> None:
    private = [
        walk(shmcache.compile_json_schema(SCHEMA, tekken), tekken),
        walk(shmcache.compile_grammar(GRAMMAR, tekken), tekken),
    ]
    with shmcache.connect(tekken, name=namespace) as cache:
        cold = [walk(cache.compile_json_schema(SCHEMA), tekken), walk(cache.compile_grammar(GRAMMAR), tekken)]
        started = cache.stats()["compiles"]["started"]
        other = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS, namespace],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.split()
    assert cold == private
    assert other == [*private, str(started)]
