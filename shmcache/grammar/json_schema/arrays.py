"""Sets of arrays: what the array keywords of a schema leave.

Owns the constraint record of arrays, its reading, its intersection and its expression. Must never know what an item's
node stands for: that is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shmcache.errors import SourceError
from shmcache.grammar.ir import Expression
from shmcache.grammar.json_schema.expressions import optional, repeat, sequence
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both, node_of
from shmcache.grammar.json_schema.rules import Rules


@dataclass(frozen=True, slots=True)
class ArraySet:
    """All arrays that satisfy every field.

    prefix: nodes of the first items, by position. rest: node of every item behind them.
    openness: whether ``rest`` was stated. minimum, maximum: number of items; None: no bound.
    """

    prefix: tuple[Node, ...] = ()
    rest: Node = ANYTHING
    openness: Openness = Openness.UNSPOKEN
    minimum: int = 0
    maximum: int | None = None

    def item(self, position: int) -> Node:
        """The node of the item at ``position``."""
        return self.prefix[position] if position < len(self.prefix) else self.rest

    def required_nodes(self) -> set[Node]:
        """Nodes without which there is no array at all."""
        nodes = set(self.prefix[: self.minimum])
        return nodes | {self.rest} if self.minimum > len(self.prefix) else nodes

    def nodes(self) -> set[Node]:
        """All nodes that items may be of."""
        return {*self.prefix, self.rest}


ANY_ARRAY = ArraySet()

_INLINED_COUNT_MAX = 16
"""Where more items than this are counted, an item stays a call: its automaton would be copied for each."""

KEYWORDS = ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")


def read_arrays(keywords: Keywords) -> ArraySet:
    """What ``items``, ``prefixItems``, ``additionalItems``, ``minItems`` and ``maxItems`` say, in all drafts."""
    prefix: tuple[int, ...] = ()
    rest_keyword = "items"
    if "prefixItems" in keywords:
        prefix = keywords.children("prefixItems")
    elif isinstance(keywords.schema.get("items"), (list, tuple)):
        prefix, rest_keyword = keywords.children("items"), "additionalItems"
    is_stated = rest_keyword in keywords
    return ArraySet(
        tuple(map(node_of, prefix)),
        node_of(keywords.child(rest_keyword)) if is_stated else ANYTHING,
        Openness.STATED if is_stated else Openness.SILENT,
        keywords.count("minItems") or 0,
        keywords.count("maxItems"),
    )


def constant_array(items: tuple[Node, ...]) -> ArraySet:
    """Arrays of exactly these items."""
    return ArraySet(items, NEVER, Openness.STATED, len(items), len(items))


def intersect_arrays(first: ArraySet, second: ArraySet) -> ArraySet | None:
    """Arrays of both; None when it is plain that there are none."""
    if first == ANY_ARRAY:
        return second
    if second == ANY_ARRAY:
        return first
    length = max(len(first.prefix), len(second.prefix))
    minimum = max(first.minimum, second.minimum)
    maximum = min((one.maximum for one in (first, second) if one.maximum is not None), default=None)
    if maximum is not None and maximum < minimum:
        return None
    return ArraySet(
        tuple(both(first.item(at), second.item(at)) for at in range(length)),
        both(first.rest, second.rest),
        max(first.openness, second.openness),
        minimum,
        maximum,
    )


def finished_array(arrays: ArraySet, *, is_strict: bool) -> ArraySet | None:
    """The record with strict mode applied; None when there are no such arrays.

    An array that must have more items than its schema names does speak of further items, so strict mode leaves it open.
    """
    if arrays.maximum is not None and arrays.maximum < arrays.minimum:
        return None
    is_closed = is_strict and arrays.openness == Openness.SILENT and arrays.minimum <= len(arrays.prefix)
    if is_closed:
        return replace(arrays, rest=NEVER, openness=Openness.STATED)
    if not arrays.prefix and arrays.rest == ANYTHING and not arrays.minimum and arrays.maximum is None:
        return ANY_ARRAY
    return arrays


def array_expression(
    arrays: ArraySet, item: Callable[[Node], Expression | None], level: int, rules: Rules
) -> Expression:
    """The arrays, brackets included. ``item`` gives the expression of a node, None when nothing satisfies it."""
    prefix: list[Expression] = []
    maximum = arrays.maximum
    for node in arrays.prefix[:maximum]:
        expression = item(node)
        if expression is None:
            maximum = len(prefix)
            break
        prefix.append(expression)
    rest = item(arrays.rest) if maximum is None or maximum > len(prefix) else None
    if rest is None:
        maximum = len(prefix)
    if maximum is not None and maximum < arrays.minimum:
        raise SourceError("an array without members was to be spelt")  # excluded before: nothing satisfies its node
    if rest is not None and max(arrays.minimum, maximum or 0) > _INLINED_COUNT_MAX:
        rest = rules.kept(rest)
    if maximum == 0:
        return rules.brackets(b"[", b"]", None, level, may_be_empty=True)
    members = _items(prefix, rest, max(arrays.minimum, 1), maximum, rules.layout.comma(level))
    return rules.brackets(b"[", b"]", members, level, may_be_empty=arrays.minimum == 0)


def _items(
    prefix: list[Expression], rest: Expression | None, minimum: int, maximum: int | None, comma: Expression
) -> Expression:
    """Between ``minimum`` (at least 1) and ``maximum`` items, separated by commas."""
    count = len(prefix)
    tail: Expression = sequence()
    if rest is not None:
        more = sequence(comma, rest)
        least = max(minimum - count, 0)
        most = None if maximum is None else maximum - count
        if count == 0:
            tail = sequence(rest, repeat(more, least - 1, None if most is None else most - 1))
        else:
            tail = repeat(more, least, most)
    for position in range(count - 1, -1, -1):
        here = sequence(comma, prefix[position], tail) if position else sequence(prefix[position], tail)
        tail = here if position < minimum else optional(here)
    return tail
