"""A host-wide shared-memory cache of compiled grammars for LLM structured output.

Owns the public names. They are loaded when first used, so that ``import shmcache`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shmcache.client import GrammarCache, connect
    from shmcache.errors import (
        BatchLimitError,
        LimitError,
        ManagerUnavailable,
        SegmentError,
        ShmCacheError,
        SourceError,
        UnsupportedError,
    )
    from shmcache.matcher.batch import (
        BatchGrammarMatcher,
        batch_accept_string,
        batch_accept_token,
        batch_fill_next_token_bitmask,
        batch_rollback,
    )
    from shmcache.matcher.bitmask import allocate_token_bitmask
    from shmcache.matcher.compiled_grammar import CompiledGrammar
    from shmcache.matcher.matcher import GrammarMatcher
    from shmcache.private import (
        compile_builtin_json_grammar,
        compile_grammar,
        compile_json_schema,
        compile_regex,
        compile_structural_tag,
    )
    from shmcache.vocabulary.vocabulary import Vocabulary

__all__ = [
    "BatchGrammarMatcher",
    "BatchLimitError",
    "CompiledGrammar",
    "GrammarCache",
    "GrammarMatcher",
    "LimitError",
    "ManagerUnavailable",
    "SegmentError",
    "ShmCacheError",
    "SourceError",
    "UnsupportedError",
    "Vocabulary",
    "allocate_token_bitmask",
    "batch_accept_string",
    "batch_accept_token",
    "batch_fill_next_token_bitmask",
    "batch_rollback",
    "compile_builtin_json_grammar",
    "compile_grammar",
    "compile_json_schema",
    "compile_regex",
    "compile_structural_tag",
    "connect",
]

_HOMES = {
    "shmcache.client": ("GrammarCache", "connect"),
    "shmcache.errors": (
        "BatchLimitError",
        "LimitError",
        "ManagerUnavailable",
        "SegmentError",
        "ShmCacheError",
        "SourceError",
        "UnsupportedError",
    ),
    "shmcache.matcher.batch": (
        "BatchGrammarMatcher",
        "batch_accept_string",
        "batch_accept_token",
        "batch_fill_next_token_bitmask",
        "batch_rollback",
    ),
    "shmcache.matcher.bitmask": ("allocate_token_bitmask",),
    "shmcache.matcher.compiled_grammar": ("CompiledGrammar",),
    "shmcache.matcher.matcher": ("GrammarMatcher",),
    "shmcache.private": (
        "compile_builtin_json_grammar",
        "compile_grammar",
        "compile_json_schema",
        "compile_regex",
        "compile_structural_tag",
    ),
    "shmcache.vocabulary.vocabulary": ("Vocabulary",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
