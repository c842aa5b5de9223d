"""Kernels without compilation, made quick enough for a debugger.

Owns the one thing that has to change for that: levels of thousands of entries, each looked for among all others, take
no time when compiled and minutes when not.
"""

from __future__ import annotations

import os

import pytest

ENTRIES_MAX = 128
"""Entries of one level when kernels run as plain Python."""


@pytest.fixture(autouse=True)
def _narrow_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the limit where kernels are not compiled; it is a constant in those that are."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        from shmcache.rows import kernels

        monkeypatch.setattr(kernels, "CONFIGURATION_ENTRIES_MAX", ENTRIES_MAX)
