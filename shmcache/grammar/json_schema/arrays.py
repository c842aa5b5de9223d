"""Sets of arrays: what the array keywords of a schema leave.

Owns the constraint record of arrays, its reading and its intersection. Must never know what an item's node stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shmcache.errors import LimitError
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both, node_of


@dataclass(frozen=True, slots=True)
class Contains:
    """How many items from position ``start`` on satisfy ``node``; ``complement`` is what does not. None: no bound."""

    node: Node
    complement: Node
    minimum: int
    maximum: int | None
    start: int = 0


@dataclass(frozen=True, slots=True)
class ArraySet:
    """All arrays that satisfy every field.

    prefix: nodes of the first items, by position. rest: node of every item behind them.
    openness: whether ``rest`` was stated. minimum, maximum: number of items; None: no bound.
    contains: all of which are met. unique: pointers of the keywords that ask for items of which no two are equal.

    In a finished record that is so asked, ``unique`` is empty and ``distinct`` has, by position and lastly for all
    further items, the nodes of single values, of which each may occur once.
    """

    prefix: tuple[Node, ...] = ()
    rest: Node = ANYTHING
    openness: Openness = Openness.UNSPOKEN
    minimum: int = 0
    maximum: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: tuple[str, ...] = ()
    distinct: tuple[tuple[Node, ...], ...] = ()

    def item(self, position: int) -> Node:
        """The node of the item at ``position``."""
        return self.prefix[position] if position < len(self.prefix) else self.rest

    def required_nodes(self) -> set[Node]:
        """Nodes without which there is no array at all."""
        if self.distinct:
            return set()
        nodes = set(self.prefix[: self.minimum])
        return nodes | {self.rest} if self.minimum > len(self.prefix) else nodes

    def nodes(self) -> set[Node]:
        """All nodes that items may be of."""
        if self.distinct:
            return {node for nodes in self.distinct for node in nodes}
        positions = range(max([len(self.prefix), *(one.start for one in self.contains)]) + 1)
        return {node for at in positions for node, _ in self.choices(at)}

    def choices(self, position: int) -> list[tuple[Node, frozenset[int]]]:
        """The nodes that the item at ``position`` may satisfy, each with the numbers of ``contains`` it counts for.

        Where there is no upper bound, an item that would count may as well not: that only admits less.
        """
        listed: list[tuple[Node, frozenset[int]]] = [(self.item(position), frozenset())]
        for at, one in enumerate(self.contains):
            if position < one.start:
                continue
            counting = [(both(node, one.node), counted | {at}) for node, counted in listed]
            other = ANYTHING if one.maximum is None else one.complement
            listed = [*((both(node, other), counted) for node, counted in listed), *counting]
        return [(node, counted) for node, counted in listed if node != NEVER]


ANY_ARRAY = ArraySet()

KEYWORDS = frozenset(("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"))

CONTAINS_MAX = 4
"""Most ``contains`` of one record: an item may satisfy any of their subsets."""


def read_arrays(keywords: Keywords, complement_of: Callable[[Node], Node], draft: int) -> ArraySet:
    """What the keywords of arrays say, in the spelling of any draft."""
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
        _contains(keywords, complement_of, draft),
        (keywords.pointer("uniqueItems"),) if keywords.flag("uniqueItems") else (),
    )


def _contains(keywords: Keywords, complement_of: Callable[[Node], Node], draft: int) -> tuple[Contains, ...]:
    minimum, maximum = keywords.count("minContains"), keywords.count("maxContains")
    if "contains" not in keywords:
        return ()
    if minimum is None or draft <= 7:
        minimum = 1
    if draft <= 7:
        maximum = None
    node = node_of(keywords.child("contains"))
    return (Contains(node, complement_of(node), minimum, maximum),) if minimum or maximum is not None else ()


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
        tuple(dict.fromkeys(first.contains + second.contains)),
        tuple(dict.fromkeys(first.unique + second.unique)),
    )


def finished_array(arrays: ArraySet, *, is_strict: bool) -> ArraySet | None:
    """The record with strict mode applied; None when there are no such arrays.

    An array that must have more items than its schema names does speak of further items, so strict mode leaves it open.
    """
    if arrays.maximum is not None and arrays.maximum < arrays.minimum:
        return None
    if len(arrays.contains) > CONTAINS_MAX:
        raise LimitError(
            f"a schema counts more than {CONTAINS_MAX} kinds of items", limit="contains", value=CONTAINS_MAX
        )
    if arrays.maximum is not None and arrays.maximum <= 1:
        arrays = replace(arrays, unique=())
    is_silent = is_strict and arrays.openness == Openness.SILENT
    if is_silent and arrays.minimum <= len(arrays.prefix) and not any(one.minimum for one in arrays.contains):
        return replace(arrays, rest=NEVER, openness=Openness.STATED)
    is_free = not arrays.prefix and arrays.rest == ANYTHING and not arrays.minimum and arrays.maximum is None
    if is_free and not (arrays.contains or arrays.unique):
        return ANY_ARRAY
    return arrays
