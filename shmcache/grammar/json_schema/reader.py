"""From schemas to shapes: what all keywords of a schema together admit.

Owns the reading of keywords and the following of references and of the applicators that concern the same value. Must
never know how an instance is spelt.

Every keyword that JSON Schema defines is enforced, refused, or known to constrain nothing; others are annotations by
the standard. Siblings of a reference apply together with it, except where the document declares a draft (up to 7) in
which they are to be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.json_schema import arrays, objects
from shmcache.grammar.json_schema.arrays import ANY_ARRAY, ArraySet, constant_array, read_arrays
from shmcache.grammar.json_schema.complements import (
    NotComputableError,
    complement,
    having,
    of_objects,
    unless_array,
    unless_object,
    without,
)
from shmcache.grammar.json_schema.document import FALSE, TRUE, Document
from shmcache.grammar.json_schema.evaluation import NotStaticError, unevaluated_arrays, unevaluated_objects
from shmcache.grammar.json_schema.keywords import Keywords, Number, exact_number
from shmcache.grammar.json_schema.nodes import ANYTHING, Node, both, node_of
from shmcache.grammar.json_schema.numbers import constant_numbers, read_numbers
from shmcache.grammar.json_schema.objects import ANY_OBJECT, ObjectSet, constant_object, read_objects
from shmcache.grammar.json_schema.refusals import Refusals
from shmcache.grammar.json_schema.shapes import EVERYTHING, NOTHING, Shape, intersect, unite
from shmcache.grammar.json_schema.strings import Strings, StringSet
from shmcache.grammar.schema_keywords import ANNOTATIONS
from shmcache.limits import Budget

_TYPES = frozenset(("null", "boolean", "number", "integer", "string", "array", "object"))
_BESIDE_REFERENCE = ANNOTATIONS | {"$ref", "$schema", "$id", "id", "$defs", "definitions"}


@dataclass(frozen=True, slots=True)
class _Reading:
    """One schema: what its own keywords admit, and the schemas that apply to the same value.

    failing: not all of these are satisfied. condition: ``if``, ``then``, ``else``. dependent: objects with a member of
    that name satisfy the schema.
    """

    own: Shape
    all_of: tuple[int, ...] = ()
    any_of: tuple[int, ...] | None = None
    one_of: tuple[int, ...] | None = None
    failing: tuple[int, ...] | None = None
    condition: tuple[int, int, int] | None = None
    dependent: tuple[tuple[str, int], ...] = ()

    @property
    def in_place(self) -> tuple[int, ...]:
        groups = (self.all_of, self.any_of, self.one_of, self.failing, self.condition)
        return (*(one for group in groups for one in group or ()), *(one for _, one in self.dependent))


class Reader:
    """Shapes of the schemas of one document, each worked out once.

    ``is_satisfiable`` decides whether a node surely has no value; without it ``oneOf`` is read as ``anyOf``.
    """

    def __init__(
        self,
        document: Document,
        strings: Strings,
        refusals: Refusals,
        budget: Budget,
        is_satisfiable: Callable[[Node], bool] | None = None,
    ) -> None:
        self._document = document
        self._strings = strings
        self._refusals = refusals
        self._budget = budget
        self._is_satisfiable = is_satisfiable
        self._readings: dict[int, _Reading] = {}
        self._shapes: dict[int, Shape] = {TRUE: EVERYTHING, FALSE: NOTHING}
        self._inexact: set[int] = set()  # schemas whose shapes admit too much, because something was ignored

    def constant(self, value: Any) -> Node:
        """The node of one value."""
        return node_of(self._document.constant_id(value, ""))

    def opposite(self, node: Node) -> Node | None:
        """The node of what does not satisfy ``node``, where the node says nothing of what is in containers."""
        shape = self.shape(node)
        if not set(shape.arrays) <= {ANY_ARRAY} or not set(shape.objects) <= {ANY_OBJECT}:
            return None
        return None if not self._inexact.isdisjoint(node) else self._complement_of(node)

    def shape(self, node: Node) -> Shape:
        """The values that satisfy all schemas of the node."""
        result = EVERYTHING
        for schema_id in node:
            result = intersect(result, self._schema_shape(schema_id), self._budget)
        return result

    def _schema_shape(self, wanted: int) -> Shape:
        """Works through the schemas that apply in place, depth first and without recursion."""
        stack = [wanted]
        entered: set[int] = set()
        while stack:
            schema_id = stack[-1]
            if schema_id in self._shapes:
                stack.pop()
                continue
            reading = self._reading(schema_id)
            if schema_id not in entered:
                entered.add(schema_id)
                missing = [one for one in reading.in_place if one not in self._shapes]
                for one in missing:
                    if one in entered:
                        raise SourceError(
                            "the schema refers to itself without a property or an item in between",
                            pointer=self._document.place(one).pointer,
                        )
                stack.extend(reversed(missing))
                if missing:
                    continue
            self._shapes[schema_id] = self._combined(schema_id, reading)
        return self._shapes[wanted]

    def _combined(self, schema_id: int, reading: _Reading) -> Shape:
        ignored_count = self._refusals.refused_count
        result = reading.own
        for one in reading.all_of:
            result = self._both(result, self._shapes[one])
        if reading.any_of is not None:
            result = self._both(result, unite(self._shapes[one] for one in reading.any_of))
        if reading.one_of is not None:
            result = self._both(result, self._exactly_one(schema_id, reading.one_of))
        if reading.failing is not None:
            failing = [self._failing(schema_id, one, "not") for one in reading.failing]
            result = self._both(result, unite(failing))
        if reading.condition is not None:
            result = self._both(result, self._conditional(schema_id, *reading.condition))
        for name, one in reading.dependent:
            present = self._both(of_objects(having(name)), self._shapes[one])
            result = self._both(result, unite((unless_object(without(name)), present)))
        is_ignored = self._refusals.refused_count > ignored_count
        if is_ignored or not self._inexact.isdisjoint(reading.in_place):
            self._inexact.add(schema_id)
        return result

    def _both(self, first: Shape, second: Shape) -> Shape:
        return intersect(first, second, self._budget)

    def _failing(self, schema_id: int, inner: int, keyword: str) -> Shape:
        """What does not satisfy ``inner``; refused, and everything, where that cannot be told."""
        try:
            if inner in self._inexact:
                raise NotComputableError("a part of it is ignored")
            return complement(self._shapes[inner], self._complement_of, self._budget)
        except NotComputableError as error:
            place = self._document.place(schema_id)
            is_made_up = self._document.complemented(schema_id) is not None
            pointer = place.pointer if is_made_up else f"{place.pointer}/{keyword}"
            message = f"{keyword!r} needs what a schema does not admit: {error}"
            self._refusals.refuse(UnsupportedError(message, feature=keyword, pointer=pointer))
            return EVERYTHING

    def _complement_of(self, node: Node) -> Node:
        return node_of(self._document.complement_id(node))

    def _conditional(self, schema_id: int, condition: int, then: int, otherwise: int) -> Shape:
        holds = self._both(self._shapes[condition], self._shapes[then])
        if otherwise == FALSE:
            return holds
        return unite((holds, self._both(self._failing(schema_id, condition, "if"), self._shapes[otherwise])))

    def _exactly_one(self, schema_id: int, branches: tuple[int, ...]) -> Shape:
        """Each branch without those others that may have values in common with it."""
        if self._is_satisfiable is None:
            self._inexact.add(schema_id)
            return unite(self._shapes[one] for one in branches)
        overlapping: dict[int, list[int]] = {at: [] for at in range(len(branches))}
        for at, one in enumerate(branches):
            for after, other in enumerate(branches[at + 1 :], at + 1):
                pair = both(node_of(one), node_of(other))
                # Mostly the pair alone decides; with the whole schema, each pair costs as much as all branches.
                if self._is_satisfiable(pair) and self._is_satisfiable(both(node_of(schema_id), pair)):
                    overlapping[at].append(other)
                    overlapping[after].append(one)
        shapes: list[Shape] = []
        for at, one in enumerate(branches):
            shape = self._shapes[one]
            for other in overlapping[at]:
                shape = self._both(shape, self._failing(schema_id, other, "oneOf"))
            shapes.append(shape)
        return unite(shapes)

    def _reading(self, schema_id: int) -> _Reading:
        known = self._readings.get(schema_id)
        if known is None:
            self._budget.spend_states()
            complemented = self._document.complemented(schema_id)
            ignored_count = self._refusals.refused_count
            if complemented is not None:
                known = _Reading(EVERYTHING, failing=complemented)
            else:
                known = self._read(Keywords(self._document, self._document.place(schema_id)))
            if self._refusals.refused_count > ignored_count:
                self._inexact.add(schema_id)
            self._readings[schema_id] = known
        return known

    def _read(self, keywords: Keywords) -> _Reading:
        reference = keywords.text("$ref")
        target: tuple[int, ...] = ()
        if reference is not None:
            target = self._resolved(reference, keywords)
            if self._document.draft <= 7:
                if not keywords.schema.keys() <= _BESIDE_REFERENCE:
                    pointer = keywords.pointer("$ref")
                    self._refusals.warn("$ref", pointer, "in the declared draft the siblings of '$ref' are ignored")
                return _Reading(EVERYTHING, target)
        shape = self._unevaluated(keywords, self._own_shape(keywords))
        self._refusals.check(keywords, shape, self._document.draft)
        failing, affirmed = self._negated(keywords)
        return _Reading(
            shape,
            (*target, *affirmed, *(self._branches(keywords, "allOf") or ())),
            self._branches(keywords, "anyOf"),
            self._branches(keywords, "oneOf"),
            failing,
            self._condition(keywords),
            self._dependent(keywords),
        )

    def _unevaluated(self, keywords: Keywords, shape: Shape) -> Shape:
        """What ``unevaluatedProperties`` and ``unevaluatedItems`` leave of the shape."""
        for name in ("unevaluatedProperties", "unevaluatedItems"):
            node = node_of(keywords.child(name)) if name in keywords else ANYTHING
            if node == ANYTHING or not (shape.objects if name == "unevaluatedProperties" else shape.arrays):
                continue
            try:
                if name == "unevaluatedProperties":
                    objects = unevaluated_objects(self._document, keywords, node, self._strings)
                    shape = shape if objects is None else self._both(shape, unless_object(objects))
                else:
                    arrays = unevaluated_arrays(self._document, keywords, node)
                    shape = shape if arrays is None else self._both(shape, unless_array(arrays))
            except NotStaticError as error:
                message = f"the keyword {name!r} is not enforced here: {error}"
                pointer = keywords.pointer(name)
                self._refusals.refuse(UnsupportedError(message, feature=name, pointer=pointer))
            except UnsupportedError as error:  # a pattern
                self._refusals.refuse(error)
        return shape

    def _negated(self, keywords: Keywords) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
        """The schema under ``not``; or under two of them, where it is affirmed without any complement."""
        if "not" not in keywords:
            return None, ()
        inner = keywords.child("not")
        place = self._document.place(inner)
        if isinstance(place.schema, dict) and place.schema.keys() - ANNOTATIONS == {"not"}:
            return None, (Keywords(self._document, place).child("not"),)
        return (inner,), ()

    def _condition(self, keywords: Keywords) -> tuple[int, int, int] | None:
        if "if" not in keywords:
            return None
        then, otherwise = (keywords.child(name) if name in keywords else TRUE for name in ("then", "else"))
        return None if then == otherwise == TRUE else (keywords.child("if"), then, otherwise)

    def _dependent(self, keywords: Keywords) -> tuple[tuple[str, int], ...]:
        """The schemas of ``dependentSchemas`` and ``dependencies``; lists of names there are read with the objects."""
        listed = list(keywords.named_children("dependentSchemas").items())
        for name in keywords.map("dependencies"):
            if not isinstance(keywords.schema["dependencies"][name], (list, tuple)):
                listed.append((name, keywords.inner_child("dependencies", name)))
        return tuple(listed)

    def _branches(self, keywords: Keywords, name: str) -> tuple[int, ...] | None:
        if name not in keywords:
            return None
        branches = keywords.children(name)
        if not branches:
            raise keywords.malformed(name, "an array of at least one schema")
        return branches

    def _resolved(self, reference: str, keywords: Keywords) -> tuple[int, ...]:
        try:
            return (self._document.resolve(reference, keywords.place, keywords.pointer("$ref")),)
        except UnsupportedError as error:
            self._refusals.refuse(error)
            return ()

    def _own_shape(self, keywords: Keywords) -> Shape:
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
        for name, needed in _dependent_names(keywords):
            needing = ObjectSet(required=tuple(dict.fromkeys((name, *needed))))
            shape = intersect(shape, unless_object(without(name), needing), self._budget)
        for name in ("const", "enum"):
            if name in keywords:
                values = keywords.values("enum") if name == "enum" else [keywords.schema["const"]]
                constants = self._constants(values, keywords.pointer(name))
                shape = intersect(shape, constants, self._budget)
        return shape

    def _containers(self, keywords: Keywords, named: frozenset[str] | None) -> tuple[ArraySet, ObjectSet]:
        """Arrays and objects; a schema that neither names such a type nor has a keyword for it does not speak of it."""
        array_set, object_set = ANY_ARRAY, ANY_OBJECT
        if "array" in (named or ()) or any(name in keywords for name in arrays.KEYWORDS):
            array_set = read_arrays(keywords, self._complement_of, self._document.draft)
        if "object" in (named or ()) or any(name in keywords for name in objects.KEYWORDS):
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
