"""Texts that an automaton accepts and that have a bounded, large number of characters.

Owns the counting of characters along an automaton where a state for each count and state would be too many. Must never
know a schema or how a text is spelt.

As in ``counting``, characters come in blocks, blocks of blocks, and so on. A block is a rule for each two states that
so many characters lead between; which state a block leads to is left open, and at its end all but one have failed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from shmcache.grammar.ir import EMPTY, Expression, Graph, Regular
from shmcache.grammar.json_schema.rules import Rules
from shmcache.limits import Budget
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa, Edge, minimise, trim

_SPELLED_STATES_MAX = 150_000
"""States of bytes up to which every count has a state of its own, and up to which blocks are made."""

_BLOCK_LENGTHS = (256, 64, 16)

_Nodes = dict[int, int]
"""Nodes of a graph by state of the automaton."""


class CountedTexts:
    """The words of ``text`` of ``minimum`` up to ``maximum`` characters (None: no bound).

    ``spell`` gives the bytes of a text automaton.
    """

    def __init__(
        self, text: Dfa, minimum: int, maximum: int | None, spell: Callable[[Dfa], Dfa], budget: Budget
    ) -> None:
        self._text = text
        self._minimum = minimum
        self._maximum = maximum
        self._spell = spell
        self._budget = budget
        self._successors = [sorted({target for _, _, target in row}) for row in text.edges]
        self._edges: list[tuple[int, Expression, int]] = []
        self._node_count = 2
        self._length = 0

    def is_short(self) -> bool:
        """Whether a state for each count and state is little enough."""
        last = self._minimum if self._maximum is None else self._maximum
        spelled = self._spelled_per_state()
        reached, total = {0}, 0
        for _ in range(last + 1):
            total += len(reached)
            if total * spelled > _SPELLED_STATES_MAX:
                return False
            reached = self._after(reached)
            if not reached:
                break
        return True

    def is_empty(self) -> bool:
        """Whether no word has so many characters."""
        reached = {0}
        last = self._maximum if self._maximum is not None else self._minimum + self._text.state_count
        for count in range(last + 1):
            self._budget.spend_edges(len(reached))
            if count >= self._minimum and any(self._text.accepting[state] for state in reached):
                return False
            reached = self._after(reached)
            if not reached:
                break
        return True

    def expression(self, rules: Rules) -> Expression | None:
        """The words; None where blocks would be too many as well."""
        length = self._chosen_length()
        if length is None:
            return None
        self._length = length
        self._rules = rules
        here: _Nodes = {0: 0}
        for power, digit in reversed(list(enumerate(self._digits(self._minimum)))):
            here = self._blocks(here, power, digit)[-1]
        if self._maximum is None:
            for state, node in here.items():
                self._add(node, self._rest(state, None), 1)
        else:
            self._up_to(here, self._maximum - self._minimum)
        return Graph(self._node_count, tuple(self._edges), 1)

    def _spelled_per_state(self) -> int:
        return max(1, self._spell(self._text).state_count // self._text.state_count)

    def _after(self, states: set[int]) -> set[int]:
        return {target for state in states for target in self._successors[state]}

    def _chosen_length(self) -> int | None:
        """The longest blocks that are few enough."""
        spelled = self._spelled_per_state()
        for length in _BLOCK_LENGTHS:
            pairs = sum(len(self._reached(state, length)) for state in range(self._text.state_count))
            if pairs * length * self._text.state_count * spelled <= _SPELLED_STATES_MAX:
                return length
        return None

    def _reached(self, start: int, count: int) -> set[int]:
        """The states that so many characters lead to."""
        reached = {start}
        for _ in range(count):
            self._budget.spend_edges(len(reached))
            reached = self._after(reached)
        return reached

    def _digits(self, count: int) -> list[int]:
        digits = []
        while count:
            count, digit = divmod(count, self._length)
            digits.append(digit)
        return digits

    def _node(self) -> int:
        self._budget.spend_states()
        self._node_count += 1
        return self._node_count - 1

    def _add(self, source: int, expression: Expression | None, target: int) -> None:
        if expression is not None:
            self._edges.append((source, expression, target))

    def _blocks(self, entry: _Nodes, power: int, count: int) -> list[_Nodes]:
        """Nodes behind 0, 1, … ``count`` blocks of that power; power 0 is one block of ``count`` characters."""
        layers = [entry]
        if power == 0:
            return [entry, self._layer(entry, lambda state: self._exactly(state, count))] if count else layers
        blocks = cache(lambda state: self._block(state, power))
        for _ in range(count):
            layers.append(self._layer(layers[-1], blocks))
        return layers

    def _layer(self, entry: _Nodes, blocks: Callable[[int], dict[int, Expression]]) -> _Nodes:
        layer: _Nodes = {}
        for state, node in entry.items():
            for target, expression in blocks(state).items():
                if target not in layer:
                    layer[target] = self._node()
                self._add(node, expression, layer[target])
        return layer

    def _up_to(self, entry: _Nodes, count: int) -> None:
        """At most ``count`` characters: as many blocks as its first digit says and then the rest, or fewer blocks."""
        digits = self._digits(count) or [0]
        any_below: dict[int, _Nodes] = {}  # by power: where fewer characters than such a block has may follow

        def begin_below(state: int, power: int) -> int:
            nodes = any_below.setdefault(power, {})
            if state not in nodes:
                nodes[state] = self._node()
                if power == 1:
                    self._add(nodes[state], self._rest(state, self._length - 1), 1)
                else:
                    for layer in self._blocks({state: nodes[state]}, power - 1, self._length - 1):
                        for inner, node in layer.items():
                            self._add(node, EMPTY, begin_below(inner, power - 1))
            return nodes[state]

        for power in range(len(digits) - 1, 0, -1):
            layers = self._blocks(entry, power, digits[power])
            for layer in layers[:-1]:
                for state, node in layer.items():
                    self._add(node, EMPTY, begin_below(state, power))
            entry = layers[-1]
        for state, node in entry.items():
            self._add(node, self._rest(state, digits[0]), 1)

    def _block(self, state: int, power: int) -> dict[int, Expression]:
        """By state that it leads to, a block that begins in ``state``."""
        if power == 1:
            return self._exactly(state, self._length)
        whole = CountedTexts(self._text, 0, None, self._spell, self._budget)
        whole._length, whole._rules = self._length, self._rules
        whole._node_count = 1
        layers = whole._blocks({state: 0}, power - 1, self._length)
        edges = tuple(whole._edges)
        return {
            target: self._rules.shared(
                ("block of a pattern", self._text, state, target, power, self._length),
                lambda final=final: Graph(whole._node_count, edges, final),  # type: ignore[misc]
            )
            for target, final in layers[-1].items()
        }

    def _exactly(self, state: int, count: int) -> dict[int, Expression]:
        """By state that they lead to, ``count`` characters (above 0) from ``state`` on."""
        return {
            target: self._rules.shared(
                ("characters of a pattern", self._text, state, target, count),
                lambda target=target: Regular(self._counted(state, count, target)),  # type: ignore[misc]
            )
            for target in sorted(self._reached(state, count))
        }

    def _rest(self, state: int, maximum: int | None) -> Expression | None:
        """At most so many characters from ``state`` to where a word may end; None: there are none."""
        if maximum is None:
            rotated = [state, *(one for one in range(self._text.state_count) if one != state)]
            place = {one: at for at, one in enumerate(rotated)}
            rows = [[(low, high, place[target]) for low, high, target in self._text.edges[one]] for one in rotated]
            rest = trim(rows, [self._text.accepting[one] for one in rotated])
        else:
            rest = self._counted(state, maximum, None)
        if rest.is_empty:
            return None
        what = ("rest of a pattern", self._text, state, maximum)
        return self._rules.shared(what, lambda: Regular(self._spell(rest)))

    def _counted(self, start: int, count: int, target: int | None) -> Dfa:
        """Spelled: exactly ``count`` characters to ``target``. Not spelled, for None: at most so many, to any end."""
        numbers: dict[tuple[int, int], int] = {(0, start): 0}
        order = [(0, start)]
        rows: list[list[Edge]] = []
        for at, state in order:  # grows while it is walked
            row: list[Edge] = []
            for low, high, successor in self._text.edges[state] if at < count else ():
                key = (at + 1, successor)
                if key not in numbers:
                    numbers[key] = len(order)
                    order.append(key)
                row.append((low, high, numbers[key]))
            rows.append(row)
        self._budget.spend_edges(len(order))
        if target is None:
            return minimise(trim(rows, [self._text.accepting[state] for _, state in order]), self._budget)
        counted = minimise(trim(rows, [one == (count, target) for one in order]), self._budget)
        return EMPTY_LANGUAGE if counted.is_empty else self._spell(counted)
