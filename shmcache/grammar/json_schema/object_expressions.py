"""The expression of a finished record of objects.

Owns the writing of members with their names and values. Must never know what a member's node stands for: that is asked
of the caller.

Members come in declared order; names that are required but not declared follow, then whatever else is admitted. Or they
come in any order.
"""

from __future__ import annotations

from collections.abc import Callable

from shmcache.grammar.ir import NOTHING, Expression
from shmcache.grammar.json_schema.expressions import sequence
from shmcache.grammar.json_schema.members import Levels, Member, Other, Unions, Way, member_graph
from shmcache.grammar.json_schema.names import Names
from shmcache.grammar.json_schema.nodes import Node
from shmcache.grammar.json_schema.objects import NameSet, ObjectSet
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.json_schema.unions import UnionStates, splitter
from shmcache.grammar.json_schema.unordered_members import unordered_graph
from shmcache.limits import Budget


def object_expression(
    objects: ObjectSet,
    value: Callable[[Node], Expression | None],
    level: int,
    strings: Strings,
    names: Names,
    rules: Rules,
    *,
    any_order: bool = False,
) -> Expression:
    """The objects, braces included. ``value`` gives the expression of a node, None when nothing satisfies it.

    A name whose value nothing satisfies is absent, and not among the other names either. With ``any_order`` raises
    :class:`TooManySetsError` where there are too many members for that.
    """
    layout = rules.layout
    required = set(objects.required)
    satisfying: dict[str | NameSet, list[tuple[int, Node]]] = {}
    for one, needs, node in objects.satisfying:
        satisfying.setdefault(one, []).append((needs, node))

    def ways(one: str | NameSet, node: Node) -> tuple[Way, ...]:
        """What may stand behind a name, with the needs that it satisfies."""
        found = []
        for needs, inner in [(0, node), *satisfying.get(one, ())]:
            expression = behind_name(inner)
            if expression is not None:
                found.append(Way(expression, needs))
        return tuple(found)

    known: dict[Node, Expression | None] = {}

    def behind_name(node: Node) -> Expression | None:
        if node not in known:
            expression = value(node)
            known[node] = None if expression is None else sequence(layout.colon, expression)
        return known[node]

    if not all(map(strings.admits_name, required)):
        return NOTHING
    members: list[Member] = []
    others: list[Other] = []
    if objects.maximum != 0:
        for at, (name, node) in enumerate(objects.properties):
            listed = ways(name, node)
            if listed and strings.admits_name(name):
                strings.spelling.check_name(name)
                members.append(Member(name, listed, name in required, at))
        for at, (one, node) in enumerate(objects.others, len(objects.properties)):
            listed = ways(one, node)
            if listed:
                others.append(Other(names.expression(one, rules), listed, at))
        extra = behind_name(objects.extra)
        if extra is not None:
            declared = frozenset(name for name, _ in objects.properties)
            others.append(Other(names.others(declared, rules), (Way(extra, 0),), len(objects.properties)))
    states = union_states(objects, lambda node: value(node) is not None, strings.budget)
    unions = None if states is None else Unions(states, behind_name)
    levels = Levels(objects.minimum, objects.maximum, len(objects.needs), unions)
    may_be_empty = levels.accepts(levels.start) and not any(member.is_required for member in members)
    content: Expression | None = None
    if any_order and (members or others):
        content = unordered_graph(members, others, layout.comma(level), strings, levels, rules)
    elif members or others:
        content = member_graph(members, others, layout.comma(level), strings, levels, as_call=rules.part)
    return rules.brackets(b"{", b"}", content, level, may_be_empty=may_be_empty)


def union_states(objects: ObjectSet, is_satisfiable: Callable[[Node], bool], budget: Budget) -> UnionStates | None:
    """The states of the unions of a finished record; None: it has none."""
    if not objects.alternatives:
        return None
    bases = [node for _, node in (*objects.properties, *objects.others)] + [objects.extra]
    split = splitter(bases, dict(objects.opposites), is_satisfiable, budget)
    return UnionStates(objects.alternatives, len(objects.properties), split, budget)
