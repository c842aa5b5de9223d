"""Sets of objects: what the object keywords of a schema leave.

Owns the constraint record of objects, its reading, its intersection and its expression. Must never know what a member's
node stands for: that is asked of the caller.

Members come in declared order; names that are required but not declared follow, then whatever else is admitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shmcache.grammar.ir import Expression
from shmcache.grammar.json_schema.expressions import sequence
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.members import Member, member_graph
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both, node_of
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.strings import Strings


@dataclass(frozen=True, slots=True)
class ObjectSet:
    """All objects that satisfy every field.

    properties: (name, node of its value), in declared order; that a name is here does not demand its presence.
    required: names that must be present. extra: node of the value of every other name.
    openness: whether ``extra`` was stated.
    """

    properties: tuple[tuple[str, Node], ...] = ()
    required: tuple[str, ...] = ()
    extra: Node = ANYTHING
    openness: Openness = Openness.UNSPOKEN

    def required_nodes(self) -> set[Node]:
        """Nodes without which there is no object at all."""
        values = dict(self.properties)
        return {values.get(name, self.extra) for name in self.required}

    def nodes(self) -> set[Node]:
        """All nodes that values may be of."""
        return {self.extra, *(node for _, node in self.properties)}


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


def read_objects(keywords: Keywords) -> ObjectSet:
    """What ``properties``, ``required`` and ``additionalProperties`` say."""
    is_stated = "additionalProperties" in keywords
    extra = node_of(keywords.child("additionalProperties")) if is_stated else ANYTHING
    if keywords.schema.get("patternProperties"):
        # Refused, or ignored: then it is not known which names are the additional ones.
        is_stated, extra = True, ANYTHING
    return ObjectSet(
        tuple((name, node_of(child)) for name, child in keywords.named_children("properties").items()),
        keywords.texts("required"),
        extra,
        Openness.STATED if is_stated else Openness.SILENT,
    )


def constant_object(members: dict[str, Node]) -> ObjectSet:
    """Objects of exactly these members."""
    return ObjectSet(tuple(members.items()), tuple(members), NEVER, Openness.STATED)


def intersect_objects(first: ObjectSet, second: ObjectSet) -> ObjectSet:
    """Objects of both; the names of ``first`` keep their order and those that only ``second`` has follow."""
    if first == ANY_OBJECT:
        return second
    if second == ANY_OBJECT:
        return first
    values, other_values = dict(first.properties), dict(second.properties)
    merged = {name: both(node, other_values.get(name, second.extra)) for name, node in values.items()}
    for name, node in other_values.items():
        if name not in merged:
            merged[name] = both(first.extra, node)
    return ObjectSet(
        tuple(merged.items()),
        tuple(dict.fromkeys(first.required + second.required)),
        both(first.extra, second.extra),
        max(first.openness, second.openness),
    )


def finished_object(objects: ObjectSet, *, is_strict: bool) -> ObjectSet:
    """The record with the undeclared required names declared, and with strict mode applied."""
    declared = {name for name, _ in objects.properties}
    undeclared = tuple((name, objects.extra) for name in objects.required if name not in declared)
    objects = replace(objects, properties=objects.properties + undeclared)
    if is_strict and objects.openness == Openness.SILENT:
        return replace(objects, extra=NEVER, openness=Openness.STATED)
    if objects.extra == ANYTHING and not objects.required and all(node == ANYTHING for _, node in objects.properties):
        return ANY_OBJECT
    return objects


def object_expression(
    objects: ObjectSet, value: Callable[[Node], Expression | None], level: int, strings: Strings, rules: Rules
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
    extra = value(objects.extra)
    other: Expression | None = None
    if extra is not None:
        names = strings.other_name(frozenset(name for name, _ in objects.properties), rules)
        other = sequence(names, layout.colon, extra)
    may_be_empty = not any(member.is_required for member in members)
    content = member_graph(members, other, layout.comma(level), strings) if members or other is not None else None
    return rules.brackets(b"{", b"}", content, level, may_be_empty=may_be_empty)
