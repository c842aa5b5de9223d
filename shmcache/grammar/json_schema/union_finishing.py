"""Objects that satisfy several unions at once, made ready to be written.

Owns the working out of what each alternative of each union asks of the value behind each name. Must never know keywords
or spellings.

Needs of a record are unions too, of one alternative each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from shmcache.grammar.json_schema.finishing import NEEDS_MAX, counted_object, finished_object
from shmcache.grammar.json_schema.names import Key, Names
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both
from shmcache.grammar.json_schema.objects import NameSet, Need, ObjectSet, intersect_objects
from shmcache.grammar.json_schema.unions import Alternative
from shmcache.limits import Budget


class Treatment(Enum):
    """What becomes of unions."""

    FOLLOWED = "followed"
    """They are followed from member to member, which come in declared order."""
    MULTIPLIED = "multiplied out"
    """There is a record for each combination."""
    LEFT_OUT = "left out"
    """What is left admits more."""


_Union = tuple[ObjectSet, ...]
Opposite = Callable[[Node], Node | None]
"""The node of what does not satisfy a node, None where that is not known."""


def finished_objects(
    objects: ObjectSet, names: Names, opposite: Opposite, treatment: Treatment, budget: Budget, *, is_strict: bool
) -> list[ObjectSet]:
    """The records, with their unions worked in, that together are the record; see :func:`finished_object`."""
    is_many = len(objects.needs) > NEEDS_MAX and treatment != Treatment.MULTIPLIED
    if not objects.unions and not is_many:
        return [finished_object(objects, names, is_strict=is_strict)]
    base, unions = _simplified(objects, budget)
    if not all(unions):
        return []
    if treatment == Treatment.LEFT_OUT:
        return [finished_object(base, names, is_strict=is_strict)]
    if treatment == Treatment.FOLLOWED and (not is_strict or _is_closed_alike(base, unions)):
        return [_Finishing(base, unions, names, opposite, budget, is_strict=is_strict).finished()]
    result: list[ObjectSet] = []
    for record in _products(base, unions, budget):
        result += finished_objects(record, names, opposite, treatment, budget, is_strict=is_strict)
    return result


def _simplified(objects: ObjectSet, budget: Budget) -> tuple[ObjectSet, list[_Union]]:
    """The record without its unions, and these without alternatives that are plainly out of the question."""
    base = replace(objects, unions=(), needs=())
    unions: list[_Union] = [(ObjectSet(needs=(need,)),) for need in objects.needs]
    pending = [_flat(union, budget) for union in objects.unions]
    while pending:
        union = pending.pop(0)
        left = tuple(one for one in union if intersect_objects(base, one) is not None)
        joined = intersect_objects(base, replace(left[0], needs=())) if len(left) == 1 else None
        if joined is None:
            unions.append(left)
            continue
        base = joined
        pending += [(ObjectSet(needs=(need,)),) for need in left[0].needs if left[0] != ObjectSet(needs=(need,))]
        unions += [left for need in left[0].needs if left[0] == ObjectSet(needs=(need,))]
    return base, list(dict.fromkeys(unions))


def _flat(union: Iterable[ObjectSet], budget: Budget) -> _Union:
    """The union with the unions of its alternatives multiplied out."""
    result: list[ObjectSet] = []
    for one in union:
        result += _products(replace(one, unions=()), [_flat(inner, budget) for inner in one.unions], budget)
    return tuple(dict.fromkeys(result))


def _products(base: ObjectSet, unions: list[_Union], budget: Budget) -> list[ObjectSet]:
    records = [base]
    for union in unions:
        budget.spend_states(len(records) * len(union))
        products = (intersect_objects(record, one) for record in records for one in union)
        records = list(dict.fromkeys(record for record in products if record is not None))
    return records


def _is_closed_alike(base: ObjectSet, unions: list[_Union]) -> bool:
    """Whether strict mode leaves the same names, whatever alternatives are chosen."""
    if base.openness == Openness.STATED:
        return True
    alternatives = [one for union in unions for one in union]
    speaks = base.openness == Openness.SILENT
    if not speaks and any(one.openness != Openness.UNSPOKEN for one in alternatives):
        return False
    declared = {name for name, _ in base.properties} | set(base.required)
    for one in alternatives:
        if one.minimum or (one.openness == Openness.STATED and one.extra != NEVER):
            return False
        if speaks and not declared >= {name for name, node in one.properties if node != NEVER} | set(one.required):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Class:
    """Names that nothing here tells apart: a declared one, or a set of others by what they match."""

    name: str | None
    matched: frozenset[Key]


class _Finishing:
    """One record. Names are told apart by the patterns, needs and sets of names that any alternative speaks of."""

    def __init__(
        self,
        base: ObjectSet,
        unions: list[_Union],
        names: Names,
        opposite: Opposite,
        budget: Budget,
        *,
        is_strict: bool,
    ) -> None:
        self._base = base
        self._unions = unions
        self._names = names
        self._opposite = opposite
        self._budget = budget
        self._alternatives = [one for union in unions for one in union]
        records = [base, *self._alternatives]
        self._is_closed = (
            is_strict
            and max(one.openness for one in records) == Openness.SILENT
            and base.minimum <= len(base.properties)
        )
        self._patterns = tuple(
            dict.fromkeys(pattern for one in records for layer in one.layers for pattern, _ in layer.patterns)
        )
        self._needs = list(dict.fromkeys(need for one in self._alternatives for need in one.needs))
        self._name_nodes = list(dict.fromkeys(one.names for one in self._alternatives if one.names != ANYTHING))
        admitted = {name: None for name, _ in base.properties} | dict.fromkeys(base.required)
        self._admitted = frozenset(admitted)
        declared = dict(admitted)
        for one in self._alternatives:
            declared |= {name: None for name, _ in one.properties} | dict.fromkeys(one.required)
            spoken_of = [layer.declared for layer in one.layers] + [need.excluded for need in one.needs]
            declared |= dict.fromkeys(sorted(name for listed in spoken_of for name in listed if name not in declared))
        self._declared = list(declared)
        self._values = {one: dict(one.properties) for one in {base, *self._alternatives}}

    def finished(self) -> ObjectSet:
        base = self._base
        classes = [_Class(name, self._matched(name)) for name in self._declared]
        properties = tuple((one.name or "", self._value(base, one)) for one in classes)
        others: tuple[tuple[NameSet, Node], ...] = ()
        extra: Node = NEVER
        if self._tells_others_apart():
            found = self._others()
            others = tuple((names, self._value(base, one)) for names, one in found)
            classes += [one for _, one in found]
        else:
            extra = NEVER if self._is_closed else base.extra
            classes.append(_Class(None, frozenset(range(len(self._needs)))))
        alternatives = tuple(tuple(self._alternative(one, classes) for one in union) for union in self._unions)
        told = {node for union in alternatives for one in union for node in (*one.nodes, *one.need_values)}
        opposites = ((node, self._opposite(node)) for node in sorted(told - {ANYTHING, NEVER}))
        return counted_object(
            replace(
                base,
                properties=properties,
                extra=extra,
                openness=Openness.STATED,
                layers=(),
                names=ANYTHING,
                others=others,
                alternatives=alternatives,
                opposites=tuple((node, other) for node, other in opposites if other is not None),
            )
        )

    def _tells_others_apart(self) -> bool:
        """Whether names beside the declared ones are of several kinds."""
        return bool(
            self._patterns
            or self._name_nodes
            or self._base.names != ANYTHING
            or self._base.layers
            or any(need.names != ANYTHING or need.pattern is not None or need.unmatched for need in self._needs)
        )

    def _matched(self, name: str) -> frozenset[Key]:
        names = self._names
        matched: list[Key] = [pattern for pattern in self._patterns if names.matches(pattern, name)]
        matched += [at for at, need in enumerate(self._needs) if names.is_needed(need, name)]
        nodes = enumerate(self._name_nodes, len(self._needs))
        return frozenset([*matched, *(at for at, node in nodes if names.admits(node, name))])

    def _value(self, record: ObjectSet, names: _Class) -> Node:
        """What a record asks of the value behind a name."""
        is_base = record is self._base
        if record.names != ANYTHING:
            if is_base and names.name is not None and not self._names.admits(record.names, names.name):
                return NEVER
            if not is_base and len(self._needs) + self._name_nodes.index(record.names) not in names.matched:
                return NEVER
        node = record.extra
        if names.name is not None:
            node = self._values[record].get(names.name, node)
        if is_base and self._is_closed and names.name not in self._admitted:
            node = node if any(isinstance(one, str) for one in names.matched) else NEVER
        for layer in record.layers:
            is_declared = names.name is not None and names.name in layer.declared
            node = both(node, layer.node(names.matched.__contains__, is_declared=is_declared))
        return node

    def _alternative(self, record: ObjectSet, classes: list[_Class]) -> Alternative:
        needs = [self._needs.index(need) for need in record.needs]
        bits = tuple(sum(1 << at for at, need in enumerate(needs) if need in one.matched) for one in classes)
        place = {name: at for at, name in enumerate(self._declared)}
        return Alternative(
            tuple(self._value(record, one) for one in classes),
            bits,
            frozenset(place[name] for name in record.required),
            tuple(need.value for need in record.needs),
            record.minimum,
            record.maximum,
        )

    def _others(self) -> list[tuple[NameSet, _Class]]:
        names = self._names
        splitters = [(pattern, names.matching(pattern)) for pattern in self._patterns]
        conditions: list[Need | Node] = [*self._needs, *self._name_nodes]
        numbered = [
            (at, names.needed(one) if isinstance(one, Need) else names.admitted(one))
            for at, one in enumerate(conditions)
        ]
        parts: dict[tuple[object, ...], tuple[list[NameSet], _Class]] = {}
        for matched, part in names.partition(self._base.names, self._declared, [*splitters, *numbered]):
            kind = _Class(None, matched)
            node = self._value(self._base, kind)
            needs = matched.intersection(range(len(self._needs)))
            asked = (node, needs, *(self._value(one, kind) for one in self._alternatives))
            if node != NEVER:
                parts.setdefault(asked, ([], kind))[0].append(part)
        return [(names.union(sets), kind) for sets, kind in parts.values()]
