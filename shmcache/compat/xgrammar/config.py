"""The configuration functions of XGrammar.

Owns the bound on the depth of recursion. It holds whatever it is: nothing here recurses on the nesting of what users
write, which has bounds of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shmcache.compat.xgrammar.exception import MisuseError

SERIALIZATION_VERSION = "shmcache-1"

_DEPTH_MAX = 1_000_000
_depth = 10_000


def get_max_recursion_depth() -> int:
    """The bound that was set last."""
    return _depth


def set_max_recursion_depth(max_recursion_depth: int) -> None:
    """Sets a bound, which holds in any case. Raises for one that is no depth."""
    global _depth
    if not 0 < max_recursion_depth <= _DEPTH_MAX:
        raise MisuseError(f"a depth of recursion must be 1..{_DEPTH_MAX}, not {max_recursion_depth}")
    _depth = max_recursion_depth


@contextmanager
def max_recursion_depth(temp_depth: int) -> Iterator[None]:
    """A bound for the time of a ``with`` block."""
    before = get_max_recursion_depth()
    set_max_recursion_depth(temp_depth)
    try:
        yield
    finally:
        set_max_recursion_depth(before)


def get_serialization_version() -> str:
    """The version of what ``serialize_json`` writes, which only this library reads."""
    return SERIALIZATION_VERSION
