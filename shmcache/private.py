"""The same compiler in this process, with no cache. All of it raises what :func:`compile_source` does.

Owns the compiling functions that take a vocabulary. Must never know of managers or shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmcache.grammar.key import Source
from shmcache.limits import COMPILE_SECONDS_MAX, Budget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shmcache.matcher.compiled_grammar import CompiledGrammar
    from shmcache.vocabulary.vocabulary import Vocabulary

PRIVATE_GENERATION = 0
"""The generation of a grammar that no cache holds."""


def compile_source(source: Source, vocab: Vocabulary, *, timeout: float | None = None) -> CompiledGrammar:
    """The compiled grammar of ``source``; ``timeout`` in seconds (None: the default of 30).

    Raises :class:`SourceError`, :class:`UnsupportedError` or :class:`LimitError`.
    """
    # Late: what compiles is heavy, and a process whose grammars are all in the cache never needs it.
    from shmcache.compiler import compile_image
    from shmcache.image.image import open_image
    from shmcache.matcher.compiled_grammar import CompiledGrammar

    budget = Budget(seconds_max=COMPILE_SECONDS_MAX if timeout is None else timeout)
    data = compile_image(source, vocab, budget=budget)
    return CompiledGrammar(open_image(data), vocab, generation=PRIVATE_GENERATION, memory_size_bytes=len(data))


def compile_json_schema(
    schema: Any,
    vocab: Vocabulary,
    any_whitespace: bool = True,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    strict_mode: bool = True,
    max_whitespace_cnt: int | None = None,
    on_unsupported: str = "error",
    timeout: float | None = None,
    *,
    canonical_numbers: bool = True,
    any_order: bool = False,
) -> CompiledGrammar:
    """Compiles a JSON Schema: its text, the parsed document, or a pydantic model class.

    ``any_whitespace`` admits JSON whitespace between tokens, at most ``max_whitespace_cnt`` characters a run (None: any
    number); without it whitespace is that of ``json.dumps`` with ``indent`` and ``separators``. ``strict_mode`` closes
    objects and arrays whose schema does not speak of further members. ``on_unsupported`` is ``"error"``, or
    ``"ignore"`` for warnings on the grammar instead. ``canonical_numbers=False`` admits ``1.0`` and ``-0`` as integers.
    ``any_order`` admits the members of objects in any order instead of the declared one, each declared name once;
    objects of many members are refused then (:class:`UnsupportedError`).
    ``timeout`` is in seconds (None: 30).
    """
    source = Source.json_schema(
        schema,
        any_whitespace=any_whitespace,
        indent=indent,
        separators=separators,
        strict_mode=strict_mode,
        max_whitespace_cnt=max_whitespace_cnt,
        canonical_numbers=canonical_numbers,
        on_unsupported=on_unsupported,
        any_order=any_order,
    )
    return compile_source(source, vocab, timeout=timeout)


def compile_grammar(
    ebnf: str, vocab: Vocabulary, root_rule_name: str = "root", timeout: float | None = None
) -> CompiledGrammar:
    """Compiles an EBNF grammar."""
    return compile_source(Source.ebnf(ebnf, root_rule_name), vocab, timeout=timeout)


def compile_regex(pattern: str, vocab: Vocabulary, timeout: float | None = None) -> CompiledGrammar:
    """Compiles a regular expression that the whole output matches."""
    return compile_source(Source.regex(pattern), vocab, timeout=timeout)


def compile_structural_tag(
    tag: Any, vocab: Vocabulary, triggers: Iterable[str] | None = None, timeout: float | None = None
) -> CompiledGrammar:
    """Compiles a structural tag: its JSON text, the parsed document, or a pydantic object that stands for one.

    With ``triggers``, ``tag`` is the list of tags of the older interface.
    """
    return compile_source(Source.structural_tag(tag, triggers), vocab, timeout=timeout)


def compile_builtin_json_grammar(vocab: Vocabulary, timeout: float | None = None) -> CompiledGrammar:
    """Compiles the grammar of any JSON value."""
    return compile_source(Source.builtin_json(), vocab, timeout=timeout)
