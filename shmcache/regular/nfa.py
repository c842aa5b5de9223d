"""A non-deterministic automaton under construction, and the subset construction that makes it deterministic.

Owns the builder and :func:`determinise`. Must never know what the symbols stand for.
"""

from __future__ import annotations

from collections.abc import Collection

from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa, Edge, minimise, trim


class NfaBuilder:
    """States with edges over symbol ranges and epsilon edges."""

    __slots__ = ("budget", "edges", "epsilons")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.edges: list[list[Edge]] = []
        self.epsilons: list[list[int]] = []

    def add_state(self) -> int:
        """A new state without edges."""
        self.budget.spend_states()
        self.edges.append([])
        self.epsilons.append([])
        return len(self.edges) - 1

    def add_edge(self, source: int, low: int, high: int, target: int) -> None:
        """Every symbol in low..high leads from ``source`` to ``target``."""
        self.budget.spend_edges()
        self.edges[source].append((low, high, target))

    def add_epsilon(self, source: int, target: int) -> None:
        """``target`` is reached from ``source`` by no symbol at all."""
        self.budget.spend_edges()
        self.epsilons[source].append(target)

    def add_dfa(self, dfa: Dfa, source: int, target: int) -> None:
        """A copy of ``dfa`` between ``source`` and ``target``."""
        states = [self.add_state() for _ in dfa.edges]
        self.add_epsilon(source, states[0])
        for state, row in enumerate(dfa.edges):
            for low, high, successor in row:
                self.add_edge(states[state], low, high, states[successor])
            if dfa.accepting[state]:
                self.add_epsilon(states[state], target)


class _Closures:
    """For each state, the states worth keeping (those with edges, or accepting) that epsilons lead to."""

    def __init__(self, nfa: NfaBuilder, accepting: Collection[int]) -> None:
        self._nfa = nfa
        self._accepting = accepting
        self._known: dict[int, frozenset[int]] = {}

    def of(self, state: int) -> frozenset[int]:
        known = self._known.get(state)
        if known is not None:
            return known
        seen = {state}
        pending = [state]
        while pending:
            for target in self._nfa.epsilons[pending.pop()]:
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        self._nfa.budget.spend_edges(len(seen))
        closure = frozenset(one for one in seen if self._nfa.edges[one] or one in self._accepting)
        self._known[state] = closure
        return closure

    def of_all(self, states: Collection[int]) -> frozenset[int]:
        if len(states) == 1:
            return self.of(next(iter(states)))
        return frozenset().union(*map(self.of, states))


def _sweep(edges: list[Edge]) -> list[tuple[int, int, frozenset[int]]]:
    """Cuts overlapping edges into disjoint ranges, each with the set of all its targets."""
    edges.sort()
    previous_high = -1
    for low, high, _ in edges:
        if low <= previous_high:
            break
        previous_high = high
    else:
        return [(low, high, frozenset((target,))) for low, high, target in edges]
    opening: dict[int, list[int]] = {}
    closing: dict[int, list[int]] = {}
    for low, high, target in edges:
        opening.setdefault(low, []).append(target)
        closing.setdefault(high + 1, []).append(target)
    points = sorted(opening.keys() | closing.keys())
    active: dict[int, int] = {}
    pieces: list[tuple[int, int, frozenset[int]]] = []
    for at, point in enumerate(points):
        for target in closing.get(point, ()):
            active[target] -= 1
            if not active[target]:
                del active[target]
        for target in opening.get(point, ()):
            active[target] = active.get(target, 0) + 1
        if active:
            pieces.append((point, points[at + 1] - 1, frozenset(active)))
    return pieces


def determinise(
    nfa: NfaBuilder, start: int, accepting: Collection[int], budget: Budget, *, start_accepts: bool | None = None
) -> Dfa:
    """The minimal deterministic automaton of the words that lead from ``start`` to ``accepting``.

    ``start_accepts`` overrides whether the empty word is accepted; ``start`` must then have no incoming edges.
    Raises :class:`LimitError` when the budget is exceeded: the subset construction can explode.
    """
    final = frozenset(accepting)
    closures = _Closures(nfa, final)
    # The start has a subset of its own, so that its acceptance can be set apart from an equal later subset.
    first = closures.of(start) | {-1}
    numbers: dict[frozenset[int], int] = {first: 0}
    subsets: list[frozenset[int]] = [first]
    rows: list[list[Edge]] = []
    known_targets: dict[frozenset[int], int] = {}
    for subset in subsets:  # grows while it is walked
        row: list[Edge] = []
        for low, high, targets in _sweep([edge for state in subset if state >= 0 for edge in nfa.edges[state]]):
            number = known_targets.get(targets)
            if number is None:
                closure = closures.of_all(targets)
                number = numbers.get(closure, -1)
                if number < 0:
                    number = numbers[closure] = len(subsets)
                    subsets.append(closure)
                    budget.spend_states()
                known_targets[targets] = number
            if row and row[-1][2] == number and row[-1][1] + 1 == low:
                row[-1] = (row[-1][0], high, number)
            else:
                row.append((low, high, number))
        budget.spend_edges(len(row) + len(subset))
        rows.append(row)
    accepts = [not final.isdisjoint(subset) for subset in subsets]
    if start_accepts is not None:
        accepts[0] = start_accepts
    return minimise(trim(rows, accepts), budget)
