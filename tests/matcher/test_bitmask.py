"""Masks as differences from a base, and bits set in place, against sets of ids."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from shmcache.matcher.bitmask import SparseMask, set_bits, word_count
from shmcache.rows.row_table import bitmask_of
from tests.reference.masks import mask_bits

pytestmark = pytest.mark.reference


def random_ids(rng: Random, words: int, chance: float) -> set[int]:
    return {number for number in range(32 * words) if rng.random() < chance}


@pytest.mark.parametrize("seed", range(3))
def test_bits_are_sets_of_ids(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        words = rng.randint(1, 5)
        first, second = (random_ids(rng, words, rng.choice([0, 0.05, 0.5, 1])) for _ in range(2))
        mask = bitmask_of(np.array(sorted(first), dtype=np.int64), words)
        assert mask.dtype == np.int32
        assert mask_bits(mask) == first
        listed = [*second, *list(second)[:3]]
        rng.shuffle(listed)
        set_bits(mask, np.array(listed, dtype=np.int32))
        assert mask_bits(mask) == first | second


@pytest.mark.parametrize("seed", range(3))
def test_a_sparse_mask_writes_the_mask_it_was_made_of(seed: int) -> None:
    rng = Random(seed)
    used_base = 0
    for _ in range(60):
        words = rng.randint(1, 6)
        bases = [bitmask_of(np.array(sorted(random_ids(rng, words, 0.5)), dtype=np.int64), words) for _ in range(2)]
        mask = rng.choice([np.zeros(words, dtype=np.int32), bases[0].copy(), bases[1].copy()])
        for _ in range(rng.randint(0, 2)):
            mask[rng.randrange(words)] ^= np.int32(1 << rng.randrange(31))
        sparse = SparseMask.of(mask, bases)
        used_base += any(sparse.base is base for base in bases)
        assert len(sparse.index) == min(int((mask != base).sum()) for base in [*bases, np.zeros(words, dtype=np.int32)])
        row = np.full(words, -7, dtype=np.int32)
        sparse.write(row)
        assert np.array_equal(row, mask)
        assert not any(np.shares_memory(row, base) for base in bases)
    assert used_base > 10


def test_words_hold_thirty_two_bits() -> None:
    assert [word_count(width) for width in (1, 31, 32, 33, 64, 131_072)] == [1, 1, 1, 2, 2, 4096]
