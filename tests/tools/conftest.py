"""Terminals for tests, closed at their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.terminal import Terminal


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()
