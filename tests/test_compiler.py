"""The line from text to image: every kind of source, the same bytes each time, and errors that say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmcache.compiler import compile_image
from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.ir import Grammar, Literal
from shmcache.grammar.key import Source
from shmcache.image.image import open_image
from shmcache.limits import Budget
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.interpreted import _narrow_levels
from tests.reference.masks import mask_bits
from tests.rows.test_build import DictRows

__all__ = ["_narrow_levels"]

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "tags": [{"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</f>"}],
    },
}
SOURCES = {
    "json_schema": (Source.json_schema(SCHEMA), b'{"name": "Ada", "age": 36}', b'{"age'),
    "ebnf": (Source.ebnf('start ::= "a" start "b" | "c"', "start"), b"aacbb", b"b"),
    "regex": (Source.regex("[a-c]+é?"), "abé".encode(), b"abd"),
    "builtin_json": (Source.builtin_json(), b'[{"a": null}, 1.5e3]', b"[,"),
    "structural_tag": (Source.structural_tag(TAG), b'Hi<f=a>{"name": "Ada"}</f>', b"<f=b"),
}


def matcher_of(data: bytes, vocabulary: Vocabulary) -> GrammarMatcher:
    return GrammarMatcher(CompiledGrammar(open_image(data), vocabulary, generation=0, memory_size_bytes=len(data)))


@pytest.mark.reference
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source(kind: str, small_vocabulary: Vocabulary) -> None:
    source, member, other = SOURCES[kind]
    data = compile_image(source, small_vocabulary, budget=Budget())
    image = open_image(data, expected_key=source.key(small_vocabulary.fingerprint))
    assert image.vocabulary_fingerprint == small_vocabulary.fingerprint
    assert (image.vocabulary_size, image.width) == (small_vocabulary.size, small_vocabulary.width)
    matcher = matcher_of(data, small_vocabulary)
    assert matcher.accept_string(member)
    assert matcher.is_completed()
    matcher.reset()
    assert not matcher.accept_string(other)
    row = np.zeros(-(-small_vocabulary.width // 32), dtype=np.int32)
    for byte in member:
        matcher.fill_next_token_bitmask(row)
        assert byte in mask_bits(row)
        assert matcher.accept_token(byte)
    assert matcher.accept_token(small_vocabulary.stop_token_ids[0])


@pytest.mark.reference
@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_bytes_with_and_without_the_rule_tier(kind: str, small_vocabulary: Vocabulary) -> None:
    source = SOURCES[kind][0]
    alone = compile_image(source, small_vocabulary, budget=Budget())
    assert compile_image(source, small_vocabulary, budget=Budget()) == alone
    tier = DictRows()
    assert compile_image(source, small_vocabulary, budget=Budget(), rule_rows=tier) == alone
    stored = len(tier.payloads)
    assert compile_image(source, small_vocabulary, budget=Budget(), rule_rows=tier) == alone
    assert tier.hits == stored == len(tier.payloads)


@pytest.mark.reference
def test_rules_of_one_schema_serve_another(small_vocabulary: Vocabulary) -> None:
    """Strings are the same rule in both, and the work of the second is the smaller for it."""
    tier = DictRows()
    compile_image(Source.json_schema(SCHEMA), small_vocabulary, budget=Budget(), rule_rows=tier)
    assert tier.payloads
    assert not tier.hits
    other = Source.json_schema({"type": "array", "items": {"type": "string"}})
    data = compile_image(other, small_vocabulary, budget=Budget(), rule_rows=tier)
    assert tier.hits > 0
    assert data == compile_image(other, small_vocabulary, budget=Budget())


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (Source.regex("(a"), SourceError),
        (Source.ebnf('root ::= "a', "root"), SourceError),
        (Source.ebnf('root ::= "a"', "other"), SourceError),
        (Source.ebnf('root ::= "a" root', "root"), SourceError),
        (Source.ebnf("root ::= missing", "root"), SourceError),
        (Source.json_schema({"type": "strin"}), SourceError),
        (Source.json_schema({"$ref": "https://example.com/other"}), UnsupportedError),
        (Source.structural_tag({}), SourceError),
        (Source.regex(r"(a)\1"), UnsupportedError),
        (Source.regex("[ab]*a[ab]{40}"), LimitError),
        (Source.regex("((((a{1000}){1000}){1000}){1000})"), LimitError),
        (Source.regex("(" * 60_000 + "a" + ")" * 60_000), LimitError),
        (Source.ebnf("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, "root"), LimitError),
    ],
    ids=lambda value: value.kind + " " + value.text[:30] if isinstance(value, Source) else value.__name__,
)
def test_what_is_wrong_with_a_source_is_said(
    source: Source, error: type[Exception], small_vocabulary: Vocabulary
) -> None:
    with pytest.raises(error):
        compile_image(source, small_vocabulary, budget=Budget(states_max=50_000, edges_max=500_000))
    good = SOURCES["regex"][0]
    assert compile_image(good, small_vocabulary, budget=Budget()), "and the next one is compiled"


@pytest.mark.reference
@pytest.mark.parametrize("pattern", ["[ab]*a[ab]{9}", "(a*)*", "((a|b)*|c*)*d?", "(|a)+"])
def test_what_looks_dangerous_and_is_not(pattern: str, small_vocabulary: Vocabulary) -> None:
    matcher = matcher_of(compile_image(Source.regex(pattern), small_vocabulary, budget=Budget()), small_vocabulary)
    assert matcher.accept_string("aaaaaaaaaa")
    assert matcher.is_completed()


@pytest.mark.reference
def test_a_star_of_stars_in_a_grammar(small_vocabulary: Vocabulary) -> None:
    source = Source.ebnf('root ::= ("a"*)* | root "b"', "root")
    matcher = matcher_of(compile_image(source, small_vocabulary, budget=Budget()), small_vocabulary)
    assert matcher.is_completed()
    assert matcher.accept_string("aabb")
    assert not matcher.accept_string("a")


def test_time_and_states_are_limits(small_vocabulary: Vocabulary) -> None:
    source = SOURCES["json_schema"][0]
    now = iter(range(1_000_000))
    with pytest.raises(LimitError) as caught:
        compile_image(source, small_vocabulary, budget=Budget(seconds_max=2, clock=lambda: float(next(now))))
    assert caught.value.limit == "seconds"
    with pytest.raises(LimitError) as caught:
        compile_image(source, small_vocabulary, budget=Budget(states_max=50))
    assert caught.value.limit == "states"


class _TooDeep:
    """A source whose front end runs out of stack."""

    def grammar(self, budget: Budget) -> Grammar:
        def deeper(level: int) -> Grammar:
            return deeper(level + 1) if level >= 0 else Grammar({"root": Literal(b"a")}, "root")

        return deeper(0)

    def key(self, fingerprint: bytes) -> bytes:
        return fingerprint


def test_kernels_compiled_meanwhile_do_not_count(small_vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first compile on a host has the same time as every other."""
    clock = [0.0]

    def warm_up() -> None:
        clock[0] += 40.0

    monkeypatch.setattr("shmcache.compiler.warm_up", warm_up)
    source = Source.regex("[ab]{3}")
    expected = compile_image(source, small_vocabulary, budget=Budget())
    budget = Budget(seconds_max=1.0, clock=lambda: clock[0])
    assert compile_image(source, small_vocabulary, budget=budget) == expected
    budget.check_time()
    clock[0] += 1.5
    with pytest.raises(LimitError):
        budget.check_time()


def test_running_out_of_stack_is_a_limit(small_vocabulary: Vocabulary) -> None:
    source: Any = _TooDeep()
    with pytest.raises(LimitError) as caught:
        compile_image(source, small_vocabulary, budget=Budget())
    assert caught.value.limit == "depth"
