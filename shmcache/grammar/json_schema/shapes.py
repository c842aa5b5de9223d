"""The normal form of a schema: for each JSON type, a union of constraint records.

Owns the union of conjunctions and its two operations. A shape holds no schema any more, but the nodes of members and
items, which are worked out later. Must never know keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from shmcache.grammar.json_schema.arrays import ANY_ARRAY, ArraySet, intersect_arrays
from shmcache.grammar.json_schema.numbers import ANY_NUMBER, NumberSet, intersect_numbers, unite_constants
from shmcache.grammar.json_schema.objects import ANY_OBJECT, ObjectSet, intersect_unions
from shmcache.grammar.json_schema.strings import ANY_STRING, StringSet, intersect_strings, unite_constant_strings
from shmcache.limits import Budget

_Record = TypeVar("_Record", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Shape:
    """A set of JSON values: a value is in it when it satisfies one of the records of its type."""

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: tuple[NumberSet, ...] = ()
    strings: tuple[StringSet, ...] = ()
    arrays: tuple[ArraySet, ...] = ()
    objects: tuple[ObjectSet, ...] = ()


NOTHING = Shape()
EVERYTHING = Shape(True, frozenset((False, True)), (ANY_NUMBER,), (ANY_STRING,), (ANY_ARRAY,), (ANY_OBJECT,))


def _each_with_each(
    first: tuple[_Record, ...],
    second: tuple[_Record, ...],
    anything: _Record,
    intersect: Callable[[_Record, _Record], _Record | None],
    budget: Budget,
) -> tuple[_Record, ...]:
    if first == (anything,):
        return second
    if second == (anything,) or first == second:
        return first
    budget.spend_states(len(first) * len(second))
    found = (intersect(one, other) for one in first for other in second)
    return tuple(dict.fromkeys(record for record in found if record is not None))


def intersect(first: Shape, second: Shape, budget: Budget) -> Shape:
    """Values of both."""
    if first is EVERYTHING or first == EVERYTHING:
        return second
    if second is EVERYTHING or second == EVERYTHING:
        return first
    return Shape(
        first.null and second.null,
        first.booleans & second.booleans,
        _each_with_each(first.numbers, second.numbers, ANY_NUMBER, intersect_numbers, budget),
        _each_with_each(first.strings, second.strings, ANY_STRING, intersect_strings, budget),
        _each_with_each(first.arrays, second.arrays, ANY_ARRAY, intersect_arrays, budget),
        intersect_unions(first.objects, second.objects, budget),
    )


def _distinct(records: Iterable[_Record], anything: _Record) -> tuple[_Record, ...]:
    distinct = dict.fromkeys(records)
    return (anything,) if anything in distinct else tuple(distinct)


def unite(shapes: Iterable[Shape]) -> Shape:
    """Values of any of the shapes."""
    listed = list(shapes)
    if len(listed) == 1:
        return listed[0]
    return Shape(
        any(shape.null for shape in listed),
        frozenset().union(*(shape.booleans for shape in listed)),
        _distinct(unite_constants(one for shape in listed for one in shape.numbers), ANY_NUMBER),
        _distinct(unite_constant_strings(one for shape in listed for one in shape.strings), ANY_STRING),
        _distinct((one for shape in listed for one in shape.arrays), ANY_ARRAY),
        _distinct((one for shape in listed for one in shape.objects), ANY_OBJECT),
    )
