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
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shmcache.grammar.ir import EMPTY, Expression, Graph
from shmcache.grammar.json_schema.expressions import sequence
from shmcache.grammar.json_schema.nodes import Node
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.json_schema.unions import State, UnionStates

_COUNTED_PLACES_MAX = 2_048
"""Where there are more places in an object than this, by members and their number so far, parts of members are calls:
written out at each place, 200 members of which 100 may occur have 185,000 states, with calls 65,000."""


@dataclass(frozen=True, slots=True)
class NameSpelling:
    """How the names of members are written: what stands before and behind a name, and any part of it."""

    opening: Expression
    closing: Expression
    text: Callable[[str], Expression]


@dataclass(frozen=True, slots=True)
class Way:
    """What may stand behind a name, from the colon on, and the needs that the member then satisfies, as bits."""

    behind_name: Expression
    needs: int


@dataclass(frozen=True, slots=True)
class Member:
    """A declared member: its name, what may follow the name, and whether it must be present.

    ``position``: where :class:`Unions` know it.
    """

    name: str
    ways: tuple[Way, ...]
    is_required: bool
    position: int = 0


@dataclass(frozen=True, slots=True)
class Other:
    """Members of other names: the names, quotes included, and what may follow them."""

    names: Expression
    ways: tuple[Way, ...]
    position: int = 0


@dataclass(frozen=True, slots=True)
class Unions:
    """Where several unions decide what may stand behind a name: their states, and the expression of a node."""

    states: UnionStates
    behind_name: Callable[[Node], Expression | None]


Level = tuple[int, int, State]
"""The number of members so far, as far as it matters; the needs that are satisfied; and the state of unions."""


@dataclass(frozen=True, slots=True)
class Levels:
    """How many members there must be, and how many needs that some member satisfies."""

    minimum: int = 0
    maximum: int | None = None
    need_count: int = 0
    unions: Unions | None = None

    @property
    def start(self) -> Level:
        """Before any member."""
        return 0, 0, self.unions.states.start if self.unions else 0

    def skipped(self, level: Level, position: int) -> Level | None:
        """The level when no member before ``position`` comes any more; None: one of them would have to."""
        if self.unions is None:
            return level
        state = self.unions.states.skipped(level[2], position)
        return None if state is None else (level[0], level[1], state)

    def steps(self, level: Level, member: Member | Other) -> Iterator[tuple[Expression, Level]]:
        """What may stand behind the name of a member that comes next, each with the level after it."""
        if self.unions is None:
            for way in member.ways:
                after = self.after(level, way.needs)
                if after is not None:
                    yield way.behind_name, after
            return
        for node, state in self.unions.states.taken(level[2], member.position):
            after = self.after((level[0], level[1], state), 0)
            behind_name = None if after is None else self.unions.behind_name(node)
            if after is not None and behind_name is not None:
                yield behind_name, after

    def after(self, level: Level, needs: int) -> Level | None:
        """With one more member; None when that is one too many."""
        count = level[0] + 1
        if self.maximum is None:
            count = min(count, self.minimum)
        elif count > self.maximum:
            return None
        return count, level[1] | needs, level[2]

    def with_remaining(self, level: Level, remaining: int) -> Level | None:
        """The same level, where at most so many members can follow; None when those are too few.

        Counts from which the upper bound is out of reach are one level: few absent members are counted as cheaply as
        few present ones.
        """
        count, needs, state = level
        if count + remaining < self.minimum:
            return None
        if self.maximum is not None and count >= self.minimum:
            count = max(count, self.maximum - remaining)
        return count, needs, state

    def place_count(self, member_count: int) -> int:
        """About how many places there are, by the next member and the number of members so far."""
        bound = self.minimum if self.maximum is None else self.maximum
        return member_count * min(bound, member_count)

    def accepts(self, level: Level) -> bool:
        """Whether there may be no further member."""
        is_met = self.unions is None or self.unions.states.accepts(level[2])
        return is_met and level[0] >= self.minimum and level[1] + 1 == 1 << self.need_count


@dataclass(slots=True)
class _Beginning:
    """All names with the same first characters, so many. ``stretches``: how they go on, once that is known."""

    length: int
    members: list[int]
    whole: int = -1  # the member whose name this is
    stretches: list[_Stretch] | None = None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The next part of some names, up to ``reached``; and what stands behind the name, if it ends there."""

    text: Expression
    reached: _Beginning
    is_end: bool


def member_graph(
    members: list[Member],
    others: list[Other],
    comma: Expression,
    strings: Strings,
    levels: Levels,
    spelling: NameSpelling | None = None,
    as_call: Callable[[Expression], Expression] | None = None,
) -> Graph:
    """At least one member, in order, all required ones among them, then any number of ``others``.

    Names of ``members`` are written as in JSON where no other ``spelling`` is given. ``as_call`` makes a rule of an
    expression that occurs very often.
    """
    spelling = spelling or NameSpelling(strings.name_quote, strings.name_quote, strings.name_text)
    has_calls = levels.place_count(len(members)) > _COUNTED_PLACES_MAX
    return _MemberGraph(members, others, comma, strings, levels, spelling, as_call if has_calls else None).graph()


class _MemberGraph:
    """States: 0 before any member, 1 at the end, then those behind each member and within names, by level."""

    def __init__(
        self,
        members: list[Member],
        others: list[Other],
        comma: Expression,
        strings: Strings,
        levels: Levels,
        spelling: NameSpelling,
        as_call: Callable[[Expression], Expression] | None,
    ) -> None:
        self._as_call = as_call
        self._calls: dict[int, tuple[Expression, Expression]] = {}  # by identity: equality would be slow
        self._spelling = spelling
        self._members = members
        self._others = others
        self._comma = comma
        self._strings = strings
        self._levels = levels
        self._edges: list[tuple[int, Expression, int]] = []
        self._state_count = 2
        self._places: dict[tuple[int, Level], int] = {}  # behind members, by the number of the next one
        self._pending_places: list[tuple[int, Level]] = []
        self._within: dict[tuple[int, int, int, Level], int] = {}
        self._pending: list[tuple[_Beginning, int, int, Level, int]] = []
        self._named: dict[tuple[int, Level], int] = {}
        self._rests: dict[tuple[int, int], Expression] = {}
        self._whole_others: dict[tuple[bool, int, int], tuple[Expression, Expression]] = {}  # by identity, as calls
        self._beginnings = [self._part(sequence(one, spelling.opening)) for one in (EMPTY, comma)]
        self._root = _Beginning(0, list(range(len(members))))
        self._first_required = [len(members)] * (len(members) + 1)  # from each member on
        for at in range(len(members) - 1, -1, -1):
            self._first_required[at] = at if members[at].is_required else self._first_required[at + 1]

    def _state(self) -> int:
        self._strings.budget.spend_edges()  # the state itself is counted where the graph becomes an automaton
        self._state_count += 1
        return self._state_count - 1

    def _part(self, expression: Expression) -> Expression:
        """A part of a member, as a call where it occurs very often."""
        if self._as_call is None or expression == EMPTY:
            return expression
        known = self._calls.get(id(expression))
        if known is None:
            known = self._calls[id(expression)] = (expression, self._as_call(expression))
        return known[1]

    def graph(self) -> Graph:
        """The graph of the members."""
        self._leave(0, 0, self._levels.start, EMPTY)
        while self._pending or self._pending_places:
            if self._pending:
                self._walk_name(*self._pending.pop())
            else:
                at, level = self._pending_places.pop()
                state = self._places[at, level]
                if self._first_required[at] == len(self._members) and self._levels.accepts(level):
                    self._edges.append((state, EMPTY, 1))
                self._leave(state, at, level, self._comma)
        return Graph(self._state_count, tuple(self._edges), 1)

    def _place(self, at: int, level: Level) -> int:
        """The state behind a member, the next declared one being ``at`` at least."""
        state = self._places.get((at, level))
        if state is None:
            state = self._places[at, level] = self._state()
            self._pending_places.append((at, level))
        return state

    def _leave(self, state: int, at: int, level: Level, separator: Expression) -> None:
        """Edges to all members that may come next."""
        count = len(self._members)
        last = self._first_required[at]  # none behind it may follow yet
        if at < count:
            entry = self._within_names(self._root, at, min(last, count - 1), level)
            if entry is not None:
                self._edges.append((state, self._beginnings[separator is not EMPTY], entry))
        if last == count:
            self._add_others(state, level, separator)

    def _add_others(self, state: int, level: Level, separator: Expression) -> None:
        for at, other in enumerate(self._others):
            for behind_name, after in self._levels.steps(level, other):
                key = (separator is EMPTY, at, id(behind_name))
                known = self._whole_others.get(key)
                if known is None:
                    known = self._whole_others[key] = (behind_name, sequence(separator, other.names, behind_name))
                self._edges.append((state, known[1], self._place(len(self._members), after)))

    def _within_names(self, beginning: _Beginning, low: int, high: int, level: Level) -> int | None:
        """The state behind a beginning that only some of its members may continue, numbers ``low`` to ``high``.

        None where an earlier member would have to be present.
        """
        members = beginning.members
        skipped = self._levels.skipped(level, self._members[members[low]].position)
        if skipped is None:
            return None
        level = skipped  # places that differ only in members that cannot come any more share what follows
        key = (id(beginning), low, high, level)
        state = self._within.get(key)
        if state is None:
            state = self._within[key] = self._state()
            self._pending.append((beginning, members[low], members[high], level, state))
        return state

    def _walk_name(self, beginning: _Beginning, first: int, last: int, level: Level, state: int) -> None:
        """Gives a state within names its edges, and every whole name what follows it."""
        if first == last and self._as_call is None:
            self._end_name(state, self._rest(first, beginning.length), first, level)
            return
        stretches = self._stretches(beginning)
        if first <= beginning.whole <= last:
            self._end_name(state, self._spelling.closing, beginning.whole, level)
        for stretch in stretches:
            members = stretch.reached.members
            low, high = bisect_left(members, first), bisect_right(members, last) - 1
            if low > high:
                continue
            if stretch.is_end:
                self._end_name(state, stretch.text, members[low], level)
                continue
            target = self._within_names(stretch.reached, low, high, level)
            if target is not None:
                self._edges.append((state, stretch.text, target))

    def _rest(self, member: int, length: int) -> Expression:
        """The name of a member without its first characters, and what stands behind it."""
        known = self._rests.get((member, length))
        if known is None:
            rest = self._spelling.text(self._members[member].name[length:])
            known = self._rests[member, length] = sequence(rest, self._spelling.closing)
        return known

    def _end_name(self, state: int, expression: Expression, member: int, level: Level) -> None:
        """An edge to what follows the name of a member."""
        whole = self._levels.skipped(level, self._members[member].position)
        if whole is not None:
            self._edges.append((state, expression, self._behind_name(member, whole)))

    def _stretches(self, beginning: _Beginning) -> list[_Stretch]:
        """How the names with that beginning go on.

        Where names part, one character: places of which some may be followed by other names than others share the
        states behind it. A call is no longer than one character is.
        """
        if beginning.stretches is None:
            by_character: dict[str, list[int]] = {}
            for member in beginning.members:
                name = self._members[member].name
                if len(name) == beginning.length:
                    beginning.whole = member
                else:
                    by_character.setdefault(name[beginning.length], []).append(member)
            parts = beginning.whole >= 0 or len(by_character) > 1
            is_short = parts and self._as_call is None
            beginning.stretches = [
                self._stretch(beginning.length, members, is_short=is_short) for members in by_character.values()
            ]
        return beginning.stretches

    def _stretch(self, start: int, members: list[int], *, is_short: bool) -> _Stretch:
        """The next character of these names; unless it ``is_short``, all up to where they part or one of them ends."""
        names = [self._members[member].name for member in members]
        end = start + 1 if is_short else _common_length(min(names), max(names))
        expression = self._spelling.text(names[0][start:end])
        if is_short or len(members) > 1:
            part = expression if end == start + 1 else self._part(expression)
            return _Stretch(part, _Beginning(end, members), is_end=False)
        return _Stretch(self._part(sequence(expression, self._spelling.closing)), _Beginning(end, members), is_end=True)

    def _behind_name(self, member: int, level: Level) -> int:
        state = self._named.get((member, level))
        if state is None:
            state = self._named[member, level] = self._state()
            for behind_name, after in self._levels.steps(level, self._members[member]):
                counted: Level | None = after
                if not self._others:
                    counted = self._levels.with_remaining(after, len(self._members) - member - 1)
                if counted is not None:
                    self._edges.append((state, self._part(behind_name), self._place(member + 1, counted)))
        return state


def _common_length(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((at for at, (here, there) in enumerate(zip(one, other, strict=False)) if here != there), len(one))
