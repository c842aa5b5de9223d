"""From schemas to shapes: what all keywords of a schema together admit.

Owns the reading of keywords and the following of references and of the applicators that concern the same value. Must
never know how an instance is spelt.

Every keyword that JSON Schema defines is enforced, refused, or known to constrain nothing; others are annotations by
the standard. Siblings of a reference apply together with it, except where the document declares a draft (up to 7) in
which they are to be ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.json_schema.arrays import ANY_ARRAY
from shmcache.grammar.json_schema.assertions import Assertions
from shmcache.grammar.json_schema.complements import (
    NotComputableError,
    complement,
    having,
    of_objects,
    unless_object,
    without,
)
from shmcache.grammar.json_schema.discriminators import are_apart, discriminators
from shmcache.grammar.json_schema.document import FALSE, TRUE, Document
from shmcache.grammar.json_schema.evaluation import (
    Condition,
    Fails,
    Holds,
    NotStaticError,
    evaluation_cases,
    unevaluated_arrays,
    unevaluated_objects,
)
from shmcache.grammar.json_schema.keywords import Keywords, references_of
from shmcache.grammar.json_schema.nodes import Node, both, node_of
from shmcache.grammar.json_schema.objects import ANY_OBJECT
from shmcache.grammar.json_schema.refusals import Refusals
from shmcache.grammar.json_schema.shapes import EVERYTHING, NOTHING, Shape, intersect, unite
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.schema_keywords import ANNOTATIONS
from shmcache.limits import Budget

_REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
_APPLICATORS = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies")) | {
    "unevaluatedProperties",
    "unevaluatedItems",
}
_BESIDE_REFERENCE = ANNOTATIONS | {"$ref", "$schema", "$id", "id", "$defs", "definitions"}


@dataclass(frozen=True, slots=True)
class _Reading:
    """One schema: what its own keywords admit, and the schemas that apply to the same value.

    failing: not all of these are satisfied. condition: ``if``, ``then``, ``else``. dependent: objects with a member of
    that name satisfy the schema. unevaluated: which of the two keywords have an effect.
    """

    own: Shape
    all_of: tuple[int, ...] = ()
    any_of: tuple[int, ...] | None = None
    one_of: tuple[int, ...] | None = None
    failing: tuple[int, ...] | None = None
    condition: tuple[int, int, int] | None = None
    dependent: tuple[tuple[str, int], ...] = ()
    unevaluated: tuple[str, ...] = ()

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
        self._assertions = Assertions(document, strings, refusals, self._complement_of, budget)
        self._readings: dict[int, _Reading] = {}
        self._shapes: dict[int, Shape] = {TRUE: EVERYTHING, FALSE: NOTHING}
        self._inexact: set[int] = set()  # schemas whose shapes admit too much, because something was ignored

    def constant(self, value: Any) -> Node:
        """The node of one value."""
        return node_of(self._document.constant_id(value, ""))

    def surely_excludes(self, first: Node, second: Node) -> bool:
        """Whether it is plain that no value satisfies both nodes."""
        return self._is_satisfiable is not None and not self._is_satisfiable(both(first, second))

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
        groups = self._groups(schema_id, reading)
        branching = EVERYTHING
        for group in groups:
            branching = self._both(branching, unite(group.values()))
        for keyword in reading.unevaluated:
            branching = self._unevaluated(schema_id, keyword, groups, branching)
        result = self._both(result, branching)
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
        if then == otherwise == TRUE:
            return EVERYTHING
        holds = self._both(self._shapes[condition], self._shapes[then])
        if otherwise == FALSE:
            return holds
        return unite((holds, self._both(self._failing(schema_id, condition, "if"), self._shapes[otherwise])))

    def _exactly_one(self, schema_id: int, branches: tuple[int, ...]) -> list[Shape]:
        """Each branch without those others that may have values in common with it."""
        if self._is_satisfiable is None:
            self._inexact.add(schema_id)
            return [self._shapes[one] for one in branches]
        beside = node_of(self._document.without_id(schema_id, ("oneOf", "unevaluatedProperties", "unevaluatedItems")))
        overlapping: dict[int, list[int]] = {at: [] for at in range(len(branches))}
        told = [discriminators(self._shapes[one], self._document) for one in branches]
        for at, one in enumerate(branches):
            self._budget.spend_edges(len(branches) - at)
            for after, other in enumerate(branches[at + 1 :], at + 1):
                if are_apart(told[at], told[after]):
                    continue
                pair = both(node_of(one), node_of(other))
                # Mostly the pair alone decides. With all branches, each pair would cost as much as they do.
                if self._is_satisfiable(pair) and self._is_satisfiable(both(beside, pair)):
                    overlapping[at].append(other)
                    overlapping[after].append(one)
        shapes: list[Shape] = []
        for at, one in enumerate(branches):
            shape = self._shapes[one]
            for other in overlapping[at]:
                shape = self._both(shape, self._failing(schema_id, other, "oneOf"))
            shapes.append(shape)
        return shapes

    def _reading(self, schema_id: int) -> _Reading:
        known = self._readings.get(schema_id)
        if known is None:
            self._budget.spend_states()
            complemented, united = self._document.complemented(schema_id), self._document.united(schema_id)
            ignored_count = self._refusals.refused_count
            if complemented is not None:
                known = _Reading(EVERYTHING, failing=complemented)
            elif united is not None:
                known = _Reading(EVERYTHING, any_of=united)
            else:
                known = self._read(Keywords(self._document, self._document.place(schema_id)))
            if self._refusals.refused_count > ignored_count:
                self._inexact.add(schema_id)
            self._readings[schema_id] = known
        return known

    def _read(self, keywords: Keywords) -> _Reading:
        draft = self._document.draft_of(keywords.place)
        referred = self._referred(keywords, draft)
        if draft <= 7 and "$ref" in keywords:
            if not keywords.schema.keys() <= _BESIDE_REFERENCE:
                pointer = keywords.pointer("$ref")
                self._refusals.warn("$ref", pointer, "in the declared draft the siblings of '$ref' are ignored")
            return _Reading(EVERYTHING, referred)
        shape = self._assertions.read(keywords)
        self._refusals.check(keywords, shape, draft)
        if not referred and not keywords.has_any(_APPLICATORS):
            return _Reading(shape)
        failing, affirmed = self._negated(keywords)
        unevaluated = (("unevaluatedProperties", shape.objects), ("unevaluatedItems", shape.arrays))
        return _Reading(
            shape,
            (*referred, *affirmed, *(self._branches(keywords, "allOf") or ())),
            self._branches(keywords, "anyOf"),
            self._branches(keywords, "oneOf"),
            failing,
            self._condition(keywords),
            keywords.dependent_children(),
            tuple(
                name for name, records in unevaluated if name in keywords and records and keywords.child(name) != TRUE
            ),
        )

    def _groups(self, schema_id: int, reading: _Reading) -> list[dict[Holds, Shape]]:
        """For ``anyOf`` and ``oneOf`` each, the shapes of which an instance is in one at least."""
        groups: list[dict[Holds, Shape]] = []
        if reading.any_of is not None:
            groups.append({Holds(one): self._shapes[one] for one in reading.any_of})
        if reading.one_of is not None:
            shapes = self._exactly_one(schema_id, reading.one_of)
            branches = (Holds(one, schema_id) for one in reading.one_of)
            groups.append(dict(zip(branches, shapes, strict=True)))
        return groups

    def _unevaluated(self, schema_id: int, keyword: str, groups: list[dict[Holds, Shape]], branching: Shape) -> Shape:
        """Values of ``branching``, which the groups give, whose members or items that nothing evaluates are as said."""
        keywords = Keywords(self._document, self._document.place(schema_id))
        try:
            cases = evaluation_cases(self._document, schema_id, keyword, self._strings, self._budget)
        except NotStaticError as error:
            message, pointer = f"the keyword {keyword!r} is not enforced here: {error}", keywords.pointer(keyword)
            self._refusals.refuse(UnsupportedError(message, feature=keyword, pointer=pointer))
            return branching
        except UnsupportedError as error:  # a pattern
            self._refusals.refuse(error)
            return branching
        child = keywords.child(keyword)
        shapes: list[Shape] = []
        for conditions, evaluated in cases.items():
            if keyword == "unevaluatedProperties":
                shape = of_objects(unevaluated_objects(evaluated, node_of(child)))
            else:
                items = node_of(self._document.union_id((child, *evaluated.contains)))
                shape = Shape(arrays=(unevaluated_arrays(evaluated, items),))
            for condition in conditions:
                if not any(condition in group for group in groups):
                    shape = self._both(shape, self._condition_shape(condition))
            for group in groups:
                named = [group[branch] for branch in group if branch in conditions]
                # Where none is named, those branches remain with which there is no case that evaluates more.
                others = [group[branch] for branch in group if conditions | {branch} not in cases]
                for branch_shape in named or [unite(others)]:
                    shape = self._both(shape, branch_shape)
            shapes.append(shape)
        united = unite(shapes)
        if keyword == "unevaluatedProperties":
            return replace(branching, objects=united.objects)
        return replace(branching, arrays=united.arrays)

    def _condition_shape(self, condition: Condition) -> Shape:
        """The values of which a condition for being evaluated is true."""
        if isinstance(condition, Holds):
            return self._shapes[condition.schema_id]
        if isinstance(condition, Fails):
            return self._failing(condition.holder, condition.schema_id, "if")
        return of_objects(having(condition.name))

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
        if then == otherwise == TRUE and not self._document.has_unevaluated:  # else it may evaluate members
            return None
        return keywords.child("if"), then, otherwise

    def _branches(self, keywords: Keywords, name: str) -> tuple[int, ...] | None:
        if name not in keywords:
            return None
        branches = keywords.children(name)
        if not branches:
            raise keywords.malformed(name, "an array of at least one schema")
        return branches

    def _referred(self, keywords: Keywords, draft: int) -> tuple[int, ...]:
        """The schemas that references lead to."""
        found: list[int] = []
        for name in references_of(draft) if keywords.has_any(_REFERENCES) else ():
            try:
                found.extend(keywords.referred(name))
            except UnsupportedError as error:
                self._refusals.refuse(error)
        return tuple(found)
