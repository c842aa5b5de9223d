"""A slow, obvious recogniser of grammars: the oracle that masks and automata are compared with.

Owns the answer to "is this text in the language" and "can this text be continued into it", straight from the
definition of each expression. Must never share code with the compiler under test.

The heart is ``ends``: all the places where an expression that begins at ``start`` may end. A rule's ends are the least
solution of its own equation, found by evaluating rules anew until nothing grows, so that left, hidden-left and empty
recursion need no special care. Besides places, a set may hold ``CUT``: the data ran out inside the expression, and some
continuation would complete it.
"""

from __future__ import annotations

from bisect import bisect_left

from shmcache.grammar.ir import (
    Characters,
    Choice,
    Expression,
    Grammar,
    Graph,
    Literal,
    Metered,
    Reference,
    Regular,
    Repeat,
    Sequence,
    Tokens,
)
from shmcache.regular.dfa import Dfa

CUT = -1
"""The end of an expression that lies beyond the end of the data."""


def recognises(grammar: Grammar, data: bytes) -> bool:
    """Whether ``data`` is a member of the grammar's language."""
    return len(data) in _Chart(grammar, data).root_ends()


def is_viable_prefix(grammar: Grammar, data: bytes) -> bool:
    """Whether some member of the grammar's language begins with ``data`` (or is ``data``)."""
    ends = _Chart(grammar, data).root_ends()
    return len(data) in ends or CUT in ends


class _Chart:
    """For one text: the ends of every rule at every start that anybody asked for."""

    def __init__(self, grammar: Grammar, data: bytes) -> None:
        self.grammar = grammar
        self.data = data
        self.known: dict[tuple[str, int], frozenset[int]] = {}
        self.readers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self.waiting: list[tuple[str, int]] = []
        self.current: tuple[str, int] | None = None
        self.leaves: dict[tuple[int, int], frozenset[int]] = {}

    def root_ends(self) -> frozenset[int]:
        goal = (self.grammar.root, 0)
        self._rule_ends(*goal)
        while self.waiting:
            self.current = self.waiting.pop()
            rule, start = self.current
            ends = self._ends(self.grammar.rules[rule], start) | self.known[self.current]
            if ends != self.known[self.current]:
                self.known[self.current] = ends
                self.waiting.extend(self.readers[self.current])
        return self.known[goal]

    def _rule_ends(self, rule: str, start: int) -> frozenset[int]:
        """What is known so far; the rule being evaluated is evaluated again when more becomes known."""
        item = (rule, start)
        if item not in self.known:
            self.known[item] = frozenset()
            self.readers[item] = set()
            self.waiting.append(item)
        if self.current is not None:
            self.readers[item].add(self.current)
        return self.known[item]

    def _ends(self, expression: Expression, start: int) -> frozenset[int]:
        match expression:
            case Literal(data=literal):
                return self._literal_ends(literal, start)
            case Characters():
                return self._character_ends(expression, start)
            case Regular(automaton=automaton):
                # Rules are evaluated again and again; where an automaton may end depends on the data alone.
                leaf = (id(automaton), start)
                if leaf not in self.leaves:
                    self.leaves[leaf] = self._regular_ends(automaton, start)
                return self.leaves[leaf]
            case Reference(rule=rule):
                return self._rule_ends(rule, start)
            case Choice(options=options):
                return frozenset().union(*(self._ends(option, start) for option in options))
            case Sequence(items=items):
                places = frozenset((start,))
                for item in items:
                    places = self._after(item, places)
                return places
            case Repeat():
                return self._repeat_ends(expression, start)
            case Graph():
                return self._graph_ends(expression, start)
            case Tokens() | Metered():
                raise AssertionError("what whole tokens spell depends on a vocabulary")

    def _after(self, item: Expression, places: frozenset[int]) -> frozenset[int]:
        """Where ``item`` may end when it begins at any of ``places``."""
        ends: set[int] = set()
        for place in places:
            if place != CUT:
                ends |= self._ends(item, place)
            elif self._ends(item, len(self.data)):
                # Beyond the data anything may follow, so the item must only have some member at all.
                ends.add(CUT)
        return frozenset(ends)

    def _repeat_ends(self, repeat: Repeat, start: int) -> frozenset[int]:
        if repeat.maximum is not None and repeat.maximum < repeat.minimum:
            return frozenset()
        places = frozenset((start,))
        ends: frozenset[int] = frozenset()
        count = 0
        while True:
            if count >= repeat.minimum:
                ends |= places
            if count == repeat.maximum:
                return ends
            following = self._after(repeat.item, places)
            if following == places:
                # The same for every further count, hence for one that is at least the minimum.
                return ends | places
            places = following
            count += 1

    def _graph_ends(self, graph: Graph, start: int) -> frozenset[int]:
        places: list[frozenset[int]] = [frozenset() for _ in range(graph.state_count)]
        places[0] = frozenset((start,))
        has_grown = True
        while has_grown:
            has_grown = False
            for source, item, target in graph.edges:
                reached = places[target] | self._after(item, places[source])
                has_grown = has_grown or reached != places[target]
                places[target] = reached
        return places[graph.final]

    def _literal_ends(self, literal: bytes, start: int) -> frozenset[int]:
        rest = self.data[start:]
        if rest.startswith(literal):
            return frozenset((start + len(literal),))
        return frozenset((CUT,)) if literal.startswith(rest) else frozenset()

    def _character_ends(self, characters: Characters, start: int) -> frozenset[int]:
        rest = self.data[start : start + 4]
        for length in range(1, len(rest) + 1):
            try:
                character = rest[:length].decode()
            except UnicodeDecodeError:
                continue
            return frozenset((start + length,)) if _contains(characters, ord(character)) else frozenset()
        if start + len(rest) == len(self.data) and _has_member_that_begins(characters, rest):
            return frozenset((CUT,))
        return frozenset()

    def _regular_ends(self, automaton: Dfa, start: int) -> frozenset[int]:
        state = 0
        ends: set[int] = set()
        for place in range(start, len(self.data) + 1):
            if automaton.is_accepting(state):
                ends.add(place)
            if place == len(self.data):
                if any(_can_accept(automaton, target) for _, _, target in automaton.edges[state]):
                    ends.add(CUT)
                break
            byte = self.data[place]
            targets = [target for low, high, target in automaton.edges[state] if low <= byte <= high]
            assert len(targets) <= 1, "the automaton is not deterministic"
            if not targets:
                break
            (state,) = targets
        return frozenset(ends)


def _contains(characters: Characters, code_point: int) -> bool:
    return any(low <= code_point <= high for low, high in characters.code_points.ranges)


def _has_member_that_begins(characters: Characters, beginning: bytes) -> bool:
    """Whether the UTF-8 of some member begins with ``beginning`` and is longer."""
    for low, high in characters.code_points.ranges:
        # The order of UTF-8 is the order of code points: the first member not below decides.
        candidates = range(low, high + 1)
        index = bisect_left(candidates, beginning, key=_encode)
        if index < len(candidates):
            encoded = _encode(candidates[index])
            if encoded.startswith(beginning) and len(encoded) > len(beginning):
                return True
    return False


def _encode(code_point: int) -> bytes:
    return chr(code_point).encode("utf-8", "surrogatepass")


def _can_accept(automaton: Dfa, start: int) -> bool:
    """Whether an accepting state is reached from ``start``: does not trust the automaton to be trimmed."""
    seen = {start}
    pending = [start]
    while pending:
        state = pending.pop()
        if automaton.is_accepting(state):
            return True
        targets = {target for _, _, target in automaton.edges[state]} - seen
        seen |= targets
        pending.extend(targets)
    return False
