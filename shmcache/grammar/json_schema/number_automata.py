"""Automata over the spellings of numbers, exact at any number of digits.

Owns the comparison of a number read digit by digit with a bound. Must never know a schema.

JSON spells one number in endlessly many ways, and with free mantissa and exponent "is below the bound" is no regular
language. Admitted between bounds are therefore: decimal spellings without exponent, with any number of digits, and
scientific ones with one digit other than 0 before the point (``1.5e-07``, as programs write them), also of any length.
Multiples are spelt without exponent. Each of these spellings is admitted exactly when its value is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from shmcache.grammar.json_schema.intervals import Interval, Magnitude
from shmcache.limits import Budget
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa, Edge, minimise, trim
from shmcache.regular.operations import unite

_DIGITS = "0123456789"
_SYMBOLS = "+-." + _DIGITS + "Ee"  # in the order of their codes

_State = TypeVar("_State", bound=Hashable)


def _explore(
    start: _State, step: Callable[[_State, str], _State | None], accepts: Callable[[_State], bool], budget: Budget
) -> Dfa:
    """The minimal automaton of a step function over the symbols of numbers."""
    numbers: dict[_State, int] = {start: 0}
    states = [start]
    rows: list[list[Edge]] = []
    for state in states:  # grows while it is walked
        row: list[Edge] = []
        for symbol in _SYMBOLS:
            target = step(state, symbol)
            if target is None:
                continue
            number = numbers.get(target)
            if number is None:
                budget.spend_states()
                number = numbers[target] = len(states)
                states.append(target)
            row.append((ord(symbol), ord(symbol), number))
        rows.append(row)
        budget.spend_edges(len(row))
    return minimise(trim(rows, [accepts(state) for state in states]), budget)


def _compared(order: int, digit: str, digits: str, position: int) -> int:
    """The order after one more digit of a number whose digits so far compare like ``order`` with those of a bound."""
    if order:
        return order
    expected = digits[position] if position < len(digits) else "0"
    return (digit > expected) - (digit < expected)


@dataclass(frozen=True, slots=True)
class _Plain:
    """A number without exponent, read so far. ``position`` counts digits of the part that ``phase`` names."""

    phase: str  # "start", "sign", "zero", "whole", "point", "fraction"
    sign: str = ""
    position: int = 0
    order_low: int = 0
    order_high: int = 0


class _PlainReader:
    """Steps over ``-?(0|[1-9][0-9]*)(\\.[0-9]+)?``, comparing with the bounds of an interval."""

    def __init__(self, interval: Interval, *, fraction_digits: str, has_negative_zero: bool) -> None:
        self._interval = interval
        self._fraction_digits = fraction_digits
        self._has_negative_zero = has_negative_zero
        bounds = [bound for side in (interval.positive, interval.negative) for bound in (side.low, side.high) if bound]
        self._whole_max = max((len(bound.whole) for bound in bounds), default=0) + 1
        self._fraction_max = max((len(bound.fraction) for bound in bounds), default=0)

    def step(self, state: _Plain, symbol: str) -> _Plain | None:
        if symbol == "-":
            return _Plain("sign", "-") if state.phase == "start" else None
        if symbol == ".":
            return self._at_point(state) if self._fraction_digits and state.phase in ("zero", "whole") else None
        if symbol not in _DIGITS:
            return None
        if state.phase in ("start", "sign"):
            if self._interval.side(state.sign).is_empty:
                return None
            return _Plain("zero", state.sign) if symbol == "0" else self._whole(state, symbol)
        if state.phase == "whole":
            return self._whole(state, symbol)
        if state.phase in ("point", "fraction") and symbol in self._fraction_digits:
            return self._fraction(state, symbol)
        return None

    def _whole(self, state: _Plain, digit: str) -> _Plain:
        side = self._interval.side(state.sign)
        low = _compared(state.order_low, digit, side.low.whole, state.position) if side.low else 0
        high = _compared(state.order_high, digit, side.high.whole, state.position) if side.high else 0
        return _Plain("whole", state.sign, min(state.position + 1, self._whole_max), low, high)

    def _whole_order(self, state: _Plain, bound: Magnitude | None, order: int) -> int:
        """How the whole part, now ended, compares with that of the bound: first by length, then by digits."""
        if bound is None:
            return 0
        length = state.position  # 0 behind a single zero
        return (length > len(bound.whole)) - (length < len(bound.whole)) or order

    def _at_point(self, state: _Plain) -> _Plain:
        side = self._interval.side(state.sign)
        low = self._whole_order(state, side.low, state.order_low)
        high = self._whole_order(state, side.high, state.order_high)
        return _Plain("point", state.sign, 0, low, high)

    def _fraction(self, state: _Plain, digit: str) -> _Plain:
        side = self._interval.side(state.sign)
        low = _compared(state.order_low, digit, side.low.fraction, state.position) if side.low else 0
        high = _compared(state.order_high, digit, side.high.fraction, state.position) if side.high else 0
        return _Plain("fraction", state.sign, min(state.position + 1, self._fraction_max), low, high)

    def accepts(self, state: _Plain) -> bool:
        if state.phase not in ("zero", "whole", "fraction"):
            return False
        if state.phase == "zero" and state.sign and not self._has_negative_zero:
            return False
        if state.phase != "fraction":
            state = self._at_point(state)
        side = self._interval.side(state.sign)
        low, high = state.order_low, state.order_high
        if not low and side.low and state.position < len(side.low.fraction):
            low = -1  # the bound goes on, and ends in a digit other than 0
        if not high and side.high and state.position < len(side.high.fraction):
            high = -1
        return side.admits(low, high)


@dataclass(frozen=True, slots=True)
class _Scientific:
    """A number with exponent, read so far. The orders are those of the mantissa until the exponent has its sign."""

    phase: str  # "start", "sign", "digit", "point", "fraction", "e", "exponent sign", "exponent"
    sign: str = ""
    position: int = 0
    order_low: int = 0
    order_high: int = 0
    exponent_sign: str = ""
    exponent_low: int = 0
    exponent_high: int = 0


class _ScientificReader:
    """Steps over ``-?[1-9](\\.[0-9]+)?[eE][+-]?[0-9]+``, comparing with the bounds of an interval."""

    def __init__(self, interval: Interval) -> None:
        self._interval = interval
        bounds = [bound for side in (interval.positive, interval.negative) for bound in (side.low, side.high) if bound]
        self._mantissa_max = max((len(bound.significant) for bound in bounds), default=0)
        self._exponent_max = max((len(bound.exponent_digits) for bound in bounds), default=0) + 1

    def step(self, state: _Scientific, symbol: str) -> _Scientific | None:
        phase = state.phase
        if symbol == "-" and phase == "start":
            return _Scientific("sign", "-")
        if symbol in "+-" and phase == "e":
            return self._exponent_begun(state, "exponent sign", symbol)
        if symbol == "." and phase == "digit":
            return _Scientific("point", state.sign, state.position, state.order_low, state.order_high)
        if symbol in "Ee" and phase in ("digit", "fraction"):
            return self._mantissa_ended(state)
        if symbol not in _DIGITS:
            return None
        if phase in ("start", "sign"):
            has_number = symbol != "0" and not self._interval.side(state.sign).is_empty
            return self._mantissa(state, "digit", symbol) if has_number else None
        if phase in ("point", "fraction"):
            return self._mantissa(state, "fraction", symbol)
        if phase == "e":
            state = self._exponent_begun(state, "exponent sign", "+")
        return self._exponent(state, symbol) if state.phase in ("exponent sign", "exponent") else None

    def _mantissa(self, state: _Scientific, phase: str, digit: str) -> _Scientific:
        side = self._interval.side(state.sign)
        low = _compared(state.order_low, digit, side.low.significant, state.position) if side.low else 0
        high = _compared(state.order_high, digit, side.high.significant, state.position) if side.high else 0
        return _Scientific(phase, state.sign, min(state.position + 1, self._mantissa_max), low, high)

    def _mantissa_ended(self, state: _Scientific) -> _Scientific:
        side = self._interval.side(state.sign)
        low, high = state.order_low, state.order_high
        if not low and side.low and state.position < len(side.low.significant):
            low = -1
        if not high and side.high and state.position < len(side.high.significant):
            high = -1
        return _Scientific("e", state.sign, 0, low, high)

    def _exponent_begun(self, state: _Scientific, phase: str, exponent_sign: str) -> _Scientific:
        return _Scientific(phase, state.sign, 0, state.order_low, state.order_high, exponent_sign)

    def _exponent(self, state: _Scientific, digit: str) -> _Scientific:
        side = self._interval.side(state.sign)
        position, low, high = state.position, state.exponent_low, state.exponent_high
        if position or digit != "0":  # leading zeros count for nothing
            low = _compared(low, digit, side.low.exponent_digits, position) if side.low else 0
            high = _compared(high, digit, side.high.exponent_digits, position) if side.high else 0
            position = min(position + 1, self._exponent_max)
        return _Scientific(
            "exponent", state.sign, position, state.order_low, state.order_high, state.exponent_sign, low, high
        )

    def accepts(self, state: _Scientific) -> bool:
        if state.phase != "exponent":
            return False
        side = self._interval.side(state.sign)
        return side.admits(
            self._order(state, side.low, state.order_low, state.exponent_low),
            self._order(state, side.high, state.order_high, state.exponent_high),
        )

    def _order(self, state: _Scientific, bound: Magnitude | None, mantissa_order: int, digits_order: int) -> int:
        """How the whole number compares with the bound: first by exponent, then by mantissa."""
        if bound is None:
            return 0
        if not bound.significant:
            return 1  # the bound is 0, the number is not
        length, bound_length = state.position, len(bound.exponent_digits)
        size_order = (length > bound_length) - (length < bound_length) or digits_order
        exponent, is_negative = bound.exponent, state.exponent_sign == "-"
        if length == 0:  # the exponent read is 0
            exponent_order = (exponent < 0) - (exponent > 0)
        elif is_negative:
            exponent_order = -1 if exponent >= 0 else -size_order
        else:
            exponent_order = 1 if exponent <= 0 else size_order
        return exponent_order or mantissa_order


def _regular(rows: list[list[tuple[str, int]]], accepting: set[int]) -> Dfa:
    """An automaton written down by hand: per state (symbols, target)."""
    edges = [
        sorted((ord(symbol), ord(symbol), target) for symbols, target in row for symbol in symbols) for row in rows
    ]
    return trim(edges, [state in accepting for state in range(len(rows))])


_ONE_TO_NINE = _DIGITS[1:]
_ANY_NUMBER = _regular(
    [
        [("-", 1), ("0", 2), (_ONE_TO_NINE, 3)],
        [("0", 2), (_ONE_TO_NINE, 3)],
        [(".", 4), ("eE", 6)],
        [(_DIGITS, 3), (".", 4), ("eE", 6)],
        [(_DIGITS, 5)],
        [(_DIGITS, 5), ("eE", 6)],
        [("+-", 7), (_DIGITS, 8)],
        [(_DIGITS, 8)],
        [(_DIGITS, 8)],
    ],
    {2, 3, 5, 8},
)
_SHORTEST_INTEGER = _regular([[("-", 1), ("0", 2), (_ONE_TO_NINE, 3)], [(_ONE_TO_NINE, 3)], [], [(_DIGITS, 3)]], {2, 3})
_ANY_INTEGER = _regular(
    [
        [("-", 1), ("0", 2), (_ONE_TO_NINE, 3)],
        [("0", 2), (_ONE_TO_NINE, 3)],
        [(".", 4), ("eE", 6)],
        [(_DIGITS, 3), (".", 4), ("eE", 6)],
        [("0", 5)],
        [("0", 5), ("eE", 6)],
        [("+", 7), (_DIGITS, 8)],
        [(_DIGITS, 8)],
        [(_DIGITS, 8)],
    ],
    {2, 3, 5, 8},
)
_ZERO_WITH_EXPONENT = _regular(
    [
        [("-", 1), ("0", 2)],
        [("0", 2)],
        [(".", 3), ("eE", 5)],
        [("0", 4)],
        [("0", 4), ("eE", 5)],
        [("+-", 6), (_DIGITS, 7)],
        [(_DIGITS, 7)],
        [(_DIGITS, 7)],
    ],
    {7},
)


def any_number() -> Dfa:
    """Every number as JSON spells it."""
    return _ANY_NUMBER


def any_integer(shortest: bool) -> Dfa:
    """Every integer: in its shortest spelling, or also as ``-0``, ``1.0`` and ``1e3`` (no negative exponents)."""
    return _SHORTEST_INTEGER if shortest else _ANY_INTEGER


def integers_between(interval: Interval, shortest: bool, budget: Budget) -> Dfa:
    """The integers of an interval: in their shortest spelling, or also as ``-0`` and ``1.0``."""
    reader = _PlainReader(interval, fraction_digits="" if shortest else "0", has_negative_zero=not shortest)
    return _explore(_Plain("start"), reader.step, reader.accepts, budget)


def numbers_between(interval: Interval, budget: Budget, *, with_exponents: bool) -> Dfa:
    """The numbers of an interval in the spellings named above."""
    reader = _PlainReader(interval, fraction_digits=_DIGITS, has_negative_zero=True)
    plain = _explore(_Plain("start"), reader.step, reader.accepts, budget)
    if not with_exponents or plain.is_empty:
        return plain
    scientific_reader = _ScientificReader(interval)
    scientific = _explore(_Scientific("start"), scientific_reader.step, scientific_reader.accepts, budget)
    zero = _ZERO_WITH_EXPONENT if interval.has_zero else EMPTY_LANGUAGE
    return unite(plain, unite(scientific, zero, budget), budget)
