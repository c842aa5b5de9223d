"""Sets of objects: what the object keywords of a schema leave.

Owns the constraint record of objects, its reading, its intersection and its expression. Must never know what a member's
node stands for: that is asked of the caller.

Members come in declared order; names that are required but not declared follow, then whatever else is admitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

from shmcache.errors import UnsupportedError
from shmcache.grammar.ir import Expression
from shmcache.grammar.json_schema.expressions import choice, sequence
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.members import Member, member_graph
from shmcache.grammar.json_schema.names import Names, NameSet
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both, node_of
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.strings import Strings


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
class ObjectSet:
    """All objects that satisfy every field.

    properties: (name, node of its value), in declared order; that a name is here does not demand its presence.
    required: names that must be present. extra: node of the value of every other name.
    openness: whether ``extra`` was stated.
    layers: what names by their patterns must satisfy in addition. names: what every name must satisfy.

    In a finished record layers and names are worked into ``properties``, ``extra`` and ``others``: sets of names other
    than the properties and the node of their values. Where there are others, no further names are admitted.
    """

    properties: tuple[tuple[str, Node], ...] = ()
    required: tuple[str, ...] = ()
    extra: Node = ANYTHING
    openness: Openness = Openness.UNSPOKEN
    layers: tuple[Layer, ...] = ()
    names: Node = ANYTHING
    others: tuple[tuple[NameSet, Node], ...] = ()

    def required_nodes(self) -> set[Node]:
        """Nodes without which there is no object at all."""
        values = dict(self.properties)
        return {values.get(name, self.extra) for name in self.required}

    def nodes(self) -> set[Node]:
        """All nodes that values may be of."""
        return {self.extra, *(node for _, node in self.properties), *(node for _, node in self.others)}


ANY_OBJECT = ObjectSet()

KEYWORDS = (
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
    )


def constant_object(members: dict[str, Node]) -> ObjectSet:
    """Objects of exactly these members."""
    return ObjectSet(tuple(members.items()), tuple(members), NEVER, Openness.STATED)


def intersect_objects(first: ObjectSet, second: ObjectSet) -> ObjectSet | None:
    """Objects of both; the names of ``first`` keep their order and those that only ``second`` has follow.

    None when it is plain that there are none: a required name must be absent.
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
    return ObjectSet(
        tuple(merged.items()),
        tuple(dict.fromkeys(first.required + second.required)),
        both(first.extra, second.extra),
        max(first.openness, second.openness),
        tuple(dict.fromkeys(first.layers + second.layers)),
        both(first.names, second.names),
    )


def finished_object(objects: ObjectSet, names: Names, *, is_strict: bool) -> ObjectSet:
    """The record with everything worked into the nodes of names, the required ones declared, and strict mode applied.

    A schema that says what names must be like does speak of further members, so strict mode leaves those open.
    """
    declared = {name for name, _ in objects.properties}
    undeclared = tuple((name, objects.extra) for name in objects.required if name not in declared)
    objects = replace(objects, properties=objects.properties + undeclared)
    is_closed = is_strict and objects.openness == Openness.SILENT
    if objects.layers or objects.names != ANYTHING:
        objects = _by_patterns(objects, names, is_closed=is_closed)
    elif is_closed:
        return replace(objects, extra=NEVER, openness=Openness.STATED)
    if (
        objects.extra == ANYTHING
        and not objects.required
        and all(node == ANYTHING for _, node in objects.properties)
        and not objects.others
    ):
        return ANY_OBJECT
    return objects


def _by_patterns(objects: ObjectSet, names: Names, *, is_closed: bool) -> ObjectSet:
    """Every name with the node of all layers; names that no pattern matches are refused where it ``is_closed``."""
    properties: list[tuple[str, Node]] = []
    for name, node in objects.properties:
        for layer in objects.layers:
            is_declared = name in layer.declared
            node = both(node, layer.node(lambda one, name=name: names.matches(one, name), is_declared=is_declared))  # type: ignore[misc]
        properties.append((name, node if names.admits(objects.names, name) else NEVER))
    patterns = dict.fromkeys(pattern for layer in objects.layers for pattern, _ in layer.patterns)
    by_node: dict[Node, list[NameSet]] = {}
    for matched, part in names.partition(objects.names, (name for name, _ in properties), patterns):
        node = objects.extra if matched or not is_closed else NEVER
        for layer in objects.layers:
            node = both(node, layer.node(matched.__contains__, is_declared=False))
        if node != NEVER:
            by_node.setdefault(node, []).append(part)
    return ObjectSet(
        tuple(properties),
        objects.required,
        NEVER,
        Openness.STATED,
        others=tuple((names.union(parts), node) for node, parts in by_node.items()),
    )


def object_expression(
    objects: ObjectSet,
    value: Callable[[Node], Expression | None],
    level: int,
    strings: Strings,
    names: Names,
    rules: Rules,
) -> Expression:
    """The objects, braces included. ``value`` gives the expression of a node, None when nothing satisfies it.

    A name whose value nothing satisfies is absent, and not among the other names either.
    """
    layout = rules.layout
    required = set(objects.required)
    members: list[Member] = []
    for name, node in objects.properties:
        expression = value(node)
        if expression is not None:
            members.append(Member(name, sequence(layout.colon, expression), name in required))
    others = [
        sequence(names.expression(one, rules), layout.colon, expression)
        for one, node in objects.others
        if (expression := value(node)) is not None
    ]
    extra = value(objects.extra)
    if extra is not None:
        declared = frozenset(name for name, _ in objects.properties)
        others.append(sequence(names.others(declared, rules), layout.colon, extra))
    other = choice(others) if others else None
    may_be_empty = not any(member.is_required for member in members)
    content = member_graph(members, other, layout.comma(level), strings) if members or other is not None else None
    return rules.brackets(b"{", b"}", content, level, may_be_empty=may_be_empty)
