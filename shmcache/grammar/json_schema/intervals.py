"""Intervals of numbers, by sign and magnitude.

Owns bounds as digits, as a reader of digits needs them. Must never know a schema or an automaton.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Magnitude:
    """A bound without its sign: ``whole.fraction``, no needless zeros, ``whole`` empty below 1."""

    whole: str
    fraction: str
    is_open: bool

    @staticmethod
    def of(value: Decimal, is_open: bool) -> Magnitude:
        """The magnitude of a number, whatever its sign."""
        whole, _, fraction = format(value.copy_abs(), "f").partition(".")
        return Magnitude(whole.lstrip("0"), fraction.rstrip("0"), is_open)

    @property
    def significant(self) -> str:
        """The digits from the first to the last that is not 0."""
        return (self.whole + self.fraction).strip("0")

    @property
    def exponent(self) -> int:
        """The power of ten of the first significant digit."""
        if self.whole:
            return len(self.whole) - 1
        return -1 - (len(self.fraction) - len(self.fraction.lstrip("0")))

    @property
    def exponent_digits(self) -> str:
        """The digits of ``exponent`` without sign; none when it is 0."""
        return str(abs(self.exponent)).lstrip("0")


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """The magnitudes between two bounds, either of which may be missing."""

    low: Magnitude | None
    high: Magnitude | None
    is_empty: bool = False

    @staticmethod
    def between(low: Decimal | None, high: Decimal | None, low_is_open: bool, high_is_open: bool) -> Magnitudes:
        """Those that are between two numbers of any sign."""
        if high is not None and (high < 0 or (high == 0 and high_is_open)):
            return Magnitudes(None, None, is_empty=True)
        is_trivial = low is None or low < 0 or (low == 0 and not low_is_open)
        return Magnitudes(
            None if is_trivial or low is None else Magnitude.of(low, low_is_open),
            None if high is None else Magnitude.of(high, high_is_open),
        )

    def admits(self, order_low: int, order_high: int) -> bool:
        """Whether a number is admitted that compares (-1, 0, 1) like this with the bounds."""
        if self.low is not None and (order_low < 0 or (order_low == 0 and self.low.is_open)):
            return False
        return self.high is None or order_high < 0 or (order_high == 0 and not self.high.is_open)


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers between two bounds, split by sign."""

    positive: Magnitudes
    negative: Magnitudes
    is_everything: bool

    @staticmethod
    def between(low: Decimal | None, high: Decimal | None, low_is_open: bool, high_is_open: bool) -> Interval:
        """The interval with these bounds; None: no bound on that side."""
        return Interval(
            Magnitudes.between(low, high, low_is_open, high_is_open),
            Magnitudes.between(_negated(high), _negated(low), high_is_open, low_is_open),
            low is None and high is None,
        )

    def side(self, sign: str) -> Magnitudes:
        """The magnitudes behind ``sign``, which is "-" or empty."""
        return self.negative if sign else self.positive

    @property
    def has_zero(self) -> bool:
        """Whether 0 is admitted."""
        side = self.positive
        return not side.is_empty and side.low is None


def _negated(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.copy_negate()
