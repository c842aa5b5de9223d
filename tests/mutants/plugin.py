"""A pytest plugin that takes one defence away: ``SHMCACHE_MUTANT=name python -m pytest -p tests.mutants.plugin ...``.

Owns the switch, which no production code reads.
"""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Applies the mutant before any test module is imported, and after the run has moved to its own directories."""
    name = os.environ.get("SHMCACHE_MUTANT")
    if name:
        from tests.mutants.mutants import BY_NAME

        BY_NAME[name].apply()
