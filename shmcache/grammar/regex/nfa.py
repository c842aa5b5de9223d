"""From a syntax tree to a non-deterministic automaton with conditions.

Owns Thompson's construction. An edge that reads no character may carry a condition, one of the three assertions of the
syntax tree; what a condition means is decided where the automaton is made deterministic. Must never know patterns.
"""

from __future__ import annotations

from shmcache.grammar.regex.syntax import (
    Ahead,
    Alternation,
    Behind,
    Characters,
    Concatenation,
    Lookahead,
    Node,
    Repetition,
)
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints

Condition = Behind | Ahead | Lookahead


class ConditionalNfa:
    """Words lead from state ``START`` to state ``ACCEPT``.

    ``reading[s]`` holds (characters, target) edges, ``free[s]`` (condition or None, target) edges that read nothing.
    """

    __slots__ = ("_budget", "free", "reading")

    START = 0
    ACCEPT = 1

    def __init__(self, node: Node, budget: Budget, *, skips_before: bool, ignores_after: bool) -> None:
        """The automaton of ``node``; after any text if ``skips_before``, before any text if ``ignores_after``."""
        self._budget = budget
        self.reading: list[list[tuple[CodePoints, int]]] = []
        self.free: list[list[tuple[Condition | None, int]]] = []
        start, accept = self._add_state(), self._add_state()
        assert (start, accept) == (self.START, self.ACCEPT)
        if skips_before:
            self.reading[start].append((ANY, start))
        if ignores_after:
            self.reading[accept].append((ANY, accept))
        self._build(node, start, accept)

    def conditions(self) -> set[Condition]:
        """All conditions on any edge."""
        return {condition for edges in self.free for condition, _ in edges if condition is not None}

    def _add_state(self) -> int:
        self._budget.spend_states()
        self.reading.append([])
        self.free.append([])
        return len(self.free) - 1

    def _build(self, root: Node, entry: int, exit_: int) -> None:
        # Both ends of a part exist before the part does, so parts can wait on a list and nothing recurses. A part adds
        # edges out of its entry and into its exit only, hence neighbours share ends, and START and ACCEPT may loop.
        pending: list[tuple[Node, int, int]] = [(root, entry, exit_)]
        while pending:
            self._budget.spend_edges()
            node, begin, end = pending.pop()
            match node:
                case Characters(code_points=code_points):
                    self.reading[begin].append((code_points, end))
                case Behind() | Ahead() | Lookahead():
                    self.free[begin].append((node, end))
                case Alternation(options=options):
                    pending.extend((option, begin, end) for option in options)
                case Concatenation(items=items):
                    self._concatenate(items, begin, end, pending)
                case Repetition():
                    self._repeat(node, begin, end, pending)

    def _concatenate(self, items: tuple[Node, ...], begin: int, end: int, pending: list[tuple[Node, int, int]]) -> None:
        if not items:
            self.free[begin].append((None, end))
            return
        for item in items[:-1]:
            after = self._add_state()
            pending.append((item, begin, after))
            begin = after
        pending.append((items[-1], begin, end))

    def _repeat(self, node: Repetition, begin: int, end: int, pending: list[tuple[Node, int, int]]) -> None:
        here = begin
        for _ in range(node.minimum):
            after = self._add_state()
            pending.append((node.item, here, after))
            here = after
        if node.maximum is None:
            loop = self._add_state()
            self.free[here].append((None, loop))
            self.free[loop].append((None, end))
            pending.append((node.item, loop, loop))
            return
        for _ in range(node.maximum - node.minimum):
            # Each count leaves on its own, not through all later ones: closures stay small.
            self.free[here].append((None, end))
            after = self._add_state()
            pending.append((node.item, here, after))
            here = after
        self.free[here].append((None, end))
