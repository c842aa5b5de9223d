"""The compile that workers run: from a source's bytes to an image.

Owns the check that a source has the key under which it was sent, which the manager cannot make. Must never know
messages or segments.
"""

from __future__ import annotations

from shmcache.compiler import RuleRows, compile_image
from shmcache.errors import ShmCacheError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attach_source
from shmcache.limits import Budget
from shmcache.rows.warm_up import warm_up
from shmcache.vocabulary.vocabulary import Vocabulary

__all__ = ["KeyMismatchError", "compile_source", "warm_up"]


class KeyMismatchError(ShmCacheError):
    """The source is not the one of the key that was asked for: whoever sent it is wrong, or lies."""

    code = "KEY_MISMATCH"


def compile_source(source: bytes, vocabulary: Vocabulary, *, key: bytes, budget: Budget, rule_rows: RuleRows) -> bytes:
    """The image of ``source`` (as :meth:`Source.to_bytes` makes it), whose key must be ``key``; the source behind it.

    Raises :class:`KeyMismatchError` otherwise, so that nobody can put another grammar under somebody's key; and what
    :func:`compile_image` raises.
    """
    try:
        parsed = Source.from_bytes(source)
    except ShmCacheError as error:
        raise KeyMismatchError(f"no source at all: {error.message}") from error
    if parsed.key(vocabulary.fingerprint) != key:
        raise KeyMismatchError("the source has another key")
    return attach_source(compile_image(parsed, vocabulary, budget=budget, rule_rows=rule_rows), source)
