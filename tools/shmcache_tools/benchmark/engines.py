"""The engines under comparison, each behind the same few calls.

Owns the adapters. Every engine compiles one JSON Schema in one thread, with free whitespace and open objects, as the
standard has them. Must never time anything.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from shmcache.vocabulary.vocabulary import Vocabulary


class Matcher(Protocol):
    """One request."""

    def fill(self) -> object:
        """Works out the mask of the next token."""

    def accept(self, token_id: int) -> bool:
        """Goes on by a token, if it is allowed."""


class Grammar(Protocol):
    """A compiled schema."""

    def matcher(self) -> Matcher:
        """A request at its beginning."""

    @property
    def size_bytes(self) -> int | None:
        """What the engine says that it takes; None where it does not say."""


class Engine(Protocol):
    """An engine with its vocabulary loaded, ready to compile."""

    name: str

    def compile(self, schema: str) -> Grammar:
        """The compiled schema. Raises whatever the engine raises for what it does not take."""

    def batch(self, matchers: Sequence[Any]) -> Callable[[], object]:
        """What works out the masks of all these matchers, each of this engine, in one call and one thread."""


class OurMatcher:
    """A request of ours, whoever compiled the grammar."""

    def __init__(self, grammar: Any, bitmask: Any) -> None:
        from shmcache.matcher.matcher import GrammarMatcher

        self.matcher = GrammarMatcher(grammar)
        self._bitmask = bitmask
        self.accept: Callable[[int], bool] = self.matcher.accept_token

    def fill(self) -> None:
        """Works out the mask of the next token."""
        self.matcher.fill_next_token_bitmask(self._bitmask)


class _OurGrammar:
    def __init__(self, grammar: Any, bitmask: Any) -> None:
        self._grammar = grammar
        self._bitmask = bitmask

    def matcher(self) -> Matcher:
        return OurMatcher(self._grammar, self._bitmask)

    @property
    def size_bytes(self) -> int:
        return int(self._grammar.memory_size_bytes)


COMMON_SCHEMAS = (
    '{"type": "object", "maxProperties": 9}',
    '{"additionalProperties": {"maxLength": 9}}',
    '{"properties": {"a": {"type": "string"}}}',
)
"""What they share with any grammar of JSON is in the rule tier: values, strings, numbers, and names of members."""


class _RuleTier:
    """The rule tier of one process."""

    def __init__(self) -> None:
        self._payloads: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._payloads.get(key)

    def put(self, key: bytes, payload: bytes, cost_us: int) -> None:
        self._payloads[key] = payload


class Shmcache:
    """This project's compiler in this process; the rule tier holds what any JSON grammar needs."""

    name = "shmcache"

    def __init__(self, vocabulary: Vocabulary) -> None:
        from shmcache.matcher.bitmask import allocate_token_bitmask
        from shmcache.rows.warm_up import warm_up
        from shmcache_workers.process_limits import collect_rarely

        warm_up()
        collect_rarely()
        self._vocabulary = vocabulary
        self._bitmask = allocate_token_bitmask(1, vocabulary.width)
        self._tier = _RuleTier()
        for schema in COMMON_SCHEMAS:
            self.compile(schema).matcher().fill()

    def compile(self, schema: str) -> Grammar:
        """As a worker does it."""
        from shmcache.compiler import compile_image
        from shmcache.grammar.key import Source
        from shmcache.image.image import open_image
        from shmcache.limits import Budget
        from shmcache.matcher.compiled_grammar import CompiledGrammar

        source = Source.json_schema(schema, strict_mode=False, any_whitespace=True)
        data = compile_image(source, self._vocabulary, budget=Budget(), rule_rows=self._tier)
        grammar = CompiledGrammar(open_image(data), self._vocabulary, generation=0, memory_size_bytes=len(data))
        return _OurGrammar(grammar, self._bitmask)

    def batch(self, matchers: Sequence[Any]) -> Callable[[], object]:
        """One call of the public function."""
        from shmcache.matcher.batch import batch_fill_next_token_bitmask
        from shmcache.matcher.bitmask import allocate_token_bitmask

        own = [matcher.matcher for matcher in matchers]
        bitmask = allocate_token_bitmask(len(own), self._vocabulary.width)
        return lambda: batch_fill_next_token_bitmask(own, bitmask)


class _Peer:
    """A grammar of another engine: how its matchers begin, and its size."""

    def __init__(self, begin: Callable[[], Matcher], size_bytes: int | None) -> None:
        self._begin = begin
        self.size_bytes = size_bytes

    def matcher(self) -> Matcher:
        return self._begin()


class _PeerMatcher:
    def __init__(self, matcher: Any, fill: Callable[[], object], accept: Callable[[int], bool]) -> None:
        self.matcher = matcher
        self.fill: Callable[[], object] = fill
        self.accept = accept


class Llguidance:
    """llguidance, which compiles lazily."""

    name = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance
        import llguidance.numpy

        self._module = llguidance
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens(vocabulary)))
        self._bitmask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        self.compile('{"type": "object"}').matcher().fill()

    def compile(self, schema: str) -> Grammar:
        """Checks the schema; the work is done step by step."""
        grammar = self._module.LLMatcher.grammar_from_json_schema(schema)
        first = self._begin(grammar)
        return _Peer(lambda: first.pop() if first else self._begin(grammar)[0], None)

    def _begin(self, grammar: str) -> list[Matcher]:
        matcher = self._module.LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        fill = self._module.numpy.fill_next_token_bitmask
        return [_PeerMatcher(matcher, lambda: fill(matcher, self._bitmask), matcher.consume_token)]

    def batch(self, matchers: Sequence[Any]) -> Callable[[], object]:
        """Its parallel call, with one thread."""
        executor = self._module.LLExecutor(num_threads=1)
        pairs = [(matcher.matcher, row) for row, matcher in enumerate(matchers)]
        bitmask = self._module.numpy.allocate_token_bitmask(len(pairs), self._tokenizer.vocab_size)
        return lambda: self._module.numpy.fill_next_token_bitmask_par(executor, pairs, bitmask)


class XGrammar:
    """XGrammar, in the mode that follows the standard."""

    name = "XGrammar"
    _strict = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        self._module = xgrammar
        tokens = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
        self._information = xgrammar.TokenizerInfo(
            tokens, vocab_size=vocabulary.width, stop_token_ids=list(vocabulary.stop_token_ids)
        )
        self._compiler = xgrammar.GrammarCompiler(self._information, max_threads=1, cache_enabled=False)
        self._words = -(-vocabulary.width // 32)
        self._bitmask = np.zeros((1, self._words), dtype=np.int32)
        self.compile('{"type": "object"}').matcher().fill()

    def compile(self, schema: str) -> Grammar:
        """The whole of it at once."""
        return self._peer(self._compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=self._strict))

    def batch(self, matchers: Sequence[Any]) -> Callable[[], object]:
        """Its batch matcher, with one thread."""
        batch = self._module.BatchGrammarMatcher(max_threads=1)
        own = [matcher.matcher for matcher in matchers]
        bitmask = np.zeros((len(own), self._words), dtype=np.int32)
        return lambda: batch.batch_fill_next_token_bitmask(own, bitmask)

    def asking(self) -> Callable[[str], Any]:
        """What gives the compiled schema as its users ask for it, from the cache that it keeps in a process."""
        compiler = self._module.GrammarCompiler(self._information, max_threads=1, cache_enabled=True)
        return lambda schema: compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=self._strict)

    def serialised(self, schema: str) -> tuple[Grammar, str]:
        """The compiled schema, and the text that others can read it from."""
        compiled = self._compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=self._strict)
        return self._peer(compiled), str(compiled.serialize_json())

    def read(self, text: str) -> Grammar:
        """The compiled schema out of such a text."""
        return self._peer(self._module.CompiledGrammar.deserialize_json(text, self._information))

    def _peer(self, compiled: Any) -> Grammar:
        def begin() -> Matcher:
            matcher = self._module.GrammarMatcher(compiled)
            return _PeerMatcher(matcher, lambda: matcher.fill_next_token_bitmask(self._bitmask), matcher.accept_token)

        return _Peer(begin, int(compiled.memory_size_bytes))


class XGrammarStrict(XGrammar):
    """XGrammar in the mode in which vLLM calls it."""

    name = "XGrammar, vLLM's mode"
    _strict = True


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


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine that can be asked for: the package it needs, and how it is made ready."""

    package: str
    load: Callable[[Vocabulary], Engine]

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return importlib.util.find_spec(self.package) is not None


ENGINES = {
    "shmcache": Choice("shmcache", Shmcache),
    "llguidance": Choice("llguidance", Llguidance),
    "xgrammar": Choice("xgrammar", XGrammar),
    "xgrammar-strict": Choice("xgrammar", XGrammarStrict),
}
"""By the name on the command line."""
