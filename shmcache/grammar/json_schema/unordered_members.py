"""The members of an object in any order, as one graph.

Owns the sets of members that may have occurred. Must never know schemas or nodes.

That no declared name occurs twice, and that all required ones do occur, makes every set of declared names a state of
its own: no automaton, and no grammar of rules either, does with less. So the sets are bounded by :data:`SETS_MAX`.
Names and values are calls, so that a state is no more than one edge for each member that may still come.
"""

from __future__ import annotations

from shmcache.grammar.ir import EMPTY, Expression, Graph, Reference
from shmcache.grammar.json_schema.expressions import sequence
from shmcache.grammar.json_schema.members import Level, Levels, Member, NameSpelling, Other, Way
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.strings import Strings

SETS_MAX = 4096
"""Most sets of members that are told apart (all of 12 members), for each number of members and each set of needs."""


class TooManySetsError(Exception):
    """The members of an object have more than :data:`SETS_MAX` sets."""


def unordered_graph(
    members: list[Member],
    others: list[Other],
    comma: Expression,
    strings: Strings,
    levels: Levels,
    rules: Rules,
    spelling: NameSpelling | None = None,
) -> Graph:
    """At least one member, all required ones among them, none twice, and any number of ``others`` in between.

    Names of ``members`` are written as in JSON where no other ``spelling`` is given.
    """
    spelling = spelling or NameSpelling(strings.name_quote, strings.name_quote, strings.name_text)
    return _UnorderedGraph(members, others, comma, strings, levels, rules, spelling).graph()


_Key = tuple[int, Level]
"""The members that have occurred, as bits, and the level."""


class _UnorderedGraph:
    """States: 0 before any member, 1 at the end, then one behind each set of members and one behind its comma."""

    def __init__(
        self,
        members: list[Member],
        others: list[Other],
        comma: Expression,
        strings: Strings,
        levels: Levels,
        rules: Rules,
        spelling: NameSpelling,
    ) -> None:
        self._comma = comma
        self._strings = strings
        self._levels = levels
        self._rules = rules
        self._is_closed = not others
        self._member_count = len(members)
        self._required = sum(1 << at for at, member in enumerate(members) if member.is_required)
        self._calls: list[tuple[int, int, Reference]] = []  # the member's bit, needs, and the whole member
        for at, member in enumerate(members):
            name = sequence(spelling.opening, spelling.text(member.name), spelling.closing)
            self._calls.extend((1 << at, way.needs, self._whole(name, way)) for way in member.ways)
        self._calls.extend((0, way.needs, self._whole(other.names, way)) for other in others for way in other.ways)
        self._states: dict[_Key, int] = {}
        self._pending: list[_Key] = []
        self._state_count = 2
        self._edges: list[tuple[int, Expression, int]] = []

    def _whole(self, name: Expression, way: Way) -> Reference:
        return self._rules.shared(("member", name, way.behind_name), lambda: sequence(name, way.behind_name))

    def graph(self) -> Graph:
        """The graph of the members."""
        self._leave(0, 0, self._levels.start)
        sets: set[int] = set()
        while self._pending:
            present, level = self._pending.pop()
            sets.add(present)
            if len(sets) > SETS_MAX:
                raise TooManySetsError
            state = self._states[present, level]
            if present & self._required == self._required and self._levels.accepts(level):
                self._edges.append((state, EMPTY, 1))
            behind_comma = self._new_state()
            self._edges.append((state, self._comma, behind_comma))
            self._leave(behind_comma, present, level)
        return Graph(self._state_count, tuple(self._edges), 1)

    def _leave(self, state: int, present: int, level: Level) -> None:
        for bit, needs, whole in self._calls:
            following = present | bit
            after = None if present & bit else self._levels.after(level, needs)
            if after is not None and self._is_closed:
                after = self._levels.with_remaining(after, self._member_count - following.bit_count())
            if after is not None:
                self._edges.append((state, whole, self._state((following, after))))

    def _state(self, key: _Key) -> int:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._new_state()
            self._pending.append(key)
        return state

    def _new_state(self) -> int:
        self._strings.budget.spend_states()
        self._state_count += 1
        return self._state_count - 1
