"""A non-deterministic automaton under construction, and the subset construction that makes it deterministic.

Owns the builder and :func:`determinise`. Must never know what the symbols stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

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

    def add_word(self, source: int, symbols: Sequence[int], target: int) -> None:
        """The word, of one symbol or more, leads from ``source`` to ``target``, through states of its own."""
        first = len(self.edges)
        states = range(first, first + len(symbols) - 1)
        self.budget.spend_states(len(states))
        self.budget.spend_edges(len(symbols))
        self.edges[source].append((symbols[0], symbols[0], states[0] if states else target))
        for symbol, after in zip(symbols[1:], (*states[1:], target), strict=False):
            self.edges.append([(symbol, symbol, after)])
            self.epsilons.append([])

    def add_dfa(self, dfa: Dfa, source: int, target: int) -> None:
        """A copy of ``dfa`` between ``source`` and ``target``."""
        first = len(self.edges)
        self.budget.spend_states(dfa.state_count)
        self.budget.spend_edges(sum(map(len, dfa.edges)) + dfa.state_count)
        self.epsilons[source].append(first)
        for row, is_accepting in zip(dfa.edges, dfa.accepting, strict=True):
            self.edges.append([(low, high, first + successor) for low, high, successor in row])
            self.epsilons.append([target] if is_accepting else [])


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
        epsilons, edges = self._nfa.epsilons, self._nfa.edges
        order = [state]
        if epsilons[state]:
            seen = {state}
            for one in order:  # grows while it is walked
                for target in epsilons[one]:
                    if target not in seen:
                        seen.add(target)
                        order.append(target)
        self._nfa.budget.spend_edges(len(order))
        closure = frozenset([one for one in order if edges[one] or one in self._accepting])
        self._known[state] = closure
        return closure

    def of_all(self, states: Collection[int]) -> frozenset[int]:
        return frozenset().union(*map(self.of, states))


Targets = int | frozenset[int]
"""Where a range leads: to one state, or to several."""


def _sweep(edges: list[Edge]) -> Sequence[tuple[int, int, Targets]]:
    """Cuts overlapping edges into disjoint ranges, each with all its targets."""
    if len(edges) < 2:
        return edges
    edges.sort()
    previous_high = -1
    for low, high, _ in edges:
        if low <= previous_high:
            break
        previous_high = high
    else:
        return edges
    opening: dict[int, list[int]] = {}
    closing: dict[int, list[int]] = {}
    for low, high, target in edges:
        opening.setdefault(low, []).append(target)
        closing.setdefault(high + 1, []).append(target)
    points = sorted(opening.keys() | closing.keys())
    active: dict[int, int] = {}
    pieces: list[tuple[int, int, Targets]] = []
    for at, point in enumerate(points):
        for target in closing.get(point, ()):
            active[target] -= 1
            if not active[target]:
                del active[target]
        for target in opening.get(point, ()):
            active[target] = active.get(target, 0) + 1
        if active:
            targets = next(iter(active)) if len(active) == 1 else frozenset(active)
            pieces.append((point, points[at + 1] - 1, targets))
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
    first = closures.of(start)
    numbers: dict[frozenset[int], int] = {first | {-1}: 0}
    subsets: list[frozenset[int]] = [first]
    rows: list[list[Edge]] = []
    known_targets: dict[Targets, int] = {}
    for subset in subsets:  # grows while it is walked
        row: list[Edge] = []
        for low, high, targets in _sweep([edge for state in subset for edge in nfa.edges[state]]):
            number = known_targets.get(targets)
            if number is None:
                closure = closures.of(targets) if isinstance(targets, int) else closures.of_all(targets)
                number = numbers.setdefault(closure, len(subsets))
                if number == len(subsets):
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
