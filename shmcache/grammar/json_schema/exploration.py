"""Which values exist: the shapes of all nodes that a root leads to, and which of them anything satisfies.

Owns the walk over nodes and the least fixed point of satisfiability. Must never know spellings beyond whether a scalar
has any.

A node is satisfiable when it admits a scalar, or a container all of whose required members are: the unfolding of
recursive schemas asks for finite values, so "a list whose head is required to be such a list" has none. That some
member must be of a kind, or that there must be so many, is left to the automata, which drop what has no text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from shmcache.errors import UnsupportedError
from shmcache.grammar.json_schema.arrays import ArraySet, finished_array
from shmcache.grammar.json_schema.distinct import distinct_array, finite_values
from shmcache.grammar.json_schema.names import Names
from shmcache.grammar.json_schema.nodes import NEVER, Node
from shmcache.grammar.json_schema.numbers import Numbers
from shmcache.grammar.json_schema.objects import ObjectSet
from shmcache.grammar.json_schema.reader import Reader
from shmcache.grammar.json_schema.refusals import Refusals
from shmcache.grammar.json_schema.shapes import Shape
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.json_schema.union_finishing import Treatment, finished_objects
from shmcache.limits import Budget

DISJOINT_ITEMS_MAX = 16
"""Most items of an array of which it is asked whether they can be equal at all."""

Place = tuple[Node, int]
"""A node and the level of its members; the level is 0 where it does not matter."""


@dataclass(slots=True)
class _Container:
    """An alternative of a place that waits for members to be found satisfiable."""

    place: Place
    missing: int


class Exploration:
    """Shapes, with strict mode applied, of all places reached so far, and whether anything satisfies them.

    ``level_max``: members deeper than this are not admitted; None: levels do not matter.
    """

    def __init__(
        self,
        reader: Reader,
        numbers: Numbers,
        strings: Strings,
        refusals: Refusals,
        budget: Budget,
        *,
        is_strict: bool,
        treatment: Treatment,
        level_max: int | None = None,
    ) -> None:
        self._reader = reader
        self._numbers = numbers
        self._strings = strings
        self._refusals = refusals
        self._budget = budget
        self._is_strict = is_strict
        self._treatment = treatment
        self.names = Names(strings, lambda node: reader.shape(node).strings, budget)
        """The sets of names that records hold."""
        self._level_max = level_max
        self._shapes: dict[Place, Shape] = {}
        self._satisfiable: set[Place] = set()
        self._waiting: dict[Place, list[_Container]] = {}
        self.was_cut = False
        """Whether containers were emptied because of their level."""

    def root(self, node: Node) -> Place:
        """The place of a whole instance."""
        return node, 0 if self._level_max is None else 1

    def below(self, place: Place, node: Node) -> Place:
        """The place of a member of ``place``."""
        return node, 0 if self._level_max is None else place[1] + 1

    def shape(self, place: Place) -> Shape:
        """The shape of a place that was explored, without records that nothing satisfies."""
        return self._shapes[place]

    def is_satisfiable(self, place: Place) -> bool:
        """Whether any value satisfies the place; explores what it leads to."""
        if place not in self._shapes:
            self._explore(place)
        return place in self._satisfiable

    def admits(self, place: Place, record: ArraySet | ObjectSet) -> bool:
        """Whether anything satisfies this record of an explored place."""
        return all(self.below(place, node) in self._satisfiable for node in record.required_nodes())

    def _explore(self, root: Place) -> None:
        pending = [root]
        while pending:
            place = pending.pop()
            if place in self._shapes:
                continue
            self._budget.spend_states()
            shape = self._shapes[place] = self._finished(place)
            if shape.null or shape.booleans or shape.numbers or shape.strings:
                self._mark(place)
            records: list[ArraySet | ObjectSet] = [*shape.arrays, *shape.objects]
            for record in records:
                self._budget.spend_edges(1 + len(record.nodes()))
                needed = {self.below(place, node) for node in record.required_nodes()}
                container = _Container(place, 0)
                for member in needed - self._satisfiable:
                    container.missing += 1
                    self._waiting.setdefault(member, []).append(container)
                if not container.missing:
                    self._mark(place)
                if self._may_have_members(record):
                    pending.extend(self.below(place, node) for node in record.nodes())

    def _may_have_members(self, record: ArraySet | ObjectSet) -> bool:
        return not (isinstance(record, ArraySet) and record.maximum == 0)

    def _mark(self, place: Place) -> None:
        pending = [place]
        while pending:
            here = pending.pop()
            if here in self._satisfiable:
                continue
            self._satisfiable.add(here)
            for container in self._waiting.pop(here, ()):
                container.missing -= 1
                if not container.missing:
                    pending.append(container.place)

    def _distinct(self, arrays: ArraySet) -> ArraySet:
        if not arrays.unique:
            return arrays
        if self._are_disjoint(arrays):
            return replace(arrays, unique=())
        result = distinct_array(
            arrays, lambda node: finite_values(self._reader.shape(node), self._strings), self._reader.constant
        )
        if result is None:
            message = "the keyword 'uniqueItems' is enforced for few values only"
            self._refusals.refuse(UnsupportedError(message, feature="uniqueItems", pointer=arrays.unique[0]))
            return replace(arrays, unique=())
        return result

    def _are_disjoint(self, arrays: ArraySet) -> bool:
        """Whether no value can be an item at two of the positions."""
        length = len(arrays.prefix) if arrays.rest == NEVER else arrays.maximum
        if length is None or length > DISJOINT_ITEMS_MAX:
            return False
        pairs = combinations(range(length if arrays.maximum is None else min(length, arrays.maximum)), 2)
        return all(self._reader.surely_excludes(arrays.item(one), arrays.item(other)) for one, other in pairs)

    def _finished(self, place: Place) -> Shape:
        shape, is_loose = self._reader.shape(place[0]), self._treatment == Treatment.LEFT_OUT
        arrays = [finished_array(one, is_strict=self._is_strict) for one in shape.arrays]
        object_sets = [
            finished
            for one in shape.objects
            for finished in finished_objects(
                one,
                self.names,
                self._reader.opposite,
                self._treatment,
                self._budget,
                is_strict=self._is_strict,
            )
        ]
        array_sets = [self._distinct(one) for one in arrays if one is not None]
        if self._level_max is not None and place[1] > self._level_max:
            self.was_cut = self.was_cut or bool(array_sets or object_sets)
            array_sets = [replace(one, maximum=0) for one in array_sets if not one.minimum]
            object_sets = [ObjectSet(extra=NEVER) for one in object_sets if one.admits_empty]
        return Shape(
            shape.null,
            shape.booleans,
            () if self._numbers.is_empty(shape.numbers) else shape.numbers,
            tuple(one for one in shape.strings if not self._strings.is_empty(one.loosened() if is_loose else one)),
            tuple(dict.fromkeys(array_sets)),
            tuple(dict.fromkeys(object_sets)),
        )
