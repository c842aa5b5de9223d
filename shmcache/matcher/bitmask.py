"""Token bitmasks: int32 words, bit ``t % 32`` of word ``t // 32`` is 1 when token ``t`` is allowed.

Owns their allocation and the sparse form in which a mask is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array

BITS_PER_WORD = 32


def word_count(width: int) -> int:
    """Words of a mask over ``width`` tokens."""
    return -(-width // BITS_PER_WORD)


def allocate_token_bitmask(batch_size: int, width: int) -> Int32Array:
    """An int32 array (batch_size, ceil(width / 32)) with every token allowed in every row, surplus bits included."""
    return np.full((batch_size, word_count(width)), -1, dtype=np.int32)


def set_bits(mask: Int32Array, tokens: npt.NDArray[Any]) -> None:
    """Sets the bits of a few tokens in place."""
    np.bitwise_or.at(mask, tokens >> 5, np.left_shift(np.int32(1), tokens & 31).astype(np.int32))


def clear_bits(mask: Int32Array, tokens: npt.NDArray[Any]) -> None:
    """Clears the bits of a few tokens in place."""
    np.bitwise_and.at(mask, tokens >> 5, ~np.left_shift(np.int32(1), tokens & 31).astype(np.int32))


@cache
def no_tokens(word_count: int) -> Int32Array:
    """The read-only mask of no token, one for all of that width.

    Copied, it takes little more than half the time that NumPy takes to fill a row with zero.
    """
    zeros = np.zeros(word_count, dtype=np.int32)
    zeros.setflags(write=False)
    return zeros


@dataclass(frozen=True, slots=True, eq=False)
class SparseMask:
    """A mask as its difference from a base that lies elsewhere: what is remembered of a mask is small."""

    base: Int32Array
    index: npt.NDArray[np.intp]
    """Words that differ from the base, and their values."""
    value: Int32Array

    @staticmethod
    def of_words(base: Int32Array, index: Int32Array, value: Int32Array) -> SparseMask:
        """The mask whose other words are those of ``base``; ``value`` is kept."""
        return SparseMask(base, index.astype(np.intp), value)

    @staticmethod
    def of(mask: Int32Array, bases: list[Int32Array]) -> SparseMask:
        """``mask`` against that of ``bases``, or zero, from which it differs in fewest words."""
        best = no_tokens(len(mask))
        index = np.flatnonzero(mask)
        for base in bases:
            differing = np.flatnonzero(mask != base)
            if len(differing) < len(index):
                best, index = base, differing
        return SparseMask(best, index, mask[index])

    def write(self, row: Int32Array) -> None:
        """Overwrites ``row`` (as many words as the mask has)."""
        row[:] = self.base
        if len(self.index):
            row[self.index] = self.value
