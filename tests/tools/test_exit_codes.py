"""Exit codes are what the design says, for every error."""

from __future__ import annotations

import pytest

from shmcache.errors import (
    LimitError,
    ManagerUnavailable,
    SegmentError,
    ShmCacheError,
    SourceError,
    UnsupportedError,
)
from shmcache_tools.exit_codes import ExitCode, exit_code_of


def test_the_numbers_are_fixed() -> None:
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ShmCacheError("x"), 1),
        (SourceError("x"), 1),
        (UnsupportedError("x", feature="f"), 1),
        (LimitError("x", limit="states"), 1),
        (ManagerUnavailable("x"), 4),
        (SegmentError("x"), 5),
    ],
)
def test_an_error_has_its_code(error: ShmCacheError, code: int) -> None:
    assert exit_code_of(error) == code
