"""Other engines behind one face: a request that tells its mask and moves on.

Owns what each of them has to be told about a vocabulary, and how it is asked. Must never know what their answers mean.
llguidance is part of the test environment; XGrammar is not, and whoever wants it here installs the extra
``differential``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.errors import ShmCacheError
from shmcache.grammar.key import Source
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_source
from shmcache.rows.warm_up import warm_up
from shmcache.vocabulary.vocabulary import Vocabulary

SECONDS_MAX = 5.0
"""For one compile of ours: what takes longer is refused here."""

HAS_XGRAMMAR = find_spec("xgrammar") is not None

Mask = frozenset[int]


class RefusedError(Exception):
    """The engine does not compile that source; its message says why."""


class Request(Protocol):
    """One request of one engine."""

    def mask(self) -> Mask:
        """The ids of tokens that may come next, stop tokens included."""

    def accept(self, token: int) -> bool:
        """Moves on."""

    def fork(self) -> Request:
        """Another one in the same state."""


class Engine(Protocol):
    """One engine with one vocabulary."""

    name: str

    def schema(self, schema: Any, layout: str = "flexible") -> Request:
        """A request for instances of a JSON Schema; raises :class:`RefusedError`.

        The layout ``"flexible"`` allows any whitespace, ``"compact"`` none.
        """

    def regex(self, pattern: str) -> Request:
        """A request for texts that match a regular expression as a whole; raises :class:`RefusedError`."""

    def ebnf(self, text: str) -> Request:
        """A request for texts of a grammar in XGrammar's dialect; raises :class:`RefusedError`."""


def bits_of(row: Any) -> Mask:
    """The ids whose bits are set in a row of int32."""
    return frozenset(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def _row(vocabulary: Vocabulary) -> Any:
    return np.zeros(-(-vocabulary.width // 32), dtype=np.int32)


@dataclass(slots=True)
class OurRequest:
    """A request of this package."""

    grammar: CompiledGrammar
    matcher: GrammarMatcher

    @property
    def vocabulary(self) -> Vocabulary:
        return self.grammar.vocabulary

    @property
    def automaton(self) -> GrammarAutomaton:
        return self.grammar.image.automaton

    def mask(self) -> Mask:
        row = _row(self.vocabulary)
        self.matcher.fill_next_token_bitmask(row)
        return bits_of(row)

    def accept(self, token: int) -> bool:
        return self.matcher.accept_token(token)

    def fork(self) -> OurRequest:
        return OurRequest(self.grammar, self.matcher.fork())


class Ours:
    """This package."""

    name = "ours"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        warm_up()

    def _request(self, source: Source) -> OurRequest:
        try:
            grammar = compile_source(source, self.vocabulary, timeout=SECONDS_MAX)
        except ShmCacheError as error:
            raise RefusedError(f"{error.code}: {error.message}") from error
        return OurRequest(grammar, GrammarMatcher(grammar))

    def schema(self, schema: Any, layout: str = "flexible") -> OurRequest:
        options: dict[str, Any] = {"any_whitespace": layout == "flexible", "separators": (",", ":")}
        try:
            source = Source.json_schema(schema, strict_mode=False, **options)
        except ShmCacheError as error:
            raise RefusedError(f"{error.code}: {error.message}") from error
        return self._request(source)

    def regex(self, pattern: str) -> OurRequest:
        return self._request(Source.regex(pattern))

    def ebnf(self, text: str) -> OurRequest:
        return self._request(Source.ebnf(text))


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


@dataclass(slots=True)
class LlguidanceRequest:
    """A request of llguidance."""

    matcher: Any
    vocabulary: Vocabulary

    def mask(self) -> Mask:
        """Where bytes are forced theirs holds one token only, so each token is then asked for by itself."""
        if self.matcher.compute_ff_bytes():
            return frozenset(one for one in range(self.vocabulary.size) if self.matcher.validate_tokens([one]))
        import llguidance.numpy

        row = _row(self.vocabulary).reshape(1, -1)
        llguidance.numpy.fill_next_token_bitmask(self.matcher, row, 0)
        return bits_of(row[0])

    def accept(self, token: int) -> bool:
        return bool(self.matcher.validate_tokens([token])) and bool(self.matcher.consume_token(token))

    def fork(self) -> LlguidanceRequest:
        return LlguidanceRequest(self.matcher.deep_copy(), self.vocabulary)


class Llguidance:
    """llguidance."""

    name = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        self.vocabulary = vocabulary
        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Tokens(vocabulary)), n_vocab=vocabulary.width
        )

    def request(self, grammar: str) -> LlguidanceRequest:
        """A request for one of its own descriptions of a grammar."""
        matcher = self.library.LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise RefusedError(matcher.get_error())
        return LlguidanceRequest(matcher, self.vocabulary)

    def schema(self, schema: Any, layout: str = "flexible") -> LlguidanceRequest:
        overrides = {"whitespace_flexible": layout == "flexible"}
        try:
            grammar = self.library.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=overrides)
        except ValueError as error:
            raise RefusedError(str(error)) from error
        return self.request(grammar)

    def regex(self, pattern: str) -> LlguidanceRequest:
        return self.request(self.library.LLMatcher.grammar_from_regex(pattern))

    def ebnf(self, text: str) -> LlguidanceRequest:
        raise RefusedError("another dialect")


@dataclass(slots=True)
class XgrammarRequest:
    """A request of XGrammar."""

    matcher: Any
    vocabulary: Vocabulary

    def mask(self) -> Mask:
        if self.matcher.is_terminated():
            return frozenset()
        row = _row(self.vocabulary).reshape(1, -1)
        self.matcher.fill_next_token_bitmask(row)
        # It leaves the surplus bits of the last word as they come.
        return frozenset(token for token in bits_of(row[0]) if token < self.vocabulary.width)

    def accept(self, token: int) -> bool:
        return bool(self.matcher.accept_token(token))

    def fork(self) -> XgrammarRequest:
        return XgrammarRequest(self.matcher.fork(), self.vocabulary)


class Xgrammar:
    """XGrammar, in the mode in which it means what the standard says wherever it can."""

    name = "xgrammar"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        self.vocabulary = vocabulary
        self.library = xgrammar
        tokens = [vocabulary.token_bytes(number) for number in range(vocabulary.size)]
        information = xgrammar.TokenizerInfo(
            tokens,
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=vocabulary.width,
            stop_token_ids=list(vocabulary.stop_token_ids),
        )
        self.compiler = xgrammar.GrammarCompiler(information, max_threads=1, cache_enabled=False)

    def _request(self, compile_one: Any, *source: Any, **options: Any) -> XgrammarRequest:
        try:
            return XgrammarRequest(self.library.GrammarMatcher(compile_one(*source, **options)), self.vocabulary)
        except (RuntimeError, ValueError) as error:
            raise RefusedError(str(error)) from error

    def schema(self, schema: Any, layout: str = "flexible") -> XgrammarRequest:
        options: dict[str, Any] = {"any_whitespace": layout == "flexible", "strict_mode": False}
        if layout == "compact":
            options["separators"] = (",", ":")
        return self._request(self.compiler.compile_json_schema, json.dumps(schema), **options)

    def regex(self, pattern: str) -> XgrammarRequest:
        return self._request(self.compiler.compile_regex, pattern)

    def ebnf(self, text: str) -> XgrammarRequest:
        return self._request(self.compiler.compile_grammar, text)
