"""What the tests of the JSON Schema front end share: a schema's grammar, and whether it admits an instance."""

from __future__ import annotations

import json
from typing import Any

from shmcache.grammar.ir import Grammar
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.reference.grammar_recogniser import recognises


def grammar_of(schema: Any, **options: Any) -> Grammar:
    """The grammar of a schema (a document or its text), by way of its source."""
    return Source.json_schema(schema, **options).grammar(Budget())


def admits(grammar: Grammar, instance: Any) -> bool:
    """Whether the grammar admits an instance: bytes as they are, other values as ``json.dumps`` writes them."""
    if isinstance(instance, bytes):
        return recognises(grammar, instance)
    texts = {json.dumps(instance), json.dumps(instance, separators=(",", ":"), ensure_ascii=False)}
    answers = {recognises(grammar, text.encode()) for text in texts}
    assert len(answers) == 1, f"the spellings of {instance!r} are not treated alike"
    return answers.pop()


def check(schema: Any, valid: list[Any], invalid: list[Any], **options: Any) -> Grammar:
    """Asserts what a schema admits and what it does not."""
    grammar = grammar_of(schema, **options)
    for instance in valid:
        assert admits(grammar, instance), f"{schema} must admit {instance!r}"
    for instance in invalid:
        assert not admits(grammar, instance), f"{schema} must not admit {instance!r}"
    return grammar
