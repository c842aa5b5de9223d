"""llguidance on the same sources and vocabulary, cold.

Owns the only use of the peer. Must never be imported by anything but the benchmark.
"""

from __future__ import annotations

import importlib.util
from time import perf_counter
from typing import Any

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.sources import DemoSource, demo_sources


def cold_seconds(rounds: int) -> list[float] | None:
    """Seconds from source to first mask for every source it reads as it is (not EBNF); None without llguidance."""
    if importlib.util.find_spec("llguidance") is None:
        return None
    import llguidance
    import llguidance.numpy

    vocabulary = Vocabulary.from_mistral()
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens(vocabulary)))
    sources = [source for source in demo_sources() if source.kind != "ebnf"]
    bitmask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    seconds = []
    # One round to warm up, as our kernels are.
    for number in range(rounds + 1):
        for source in sources:
            started = perf_counter()
            matcher = llguidance.LLMatcher(tokenizer, _grammar(llguidance, source))
            llguidance.numpy.fill_next_token_bitmask(matcher, bitmask)
            if number:
                seconds.append(perf_counter() - started)
            if matcher.is_error():
                raise ValueError(f"llguidance refuses {source.name}: {matcher.get_error()}")
    return seconds


def _grammar(llguidance: Any, source: DemoSource) -> str:
    if source.kind == "json_schema":
        return str(llguidance.LLMatcher.grammar_from_json_schema(source.text))
    return str(llguidance.LLMatcher.grammar_from_regex(source.text))


class _Tokens:
    """The vocabulary as llguidance wants it: tokens by id, and a tokenizer that it calls to test itself."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.stop_token_ids[0]
        self.bos_token_id = None
        self.tokens = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
        self.special_token_ids = list(vocabulary.special_token_ids)
        self._byte_tokens = {data: token for token, data in enumerate(self.tokens) if len(data) == 1}

    def __call__(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return [self._byte_tokens[data[place : place + 1]] for place in range(len(data))]
