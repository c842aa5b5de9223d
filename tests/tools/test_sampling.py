"""Samples: legal, ended, and the same for a seed."""

from __future__ import annotations

import json
import re

import pytest

from shmcache.grammar.key import Source
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_source
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools import sampling
from shmcache_tools.sampling import SampleError, Sampler
from tests.tools.support import BYTES


@pytest.fixture(scope="module")
def any_json() -> CompiledGrammar:
    return compile_source(Source.builtin_json(), BYTES)


def test_a_sample_is_legal_to_its_last_token(any_json: CompiledGrammar) -> None:
    sampler = Sampler(BYTES, seed=5)
    for _ in range(20):
        sample = sampler.decode(any_json)
        matcher = GrammarMatcher(any_json)
        assert all(matcher.accept_token(token) for token in sample.tokens)
        assert matcher.is_terminated()
        assert sample.tokens[-1] in BYTES.stop_token_ids
        assert sample.data == b"".join(BYTES.token_bytes(token) for token in sample.tokens[:-1])
        assert len(sample.step_seconds) == len(sample.tokens)
        json.loads(sample.data)


def test_the_seed_decides(any_json: CompiledGrammar) -> None:
    def texts(seed: int) -> list[bytes]:
        sampler = Sampler(BYTES, seed=seed)
        return [sampler.decode(any_json).data for _ in range(10)]

    assert texts(1) == texts(1) != texts(2)


@pytest.mark.parametrize(
    "ebnf",
    [
        'root ::= "(" root ")" | "[" root "]" | "x"',
        'root ::= item ("," item)* " end"\nitem ::= [a-z]+',
        'root ::= [0-9]+ "." [0-9]* [1-9]',
        'root ::= "<" root* ">"',
    ],
)
def test_it_comes_to_an_end_where_it_could_go_on_for_ever(ebnf: str, small_vocabulary: Vocabulary) -> None:
    grammar = compile_source(Source.ebnf(ebnf), small_vocabulary)
    sampler = Sampler(small_vocabulary, seed=9)
    for _ in range(10):
        assert len(sampler.decode(grammar).tokens) < sampling.TOKENS_MAX


def test_what_has_no_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "TOKENS_MAX", 50)
    grammar = compile_source(Source.regex("a{60}"), BYTES)
    with pytest.raises(SampleError, match="no end after 50 tokens"):
        Sampler(BYTES, seed=1).decode(grammar)


def test_duplicates_and_cut_characters_do_no_harm(small_vocabulary: Vocabulary) -> None:
    grammar = compile_source(Source.regex("[aé€]{3,40}"), small_vocabulary)
    sampler = Sampler(small_vocabulary, seed=2)
    for _ in range(20):
        assert re.fullmatch("[aé€]{3,40}", sampler.decode(grammar).data.decode())
