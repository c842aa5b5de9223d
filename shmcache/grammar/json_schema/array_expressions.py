"""The expression of a finished record of arrays.

Owns the writing of items: in sequence, counted by kind, or each value once. Must never know what an item's node stands
for: that is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from shmcache.errors import SourceError
from shmcache.grammar.ir import EMPTY, Expression, Graph
from shmcache.grammar.json_schema.arrays import ArraySet
from shmcache.grammar.json_schema.expressions import optional, repeat, sequence
from shmcache.grammar.json_schema.nodes import Node
from shmcache.grammar.json_schema.rules import Rules
from shmcache.limits import Budget

_INLINED_COUNT_MAX = 16
"""Where more items than this are counted, an item stays a call: its automaton would be copied for each."""

_ItemOf = Callable[[Node], Expression | None]


def array_expression(
    arrays: ArraySet, item: Callable[[Node], Expression | None], level: int, rules: Rules
) -> Expression:
    """The arrays, brackets included. ``item`` gives the expression of a node, None when nothing satisfies it."""
    if arrays.distinct:
        graph = _Distinct(arrays, item, rules.layout.comma(level), rules).graph()
        return rules.brackets(b"[", b"]", graph, level, may_be_empty=arrays.minimum == 0)
    if arrays.contains:
        counting = _Counting(arrays, item, rules.layout.comma(level), rules.budget)
        return rules.brackets(b"[", b"]", counting.graph(), level, may_be_empty=counting.may_be_empty)
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


class _Counting:
    """A graph whose states are the number of items so far and, for each ``contains``, of those that count for it."""

    def __init__(self, arrays: ArraySet, item: _ItemOf, comma: Expression, budget: Budget) -> None:
        self._arrays = arrays
        self._item = item
        self._comma = comma
        self._budget = budget
        starts = [one.start for one in arrays.contains]
        self._position_max = max([len(arrays.prefix), arrays.minimum, *starts])
        self._states: dict[tuple[int, tuple[int, ...]], int] = {}
        self._pending: list[tuple[int, tuple[int, ...]]] = []
        self._edges: list[tuple[int, Expression, int]] = []

    @property
    def may_be_empty(self) -> bool:
        """Whether there may be no items at all."""
        return self._accepts(0, (0,) * len(self._arrays.contains))

    def _accepts(self, position: int, counts: tuple[int, ...]) -> bool:
        met = (count >= one.minimum for count, one in zip(counts, self._arrays.contains, strict=True))
        return position >= self._arrays.minimum and all(met)

    def graph(self) -> Graph:
        """At least one item."""
        self._leave(0, 0, (0,) * len(self._arrays.contains), EMPTY)
        while self._pending:
            position, counts = self._pending.pop()
            state = self._states[position, counts]
            if self._accepts(position, counts):
                self._edges.append((state, EMPTY, 1))
            self._leave(state, position, counts, self._comma)
        return Graph(len(self._states) + 2, tuple(self._edges), 1)

    def _leave(self, state: int, position: int, counts: tuple[int, ...], separator: Expression) -> None:
        maximum = self._arrays.maximum
        if maximum is not None and position >= maximum:
            return
        following = position + 1 if maximum is not None else min(position + 1, self._position_max)
        for node, counted in self._arrays.choices(position):
            after = self._after(counts, counted)
            expression = None if after is None else self._item(node)
            if after is not None and expression is not None:
                self._edges.append((state, sequence(separator, expression), self._state(following, after)))

    def _after(self, counts: tuple[int, ...], counted: frozenset[int]) -> tuple[int, ...] | None:
        result = []
        for at, one in enumerate(self._arrays.contains):
            count = counts[at] + (at in counted)
            if one.maximum is None:
                count = min(count, one.minimum)
            elif count > one.maximum:
                return None
            result.append(count)
        return tuple(result)

    def _state(self, position: int, counts: tuple[int, ...]) -> int:
        key = (position, counts)
        if key not in self._states:
            self._budget.spend_states()
            self._states[key] = len(self._states) + 2
            self._pending.append(key)
        return self._states[key]


class _Distinct:
    """A graph whose states are the sets of values that have occurred, each with another behind its comma.

    Values are calls: a state is no more than one edge for each value that may still come.
    """

    def __init__(self, arrays: ArraySet, item: _ItemOf, comma: Expression, rules: Rules) -> None:
        self._arrays = arrays
        self._comma = comma
        self._budget = rules.budget
        values = dict.fromkeys(node for nodes in arrays.distinct for node in nodes)
        self._bits = {node: 1 << at for at, node in enumerate(values)}
        self._items = {node: _called(item(node), rules) for node in values}

    def graph(self) -> Graph:
        """At least one item."""
        edges: list[tuple[int, Expression, int]] = []
        states = {0: 0}
        state_count = 2
        order = [0]
        for used in order:  # grows while it is walked
            position, state = used.bit_count(), states[used]
            if position and position >= self._arrays.minimum:
                edges.append((state, EMPTY, 1))
            if position == self._arrays.maximum:
                continue
            if position:
                edges.append((state, self._comma, state_count))
                state, state_count = state_count, state_count + 1
            for node in self._arrays.distinct[min(position, len(self._arrays.distinct) - 1)]:
                bit, expression = self._bits[node], self._items[node]
                if expression is None or used & bit:
                    continue
                if used | bit not in states:
                    self._budget.spend_states(2)
                    states[used | bit], state_count = state_count, state_count + 1
                    order.append(used | bit)
                edges.append((state, expression, states[used | bit]))
        return Graph(state_count, tuple(edges), 1)


def _called(expression: Expression | None, rules: Rules) -> Expression | None:
    return None if expression is None else rules.shared(("item", expression), lambda: expression)
