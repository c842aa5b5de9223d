"""From a syntax tree to a non-deterministic automaton with conditions.

Owns Thompson's construction. An edge that reads no character may carry a condition, one of the three assertions of the
syntax tree; what a condition means is decided where the automaton is made deterministic. Must never know patterns.
"""

from __future__ import annotations

from shmcache.grammar.regex.syntax import (
    BEGIN_OF_TEXT,
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

Place = tuple[int, tuple[int, ...]]
"""Where in a pattern a state is, by number, and in which copies of it; see :class:`ConditionalNfa`."""

_Part = tuple[Node, int, int, Place]
"""A part that is still to be built: its entry, its exit, and where it is."""


class ConditionalNfa:
    """Words lead from state ``START`` to state ``ACCEPT``.

    ``reading[s]`` holds (characters, target) edges, ``free[s]`` (condition or None, target) edges that read nothing.

    ``place[s]`` is a pair of where in the pattern ``s`` is, and, for each bounded repetition around it, which of the
    copies that may be left out it is in. Of two states that differ in these numbers only, one whose numbers are all at
    most the other's can do whatever the other can: it has as many copies left, or more. Outside of such repetitions no
    two states have the same place.

    ``lasting`` are ``ACCEPT`` and the states that lead there when they have read a character.
    """

    __slots__ = ("_budget", "_path_count", "_paths", "free", "lasting", "place", "reading")

    START = 0
    ACCEPT = 1

    def __init__(self, node: Node, budget: Budget, *, skips_before: bool, ignores_after: bool) -> None:
        """The automaton of ``node``; after any text if ``skips_before``, before any text if ``ignores_after``."""
        self._budget = budget
        self._path_count = 0
        self._paths: dict[tuple[int, str, int], int] = {}  # those of parts that are laid out several times
        self.place: list[Place] = []
        self.reading: list[list[tuple[CodePoints, int]]] = []
        self.free: list[list[tuple[Condition | None, int]]] = []
        start, accept = self._add_state((-1, ())), self._add_state((-2, ()))
        assert (start, accept) == (self.START, self.ACCEPT)
        if skips_before:
            self.reading[start].append((ANY, start))
        if ignores_after:
            self.reading[accept].append((ANY, accept))
        self._build(node, start, accept)
        self.lasting = self._find_lasting()

    def conditions(self) -> set[Condition]:
        """All conditions on any edge."""
        return {condition for edges in self.free for condition, _ in edges if condition is not None}

    def _find_lasting(self) -> frozenset[int]:
        sources: list[list[int]] = [[] for _ in self.free]
        for state, edges in enumerate(self.free):
            for condition, target in edges:
                if condition != BEGIN_OF_TEXT:
                    sources[target].append(state)
        for state, reading in enumerate(self.reading):
            for _, target in reading:
                sources[target].append(state)
        self._budget.spend_edges(len(sources))
        leading = {self.ACCEPT}
        pending = [self.ACCEPT]
        while pending:
            for source in sources[pending.pop()]:
                if source not in leading:
                    leading.add(source)
                    pending.append(source)
        lasting = (state for state, edges in enumerate(self.reading) if any(target in leading for _, target in edges))
        return frozenset((self.ACCEPT, *lasting))

    def _path(self, outer: Place, part: str, at: int = 0) -> int:
        """The number of a part of a pattern; the same in all copies of what may be left out."""
        path, copies = outer
        number = self._paths.setdefault((path, part, at), self._path_count) if copies else self._path_count
        self._path_count += number == self._path_count
        return number

    def _add_state(self, place: Place) -> int:
        self._budget.spend_states()
        self.place.append(place)
        self.reading.append([])
        self.free.append([])
        return len(self.free) - 1

    def _build(self, root: Node, entry: int, exit_: int) -> None:
        # Both ends of a part exist before the part does, so parts can wait on a list and nothing recurses. A part adds
        # edges out of its entry and into its exit only, hence neighbours share ends, and START and ACCEPT may loop.
        pending: list[_Part] = [(root, entry, exit_, (self._path((-1, ()), "root"), ()))]
        while pending:
            self._budget.spend_edges()
            node, begin, end, place = pending.pop()
            match node:
                case Characters(code_points=code_points):
                    self.reading[begin].append((code_points, end))
                case Behind() | Ahead() | Lookahead():
                    self.free[begin].append((node, end))
                case Alternation(options=options):
                    for at, option in enumerate(options):
                        pending.append((option, begin, end, (self._path(place, "option", at), place[1])))
                case Concatenation(items=items):
                    self._concatenate(items, begin, end, place, pending)
                case Repetition():
                    self._repeat(node, begin, end, place, pending)

    def _concatenate(self, items: tuple[Node, ...], begin: int, end: int, place: Place, pending: list[_Part]) -> None:
        if not items:
            self.free[begin].append((None, end))
            return
        copies = place[1]
        for at, item in enumerate(items[:-1]):
            after = self._add_state((self._path(place, "behind item", at), copies))
            pending.append((item, begin, after, (self._path(place, "item", at), copies)))
            begin = after
        pending.append((items[-1], begin, end, (self._path(place, "item", len(items) - 1), copies)))

    def _repeat(self, node: Repetition, begin: int, end: int, place: Place, pending: list[_Part]) -> None:
        here = begin
        copies = place[1]
        for at in range(node.minimum):
            after = self._add_state((self._path(place, "behind copy", at), copies))
            pending.append((node.item, here, after, (self._path(place, "copy", at), copies)))
            here = after
        if node.maximum is None:
            loop = self._add_state((self._path(place, "loop"), copies))
            self.free[here].append((None, loop))
            self.free[loop].append((None, end))
            pending.append((node.item, loop, loop, (self._path(place, "looped"), copies)))
            return
        inner, behind = self._path(place, "optional copy"), self._path(place, "behind optional copy")
        for at in range(node.maximum - node.minimum):
            # Each count leaves on its own, not through all later ones: closures stay small.
            self.free[here].append((None, end))
            after = self._add_state((behind, (*copies, at)))
            pending.append((node.item, here, after, (inner, (*copies, at))))
            here = after
        self.free[here].append((None, end))
