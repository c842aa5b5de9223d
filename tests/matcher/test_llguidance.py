"""Masks against those of llguidance, token by token along random walks. What differs by design is written down here.

llguidance spells JSON more narrowly than RFC 8259 allows: no DEL, no ``\\/`` and few ``\\u`` in strings, no escapes at
all where a ``pattern`` or ``const`` is in force, no exponent where a number has bounds (with one, ours may go on where
a digit alone would lead out of the bounds). It lets an integer be -0, which is not the shortest spelling of 0. Its
regular expressions are Rust's, so ``\\d`` and ``\\w`` are Unicode's and ``.`` is everything but a line feed; patterns
here avoid those. Its JSON Schemas allow additional properties unless told otherwise, as ours without ``strict_mode``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import llguidance
import llguidance.numpy
import numpy as np
import pytest

from shmcache.grammar.key import Source
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_source
from shmcache.vocabulary.vocabulary import Vocabulary


class _Tokens:
    """What llguidance asks of a tokenizer: all tokens, and some way to spell bytes in them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.stop_token_ids[0]
        self.bos_token_id = None
        self.tokens = [vocabulary.token_bytes(number) for number in range(vocabulary.size)]
        self.special_token_ids = list(vocabulary.special_token_ids)
        text = vocabulary.text_token_ids().tolist()
        self.by_byte = {self.tokens[number]: number for number in text if len(self.tokens[number]) == 1}

    def __call__(self, text: str | bytes) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return [self.by_byte[bytes([byte])] for byte in data]


def tokenizer_of(vocabulary: Vocabulary) -> Any:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens(vocabulary)), n_vocab=vocabulary.width)


def bits_of_row(row: Any) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


class _Pair:
    """Our matcher and theirs, side by side."""

    def __init__(self, ours: GrammarMatcher, theirs: Any, vocabulary: Vocabulary) -> None:
        self.ours = ours
        self.theirs = theirs
        self.vocabulary = vocabulary
        self.text = b""
        assert not theirs.is_error(), theirs.get_error()

    def masks(self) -> tuple[set[int], set[int]]:
        """Both masks. Theirs holds only one token where bytes are forced, so each token is then asked for by itself."""
        rows = np.zeros((2, -(-self.vocabulary.width // 32)), dtype=np.int32)
        self.ours.fill_next_token_bitmask(rows, 0)
        ours = bits_of_row(rows[0])
        if not self.theirs.compute_ff_bytes():
            llguidance.numpy.fill_next_token_bitmask(self.theirs, rows, 1)
            return ours, bits_of_row(rows[1])
        ids: Sequence[int] = range(self.vocabulary.size)
        if self.vocabulary.size > 1_000:
            ids = [*ours, *Random(len(self.text)).sample(ids, 500)]
        return ours, {one for one in ids if self.theirs.validate_tokens([one])}

    def differences(self, explained: str, masks: tuple[set[int], set[int]]) -> list[tuple[str, bytes]]:
        """Tokens in one mask alone; those of ours that ``explained``, a regular expression, is found in are no news."""
        ours, theirs = masks
        found = []
        for number in theirs - ours:
            token = self.vocabulary.token_bytes(number)
            is_minus_zero = token.startswith(b"-0") or (self.text.endswith(b"-") and token.startswith(b"0"))
            if not is_minus_zero:
                found.append(("theirs", token))
        for number in ours - theirs:
            token = self.vocabulary.token_bytes(number)
            if not explained or not re.search(explained.encode(), token, re.DOTALL):
                found.append(("ours", token))
        return found

    def take(self, token: int) -> None:
        assert self.ours.accept_token(token)
        assert self.theirs.consume_token(token)
        self.text += self.vocabulary.token_bytes(token)


def walk(pair: _Pair, rng: Random, steps: int, explained: str) -> int:
    """Compares at every step; prefers tokens that close something, so that walks get around. Returns the steps."""
    closing = {b'"', b'",', b'":', b'"}', b"}", b"]", b",", b":", b"1", b"a", b"{", b'{"'}
    for step in range(steps):
        masks = pair.masks()
        assert pair.differences(explained, masks) == [], pair.text
        # Behind a backslash the two differ in what may be escaped.
        both = [number for number in sorted(masks[0] & masks[1]) if b"\\" not in pair.vocabulary.token_bytes(number)]
        if not both:
            return step
        preferred = [number for number in both if pair.vocabulary.token_bytes(number) in closing]
        token = rng.choice(preferred if preferred and rng.random() < 0.5 else both)
        if token in pair.vocabulary.stop_token_ids:
            return step
        pair.take(token)
    return steps


@pytest.fixture(scope="module")
def small_tokenizer(small_vocabulary: Vocabulary) -> Any:
    return tokenizer_of(small_vocabulary)


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-c]+é?",
        "(ab|a)*b{2,4}",
        r"[0-9]{1,3}(\.[0-9]+)?",
        "[^x]*",
        "(true|false|null)+",
        "[^\n]{3,5}",
        "(a|ab)(c|bcd)*",
    ],
)
def test_regular_expressions(pattern: str, small_vocabulary: Vocabulary, small_tokenizer: Any) -> None:
    grammar = compile_source(Source.regex(pattern), small_vocabulary)
    theirs = llguidance.LLMatcher(small_tokenizer, llguidance.LLMatcher.grammar_from_regex(pattern), log_level=0)
    steps = 0
    for seed in range(4):
        pair = _Pair(GrammarMatcher(grammar), theirs.deep_copy(), small_vocabulary)
        steps += walk(pair, Random(seed), 10, explained="")
    assert steps > 8


RECURSION: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
            },
            "required": ["value", "next"],
            "additionalProperties": False,
        }
    },
}
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
IN_STRINGS = r"\x7f|\\/"
"""DEL, and the solidus with a backslash before it."""

SCHEMAS: dict[str, tuple[Any, str]] = {
    "person": (PERSON, IN_STRINGS),
    "recursion": (RECURSION, ""),
    "open object": (
        {"type": "object", "properties": {"a": {"type": "boolean"}, "ab": {"type": "null"}}, "required": ["ab"]},
        r"\x7f|\\",
    ),
    "number": ({"type": "number"}, ""),
    "integer": ({"type": "integer"}, ""),
    "integer in bounds": ({"type": "integer", "minimum": -17, "exclusiveMaximum": 1200}, ""),
    "number in bounds": ({"type": "number", "minimum": -1.5, "exclusiveMaximum": 10}, "."),
    "enum": ({"enum": ["a", "ab", 1, None, True, [1, "x"], {"a": 1}]}, r"\\"),
    "lengths": ({"type": "string", "minLength": 2, "maxLength": 4}, IN_STRINGS),
    "pattern": ({"type": "string", "pattern": "^a[0-9]+é?$"}, r"\\"),
    "prefix items": (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False, "minItems": 2},
        "",
    ),
    "counted items": ({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4}, ""),
    "anything": ({}, IN_STRINGS),
}


@pytest.mark.parametrize("layout", ["flexible", "compact"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_json_schemas(name: str, layout: str, small_vocabulary: Vocabulary, small_tokenizer: Any) -> None:
    schema, explained = SCHEMAS[name]
    is_flexible = layout == "flexible"
    source = Source.json_schema(schema, strict_mode=False, any_whitespace=is_flexible, separators=(",", ":"))
    theirs = llguidance.LLMatcher(
        small_tokenizer,
        llguidance.LLMatcher.grammar_from_json_schema(
            json.dumps(schema), overrides={"whitespace_flexible": is_flexible}
        ),
        log_level=0,
    )
    grammar = compile_source(source, small_vocabulary)
    steps = 0
    for seed in range(4):
        pair = _Pair(GrammarMatcher(grammar), theirs.deep_copy(), small_vocabulary)
        steps += walk(pair, Random(seed), 25, explained)
    assert steps > 4


@pytest.mark.tekken
def test_json_schemas_over_the_large_vocabulary(tekken: Vocabulary) -> None:
    tokenizer = tokenizer_of(tekken)
    for schema in (PERSON, RECURSION, {}):
        grammar = compile_source(Source.json_schema(schema, strict_mode=False), tekken)
        theirs = llguidance.LLMatcher(
            tokenizer, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema)), log_level=0
        )
        for seed in range(2):
            pair = _Pair(GrammarMatcher(grammar), theirs.deep_copy(), tekken)
            walk(pair, Random(seed), 10, IN_STRINGS)
