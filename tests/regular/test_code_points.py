"""Sets of code points against Python's sets, near the surrogates and the ends, where mistakes are made."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.regular.code_points import ANY, CODE_POINT_MAX, NONE, CodePoints

# The whole domain of the sets below: both ends of Unicode, and both sides of the surrogates.
DOMAIN = [*range(8), *range(0xD7FC, 0xE004), *range(CODE_POINT_MAX - 7, CODE_POINT_MAX + 1)]
SCALARS = frozenset(code for code in DOMAIN if not 0xD800 <= code <= 0xDFFF)


def members(code_points: CodePoints) -> frozenset[int]:
    return frozenset(code for code in DOMAIN if code in code_points)


def check(code_points: CodePoints) -> None:
    for low, high in code_points.ranges:
        assert 0 <= low <= high <= CODE_POINT_MAX
        assert high < 0xD800 or low > 0xDFFF
    for (_, high), (low, _) in zip(code_points.ranges, code_points.ranges[1:], strict=False):
        assert high + 1 < low
    assert bool(code_points) == (code_points != NONE)
    assert len(code_points) == sum(high - low + 1 for low, high in code_points.ranges)


def random_set(rng: Random) -> tuple[CodePoints, frozenset[int]]:
    ranges = []
    for _ in range(rng.randint(0, 4)):
        low = rng.choice(DOMAIN)
        high = rng.choice([low, low + rng.randint(0, 4), rng.choice(DOMAIN)])
        ranges.append((min(low, high), min(max(low, high), CODE_POINT_MAX)))
    expected = frozenset(code for low, high in ranges for code in SCALARS if low <= code <= high)
    return CodePoints.from_ranges(ranges), expected


@pytest.mark.parametrize("seed", range(4))
def test_algebra_is_that_of_sets(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        first, first_members = random_set(rng)
        second, second_members = random_set(rng)
        for result, expected in (
            (first, first_members),
            (first | second, first_members | second_members),
            (first & second, first_members & second_members),
            (first - second, first_members - second_members),
            (~first, SCALARS - first_members),
            (~~first, first_members),
        ):
            check(result)
            assert members(result) == expected, (first, second)


def test_surrogates_are_never_members() -> None:
    assert ANY.ranges == ((0, 0xD7FF), (0xE000, CODE_POINT_MAX))
    assert len(ANY) == 0x110000 - 0x800
    assert CodePoints.of((0xD800, 0xDFFF)) == NONE
    assert CodePoints.of("\ud800a") == CodePoints.of("a")
    assert CodePoints.of((0xD7FF, 0xE000)).ranges == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))


def test_items_of_every_kind() -> None:
    assert CodePoints.of("ab", 0x63, (0x65, 0x66), "d").ranges == ((0x61, 0x66),)
    assert CodePoints.of() == NONE
    assert ~NONE == ANY
    assert ~ANY == NONE


@pytest.mark.parametrize("bad", [(-1, 4), (5, 4), (0, CODE_POINT_MAX + 1)])
def test_what_is_no_range_is_refused(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="range"):
        CodePoints.of(bad)


def test_membership_at_the_bounds_of_ranges() -> None:
    some = CodePoints.of((5, 7), (CODE_POINT_MAX, CODE_POINT_MAX))
    assert [code for code in (0, 4, 5, 6, 7, 8, CODE_POINT_MAX - 1, CODE_POINT_MAX) if code in some] == [
        5,
        6,
        7,
        CODE_POINT_MAX,
    ]
    assert 0 not in NONE
