"""What a schema's own keywords admit, those that apply other schemas to the same value aside.

Owns the reading of types, constants and constraints into a shape. Must never know references, nor how an instance is
spelt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.json_schema import arrays, objects
from shmcache.grammar.json_schema.arrays import ANY_ARRAY, ArraySet, constant_array, read_arrays
from shmcache.grammar.json_schema.complements import unless_object, without
from shmcache.grammar.json_schema.document import Document
from shmcache.grammar.json_schema.keywords import Keywords, Number, exact_number
from shmcache.grammar.json_schema.nodes import Node, node_of
from shmcache.grammar.json_schema.numbers import constant_numbers, read_numbers
from shmcache.grammar.json_schema.objects import ANY_OBJECT, ObjectSet, constant_object, read_objects
from shmcache.grammar.json_schema.refusals import Refusals
from shmcache.grammar.json_schema.shapes import Shape, intersect
from shmcache.grammar.json_schema.strings import Strings, StringSet
from shmcache.limits import Budget

_DEPENDENT = frozenset(("dependentRequired", "dependencies"))
_TYPES = frozenset(("null", "boolean", "number", "integer", "string", "array", "object"))


class Assertions:
    """Shapes of the own keywords of schemas. ``complement_of`` gives the node of what does not satisfy a node."""

    def __init__(
        self,
        document: Document,
        strings: Strings,
        refusals: Refusals,
        complement_of: Callable[[Node], Node],
        budget: Budget,
    ) -> None:
        self._document = document
        self._strings = strings
        self._refusals = refusals
        self._complement_of = complement_of
        self._budget = budget

    def read(self, keywords: Keywords) -> Shape:
        """What the keywords say that are no applicators in place."""
        named = _types(keywords)
        types = _TYPES if named is None else named
        has_numbers = not types.isdisjoint(("number", "integer"))
        numbers = read_numbers(keywords, is_integer="number" not in types)  # always read: it may be malformed
        strings = self._strings.read(keywords, self._refusals.refuse if "string" in types else None)
        array_set, object_set = self._containers(keywords, named)
        shape = Shape(
            "null" in types,
            frozenset((False, True)) if "boolean" in types else frozenset(),
            (numbers,) if has_numbers else (),
            (strings,) if "string" in types else (),
            (array_set,) if "array" in types else (),
            (object_set,) if "object" in types else (),
        )
        for name, needed in _dependent_names(keywords) if keywords.has_any(_DEPENDENT) else ():
            needing = ObjectSet(required=tuple(dict.fromkeys((name, *needed))))
            shape = intersect(shape, unless_object(without(name), needing), self._budget)
        for name in ("const", "enum"):
            if name in keywords:
                values = keywords.values("enum") if name == "enum" else [keywords.schema["const"]]
                constants = self._constants(values, keywords.pointer(name))
                shape = intersect(shape, constants, self._budget)
        return shape

    def _containers(self, keywords: Keywords, named: frozenset[str] | None) -> tuple[ArraySet, ObjectSet]:
        """Arrays and objects; a schema that has no keyword for what is in such containers does not speak of that."""
        array_set, object_set = ANY_ARRAY, ANY_OBJECT
        if keywords.has_any(arrays.KEYWORDS):
            array_set = read_arrays(keywords, self._complement_of, self._document.draft_of(keywords.place))
        if keywords.has_any(objects.KEYWORDS):
            has_effect = named is None or "object" in named
            object_set = read_objects(keywords, self._strings, self._refusals.refuse if has_effect else _ignore)
        return array_set, object_set

    def _constants(self, values: Iterable[Any], pointer: str) -> Shape:
        """The shape of exactly these values, up to JSON's notion of equality."""
        has_null = False
        booleans: set[bool] = set()
        numbers: list[Number] = []
        strings: set[str] = set()
        array_sets: dict[ArraySet, None] = {}
        object_sets: dict[ObjectSet, None] = {}

        def constant(value: Any) -> Node:
            return node_of(self._document.constant_id(value, pointer))

        for value in values:
            number = exact_number(value)
            if value is None:
                has_null = True
            elif isinstance(value, bool):
                booleans.add(value)
            elif number is not None:
                numbers.append(number)
            elif isinstance(value, str):
                strings.add(value)
            elif isinstance(value, (list, tuple)):
                array_sets[constant_array(tuple(map(constant, value)))] = None
            elif isinstance(value, dict):
                object_sets[constant_object({name: constant(member) for name, member in value.items()})] = None
            else:
                raise SourceError(f"{value!r} is not a JSON value", pointer=pointer)
        return Shape(
            has_null,
            frozenset(booleans),
            (constant_numbers(numbers),) if numbers else (),
            (StringSet(constants=frozenset(strings)),) if strings else (),
            tuple(array_sets),
            tuple(object_sets),
        )


def _types(keywords: Keywords) -> frozenset[str] | None:
    """The types that ``type`` names, None when it is absent."""
    if "type" not in keywords:
        return None
    value = keywords.schema["type"]
    names = value if isinstance(value, (list, tuple)) and value else [value]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        raise keywords.malformed("type", f"one or several of {', '.join(sorted(_TYPES))}")
    return frozenset(names)


def _dependent_names(keywords: Keywords) -> Iterable[tuple[str, tuple[str, ...]]]:
    """(name, names that objects with a member of that name need)."""
    for keyword in ("dependentRequired", "dependencies"):
        for name, needed in keywords.map(keyword).items():
            if isinstance(needed, (list, tuple)):
                if not all(isinstance(one, str) for one in needed):
                    raise keywords.malformed(keyword, "a map of names to arrays of names")
                yield name, tuple(needed)
            elif keyword == "dependentRequired":
                raise keywords.malformed(keyword, "a map of names to arrays of names")


def _ignore(_error: UnsupportedError) -> None:
    """For keywords without effect."""
