"""Other languages inside a structural tag: JSON Schemas, grammars, patterns.

Owns the bringing together of their rules, whose names never collide, and of their errors, whose pointers lead into the
tag. Must never know formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar import ir
from shmcache.grammar.ebnf import ebnf_grammar
from shmcache.grammar.ir import Expression, Grammar, Reference, Regular
from shmcache.grammar.json_schema.front_end import write_schema
from shmcache.grammar.json_schema.layout import Layout
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.spelling import Spelling
from shmcache.grammar.json_schema.styles import MARKS, STYLES
from shmcache.grammar.regex import parse_regex
from shmcache.grammar.rewriting import rewritten
from shmcache.limits import Budget
from shmcache.regular.encode import encode_utf8


class Embedding:
    """Rules of everything inside one structural tag."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._of_layout: dict[tuple[int | None, tuple[str, ...], str], Rules] = {}
        self._schema_count = 0
        self._grammar_count = 0
        self._rules: dict[str, Expression] = {}
        self._shared: set[str] = set()
        self._warnings: list[ir.Warning] = []

    def schema(
        self, schema: Any, style: str, options: JsonSchemaOptions, excludes: tuple[str, ...], pointer: str
    ) -> Expression:
        """The instances of a JSON Schema, spelt in that style. ``pointer`` is that of the schema.

        No text of ``excludes`` occurs in its strings and names.
        """
        mark = MARKS.get(style, "")
        key = (options.max_whitespace_cnt, excludes, mark)
        rules = self._of_layout.get(key)
        if rules is None:
            prefix = f"layout_{len(self._of_layout)}_" if self._of_layout else ""
            rules = Rules(Layout(options), self._budget, prefix, Spelling(excludes, mark, self._budget))
            self._of_layout[key] = rules
        self._schema_count += 1
        name = f"schema_{self._schema_count}"
        with _placed(pointer):
            warnings = write_schema(schema, options, rules, name, self._budget, STYLES[style])
        self._warnings.extend(replace(one, pointer=pointer + one.pointer) for one in warnings)
        return Reference(name)

    def grammar(self, text: str, pointer: str) -> Expression:
        """The words of a grammar in EBNF, from its rule ``root``."""
        with _placed(pointer):
            grammar = ebnf_grammar(text, "root", self._budget)
        self._grammar_count += 1
        prefix = f"grammar_{self._grammar_count}_"

        def renamed(part: Expression) -> Expression:
            return Reference(prefix + part.rule) if isinstance(part, Reference) else part

        for name, body in grammar.rules.items():
            self._rules[prefix + name] = rewritten(body, renamed)
        self._shared.update(prefix + name for name in grammar.shared_rules)
        self._warnings.extend(grammar.warnings)
        return Reference(prefix + grammar.root)

    def regex(self, pattern: str, pointer: str) -> Expression:
        """The texts that a pattern matches as a whole."""
        with _placed(pointer):
            return Regular(encode_utf8(parse_regex(pattern, self._budget), self._budget))

    def with_root(self, root: str, rules: dict[str, Expression], shared: frozenset[str] = frozenset()) -> Grammar:
        """The grammar of ``rules`` and all that is embedded."""
        together = dict(rules)
        kept = self._shared | shared
        base: frozenset[str] = frozenset()
        for one in self._of_layout.values():
            grammar = one.grammar(())
            together |= grammar.rules
            kept |= grammar.shared_rules
            base |= grammar.base_rules
        together |= self._rules
        return Grammar(together, root, frozenset(kept), base, tuple(self._warnings))


@contextmanager
def _placed(pointer: str) -> Iterator[None]:
    """Makes the pointers of errors lead from the root of the tag."""
    try:
        yield
    except SourceError as error:
        raise SourceError(
            f"{error.message} (at {pointer!r})",
            pointer=pointer + (error.pointer or ""),
            line=error.line,
            column=error.column,
        ) from None
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{error.message} (at {pointer!r})",
            feature=error.feature,
            pointer=pointer + (error.pointer or ""),
            line=error.line,
            column=error.column,
        ) from None
