"""Expressions part by part: all parts of one, and one made from another.

Owns the walk. Without recursion, as expressions nest deeply. Must never know why a part is looked at or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shmcache.grammar.ir import Choice, Expression, Graph, Repeat, Sequence


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, in order."""
    pending = [expression]
    while pending:
        here = pending.pop()
        yield here
        pending.extend(reversed(_parts(here)))


def rewritten(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with ``change`` applied to every part that has no parts; what stays the same is not copied."""
    stack = [_Visit(expression, _parts(expression), [])]
    while True:
        visit = stack[-1]
        if len(visit.done) < len(visit.parts):
            part = visit.parts[len(visit.done)]
            stack.append(_Visit(part, _parts(part), []))
            continue
        stack.pop()
        if not visit.parts:
            result = change(visit.expression)
        elif all(part is done for part, done in zip(visit.parts, visit.done, strict=True)):
            result = visit.expression
        else:
            result = _with_parts(visit.expression, tuple(visit.done))
        if not stack:
            return result
        stack[-1].done.append(result)


@dataclass(slots=True)
class _Visit:
    """An expression whose parts are being rewritten."""

    expression: Expression
    parts: tuple[Expression, ...]
    done: list[Expression]


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Sequence(items):
            return items
        case Choice(options):
            return options
        case Repeat(item, _, _):
            return (item,)
        case Graph(_, edges, _):
            return tuple(item for _, item, _ in edges)
        case _:
            return ()


def _with_parts(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    match expression:
        case Sequence():
            return Sequence(parts)
        case Choice():
            return Choice(parts)
        case Repeat(_, minimum, maximum):
            return Repeat(parts[0], minimum, maximum)
        case Graph(state_count, edges, final):
            joined = zip(edges, parts, strict=True)
            return Graph(state_count, tuple((source, part, target) for (source, _, target), part in joined), final)
        case _:
            return expression
