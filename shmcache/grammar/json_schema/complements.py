"""Complements of shapes: what satisfies ``not``.

Owns the complement of a shape and of its records of containers. Must never know keywords.

The complement of a union of conjunctions is a conjunction of unions: of each record, some field must fail. Where the
members of a container must fail, their node's complement is left to be read later, as other nodes are. What cannot be
written as a record, such as "some additional property fails", is :class:`NotComputableError`.
"""

from __future__ import annotations

from collections.abc import Callable

from shmcache.grammar.json_schema.arrays import ANY_ARRAY, ArraySet
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node
from shmcache.grammar.json_schema.numbers import ANY_NUMBER, NumberSet, complement_numbers
from shmcache.grammar.json_schema.objects import ANY_OBJECT, ObjectSet
from shmcache.grammar.json_schema.shapes import EVERYTHING, Shape, intersect
from shmcache.grammar.json_schema.strings import ANY_STRING, StringSet, complement_strings
from shmcache.limits import Budget

ComplementOf = Callable[[Node], Node]


class NotComputableError(Exception):
    """The complement is no union of records. The message says why."""


def complement(shape: Shape, complement_of: ComplementOf, budget: Budget) -> Shape:
    """All values that are not in the shape. ``complement_of`` gives the node of what does not satisfy a node."""
    result = Shape(
        not shape.null,
        frozenset((False, True)) - shape.booleans,
        (ANY_NUMBER,),
        (ANY_STRING,),
        (ANY_ARRAY,),
        (ANY_OBJECT,),
    )
    for one in _failures(shape, complement_of):
        result = intersect(result, one, budget)
    return result


def _failures(shape: Shape, complement_of: ComplementOf) -> list[Shape]:
    """For each record, the values that fail it."""
    numbers: list[tuple[NumberSet, ...]] = [complement_numbers(one) for one in shape.numbers]
    strings: list[tuple[StringSet, ...]] = [complement_strings(one) for one in shape.strings]
    arrays = [complement_arrays(one, complement_of) for one in shape.arrays]
    objects = [complement_objects(one, complement_of) for one in shape.objects]
    return [
        *(_but(numbers=one) for one in numbers),
        *(_but(strings=one) for one in strings),
        *(_but(arrays=one) for one in arrays),
        *(_but(objects=one) for one in objects),
    ]


def _but(
    *,
    numbers: tuple[NumberSet, ...] = (ANY_NUMBER,),
    strings: tuple[StringSet, ...] = (ANY_STRING,),
    arrays: tuple[ArraySet, ...] = (ANY_ARRAY,),
    objects: tuple[ObjectSet, ...] = (ANY_OBJECT,),
) -> Shape:
    """Everything, but of one type only these values."""
    return Shape(True, EVERYTHING.booleans, numbers, strings, arrays, objects)


def of_objects(*records: ObjectSet) -> Shape:
    """Objects of these records only."""
    return Shape(objects=records)


def unless_object(*records: ObjectSet) -> Shape:
    """Every value that is no object, and objects of these records."""
    return _but(objects=records)


def without(name: str) -> ObjectSet:
    """Objects that have no such member."""
    return ObjectSet(properties=((name, NEVER),))


def having(name: str, node: Node = ANYTHING) -> ObjectSet:
    """Objects with such a member."""
    return ObjectSet(properties=((name, node),), required=(name,))


def complement_objects(record: ObjectSet, complement_of: ComplementOf) -> tuple[ObjectSet, ...]:
    """Objects that lack a required member, or have a declared one that fails."""
    if record.layers or record.names != ANYTHING:
        raise NotComputableError("names by their patterns cannot be made to fail")
    if record.extra != ANYTHING:
        raise NotComputableError("additional properties cannot be made to fail")
    failing = [without(name) for name in record.required]
    failing.extend(having(name, complement_of(node)) for name, node in record.properties if node != ANYTHING)
    return tuple(failing)


def complement_arrays(record: ArraySet, complement_of: ComplementOf) -> tuple[ArraySet, ...]:
    """Arrays that are too short or too long, or have an item that fails."""
    if record.rest != ANYTHING and record.maximum != len(record.prefix):
        raise NotComputableError("items cannot be made to fail")
    failing = [
        ArraySet(prefix=(*(ANYTHING,) * at, complement_of(node)), minimum=at + 1)
        for at, node in enumerate(record.prefix)
        if node != ANYTHING
    ]
    if record.minimum:
        failing.append(ArraySet(maximum=record.minimum - 1))
    if record.maximum is not None:
        failing.append(ArraySet(minimum=record.maximum + 1))
    return tuple(failing)
