"""``GrammarCompiler`` and ``CompiledGrammar`` of XGrammar.

Owns where compiled grammars are kept. A compiler uses the host's shared cache where a manager can be had
(:func:`shmcache.connect`, which starts one), so all processes of a user share what any of them compiled. It keeps them
by itself, in this process, where there is no manager, and where ``cache_limit_bytes`` bounds what it may keep: the
host's cache has one limit of its own. With ``cache_enabled=False`` nothing is kept.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from shmcache import private
from shmcache.client import GrammarCache, connect
from shmcache.compat.xgrammar import serialization
from shmcache.compat.xgrammar.exception import (
    DeserializeFormatError,
    InvalidGrammarError,
    InvalidStructuralTagError,
    MisuseError,
    not_offered,
    translated,
)
from shmcache.compat.xgrammar.grammar import (
    Grammar,
    builtin_json_source,
    grammar_of,
    read_grammar,
    schema_source,
    tag_source,
)
from shmcache.compat.xgrammar.tokenizer_info import TokenizerInfo
from shmcache.errors import ManagerUnavailable, SourceError
from shmcache.grammar.key import Source
from shmcache.matcher.compiled_grammar import CompiledGrammar as OurGrammar

MakeSource = Callable[[], Source]

_log = logging.getLogger("shmcache")


class CompiledGrammar:
    """A grammar compiled for a vocabulary. Immutable and shared by any number of matchers."""

    __slots__ = ("_compiled", "_make_source", "_tokenizer_info")

    def __init__(self, compiled: OurGrammar, make_source: MakeSource, tokenizer_info: TokenizerInfo) -> None:
        self._compiled = compiled
        self._make_source = make_source
        self._tokenizer_info = tokenizer_info

    @property
    def compiled(self) -> OurGrammar:
        """The grammar as the rest of this library knows it."""
        return self._compiled

    @property
    def grammar(self) -> Grammar:
        """What it was compiled from."""
        return grammar_of(self._make_source())

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The vocabulary it was compiled for."""
        return self._tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """Bytes that it takes where it lies."""
        return self._compiled.memory_size_bytes

    def serialize_json(self) -> str:
        """Its source and the name of its vocabulary as JSON; reading it back compiles it, or finds it in the cache."""
        vocabulary = self._tokenizer_info.vocabulary.fingerprint.hex()
        content = {"grammar": grammar_of(self._make_source()).serialize_json(), "vocabulary": vocabulary}
        return serialization.write("compiled_grammar", content)

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """What :meth:`serialize_json` wrote, for the same vocabulary."""
        content = serialization.read("compiled_grammar", json_str, {"grammar": str, "vocabulary": str})
        if content["vocabulary"] != tokenizer_info.vocabulary.fingerprint.hex():
            raise DeserializeFormatError("the grammar was compiled for another vocabulary")
        return GrammarCompiler(tokenizer_info).compile_grammar(read_grammar(content["grammar"]))

    def __repr__(self) -> str:
        return repr(self._compiled)


class _PrivateCache:
    """Compiled grammars of one compiler, the one used longest ago given up first; ``limit`` is in bytes or -1."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, OurGrammar] = OrderedDict()
        self._bytes = 0

    def compile(self, source: Source, info: TokenizerInfo) -> OurGrammar:
        key = source.key(info.vocabulary.fingerprint)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        compiled = private.compile_source(source, info.vocabulary)
        with self._lock:
            if self._kept.setdefault(key, compiled) is compiled:
                self._bytes += compiled.memory_size_bytes
            while self._limit >= 0 and self._bytes > self._limit:
                self._bytes -= self._kept.popitem(last=False)[1].memory_size_bytes
        return compiled

    def size_bytes(self) -> int:
        with self._lock:
            return self._bytes

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0


class GrammarCompiler:
    """Compiles for one vocabulary. Thread-safe."""

    def __init__(
        self,
        tokenizer_info: TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
        enable_dynamic_compilation: bool = False,
    ) -> None:
        """``max_threads`` and ``enable_dynamic_compilation`` change nothing: others compile, in processes of their own,
        and an image is always whole.
        """
        if not isinstance(tokenizer_info, TokenizerInfo):
            raise MisuseError("a GrammarCompiler needs a TokenizerInfo, not the tokenizer itself")
        if cache_limit_bytes < -1:
            raise MisuseError(f"cache_limit_bytes must be -1 or a number of bytes, not {cache_limit_bytes}")
        self._info = tokenizer_info
        self._limit = cache_limit_bytes
        self._shared: GrammarCache | None = None
        self._private: _PrivateCache | None = None
        if not cache_enabled:
            return
        if cache_limit_bytes == -1:
            shared = connect(tokenizer_info.vocabulary)
            if shared.has_manager():
                self._shared = shared
                return
            shared.close()
            _log.warning("no manager can be had: this GrammarCompiler keeps its grammars in its own process")
        self._private = _PrivateCache(cache_limit_bytes)

    @property
    def is_shared(self) -> bool:
        """Whether compiled grammars are shared with the host's other processes. Not a name of XGrammar."""
        return self._shared is not None

    def compile_json_schema(
        self,
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """Compiles a JSON Schema; see :meth:`Grammar.from_json_schema`."""
        options: dict[str, Any] = {
            "any_whitespace": any_whitespace,
            "indent": indent,
            "separators": separators,
            "strict_mode": strict_mode,
            "max_whitespace_cnt": max_whitespace_cnt,
            "any_order": any_order,
        }
        text, make_source = _late(schema, partial(schema_source, schema, **options))
        return self._compile(make_source, lambda cache: cache.compile_json_schema(text, **options))

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compiles the grammar of any JSON object or array."""
        source = builtin_json_source()
        return self._compile(lambda: source, partial(_from_cache, source=source))

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compiles a regular expression that the whole output matches."""
        return self._compile(partial(Source.regex, regex), lambda cache: cache.compile_regex(regex))

    def compile_lark(self, lark_string: str, *, named_grammars: dict[str, Any] | None = None) -> CompiledGrammar:
        """Not offered."""
        raise not_offered("GrammarCompiler.compile_lark", "write the grammar in EBNF, or as a structural tag")

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """Compiles a structural tag: ``(structural_tag)``, or ``(tags, triggers)`` of the older interface."""
        tag = args[0] if len(args) == 1 and not kwargs else None
        text, make_source = _late(tag, partial(tag_source, args, kwargs))
        return self._compile(
            make_source, lambda cache: cache.compile_structural_tag(text), malformed=InvalidStructuralTagError
        )

    def compile_grammar(self, grammar: str | Grammar, *, root_rule_name: str = "root") -> CompiledGrammar:
        """Compiles a grammar, or the text of one in EBNF."""
        if isinstance(grammar, Grammar):
            return self._compile(lambda: grammar.source, partial(_from_cache, source=grammar.source))
        if not isinstance(grammar, str):
            raise MisuseError(f"a grammar is text or a Grammar, not {type(grammar).__name__}")
        make_source = partial(Source.ebnf, grammar, root_rule_name)
        return self._compile(make_source, lambda cache: cache.compile_grammar(grammar, root_rule_name))

    def clear_cache(self) -> None:
        """Forgets all compiled grammars. With the shared cache that is those of the whole host, for all processes."""
        if self._private is not None:
            self._private.clear()
        if self._shared is not None:
            try:
                self._shared.clear_cache()
            except ManagerUnavailable as error:
                _log.warning("the shared cache was not cleared: %s", error)

    def get_cache_size_bytes(self) -> int:
        """Bytes of compiled grammars that are kept; with the shared cache, for the whole host."""
        if self._private is not None:
            return self._private.size_bytes()
        return self._shared.get_cache_size_bytes() if self._shared is not None else 0

    @property
    def cache_limit_bytes(self) -> int:
        """The limit that was given, -1 for none. The shared cache has one of its own."""
        return self._limit

    def _compile(
        self,
        make_source: MakeSource,
        from_cache: Callable[[GrammarCache], OurGrammar],
        *,
        malformed: type[SourceError] = InvalidGrammarError,
    ) -> CompiledGrammar:
        with translated(malformed):
            if self._shared is not None:
                try:
                    compiled = from_cache(self._shared)
                except SourceError:
                    make_source()  # which tells text that is not even JSON from other mistakes
                    raise
            elif self._private is not None:
                compiled = self._private.compile(make_source(), self._info)
            else:
                compiled = private.compile_source(make_source(), self._info.vocabulary)
        return CompiledGrammar(compiled, make_source, self._info)


def _late(given: Any, make_source: MakeSource) -> tuple[str, MakeSource]:
    """A text to look for in the cache, and a source for later: what is no text may have changed until then.

    Text is found in the cache as it was written, before anything of it is read.
    """
    if isinstance(given, str):
        return given, make_source
    source = make_source()
    return source.text, lambda: source


def _from_cache(cache: GrammarCache, source: Source) -> OurGrammar:
    options: dict[str, Any] = dict(source.options)
    if source.kind == "json_schema":
        return cache.compile_json_schema(source.text, **options)
    if source.kind == "ebnf":
        return cache.compile_grammar(source.text, **options)
    if source.kind == "regex":
        return cache.compile_regex(source.text)
    return cache.compile_structural_tag(source.text)
