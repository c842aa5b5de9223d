"""The tokens inside of a string by how many characters they begin, from which rows of counted strings follow.

Owns the table of one loop of a rule over one vocabulary. Must never know which strings are counted, nor requests.

A string of bounded length is any string, unrolled: each of its states between two characters goes on as the loop of any
string does, so a token goes on from it just if it does from the loop and begins no more characters than are left; and
where more are needed first, a token that ends the string must have begun these. One walk of the trie from the loop
tells this of all tokens, for any bounds and all grammars of a process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shmcache.array_types import Int32Array, UInt8Array
from shmcache.automaton.grammar_automaton import frozen
from shmcache.rows.arrays import ACCEPTED, INSIDE, UNCERTAIN
from shmcache.rows.row_table import bitmask_of

_FEW_TOKENS_MAX = 256
"""Where no more tokens than these are too long, they are listed, and no bitmask is kept for their number."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedRow:
    """The row of a state between two characters: a bitmask that stays, without some tokens, and with others."""

    bitmask: Int32Array
    fewer: Int32Array
    more: Int32Array
    uncertain: Int32Array
    """Ids of the tokens that only the caller of the rule decides."""


class CountedTokens:
    """``ids`` (int32) are the tokens that go on from the loop; item ``i`` of ``begun`` (int32) says how many characters
    token ``ids[i]`` begins, of ``verdicts`` (uint8) where it ends: INSIDE the string, ACCEPTED at its end, UNCERTAIN
    behind it. Nothing of the arrays is kept.
    """

    def __init__(self, ids: Int32Array, begun: Int32Array, verdicts: UInt8Array, word_count: int) -> None:
        inside, ends, leaves = verdicts == INSIDE, verdicts == ACCEPTED, verdicts == UNCERTAIN
        # As 16 bits they are sorted by counting them.
        self._inside = ids[inside][np.argsort(begun[inside].astype(np.uint16), kind="stable")]
        # Item n: how many of these begin n characters at most.
        self._short_counts = np.cumsum(np.bincount(begun[inside], minlength=1)).tolist()
        self._ending = ids[ends], begun[ends]
        self._leaving = ids[leaves], begun[leaves]
        self._word_count = word_count
        self._most = int(begun.max(initial=0))
        self._bitmasks: dict[int, Int32Array] = {}
        self._rows: dict[tuple[int, int], CountedRow] = {}

    def row(self, left: int, needed: int) -> CountedRow:
        """The row of the state behind which the string has ``needed`` to ``left`` characters more."""
        bounds = min(left, self._most), min(needed, self._most + 1)
        known = self._rows.get(bounds)
        if known is None:
            known = self._rows[bounds] = self._new_row(*bounds)
        return known

    def _new_row(self, left: int, needed: int) -> CountedRow:
        short_count = self._short_counts[min(left, len(self._short_counts) - 1)]
        too_long = self._inside[short_count:]
        if len(too_long) <= _FEW_TOKENS_MAX:
            bitmask, fewer = self._bitmask(len(self._inside)), too_long
        else:
            bitmask, fewer = self._bitmask(short_count), too_long[:0]
        return CountedRow(
            bitmask,
            fewer=frozen(fewer, np.int32),
            more=_between(*self._ending, needed, left),
            uncertain=_between(*self._leaving, needed, left),
        )

    def _bitmask(self, count: int) -> Int32Array:
        """So many of the tokens that stay inside, those first that begin few characters."""
        known = self._bitmasks.get(count)
        if known is None:
            # A view, as the bitmasks of an image are: it stays, so masks may be remembered against it.
            known = self._bitmasks[count] = frozen(bitmask_of(self._inside[:count], self._word_count), np.int32)[:]
        return known


def _between(ids: Int32Array, begun: Int32Array, fewest: int, most: int) -> Int32Array:
    return frozen(ids[(begun >= fewest) & (begun <= most)], np.int32)
