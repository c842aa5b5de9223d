"""Random sources from text to mask: what is accepted, token by token, is what ``re``, ``jsonschema`` and the rules say.

The front ends are compared with the same oracles by themselves (``tests/grammar``); here nothing is left out between
the text of a source and the bits of a mask.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_source
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.differential.comparison import tokens_of
from tests.differential.engines import bits_of
from tests.differential.judge import SchemaJudge, python_pattern, shortest
from tests.differential.sources import random_pattern
from tests.differential.vocabulary import VOCABULARY
from tests.grammar.test_ebnf import NAMES, spell, trees, words_of
from tests.grammar.test_json_schema_oracle import DOCUMENTS, SCALARS, instance_for, orders
from tests.matcher.support import allowed
from tests.reference.grammar_recogniser import is_viable_prefix
from tests.reference.masks import mask_bits
from tests.survey.walker import Walker

STOP = VOCABULARY.stop_token_ids[0]
LETTERS = Vocabulary([b"a", b"b", b"ab", b"ba", b"aab", b"bb", b"abab", b"</s>"], stop_token_ids=[7])
BOUNDED = settings(
    max_examples=25,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def accepts(grammar: CompiledGrammar, text: bytes, rng: random.Random) -> bool:
    """Whether the text is accepted to its end, cut into tokens at random; every mask must say what accepting says."""
    matcher = GrammarMatcher(grammar)
    for token in [*tokens_of(text, VOCABULARY, rng), STOP]:
        mask = allowed(matcher, VOCABULARY.width)
        for other in (token, rng.randrange(VOCABULARY.size)):
            assert matcher.fork().accept_token(other) == (other in mask), (text, other)
        if not matcher.accept_token(token):
            return False
    return True


def random_text(grammar: CompiledGrammar, rng: random.Random, steps_max: int = 12) -> bytes | None:
    """A whole text that masks lead to; None where no end came in sight."""
    matcher, text = GrammarMatcher(grammar), b""
    for _ in range(steps_max):
        mask = allowed(matcher, VOCABULARY.width)
        if STOP in mask and rng.random() < 0.4:
            return text
        ways = sorted(mask - {STOP})
        if not ways:
            break
        token = rng.choice(ways)
        assert matcher.accept_token(token)
        text += VOCABULARY.token_bytes(token)
    return text if STOP in allowed(matcher, VOCABULARY.width) else None


@pytest.mark.parametrize("number", range(4))
def test_regular_expressions_agree_with_re(number: int) -> None:
    rng = random.Random(number)
    led = accepted = rejected = 0
    for _ in range(40):
        pattern = random_pattern(rng)
        grammar = compile_source(Source.regex(pattern), VOCABULARY)
        oracle = re.compile(python_pattern(pattern), re.ASCII)
        for _ in range(3):
            text = random_text(grammar, rng)
            if text is not None:
                assert oracle.fullmatch(text.decode()), (pattern, text)
                led += 1
            tried = "".join(rng.choice("ab1xé😀. \n\\") for _ in range(rng.randint(0, 5)))
            if text is not None and rng.random() < 0.6:
                at = rng.randrange(len(text.decode()) + 1)
                tried = text.decode()[:at] + rng.choice(["", "a", "é", "1"]) + text.decode()[at + 1 :]
            is_match = oracle.fullmatch(tried) is not None
            assert accepts(grammar, tried.encode(), rng) == is_match, (pattern, tried)
            accepted += is_match
            rejected += not is_match
    assert min(led, accepted, rejected) > 15


@BOUNDED
@seed(1)
@given(st.tuples(trees(), trees(), trees()), st.randoms(use_true_random=False))
def test_grammars_agree_with_enumeration(bodies: Any, style: random.Random) -> None:
    """Every mask along every text of up to four letters: a token fits where some word of the rules goes on with it."""
    rules = dict(zip(NAMES, bodies, strict=True))
    text = "\n".join(f"{name} ::= {spell(tree, style)}" for name, tree in rules.items())
    words = {word.encode() for word in words_of(rules, 4)}
    try:
        grammar = compile_source(Source.ebnf(text), LETTERS)
    except SourceError:
        assert not words
        return
    except LimitError:
        return
    rules_read = Source.ebnf(text).grammar(Budget())
    pending = [(GrammarMatcher(grammar), b"")]
    while pending:
        matcher, taken = pending.pop()
        mask = allowed(matcher, LETTERS.width)
        assert (7 in mask) == matcher.is_completed() == (taken in words), (text, taken)
        for token in LETTERS.text_token_ids().tolist():
            behind = taken + LETTERS.token_bytes(token)
            fork = matcher.fork()
            is_viable = is_viable_prefix(rules_read, behind)
            assert (token in mask) == fork.accept_token(token) == is_viable, (text, taken, token)
            assert is_viable or not any(word.startswith(behind) for word in words), (text, behind)
            if is_viable and len(behind) <= 3 and random.Random(behind).random() < 0.5:
                pending.append((fork, behind))


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with one thing changed: a leaf, a member or an item more or less, or another kind of value."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        if rng.random() < 0.3:
            return {other: inner for other, inner in value.items() if other != name}
        if rng.random() < 0.2:
            return {**value, rng.choice("abcdex"): rng.choice(SCALARS)}
        return {other: mutated(inner, rng) if other == name else inner for other, inner in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        middle = rng.choice([[], [value[at], value[at]], [mutated(value[at], rng)]])
        return [*value[:at], *middle, *value[at + 1 :]]
    if isinstance(value, str) and rng.random() < 0.6:
        return rng.choice([value + "a", value[1:], value + value, f"{value}é"])
    if type(value) in (int, float) and rng.random() < 0.6:
        return rng.choice([value + 1, value - 1, value * 2, value + 0.5])
    return rng.choice((*SCALARS, [], {}, [value], {"a": value}))


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@BOUNDED
@seed(2)
@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_schemas_agree_with_jsonschema(document: Any, rng: random.Random) -> None:
    try:
        grammar = compile_source(Source.json_schema(document, strict_mode=False), VOCABULARY, timeout=10.0)
    except (UnsupportedError, LimitError):
        return
    except SourceError as error:
        if "nothing satisfies" not in error.message:
            return
        grammar = None
    validator = jsonschema.Draft202012Validator(document)
    instance = instance_for(document, document, rng)
    for _ in range(10):
        is_valid = validator.is_valid(instance)
        if grammar is None:
            assert not is_valid, instance
        else:
            spellings = [compact(one) for _, one in zip(range(60), orders(instance), strict=False)]
            found = [text for text in spellings if GrammarMatcher(grammar).accept_string(text)]
            whole = [text for text in found if accepts(grammar, text, rng)]
            assert bool(whole) == is_valid, instance
        start = instance if rng.random() < 0.7 else instance_for(document, document, rng)
        instance = shortest(mutated(start, rng))


@BOUNDED
@seed(3)
@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_what_masks_lead_to_is_valid(document: Any, rng: random.Random) -> None:
    """Random texts of a schema's grammar are JSON, and instances."""
    try:
        grammar = compile_source(Source.json_schema(document, strict_mode=False), VOCABULARY, timeout=10.0)
    except (UnsupportedError, LimitError, SourceError):
        return
    # It reads numbers exactly: one of them may be too small for a float.
    judge = SchemaJudge(document, Walker(grammar.image.automaton))
    for _ in range(6):
        text = random_text(grammar, rng, steps_max=30)
        if text is not None:
            assert judge.is_valid(text), text


def test_bits_are_read_as_they_are_written() -> None:
    """The two readers of masks in these tests agree."""
    row = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, size=7, dtype=np.int32)
    assert bits_of(row) == mask_bits(row)
