"""Fields of messages: what each kind of value may be.

Owns the bounds of single values and the error for what is out of them. Must never know whole messages or framing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from shmcache.errors import ShmCacheError
from shmcache.limits import COMPILE_SECONDS_CEILING, MESSAGE_BYTES_MAX

KEY_BYTES = 32
INLINE_SOURCE_BYTES_MAX = MESSAGE_BYTES_MAX - 1024
"""Largest source that travels inside a message; a larger one is sent as a descriptor."""

TEXT_CHARACTERS_MAX = 4096
NESTING_MAX = 5
DESCRIPTORS_MAX = 2

ROLES = ("client", "tool")
KINDS = ("grammar", "vocabulary")
TIERS = ("grammar", "rule", "vocabulary")
WORKER_STATES = ("cold", "idle")
ALLOCATION_OUTCOMES = ("granted", "fenced", "exists", "full")
COMMIT_OUTCOMES = ("ready", "fenced", "unindexed")


class WireError(ShmCacheError):
    """The peer sent bytes that are no message. The connection they came from cannot be used any further."""

    code = "WIRE"


Check = Callable[[Any], Any]
"""Returns the value, normalised, or raises :class:`WireError`."""

CHECK = "check"


def _field(check: Check, **options: Any) -> Any:
    return dataclasses.field(metadata={CHECK: check}, **options)


def whole(low: int, high: int, **options: Any) -> Any:
    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise WireError(f"expected a whole number in {low}..{high}")
        return value

    return _field(check, **options)


def seconds(**options: Any) -> Any:
    def check(value: Any) -> float:
        if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= COMPILE_SECONDS_CEILING:
            raise WireError(f"expected seconds in 0..{COMPILE_SECONDS_CEILING}")
        return float(value)

    return _field(check, **options)


def octets(low: int, high: int, *, or_empty: str = "never", **options: Any) -> Any:
    def check(value: Any) -> bytes:
        if type(value) is not bytes or not (low <= len(value) <= high or (or_empty == "allowed" and not value)):
            raise WireError(f"expected {low}..{high} bytes")
        return value

    return _field(check, **options)


def word(allowed: tuple[str, ...], **options: Any) -> Any:
    def check(value: Any) -> str:
        if type(value) is not str or value not in allowed:
            raise WireError(f"expected one of {', '.join(allowed)}")
        return value

    return _field(check, **options)


def text(**options: Any) -> Any:
    def check(value: Any) -> str:
        if type(value) is not str or len(value) > TEXT_CHARACTERS_MAX:
            raise WireError(f"expected a text of at most {TEXT_CHARACTERS_MAX} characters")
        return value

    return _field(check, **options)


def _check_plain(value: Any, depth: int) -> None:
    if depth > NESTING_MAX:
        raise WireError(f"nested deeper than {NESTING_MAX}")
    if type(value) is dict:
        for name, item in value.items():
            if type(name) is not str:
                raise WireError("expected text as name of a map")
            _check_plain(item, depth + 1)
    elif type(value) is list:
        for item in value:
            _check_plain(item, depth + 1)
    elif value is not None and type(value) not in (bool, int, float, str, bytes):
        raise WireError("expected plain data")


def plain_map(**options: Any) -> Any:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise WireError("expected a map")
        _check_plain(value, 1)
        return value

    return _field(check, **options)


U32 = (1 << 32) - 1
U63 = (1 << 63) - 1
U64 = (1 << 64) - 1


def request_number() -> Any:
    return whole(0, U32)


def digest() -> Any:
    return octets(KEY_BYTES, KEY_BYTES)


@dataclass(frozen=True, slots=True)
class Message:
    """Root of all messages. ``descriptors``: how many file descriptors travel with it."""

    op: ClassVar[str] = ""
