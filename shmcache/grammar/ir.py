"""The one representation of a grammar that all front ends produce.

Owns expressions and rules as values. Must never know the text they came from, nor any vocabulary.

A grammar is a set of named rules over bytes and whole tokens; an expression is one of the classes below. Sequences of
length 0 are ``EMPTY``; a choice of no options is the empty language ``NOTHING``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcache.regular.code_points import CodePoints
from shmcache.regular.dfa import Dfa


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of the set, in UTF-8."""

    code_points: CodePoints


@dataclass(frozen=True, slots=True)
class Regular:
    """Any member of a regular language; ``automaton`` is deterministic over bytes (alphabet 0..255)."""

    automaton: Dfa


@dataclass(frozen=True, slots=True)
class Reference:
    """A call of the rule of that name."""

    rule: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """All items, one after the other."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the options."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``item`` at least ``minimum`` and at most ``maximum`` times (None: no bound)."""

    item: Expression
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Graph:
    """States joined by expressions: what is spelt along any path from state 0 to ``final``.

    ``edges`` are (source, expression, target), with states below ``state_count``. For languages whose tree of choices
    and sequences would have to repeat large parts.
    """

    state_count: int
    edges: tuple[tuple[int, Expression, int], ...]
    final: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token of the vocabulary, taken whole, whatever its bytes; special tokens too.

    ``names`` are token ids, or texts that stand for every token with these bytes. With ``is_excluded`` any token that
    has bytes and is not named. The stop tokens of a request are never among them.
    """

    names: tuple[int | str, ...]
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class Metered:
    """A word of a regular language over bytes, made of at most ``tokens_max`` whole text tokens."""

    automaton: Dfa
    tokens_max: int


Expression = Literal | Characters | Regular | Reference | Sequence | Choice | Repeat | Graph | Tokens | Metered

EMPTY = Sequence(())
NOTHING = Choice(())


@dataclass(frozen=True, slots=True)
class Warning:  # noqa: A001  (the word users know; always written ir.Warning)
    """A keyword that was ignored because the caller asked for that, or because the standard says so."""

    feature: str
    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class Grammar:
    """Named rules, the root's name, and what the front end had to say.

    ``shared_rules`` names rules worth keeping as calls instead of inlining, because other grammars have them too
    (a JSON string, say): their rows are found in the rule tier. ``base_rules`` are shared rules of bytes alone that are
    kept even where nothing calls them: masks of similar rules, strings of bounded length, say, are worked out beside
    them.
    """

    rules: dict[str, Expression]
    root: str
    shared_rules: frozenset[str] = frozenset()
    base_rules: frozenset[str] = frozenset()
    warnings: tuple[Warning, ...] = field(default=())
