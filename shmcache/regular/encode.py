"""From texts to their bytes: UTF-8, and the spellings of a text inside a JSON string.

Owns the two encodings of a text automaton as a byte automaton. Must never know where in a grammar the text stands.

Between two characters the byte automaton is in the state of the text automaton. Inside a character it is in a state
that is determined by what may still follow; such states are interned by their edges, so a minimal text automaton gives
a minimal byte automaton without a further minimisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, SURROGATE_HIGH, SURROGATE_LOW, CodePoints
from shmcache.regular.dfa import Dfa, Edge, breadth_first, merge_ranges, trim

_UTF8_BLOCKS = ((0x0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF))
_SHORT_ESCAPES = {
    0x22: ord('"'),
    0x5C: ord("\\"),
    0x2F: ord("/"),
    0x08: ord("b"),
    0x0C: ord("f"),
    0x0A: ord("n"),
    0x0D: ord("r"),
    0x09: ord("t"),
}
_BACKSLASH = 0x5C
_NEVER_RAW = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_SURROGATES = ((SURROGATE_LOW, SURROGATE_HIGH),)
_ASTRAL = 0x10000
_HIGH_SURROGATE = 0xD800
_LOW_SURROGATE = 0xDC00


class _Interned:
    """Byte states: the first are the text automaton's own, the others are found by their edges."""

    def __init__(self, text_state_count: int, budget: Budget) -> None:
        self.rows: list[tuple[Edge, ...]] = [()] * text_state_count
        self._known: dict[tuple[Edge, ...], int] = {}
        self._known_digits: dict[tuple[int, tuple[Edge, ...]], int] = {}
        self._encoded: dict[tuple[Edge, ...], _Rows] = {}
        self._budget = budget
        budget.spend_states(text_state_count)

    def state(self, row: Iterable[Edge]) -> int:
        return self._find(merge_ranges(sorted(row)))

    def _find(self, key: tuple[Edge, ...]) -> int:
        found = self._known.get(key)
        if found is None:
            self._budget.spend_states()
            self._budget.spend_edges(len(key))
            found = self._known[key] = len(self.rows)
            self.rows.append(key)
        return found

    def digits(self, units: list[Edge], digit_count: int) -> int:
        """The state that expects ``digit_count`` hexadecimal digits spelling one of the units (low, high, target)."""
        key = (digit_count, tuple(units))
        found = self._known_digits.get(key)
        if found is None:
            found = self._known_digits[key] = self.state(_hex_row(units, digit_count, self))
        return found

    def encoded(self, edges: tuple[Edge, ...], encode: _Encode) -> tuple[Edge, ...]:
        """The row of one text state as bytes; what is inside of characters is found or made."""
        numbers: dict[int, int] = {}  # of the targets, as they come
        pattern = tuple([(low, high, numbers.setdefault(target, len(numbers))) for low, high, target in edges])
        rows = self._encoded.get(pattern)
        if rows is None:
            rows = self._encoded[pattern] = encode(pattern, len(numbers))
        states = list(numbers)
        for row in rows[:-1]:
            states.append(self._find(tuple([(low, high, states[target]) for low, high, target in row])))
        return tuple([(low, high, states[target]) for low, high, target in rows[-1]])

    def dfa(self, text: Dfa) -> Dfa:
        accepting = text.accepting + (False,) * (len(self.rows) - text.state_count)
        if any(low >= SURROGATE_LOW and high <= SURROGATE_HIGH for row in text.edges for low, high, _ in row):
            return trim(self.rows, accepting)
        # Every edge of the text has bytes, so all states are of use: they only get their numbers.
        return breadth_first(self.rows, accepting)


_Rows = tuple[tuple[Edge, ...], ...]
"""What edges over characters become whose targets are numbers from 0 on: rows of bytes, numbered behind these. First
come the states inside of characters, each behind those that it leads to, and lastly the row itself."""

_Encode = Callable[[tuple[Edge, ...], int], _Rows]
"""Makes them of such edges and the number of their targets."""

_REMEMBERED_MAX = 256
_REMEMBERED_EDGES_MAX = 6
"""Other states and other automata have edges of the same characters with other targets. So many are kept from compile
to compile in each process, of so few edges; each takes 8 to 40 KB, and some 100 µs to make."""


def _remembered(encode: _Encode) -> _Encode:
    known = lru_cache(maxsize=_REMEMBERED_MAX)(encode)
    return lambda edges, count: known(edges, count) if len(edges) <= _REMEMBERED_EDGES_MAX else encode(edges, count)


def _utf8_sequences(low: int, high: int) -> Iterable[tuple[tuple[int, int], ...]]:
    """Sequences of byte ranges that together spell exactly the code points low..high, in order."""
    for block_low, block_high in _UTF8_BLOCKS:
        first, last = max(low, block_low), min(high, block_high)
        if first <= last:
            yield from _rectangles(first, last, len(chr(first).encode("utf-8", "surrogatepass")))


def _rectangles(low: int, high: int, length: int) -> Iterable[tuple[tuple[int, int], ...]]:
    """Cuts low..high where a continuation byte would not run over all of its 64 values."""
    for position in range(1, length):
        mask = (1 << (6 * position)) - 1
        if low & ~mask != high & ~mask:
            if low & mask:
                yield from _rectangles(low, low | mask, length)
                yield from _rectangles((low | mask) + 1, high, length)
                return
            if high & mask != mask:
                yield from _rectangles(low, (high & ~mask) - 1, length)
                yield from _rectangles(high & ~mask, high, length)
                return
    first = chr(low).encode("utf-8", "surrogatepass")
    last = chr(high).encode("utf-8", "surrogatepass")
    yield tuple(zip(first, last, strict=True))


def _utf8_row(edges: Iterable[Edge], states: _Interned) -> list[Edge]:
    """Edges of one text state as byte edges; the states inside a character are made on the way.

    Half a surrogate pair, which a text of Python may hold, has no UTF-8.
    """
    whole = _outside(edges, _SURROGATES)
    spelled = [(sequence, target) for low, high, target in whole for sequence in _utf8_sequences(low, high)]
    return _byte_row(spelled, states)


def _byte_row(spelled: list[tuple[tuple[tuple[int, int], ...], int]], states: _Interned) -> list[Edge]:
    row: list[Edge] = []
    by_first: dict[tuple[int, int], list[tuple[tuple[tuple[int, int], ...], int]]] = {}
    for sequence, target in spelled:
        if len(sequence) == 1:
            row.append((*sequence[0], target))
        else:
            by_first.setdefault(sequence[0], []).append((sequence[1:], target))
    for (low, high), rest in by_first.items():
        row.append((low, high, states.state(_byte_row(rest, states))))
    return row


def encode_utf8(text: Dfa, budget: Budget) -> Dfa:
    """The byte automaton of the UTF-8 of the texts."""
    states = _Interned(text.state_count, budget)
    for state, edges in enumerate(text.edges):
        states.rows[state] = states.encoded(edges, _utf8_rows)
    return states.dfa(text)


@_remembered
def _utf8_rows(edges: tuple[Edge, ...], target_count: int) -> _Rows:
    states = _Interned(target_count, Budget())
    row = _utf8_row(edges, states)
    return (*states.rows[target_count:], merge_ranges(sorted(row)))


def _outside(edges: Iterable[Edge], excluded: tuple[tuple[int, int], ...]) -> Iterable[Edge]:
    """The edges less the ``excluded`` ranges of symbols, which are sorted."""
    for low, high, target in edges:
        start = low
        for excluded_low, excluded_high in excluded:
            if excluded_high < start or excluded_low > high:
                continue
            if start < excluded_low:
                yield start, excluded_low - 1, target
            start = excluded_high + 1
        if start <= high:
            yield start, high, target


def _hex_row(units: list[Edge], digit_count: int, states: _Interned) -> list[Edge]:
    """Edges over the first of ``digit_count`` hexadecimal digits that spell the units (low, high, target)."""
    span = 16 ** (digit_count - 1)
    row: list[Edge] = []
    pending: dict[int, list[Edge]] = {}
    for low, high, target in units:
        first, last = low // span, high // span
        for digit in range(first, last + 1):
            base = digit * span
            pending.setdefault(digit, []).append((max(low, base) - base, min(high, base + span - 1) - base, target))
    for digit, inner in pending.items():
        target = inner[0][2] if digit_count == 1 else states.digits(inner, digit_count - 1)
        if digit < 10:
            row.append((0x30 + digit, 0x30 + digit, target))
        else:
            row.append((0x41 + digit - 10, 0x41 + digit - 10, target))
            row.append((0x61 + digit - 10, 0x61 + digit - 10, target))
    return row


def _code_units(edges: Iterable[Edge], states: _Interned) -> list[Edge]:
    """Edges over UTF-16 code units; behind a high surrogate stands a state that expects the low one."""
    units: list[Edge] = []
    behind: dict[int, list[Edge]] = {}
    whole: list[Edge] = []
    for low, high, target in _outside(edges, _SURROGATES):
        if low < _ASTRAL:
            units.append((low, min(high, _ASTRAL - 1), target))
        if high < _ASTRAL:
            continue
        start, end = max(low, _ASTRAL) - _ASTRAL, high - _ASTRAL
        first, last = start >> 10, end >> 10
        if start & 0x3FF:
            stop = min(end, (first << 10) | 0x3FF)
            behind.setdefault(first, []).append((start & 0x3FF, stop & 0x3FF, target))
            first += 1
        if last >= first and end & 0x3FF != 0x3FF:
            behind.setdefault(last, []).append((0, end & 0x3FF, target))
            last -= 1
        if last >= first:
            whole.append((first, last, target))
    for first, last, target in whole:
        state = _expect_low_surrogate([(0, 0x3FF, target)], states)
        units.append((_HIGH_SURROGATE + first, _HIGH_SURROGATE + last, state))
    for high_surrogate, offsets in behind.items():
        state = _expect_low_surrogate(offsets, states)
        units.append((_HIGH_SURROGATE + high_surrogate, _HIGH_SURROGATE + high_surrogate, state))
    return units


def _expect_low_surrogate(offsets: list[Edge], states: _Interned) -> int:
    units = [(_LOW_SURROGATE + low, _LOW_SURROGATE + high, target) for low, high, target in offsets]
    digits = states.digits(units, 4)
    letter = states.state([(ord("u"), ord("u"), digits)])
    return states.state([(_BACKSLASH, _BACKSLASH, letter)])


@dataclass(frozen=True, slots=True)
class _Escaping:
    """never_escaped: characters that are only spelt as they are. letters: (character, letter of its short escape)."""

    never_escaped: tuple[tuple[int, int], ...]
    one_spelling: frozenset[int]
    letters: tuple[tuple[int, int], ...]


@lru_cache(maxsize=8)
def _escaping(escapable: CodePoints) -> _Escaping:
    never_escaped = (~(escapable | CodePoints.from_ranges(_NEVER_RAW))).ranges
    return _Escaping(
        never_escaped,
        frozenset(code for low, high in never_escaped for code in range(low, min(high, 0x7F) + 1)),
        tuple(
            (code, letter)
            for code, letter in _SHORT_ESCAPES.items()
            if not any(low <= code <= high for low, high in never_escaped)
        ),
    )


def encode_json_string(text: Dfa, budget: Budget, *, escapable: CodePoints = ANY) -> Dfa:
    """The byte automaton of every JSON spelling (RFC 8259) of the texts, without the surrounding quotes.

    Raw UTF-8 where JSON allows it, the two-character escapes, and ``\\uXXXX`` in either case of digits, with surrogate
    pairs above U+FFFF. A lone surrogate is never accepted. Characters outside ``escapable`` are escaped only where
    JSON demands it.
    """
    states = _Interned(text.state_count, budget)
    one_spelling = _escaping(escapable).one_spelling
    encode = _json_encode(escapable)
    for state, edges in enumerate(text.edges):
        if all(low in one_spelling and high in one_spelling and high - low < 2 for low, high, _ in edges):
            states.rows[state] = edges
        else:
            states.rows[state] = states.encoded(edges, encode)
    return states.dfa(text)


@lru_cache(maxsize=8)
def _json_encode(escapable: CodePoints) -> _Encode:
    return _remembered(partial(_json_rows, _escaping(escapable)))


def _json_rows(escaping: _Escaping, edges: tuple[Edge, ...], target_count: int) -> _Rows:
    states = _Interned(target_count, Budget())
    row = _utf8_row(_outside(edges, _NEVER_RAW), states)
    escapes = [
        (letter, letter, target)
        for code, letter in escaping.letters
        for low, high, target in edges
        if low <= code <= high
    ]
    units = _code_units(_outside(edges, escaping.never_escaped), states)
    if units:
        escapes.append((ord("u"), ord("u"), states.digits(units, 4)))
    if escapes:
        row.append((_BACKSLASH, _BACKSLASH, states.state(escapes)))
    return (*states.rows[target_count:], merge_ranges(sorted(row)))
