"""Arrays of distinct items from finitely many values.

Owns the question which values a shape has, and the working of ``uniqueItems`` into a record. Must never know how values
are spelt.

Which values have occurred must be remembered, so the automaton has a state for every set of values: what is asked of
more than :data:`SETS_MAX` of them is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb
from typing import Any

from shmcache.grammar.json_schema.arrays import ArraySet
from shmcache.grammar.json_schema.nodes import Node
from shmcache.grammar.json_schema.numbers import finite_numbers
from shmcache.grammar.json_schema.shapes import Shape
from shmcache.grammar.json_schema.strings import Strings

SETS_MAX = 4096
"""Most sets of values."""

_VALUES_MAX = 64


def finite_values(shape: Shape, strings: Strings) -> list[Any] | None:
    """All values of a shape, None when they are many, or containers."""
    values: list[Any] = [None] if shape.null else []
    values.extend(sorted(shape.booleans))
    for numbers in shape.numbers:
        listed = finite_numbers(numbers, _VALUES_MAX)
        if listed is None:
            return None
        values.extend(listed)
    for one in shape.strings:
        if one.constants is None:
            return None
        values.extend(text for text in sorted(one.constants) if strings.text_automaton(one).accepts(map(ord, text)))
    if shape.arrays or shape.objects or len(values) > _VALUES_MAX:
        return None
    return values


def distinct_array(
    arrays: ArraySet, values_of: Callable[[Node], list[Any] | None], constant: Callable[[Any], Node]
) -> ArraySet | None:
    """The record with ``uniqueItems`` worked in; None where there are too many values, or they are not known."""
    if arrays.contains:
        return None
    known: dict[tuple[bool, Any], Node] = {}
    by_position: list[tuple[Node, ...]] = []
    for node in (*arrays.prefix, arrays.rest):
        values = values_of(node)
        if values is None:
            return None
        nodes = [known.setdefault((isinstance(value, bool), value), constant(value)) for value in values]
        by_position.append(tuple(dict.fromkeys(nodes)))
    count = len(known)
    longest = count if arrays.maximum is None else min(count, arrays.maximum)
    if sum(comb(count, size) for size in range(longest + 1)) > SETS_MAX:
        return None
    return replace(arrays, unique=(), distinct=tuple(by_position))
