"""Conjunctions of unions of objects, followed member by member.

Owns what is still to be fulfilled of each union behind each member. Must never know names, spellings or schemas.

``allOf`` of twenty choices has a million combinations, few of which matter anywhere in an object: what a union asks for
is open only between the first and the last member that it speaks of. So unions are not multiplied out. While members
come in their order, each union is the set of its alternatives that are still possible, and of each only what it asks of
later members; alternatives that ask the same are one. The number of states is that of a binary decision diagram with
the members in declared order (Bryant 1986): small where members that depend on each other are near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, both
from shmcache.limits import Budget

Splitter = Callable[[int, tuple[Node, ...]], list[tuple[Node, frozenset[Node]]]]
"""Of the values of the member at a position, by which of some nodes they satisfy: (node, those of them that hold)."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """What one record of a union asks for. By position, that is by member in order and then by set of other names:

    nodes: what the value satisfies; needs: which needs, as bits, such a member can meet. required: positions that must
    be present. need_values: by need, what the value satisfies that meets it. minimum, maximum: number of members.
    """

    nodes: tuple[Node, ...]
    needs: tuple[int, ...]
    required: frozenset[int]
    need_values: tuple[Node, ...]
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class _End:
    """What is asked of the members of other names, and of the whole."""

    nodes: tuple[Node, ...]
    needs: tuple[int, ...]
    need_values: tuple[Node, ...]
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class _Demand:
    """What is asked of the member at ``position``, and then: the number of what is asked of later ones."""

    position: int
    node: Node
    needs: int
    is_required: bool
    then: int


_Element = tuple[int, int, int, int]
"""An alternative on its way: what is asked of later members, by number; needs not met; members counted; its end."""

_DEAD, _MET = -1, -2

State = int
"""The number of what is left of all unions."""


def splitter(
    bases: list[Node],
    opposites: dict[Node, Node],
    is_satisfiable: Callable[[Node], bool],
    budget: Budget,
) -> Splitter:
    """Splits the values that the node of each position admits. ``opposites``: what does not satisfy a node, if known.

    Where it is not, values that satisfy a node are also among those of which nothing is said; that admits no others.
    """

    def split(position: int, nodes: tuple[Node, ...]) -> list[tuple[Node, frozenset[Node]]]:
        parts: list[tuple[Node, frozenset[Node]]] = [(bases[position], frozenset())]
        for node in nodes:
            fresh: list[tuple[Node, frozenset[Node]]] = []
            for part, holding in parts:
                budget.spend_edges()
                joined = both(part, node)
                if joined == part:
                    fresh.append((part, holding | {node}))
                    continue
                if not is_satisfiable(joined):
                    fresh.append((part, holding))
                    continue
                fresh.append((joined, holding | {node}))
                rest = both(part, opposites.get(node, ANYTHING))
                if is_satisfiable(rest):
                    fresh.append((rest, holding))
            parts = fresh
        return parts

    known: dict[tuple[int, tuple[Node, ...]], list[tuple[Node, frozenset[Node]]]] = {}

    def remembered(position: int, nodes: tuple[Node, ...]) -> list[tuple[Node, frozenset[Node]]]:
        key = (position, nodes)
        if key not in known:
            known[key] = split(position, nodes)
        return known[key]

    return remembered


class UnionStates:
    """The states of a conjunction of unions. ``member_count``: positions from there on are sets of other names."""

    def __init__(
        self, unions: tuple[tuple[Alternative, ...], ...], member_count: int, split: Splitter, budget: Budget
    ) -> None:
        self._member_count = member_count
        self._split = split
        self._budget = budget
        self._demands: list[_Demand | None] = []  # None: nothing more is asked of members
        self._demand_numbers: dict[_Demand | None, int] = {}
        self._without_needs: list[int] = []
        self._ends: list[_End] = []
        self._end_numbers: dict[_End, int] = {}
        self._unions: list[tuple[_Element, ...]] = []
        self._union_numbers: dict[frozenset[_Element], int] = {}
        self._unmoved_until: list[int] = []  # by union: no member at an earlier position changes it
        self._mentions: dict[tuple[int, int], tuple[Node, ...]] = {}
        self._steps: dict[tuple[int, int, frozenset[Node]], int] = {}
        self._skips: dict[tuple[State, int], State] = {}
        self._skipped_unions: dict[tuple[int, int], int] = {}
        self._states: list[tuple[int, ...]] = []
        self._state_numbers: dict[tuple[int, ...], State] = {}
        self._nothing = self._demand(None, -1)
        self.start = self._state([self._union([self._begun(one) for one in union]) for union in unions])
        """Before any member."""

    def taken(self, state: State, position: int) -> Iterator[tuple[Node, State]]:
        """The member at ``position`` comes next: what its value may be, each with the state behind it."""
        self._budget.check_time()
        moved = [one for one in self._states[state] if position >= self._unmoved_until[one]]
        unmoved = [one for one in self._states[state] if position < self._unmoved_until[one]]
        mentioned = dict.fromkeys(node for union in moved for node in self._mentioned(union, position))
        for node, holding in self._split(position, tuple(mentioned)):
            self._budget.spend_edges(1 + len(moved))
            after = [self._after(union, position, holding) for union in moved]
            if _DEAD not in after:
                yield node, self._state([*unmoved, *after])

    def skipped(self, state: State, position: int) -> State | None:
        """The state when no member before ``position`` comes any more; None: one of them would have to."""
        known = self._skips.get((state, position))
        if known is None:
            unions, until = self._states[state], self._unmoved_until
            moved = [one for one in unions if position > until[one]]
            self._budget.spend_edges(1 + len(moved))
            after = [self._skipped_union(union, position) for union in moved]
            if _DEAD in after:
                known = _DEAD
            elif moved:
                known = self._state([*(one for one in unions if position <= until[one]), *after])
            else:
                known = state
            self._skips[state, position] = known
        return None if known == _DEAD else known

    def _skipped_union(self, union: int, position: int) -> int:
        known = self._skipped_unions.get((union, position))
        if known is None:
            elements = []
            for number, unmet, count, end in self._unions[union]:
                reached = self._reached(number, position)
                elements.append(None if reached < 0 else (reached, unmet, count, end))
            known = self._skipped_unions[union, position] = self._union(elements)
        return known

    def accepts(self, state: State) -> bool:
        """Whether there may be no further member."""
        return all(any(map(self._is_met, self._unions[union])) for union in self._states[state])

    def _begun(self, alternative: Alternative) -> _Element:
        count = self._member_count
        end = _End(
            alternative.nodes[count:],
            alternative.needs[count:],
            alternative.need_values,
            alternative.minimum,
            alternative.maximum,
        )
        number = self._nothing
        for position in range(count - 1, -1, -1):
            node, needs = alternative.nodes[position], alternative.needs[position]
            is_required = position in alternative.required
            if node != ANYTHING or needs or is_required:
                plain = self._without_needs[number]
                if node != ANYTHING or is_required:
                    plain = self._demand(_Demand(position, node, 0, is_required, plain), -1)
                number = self._demand(_Demand(position, node, needs, is_required, number), plain)
        unmet = (1 << len(alternative.need_values)) - 1
        return self._element(number, unmet, 0, self._end(end))

    def _demand(self, demand: _Demand | None, without_needs: int) -> int:
        number = self._demand_numbers.get(demand)
        if number is None:
            self._budget.spend_edges()
            number = self._demand_numbers[demand] = len(self._demands)
            self._demands.append(demand)
            self._without_needs.append(number if without_needs < 0 else without_needs)
        return number

    def _end(self, end: _End) -> int:
        number = self._end_numbers.setdefault(end, len(self._ends))
        if number == len(self._ends):
            self._ends.append(end)
        return number

    def _element(self, number: int, unmet: int, count: int, end: int) -> _Element:
        """The element, once its needs are forgotten where all are met and the number of members where it is reached."""
        if unmet:
            return number, unmet, count, end
        here = self._ends[end]
        is_reached = here.maximum is None and count >= here.minimum
        if here.need_values or (is_reached and here.minimum):
            plain = _End(here.nodes, (0,) * len(here.needs), (), 0 if is_reached else here.minimum, here.maximum)
            return self._without_needs[number], 0, 0 if is_reached else count, self._end(plain)
        return number, 0, count, end

    def _union(self, elements: Iterable[_Element | None]) -> int:
        """The number of what is left of a union; _DEAD: nothing, _MET: it is met whatever follows."""
        left = frozenset(element for element in elements if element is not None)
        number = self._union_numbers.get(left)
        if number is None:
            if any(map(self._is_certain, left)):
                number = _MET
            elif not left:
                number = _DEAD
            else:
                self._budget.spend_edges(len(left))
                number = len(self._unions)
                self._unions.append(tuple(sorted(left)))
                self._unmoved_until.append(min(map(self._first_position, left)))
            self._union_numbers[left] = number
        return number

    def _is_certain(self, element: _Element) -> bool:
        number, unmet, _, end = element
        if number != self._nothing or unmet:
            return False
        here = self._ends[end]
        return here.minimum == 0 and here.maximum is None and all(node == ANYTHING for node in here.nodes)

    def _first_position(self, element: _Element) -> int:
        """The first position at which a member may change the element."""
        here, demand = self._ends[element[3]], self._demands[element[0]]
        if here.minimum or here.maximum is not None:
            return 0
        return self._member_count if demand is None else demand.position

    def _state(self, unions: list[int]) -> State:
        key = tuple(sorted({union for union in unions if union != _MET}))
        number = self._state_numbers.get(key)
        if number is None:
            self._budget.spend_states()
            number = self._state_numbers[key] = len(self._states)
            self._states.append(key)
        return number

    def _reached(self, number: int, position: int) -> int:
        """What is asked from ``position`` on when members before it are absent, or -1 when one of them must not be."""
        demand = self._demands[number]
        while demand is not None and demand.position < position:
            if demand.is_required:
                return -1
            number = demand.then
            demand = self._demands[number]
        return number

    def _asked(self, element: _Element, position: int) -> tuple[Node, int, int] | None:
        """(node, needs that can be met, what is asked of later members) of the member at ``position``; None: dead."""
        number, unmet, _, end = element
        number = self._reached(number, position)
        if number < 0:
            return None
        if position >= self._member_count:
            here, at = self._ends[end], position - self._member_count
            return here.nodes[at], here.needs[at] & unmet, number
        demand = self._demands[number]
        if demand is None or demand.position > position:
            return ANYTHING, 0, number
        return demand.node, demand.needs & unmet, demand.then

    def _mentioned(self, union: int, position: int) -> tuple[Node, ...]:
        """The nodes that tell apart what becomes of the union."""
        known = self._mentions.get((union, position))
        if known is None:
            found: dict[Node, None] = {}
            for element in self._unions[union]:
                asked = self._asked(element, position)
                if asked is None or asked[0] == NEVER:
                    continue
                found[asked[0]] = None
                for need, value in enumerate(self._ends[element[3]].need_values):
                    if asked[1] >> need & 1:
                        found[value] = None
            known = self._mentions[union, position] = tuple(one for one in found if one not in (ANYTHING, NEVER))
        return known

    def _after(self, union: int, position: int, holding: frozenset[Node]) -> int:
        here = holding.intersection(self._mentioned(union, position))
        known = self._steps.get((union, position, here))
        if known is None:
            self._budget.spend_edges(len(self._unions[union]))
            elements = (self._element_after(element, position, here) for element in self._unions[union])
            known = self._steps[union, position, here] = self._union(elements)
        return known

    def _element_after(self, element: _Element, position: int, holding: frozenset[Node]) -> _Element | None:
        asked = self._asked(element, position)
        if asked is None or (asked[0] != ANYTHING and asked[0] not in holding):
            return None
        _, unmet, count, end = element
        here = self._ends[end]
        for need, value in enumerate(here.need_values):
            if asked[1] >> need & 1 and (value == ANYTHING or value in holding):
                unmet &= ~(1 << need)
        if here.maximum is None:
            count = min(count + 1, here.minimum)
        elif count == here.maximum:
            return None
        else:
            count += 1
        return self._element(asked[2], unmet, count, end)

    def _is_met(self, element: _Element) -> bool:
        number, unmet, count, end = element
        return not unmet and self._reached(number, self._member_count) >= 0 and count >= self._ends[end].minimum
