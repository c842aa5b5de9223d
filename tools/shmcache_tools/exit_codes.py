"""What the command line's exit codes mean, and which error gives which.

Owns the numbers, which scripts rely on. Must never print.
"""

from __future__ import annotations

from enum import IntEnum

from shmcache.errors import ManagerUnavailable, SegmentError, ShmCacheError


class ExitCode(IntEnum):
    """The exit codes of every sub-command. 2 is also what click uses for wrong usage."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    NO_MANAGER = 4
    INCOMPATIBLE = 5
    FINDINGS = 6


class NotFoundError(ShmCacheError):
    """Nothing in the cache is what was asked for."""

    code = "NOT_FOUND"


def exit_code_of(error: ShmCacheError) -> ExitCode:
    """The exit code of a command that ended with ``error``."""
    if isinstance(error, ManagerUnavailable):
        return ExitCode.NO_MANAGER
    if isinstance(error, SegmentError):
        return ExitCode.INCOMPATIBLE
    if isinstance(error, NotFoundError):
        return ExitCode.NOT_FOUND
    return ExitCode.FAILURE
