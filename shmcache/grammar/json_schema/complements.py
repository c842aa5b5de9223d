"""Complements of shapes: what satisfies ``not``.

Owns the complement of a shape and of its records of containers. Must never know keywords.

The complement of a union of conjunctions is a conjunction of unions: of each record, some field must fail. Where the
members of a container must fail, their node's complement is left to be read later, as other nodes are. What cannot be
written as a record, such as "some additional property fails", is :class:`NotComputableError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shmcache.grammar.json_schema.arrays import ANY_ARRAY, ArraySet, Contains
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node
from shmcache.grammar.json_schema.numbers import ANY_NUMBER, NumberSet, complement_numbers
from shmcache.grammar.json_schema.objects import ANY_OBJECT, Layer, Need, ObjectSet, intersect_unions
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
    for one in _failures(shape, complement_of, budget):
        result = intersect(result, one, budget)
    return result


def _failures(shape: Shape, complement_of: ComplementOf, budget: Budget) -> list[Shape]:
    """For each record, the values that fail it."""
    numbers: list[tuple[NumberSet, ...]] = [complement_numbers(one) for one in shape.numbers]
    strings: list[tuple[StringSet, ...]] = [complement_strings(one) for one in shape.strings]
    arrays = [complement_arrays(one, complement_of) for one in shape.arrays]
    objects = [complement_objects(one, complement_of, budget) for one in shape.objects]
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


def unless_array(*records: ArraySet) -> Shape:
    """Every value that is no array, and arrays of these records."""
    return _but(arrays=records)


def without(name: str) -> ObjectSet:
    """Objects that have no such member."""
    return ObjectSet(properties=((name, NEVER),))


def having(name: str, node: Node = ANYTHING) -> ObjectSet:
    """Objects with such a member."""
    return ObjectSet(properties=((name, node),), required=(name,))


def complement_objects(record: ObjectSet, complement_of: ComplementOf, budget: Budget) -> tuple[ObjectSet, ...]:
    """Objects that lack a required member or a needed one, have one that fails, or too few or too many."""
    failing = [without(name) for name in record.required]
    failing.extend(having(name, complement_of(node)) for name, node in record.properties if node != ANYTHING)
    needs = [
        Need(pattern=pattern, value=complement_of(node))
        for layer in record.layers
        for pattern, node in layer.patterns
        if node != ANYTHING
    ]
    needs.extend(
        Need(
            unmatched=tuple(pattern for pattern, _ in layer.patterns),
            excluded=layer.declared,
            value=complement_of(layer.extra),
        )
        for layer in record.layers
        if layer.extra != ANYTHING
    )
    if record.extra != ANYTHING:
        declared = frozenset(name for name, _ in record.properties)
        needs.append(Need(excluded=declared, value=complement_of(record.extra)))
    if record.names != ANYTHING:
        needs.append(Need(names=complement_of(record.names)))
    failing.extend(ObjectSet(needs=(need,)) for need in needs)
    failing.extend(_unmet(need, complement_of) for need in record.needs)
    if record.minimum:
        failing.append(ObjectSet(maximum=record.minimum - 1))
    if record.maximum is not None:
        failing.append(ObjectSet(minimum=record.maximum + 1))
    for union in record.unions:
        outside: tuple[ObjectSet, ...] = (ANY_OBJECT,)
        for one in union:
            outside = intersect_unions(outside, complement_objects(one, complement_of, budget), budget)
        failing.extend(outside)
    return tuple(failing)


def _unmet(need: Need, complement_of: ComplementOf) -> ObjectSet:
    """Objects without any member of that kind."""
    if need.names != ANYTHING:
        return ObjectSet(names=complement_of(need.names))
    value = complement_of(need.value)
    if need.pattern is not None:
        return ObjectSet(layers=(Layer(frozenset(), ((need.pattern, value),), ANYTHING),))
    unmatched = tuple((pattern, ANYTHING) for pattern in need.unmatched)
    return ObjectSet(layers=(Layer(need.excluded, unmatched, value),))


def complement_arrays(record: ArraySet, complement_of: ComplementOf) -> tuple[ArraySet, ...]:
    """Arrays that are too short or too long, have an item that fails, or too few or too many of a kind."""
    if record.unique:
        raise NotComputableError("equal items cannot be asked for")
    failing = [
        ArraySet(prefix=(*(ANYTHING,) * at, complement_of(node)), minimum=at + 1)
        for at, node in enumerate(record.prefix)
        if node != ANYTHING
    ]
    if record.rest != ANYTHING:
        start = len(record.prefix)
        failing.append(ArraySet(contains=(Contains(complement_of(record.rest), record.rest, 1, None, start),)))
    for one in record.contains:
        if one.minimum:
            failing.append(ArraySet(contains=(replace(one, minimum=0, maximum=one.minimum - 1),)))
        if one.maximum is not None:
            failing.append(ArraySet(contains=(replace(one, minimum=one.maximum + 1, maximum=None),)))
    if record.minimum:
        failing.append(ArraySet(maximum=record.minimum - 1))
    if record.maximum is not None:
        failing.append(ArraySet(minimum=record.maximum + 1))
    return tuple(failing)
