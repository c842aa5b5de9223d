"""Sets of objects: what the object keywords of a schema leave.

Owns the constraint record of objects, its reading and its intersection. Must never know what a member's node stands
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

from shmcache.errors import UnsupportedError
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both, node_of
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.json_schema.unions import Alternative
from shmcache.limits import Budget

NameSet = int
"""The number of a set of names."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one schema says of names by their patterns.

    patterns: (regular expression, node of the values of the names in which it is found). extra: node of the values of
    names in which none is found and which are not ``declared`` by the same schema.
    """

    declared: frozenset[str]
    patterns: tuple[tuple[str, Node], ...]
    extra: Node

    def node(self, matched: Callable[[str], bool], *, is_declared: bool) -> Node:
        """The node of the value of a name, by the patterns it matches."""
        nodes = [node for pattern, node in self.patterns if matched(pattern)]
        if not nodes:
            return ANYTHING if is_declared else self.extra
        return reduce(both, nodes)


@dataclass(frozen=True, slots=True)
class Need:
    """A kind of member, by its name and value.

    names: what the name satisfies. pattern: a regular expression found in the name; None: any. unmatched: those that
    are not. excluded: names that are not of this kind. value: what the value satisfies.
    """

    names: Node = ANYTHING
    pattern: str | None = None
    unmatched: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()
    value: Node = ANYTHING


@dataclass(frozen=True, slots=True)
class ObjectSet:
    """All objects that satisfy every field.

    properties: (name, node of its value), in declared order; that a name is here does not demand its presence.
    required: names that must be present. extra: node of the value of every other name.
    openness: whether ``extra`` was stated.
    layers: what names by their patterns must satisfy in addition. names: what every name must satisfy.
    minimum, maximum: number of members; None: no bound. needs: for each, some member is of that kind.
    unions: for each, one of its records is satisfied too.

    In a finished record layers and names are worked into ``properties``, ``extra`` and ``others``: sets of names other
    than the properties and the node of their values. Where there are others, no further names are admitted.
    satisfying: (a property or one of these sets, needs as bits, node of the values with which it satisfies them).
    alternatives: the unions, worked out for each property, then for each of these sets or for every further name.
    opposites: for nodes that tell alternatives apart, the node of what does not satisfy them, where it is known.
    """

    properties: tuple[tuple[str, Node], ...] = ()
    required: tuple[str, ...] = ()
    extra: Node = ANYTHING
    openness: Openness = Openness.UNSPOKEN
    layers: tuple[Layer, ...] = ()
    names: Node = ANYTHING
    minimum: int = 0
    maximum: int | None = None
    needs: tuple[Need, ...] = ()
    others: tuple[tuple[NameSet, Node], ...] = ()
    satisfying: tuple[tuple[str | NameSet, int, Node], ...] = ()
    unions: tuple[tuple[ObjectSet, ...], ...] = ()
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    opposites: tuple[tuple[Node, Node], ...] = ()

    @property
    def admits_empty(self) -> bool:
        """Whether an object without members satisfies the record, which is finished."""
        asks = self.required or self.minimum or self.needs
        return not asks and all(
            any(not (one.required or one.minimum or one.need_values) for one in union) for union in self.alternatives
        )

    def required_nodes(self) -> set[Node]:
        """Nodes without which there is no object at all."""
        values = dict(self.properties)
        return {values.get(name, self.extra) for name in self.required}

    def nodes(self) -> set[Node]:
        """All nodes that values may be of."""
        listed = [*self.properties, *self.others]
        return {self.extra, *(node for _, node in listed), *(node for _, _, node in self.satisfying)}


ANY_OBJECT = ObjectSet()

PRODUCT_MAX = 16
"""Most records that two unions are multiplied out to; beyond, they are kept as they are."""

KEYWORDS = frozenset(
    (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
    )
)


def read_objects(keywords: Keywords, strings: Strings, refuse: Callable[[UnsupportedError], None]) -> ObjectSet:
    """What the keywords of objects say. ``refuse`` is told of a pattern that is not supported."""
    is_stated = "additionalProperties" in keywords
    extra = node_of(keywords.child("additionalProperties")) if is_stated else ANYTHING
    properties = tuple((name, node_of(child)) for name, child in keywords.named_children("properties").items())
    patterns = tuple((one, node_of(child)) for one, child in keywords.named_children("patternProperties").items())
    names = node_of(keywords.child("propertyNames")) if "propertyNames" in keywords else ANYTHING
    layers: tuple[Layer, ...] = ()
    if patterns:
        layers = (Layer(frozenset(name for name, _ in properties), patterns, extra),)
        extra = ANYTHING
        try:
            for pattern, _ in patterns:
                strings.learn_pattern(pattern, keywords.pointer("patternProperties", pattern))
        except UnsupportedError as error:
            refuse(error)
            # When it is ignored, it is not known which names are the additional ones.
            is_stated, layers = True, ()
    return ObjectSet(
        properties,
        keywords.texts("required"),
        extra,
        Openness.STATED if is_stated or names != ANYTHING else Openness.SILENT,
        layers,
        names,
        keywords.count("minProperties") or 0,
        keywords.count("maxProperties"),
    )


def constant_object(members: dict[str, Node]) -> ObjectSet:
    """Objects of exactly these members."""
    return ObjectSet(tuple(members.items()), tuple(members), NEVER, Openness.STATED)


def intersect_objects(first: ObjectSet, second: ObjectSet) -> ObjectSet | None:
    """Objects of both; the names of ``first`` keep their order and those that only ``second`` has follow.

    None when it is plain that there are none: a required name must be absent, or the numbers of members differ.
    """
    if first == ANY_OBJECT:
        return second
    if second == ANY_OBJECT:
        return first
    values, other_values = dict(first.properties), dict(second.properties)
    merged = {name: both(node, other_values.get(name, second.extra)) for name, node in values.items()}
    for name, node in other_values.items():
        if name not in merged:
            merged[name] = both(first.extra, node)
    if any(merged.get(name) == NEVER for name in (*first.required, *second.required)):
        return None
    minimum = max(first.minimum, second.minimum)
    maximum = min((one.maximum for one in (first, second) if one.maximum is not None), default=None)
    if maximum is not None and maximum < max(minimum, len({*first.required, *second.required})):
        return None
    result = ObjectSet(
        tuple(merged.items()),
        tuple(dict.fromkeys(first.required + second.required)),
        both(first.extra, second.extra),
        max(first.openness, second.openness),
        tuple(dict.fromkeys(first.layers + second.layers)),
        both(first.names, second.names),
        minimum,
        maximum,
        tuple(dict.fromkeys(first.needs + second.needs)),
        unions=tuple(dict.fromkeys(first.unions + second.unions)),
    )
    return None if any(_is_hopeless(need, result) for need in result.needs) else result


def _is_hopeless(need: Need, objects: ObjectSet) -> bool:
    """Whether it is plain that no member is of that kind: the object is closed, and all its names are excluded."""
    if objects.extra != NEVER or need.value == NEVER:
        return need.value == NEVER
    return all(name in need.excluded or node == NEVER for name, node in objects.properties)


def intersect_unions(
    first: tuple[ObjectSet, ...], second: tuple[ObjectSet, ...], budget: Budget
) -> tuple[ObjectSet, ...]:
    """Objects of one of the records of each: multiplied out where that is little, else one record of both unions."""
    if first == (ANY_OBJECT,):
        return second
    if second == (ANY_OBJECT,) or first == second:
        return first
    budget.spend_states(len(first) * len(second))
    if _stays_factored(first, second) or _stays_factored(second, first):
        products: Iterable[ObjectSet | None] = [intersect_objects(_as_one(first), _as_one(second))]
    else:
        products = (intersect_objects(one, other) for one in first for other in second)
    return tuple(dict.fromkeys(record for record in products if record is not None))


def _as_one(union: tuple[ObjectSet, ...]) -> ObjectSet:
    """The union as one record. What all of its records declare, that one declares, in their order."""
    if len(union) == 1:
        return union[0]
    declared = [{name for name, _ in one.properties} for one in union]
    common = [(name, ANYTHING) for name, _ in union[0].properties if all(name in names for names in declared)]
    return ObjectSet(tuple(common), openness=min(one.openness for one in union), unions=(union,))


def _stays_factored(first: tuple[ObjectSet, ...], second: tuple[ObjectSet, ...]) -> bool:
    """Whether the records of ``first`` are better not multiplied with those of ``second``."""
    if len(first) < 2 or any(one.unions for one in first):
        return False
    return len(first) * len(second) > PRODUCT_MAX or (len(second) == 1 and bool(second[0].unions))
