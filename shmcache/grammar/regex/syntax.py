"""The syntax tree of a regular expression.

Owns the node classes and the one simplification of them. Must never know the pattern text, nor automata.

Zero-width assertions are reduced to three primitives, all about the text and none about the match: what the previous
character is (:class:`Behind`), what the next one is (:class:`Ahead`), and how the rest of the text begins
(:class:`Lookahead`). Trees are as deep as the pattern is nested, so nothing here or elsewhere walks them by recursion.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcache.regular.code_points import NONE, CodePoints


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """One character of the set."""

    code_points: CodePoints


@dataclass(frozen=True, slots=True, eq=False)
class Concatenation:
    """All items, one after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alternation:
    """Any one of the options."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """``item`` at least ``minimum`` and at most ``maximum`` times (None: no bound)."""

    item: Node
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Behind:
    """The previous character is a member, or this is the beginning of the text and ``at_begin`` holds."""

    code_points: CodePoints
    at_begin: bool


@dataclass(frozen=True, slots=True)
class Ahead:
    """The next character is a member, or this is the end of the text and ``at_end`` holds."""

    code_points: CodePoints
    at_end: bool


@dataclass(frozen=True, slots=True, eq=False)
class Lookahead:
    """The rest of the text begins with a match of ``body``; or, when ``is_negative``, it does not."""

    body: Node
    is_negative: bool


Node = Characters | Concatenation | Alternation | Repetition | Behind | Ahead | Lookahead

EMPTY = Concatenation(())

BEGIN_OF_TEXT = Behind(NONE, at_begin=True)
END_OF_TEXT = Ahead(NONE, at_end=True)


def word_boundary(word: CodePoints) -> Node:
    """``\\b``: of the characters on both sides, exactly one is a member of ``word``."""
    return Alternation(
        (
            Concatenation((Behind(word, at_begin=False), Ahead(~word, at_end=True))),
            Concatenation((Behind(~word, at_begin=True), Ahead(word, at_end=False))),
        )
    )


def no_word_boundary(word: CodePoints) -> Node:
    """``\\B``: of the characters on both sides, both or none are members of ``word``."""
    return Alternation(
        (
            Concatenation((Behind(word, at_begin=False), Ahead(word, at_end=False))),
            Concatenation((Behind(~word, at_begin=True), Ahead(~word, at_end=True))),
        )
    )


def repetition(item: Node, minimum: int, maximum: int | None) -> Node:
    """``item{minimum,maximum}`` without the nesting that would multiply states: ``(x?){9}`` is ``x{0,9}``."""
    if maximum == 0 or item is EMPTY:
        return EMPTY
    if (minimum, maximum) == (1, 1):
        return item
    if isinstance(item, Repetition):
        if item.maximum is None and item.minimum <= 1:
            return Repetition(item.item, item.minimum * minimum, None)
        if (item.minimum, item.maximum) == (0, 1):
            return Repetition(item.item, 0, maximum)
    return Repetition(item, minimum, maximum)
