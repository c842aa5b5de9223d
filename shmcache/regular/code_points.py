"""Sets of Unicode scalar values.

Owns the set and its algebra. Surrogates (D800..DFFF) are never members: they have no UTF-8.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

CODE_POINT_MAX = 0x10FFFF
SURROGATE_LOW = 0xD800
SURROGATE_HIGH = 0xDFFF

Range = tuple[int, int]


def _coalesce(ranges: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _without_surrogates(ranges: Iterable[Range]) -> Iterable[Range]:
    for low, high in ranges:
        if low < SURROGATE_LOW:
            yield low, min(high, SURROGATE_LOW - 1)
        if high > SURROGATE_HIGH:
            yield max(low, SURROGATE_HIGH + 1), high


@dataclass(frozen=True, slots=True)
class CodePoints:
    """A set of Unicode scalar values. ``ranges`` are inclusive, sorted, disjoint and not adjacent."""

    ranges: tuple[Range, ...]

    @staticmethod
    def from_ranges(ranges: Iterable[Range]) -> CodePoints:
        """The union of inclusive ranges within 0..0x10FFFF, less the surrogates."""
        checked = list(ranges)
        for low, high in checked:
            if not 0 <= low <= high <= CODE_POINT_MAX:
                raise ValueError(f"not a range of code points: {low:#x}..{high:#x}")
        return CodePoints(_coalesce(_without_surrogates(checked)))

    @staticmethod
    def of(*items: int | Range | str) -> CodePoints:
        """The set of these code points, inclusive ranges, and characters of these strings."""
        ranges: list[Range] = []
        for item in items:
            if isinstance(item, str):
                ranges.extend((ord(character), ord(character)) for character in item)
            elif isinstance(item, int):
                ranges.append((item, item))
            else:
                ranges.append(item)
        return CodePoints.from_ranges(ranges)

    def __or__(self, other: CodePoints) -> CodePoints:
        return CodePoints(_coalesce(self.ranges + other.ranges))

    def __invert__(self) -> CodePoints:
        gaps: list[Range] = []
        start = 0
        for low, high in self.ranges:
            if low > start:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= CODE_POINT_MAX:
            gaps.append((start, CODE_POINT_MAX))
        return CodePoints(_coalesce(_without_surrogates(gaps)))

    def __and__(self, other: CodePoints) -> CodePoints:
        return ~(~self | ~other)

    def __sub__(self, other: CodePoints) -> CodePoints:
        return self & ~other

    def __contains__(self, code_point: int) -> bool:
        at = bisect_right(self.ranges, (code_point, CODE_POINT_MAX)) - 1
        return at >= 0 and self.ranges[at][0] <= code_point <= self.ranges[at][1]

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)


NONE = CodePoints(())
ANY = ~NONE
