"""Small constructors that keep expressions flat.

Owns nothing but the joining of expressions. Must never know JSON.
"""

from __future__ import annotations

from collections.abc import Iterable

from shmcache.grammar.ir import EMPTY, Choice, Expression, Literal, Repeat, Sequence


def sequence(*parts: Expression) -> Expression:
    """All parts, one after the other; nested sequences are opened and adjacent literals joined."""
    items: list[Expression] = []
    for part in parts:
        for item in part.items if type(part) is Sequence else (part,):
            if type(item) is Literal and items and type(last := items[-1]) is Literal:
                items[-1] = Literal(last.data + item.data)
            else:
                items.append(item)
    return items[0] if len(items) == 1 else Sequence(tuple(items))


def choice(options: Iterable[Expression]) -> Expression:
    """Any one of the options."""
    listed = tuple(options)
    return listed[0] if len(listed) == 1 else Choice(listed)


def optional(item: Expression) -> Expression:
    """``item`` or nothing."""
    return Choice((EMPTY, item))


def repeat(item: Expression, minimum: int, maximum: int | None) -> Expression:
    """``item`` that many times; None: no upper bound."""
    if maximum == 0:
        return EMPTY
    return item if minimum == maximum == 1 else Repeat(item, minimum, maximum)
