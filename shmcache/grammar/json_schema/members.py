"""The members of an object as one graph.

Owns the order of members, their commas, and the shared beginnings of their names. Must never know schemas or nodes.

Behind each member, any of the members up to the next required one may follow. Written as choices and sequences that
takes the square of the number of members; and a trie of the names that may follow, one for each member, would too. But
two places in the object that may be followed by the same set of names with a given beginning can share a state, and of
such sets there are at most twice as many as there are names with that beginning. So the graph has about as many states
as the names have characters.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from shmcache.grammar.ir import EMPTY, Expression, Graph, Literal
from shmcache.grammar.json_schema.expressions import sequence
from shmcache.grammar.json_schema.strings import Strings

_QUOTE = Literal(b'"')


@dataclass(frozen=True, slots=True)
class Member:
    """A declared member: its name, what follows the name, and whether it must be present."""

    name: str
    behind_name: Expression
    is_required: bool


@dataclass(slots=True)
class _Beginning:
    """All names with the same first characters."""

    members: list[int] = field(default_factory=list)
    longer: dict[str, _Beginning] = field(default_factory=dict)
    whole: int = -1  # the member whose name this is


def member_graph(members: list[Member], other: Expression | None, comma: Expression, strings: Strings) -> Graph:
    """At least one member, in order, all required ones among them, then any number of ``other`` (None: none)."""
    return _MemberGraph(members, other, comma, strings).graph()


class _MemberGraph:
    """States: 0 before any member, 1 at the end, then those behind each member, then those within names."""

    def __init__(self, members: list[Member], other: Expression | None, comma: Expression, strings: Strings) -> None:
        self._members = members
        self._other = other
        self._comma = comma
        self._strings = strings
        self._edges: list[tuple[int, Expression, int]] = []
        self._state_count = 2
        self._behind_others = -1
        self._within: dict[tuple[int, int, int], int] = {}
        self._pending: list[tuple[_Beginning, int, int, int]] = []
        self._root = _Beginning()
        for at, member in enumerate(members):
            self._add_name(at, member.name)

    def _add_name(self, member: int, name: str) -> None:
        here = self._root
        here.members.append(member)
        for character in name:
            here = here.longer.setdefault(character, _Beginning())
            here.members.append(member)
        here.whole = member

    def _state(self) -> int:
        self._state_count += 1
        return self._state_count - 1

    def graph(self) -> Graph:
        """The graph of the members."""
        count = len(self._members)
        behind = [self._state() for _ in range(count)]
        last = count
        for at in range(count, -1, -1):  # before member ``at``, whatever came before it
            if at < count and self._members[at].is_required:
                last = at  # the first required member from here on: none behind it may follow yet
            place, separator = (behind[at - 1], self._comma) if at else (0, EMPTY)
            if at < count:
                entry = self._within_names(self._root, at, last)
                self._edges.append((place, sequence(separator, _QUOTE), entry))
            if last == count:
                self._finish(place, separator, is_empty=at == 0)
        self._walk_names(behind)
        return Graph(self._state_count, tuple(self._edges), 1)

    def _finish(self, place: int, separator: Expression, *, is_empty: bool) -> None:
        """Edges for a place behind which no declared member needs to follow."""
        if not is_empty:
            self._edges.append((place, EMPTY, 1))
        if self._other is not None:
            if self._behind_others < 0:
                self._behind_others = self._state()
                self._edges.append((self._behind_others, sequence(self._comma, self._other), self._behind_others))
                self._edges.append((self._behind_others, EMPTY, 1))
            self._edges.append((place, sequence(separator, self._other), self._behind_others))

    def _within_names(self, beginning: _Beginning, first: int, last: int) -> int:
        """The state behind a beginning that only the names of members ``first`` to ``last`` may continue."""
        members = beginning.members
        low, high = bisect_left(members, first), bisect_right(members, last) - 1
        key = (id(beginning), low, high)
        state = self._within.get(key)
        if state is None:
            state = self._within[key] = self._state()
            self._pending.append((beginning, members[low], members[high], state))
        return state

    def _walk_names(self, behind: list[int]) -> None:
        """Gives every state within names its edges, and every whole name what follows it."""
        named = [-1] * len(behind)
        while self._pending:
            beginning, first, last, state = self._pending.pop()
            if first <= beginning.whole <= last:
                member = beginning.whole
                if named[member] < 0:
                    named[member] = self._state()
                    self._edges.append((named[member], self._members[member].behind_name, behind[member]))
                self._edges.append((state, _QUOTE, named[member]))
            for character, longer in beginning.longer.items():
                if bisect_left(longer.members, first) < bisect_right(longer.members, last):
                    target = self._within_names(longer, first, last)
                    self._edges.append((state, self._strings.name_character(character), target))
