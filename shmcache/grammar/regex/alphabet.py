"""The letters of an automaton: classes of characters that none of its sets tells apart.

Owns the partition of Unicode that given sets make. Must never know automata.
"""

from __future__ import annotations

from collections.abc import Iterable

from shmcache.regular.code_points import CodePoints, Range


class Alphabet:
    """The coarsest partition in which each of ``sets`` is a union of classes; characters in no set have no letter.

    Letter ``n`` stands for the characters of ``ranges[n]``; ``samples[n]`` is one of them.
    """

    __slots__ = ("_letters", "ranges", "samples")

    def __init__(self, sets: Iterable[CodePoints]) -> None:
        distinct = list(dict.fromkeys(sets))
        toggles: dict[int, int] = {}
        for at, code_points in enumerate(distinct):
            bit = 1 << at
            for low, high in code_points.ranges:
                toggles[low] = toggles.get(low, 0) ^ bit
                toggles[high + 1] = toggles.get(high + 1, 0) ^ bit
        members = 0
        start = 0
        by_members: dict[int, list[Range]] = {}
        for point in sorted(toggles):
            if members:
                by_members.setdefault(members, []).append((start, point - 1))
            members ^= toggles[point]
            start = point
        self.ranges = list(by_members.values())
        self.samples = [ranges[0][0] for ranges in self.ranges]
        letters = [0] * len(distinct)
        for letter, members in enumerate(by_members):
            while members:
                lowest = members & -members
                letters[lowest.bit_length() - 1] |= 1 << letter
                members ^= lowest
        self._letters = dict(zip(distinct, letters, strict=True))

    def letters(self, code_points: CodePoints) -> int:
        """The letters that make up ``code_points``, which must be one of the sets given, as bits."""
        return self._letters[code_points]
