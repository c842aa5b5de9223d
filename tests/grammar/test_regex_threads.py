"""Moves and covered threads against their definitions."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.grammar.regex.threads import Move, covers, join, uncovered
from shmcache.limits import Budget


@pytest.mark.parametrize("seed", range(50))
def test_joined_moves_are_the_union_letter_by_letter(seed: int) -> None:
    rng = Random(seed)
    added: list[Move] = [
        (rng.randrange(1, 1 << 6), frozenset(rng.sample(range(8), rng.randint(1, 3)))) for _ in range(rng.randint(1, 7))
    ]
    moves: list[Move] = []
    for letters, targets in added:
        join(moves, letters, targets)
    for letter in range(6):
        expected = frozenset().union(*(targets for letters, targets in added if letters >> letter & 1))
        found = [targets for letters, targets in moves if letters >> letter & 1]
        assert found == ([expected] if expected else [])


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(30))
def test_uncovered_threads_are_the_least_ones(dimensions: int, seed: int) -> None:
    rng = Random(seed)
    copies = {tuple(rng.randrange(5) for _ in range(dimensions)) for _ in range(rng.randint(1, 12))}
    points = [(one, number) for number, one in enumerate(sorted(copies, key=lambda _: rng.random()))]
    expected = {one for one in points if not any(covers(other, one) for other in points if other is not one)}
    found = uncovered(list(points), Budget())
    assert set(found) == expected
    assert len(found) == len(expected)
