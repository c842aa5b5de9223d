"""Byte automata of JSON strings: quoted, any, and of a given number of characters.

Owns automata only. Must never know a schema or a rule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import repeat

from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa, Edge
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import characters, everything

_QUOTE = ord('"')
_BACKSLASH = ord("\\")
_REMEMBERED_COUNT_MAX = 128
"""Automata of up to so many characters are kept from compile to compile in each process; each takes up to 1 MB."""

_CONTENT = 1  # the state of a quoted automaton behind the opening quote

NAME_ESCAPABLE = ~CodePoints.of((0x20, 0x7E))
"""Characters that may be escaped in the names of properties and in constants; others are escaped where they must be."""


def quoted(content: Dfa) -> Dfa:
    """The byte automaton of ``content``, in which no bare quote occurs, between quotes; minimal when that is."""
    if content.is_empty:
        return EMPTY_LANGUAGE
    rows = [tuple([(low, high, target + 1) for low, high, target in row]) for row in content.edges]
    return _between_quotes(rows, [state for state, accepts in enumerate(content.accepting) if accepts])


def _between_quotes(rows: list[tuple[Edge, ...]], ends: list[int]) -> Dfa:
    """Quotes around rows of which some are ends; the first one is state 1."""
    final = len(rows) + 1
    closing = (_QUOTE, _QUOTE, final)
    for end in ends:
        at = bisect_left(rows[end], closing)
        rows[end] = (*rows[end][:at], closing, *rows[end][at:])
    return Dfa(edges=(((_QUOTE, _QUOTE, 1),), *rows, ()), accepting=(False,) * final + (True,))


@cache
def any_string() -> Dfa:
    """Every JSON string, quotes included."""
    return quoted(encode_json_string(everything(ANY), Budget()))


@cache
def any_name() -> Dfa:
    """Every name of a property in the spellings of names, quotes included."""
    return quoted(encode_json_string(everything(ANY), Budget(), escapable=NAME_ESCAPABLE))


@cache
def _one_character() -> Dfa:
    """One character in any spelling. State 0 is entered by no edge, and one state accepts, which has no edges."""
    return encode_json_string(characters(ANY), Budget())


def counted(minimum: int, maximum: int | None, budget: Budget, *, has_quotes: bool) -> Dfa:
    """A chain of copies of the automaton of one character; the last one loops when there is no maximum."""
    copies = minimum + 1 if maximum is None else maximum
    budget.spend_states(copies * (_one_character().state_count - 1) + 1)
    make = _remembered if copies <= _REMEMBERED_COUNT_MAX else _counted
    return make(minimum, maximum, has_quotes)


@lru_cache(maxsize=32)
def _remembered(minimum: int, maximum: int | None, has_quotes: bool) -> Dfa:
    return _counted(minimum, maximum, has_quotes)


def _counted(minimum: int, maximum: int | None, has_quotes: bool) -> Dfa:
    unit = _one_character()
    (end,) = (state for state, accepts in enumerate(unit.accepting) if accepts)
    inner = [state for state in range(unit.state_count) if state != end]
    place = {state: at for at, state in enumerate(inner)}
    size = len(inner)
    copies = minimum + 1 if maximum is None else maximum
    first = int(has_quotes)
    rows: list[tuple[Edge, ...]] = [()] * (copies * size)
    for at, state in enumerate(inner):
        row = [(low, high, size if target == end else place[target]) for low, high, target in unit.edges[state]]
        rows[at::size] = _copies(row, range(first, first + copies * size, size))
        if maximum is None:
            here = minimum * size
            rows[here + at] = tuple([(low, high, first + here + target % size) for low, high, target in row])
    ends = [copy * size for copy in range(minimum, copies)]
    if maximum is not None:
        ends.append(len(rows))
        rows.append(())
    if has_quotes:
        return _between_quotes(rows, ends)
    accepting = [False] * len(rows)
    for end in ends:
        accepting[end] = True
    return Dfa(edges=tuple(rows), accepting=tuple(accepting))


def _copies(row: list[Edge], starts: range) -> list[tuple[Edge, ...]]:
    """The row once for each of these states, from which its targets are counted."""
    edges = (
        zip(repeat(low), repeat(high), range(starts.start + target, starts.stop + target, starts.step))
        for low, high, target in row
    )
    return list(zip(*edges, strict=True))


def is_plain(name: str) -> bool:
    """Whether a name has one spelling only: printable ASCII without quotes and backslashes."""
    return name.isascii() and name.isprintable() and '"' not in name and "\\" not in name


def is_plain_only(text: Dfa) -> bool:
    """Whether all texts of an automaton are plain: its bytes are then its characters."""
    for row in text.edges:
        for low, high, _ in row:
            if low < 0x20 or high > 0x7E or low <= _QUOTE <= high or low <= _BACKSLASH <= high:
                return False
    return True


def names_but(names: Iterable[str], budget: Budget) -> Dfa:
    """Every name but these plain ones, in the spellings of names, quotes included.

    Made without subtraction: the trie of the names, with equal subtries joined, over the automaton of any name; what
    leaves the trie goes on as any name.
    """
    base = any_name()
    rows = list(base.edges)
    known: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}
    # The nodes along the last name, from the root: (character that leads there, is a name itself, children so far).
    path: list[tuple[int, bool, list[tuple[int, int]]]] = [(0, False, [])]

    def close_to(depth: int) -> None:
        while len(path) > depth:
            code, is_name, children = path.pop()
            key = (is_name, tuple(children))
            state = known.get(key)
            if state is None:
                budget.spend_states()
                state = known[key] = len(rows)
                rows.append(_content_but(children, has_quote=not is_name))
            if path:
                path[-1][2].append((code, state))

    previous = ""
    for name in sorted(names):
        common = 0
        while common < min(len(name), len(previous)) and name[common] == previous[common]:
            common += 1
        close_to(common + 1)
        path.extend((ord(character), False, []) for character in name[common:])
        code, _, children = path[-1]
        path[-1] = (code, True, children)
        previous = name
    close_to(0)
    rows[0] = ((_QUOTE, _QUOTE, len(rows) - 1),)  # the root of the trie was the last to be closed
    return Dfa(edges=tuple(rows), accepting=base.accepting + (False,) * (len(rows) - base.state_count))


def _content_but(targets: list[tuple[int, int]], *, has_quote: bool) -> tuple[Edge, ...]:
    """Inside of any name, with some single bytes (sorted) leading elsewhere, and perhaps without the closing quote."""
    row: list[Edge] = []
    start = 0
    for code, target in targets:
        row += _content_between(start, code - 1)
        row.append((code, code, target))
        start = code + 1
    row += _content_between(start, 0xFF)
    return tuple(row if has_quote else [edge for edge in row if edge[0] != _QUOTE])


@lru_cache(maxsize=1 << 12)
def _content_between(first: int, last: int) -> tuple[Edge, ...]:
    """What leaves the inside of any name, of those bytes; nothing where there are none of them."""
    row = any_name().edges[_CONTENT]
    begin, end = bisect_left(row, (first, 0, 0)), bisect_left(row, (last + 1, 0, 0))
    pieces = row[begin:end]
    if begin and first <= last and row[begin - 1][1] >= first:
        pieces = ((first, *row[begin - 1][1:]), *pieces)
    if pieces and pieces[-1][1] > last:
        pieces = (*pieces[:-1], (pieces[-1][0], last, pieces[-1][2]))
    return pieces
