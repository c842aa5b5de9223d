"""What threads become, and which of them matter beside others.

Owns moves, and the comparing of threads by the copies of repeated parts that they are in. Must never know patterns.
"""

from __future__ import annotations

from operator import le

from shmcache.limits import Budget

Point = tuple[tuple[int, ...], int]
"""(copies that a thread is in, the thread)."""

Move = tuple[int, frozenset[int]]
"""(letters as bits, threads that each of them leads to)."""


def join(moves: list[Move], letters: int, targets: frozenset[int]) -> None:
    """Adds a move to some that have no letters in common, so that these still have none."""
    for at in range(len(moves)):
        known, others = moves[at]
        common = known & letters
        if not common:
            continue
        if common != known:
            moves[at] = known ^ common, others
            moves.append((common, others | targets))
        else:
            moves[at] = known, others | targets
        letters ^= common
        if not letters:
            return
    moves.append((letters, targets))


def uncovered(points: list[Point], budget: Budget) -> list[Point]:
    """The points that no other one covers."""
    if len(points[0][0]) == 1:
        return [min(points)]
    points.sort()  # behind all that may cover them
    least = points[:1]
    for point in points[1:]:
        # By two numbers, the one that came last has the least second number of all so far.
        candidates = least[-1:] if len(point[0]) == 2 else least
        budget.spend_edges(len(candidates))
        if not any(covers(one, point) for one in candidates):
            least.append(point)
    return least


def covers(one: Point, other: Point) -> bool:
    """Whether the one thread can do whatever the other can, being in no later copies."""
    return all(map(le, one[0], other[0]))
