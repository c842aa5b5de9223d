"""Regular expressions of ECMA-262 as automata.

Owns the meaning of a pattern: which texts it matches as a whole, and in which it is found. Must never know JSON Schema,
which decides where a pattern applies.

Texts are sequences of code points. Captures and greed do not matter to a language; back-references and look-behind are
refused. The steps: ``parser`` (with ``scanner``) makes a tree of ``syntax``; ``nfa`` lays it out as states; and
``determiniser`` makes those deterministic, assertions included.
"""

from __future__ import annotations

from shmcache.grammar.ir import Grammar, Regular
from shmcache.grammar.regex.determiniser import text_automaton
from shmcache.grammar.regex.parser import parse
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_utf8

__all__ = ["parse_regex", "regex_grammar", "search_automaton"]

ROOT_RULE = "root"


def parse_regex(pattern: str, budget: Budget, *, flags: str = "") -> Dfa:
    """The minimal text automaton of the texts that ``pattern`` matches from beginning to end.

    ``flags`` are letters of ``imsu``. Raises :class:`SourceError` (line 1, column in code points),
    :class:`UnsupportedError` for back-references, look-behind and properties without data, and :class:`LimitError`.
    """
    return text_automaton(parse(pattern, budget, flags), budget, is_search=False)


def search_automaton(pattern: str, budget: Budget, flags: str = "") -> Dfa:
    """The minimal text automaton of the texts in which ``pattern`` is found somewhere. Errors: :func:`parse_regex`."""
    return text_automaton(parse(pattern, budget, flags), budget, is_search=True)


def regex_grammar(pattern: str, budget: Budget) -> Grammar:
    """The grammar whose words are the UTF-8 of the texts that ``pattern`` matches as a whole."""
    automaton = encode_utf8(parse_regex(pattern, budget), budget)
    return Grammar(rules={ROOT_RULE: Regular(automaton)}, root=ROOT_RULE)
