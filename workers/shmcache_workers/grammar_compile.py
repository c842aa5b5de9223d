"""The compile that workers run: from a source's bytes to an image.

Owns the check that a source has the key under which it was sent, which the manager cannot make. Must never know
messages or segments.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcache.compiler import RuleRows, compile_image
from shmcache.errors import LimitError, ShmCacheError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attach_source
from shmcache.image.first_mask import with_first_mask
from shmcache.image.image import open_image
from shmcache.limits import Budget
from shmcache.matcher.beginning import first_mask_of
from shmcache.memory.segments import NO_TEXT
from shmcache.rows.warm_up import warm_up
from shmcache.vocabulary.vocabulary import Vocabulary

__all__ = ["Compiled", "KeyMismatchError", "compile_source", "warm_up"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compile makes: the payload of a segment, and the digest of the text that it stands for, if of one."""

    payload: bytes
    text_digest: bytes = NO_TEXT


class KeyMismatchError(ShmCacheError):
    """The source is not the one of the key that was asked for: whoever sent it is wrong, or lies."""

    code = "KEY_MISMATCH"


def compile_source(
    source: bytes, vocabulary: Vocabulary, *, key: bytes, budget: Budget, rule_rows: RuleRows
) -> Compiled:
    """The image of ``source`` (as :meth:`Source.to_bytes` makes it), whose key must be ``key``; the source behind it.

    Raises :class:`KeyMismatchError` otherwise, so that nobody can put another grammar under somebody's key, nor under
    the digest of somebody's text, which is worked out here; and what :func:`compile_image` raises.
    """
    try:
        parsed = Source.from_bytes(source)
    except ShmCacheError as error:
        raise KeyMismatchError(f"no source at all: {error.message}") from error
    if parsed.key(vocabulary.fingerprint) != key:
        raise KeyMismatchError("the source has another key")
    image = compile_image(parsed, vocabulary, budget=budget, rule_rows=rule_rows)
    # However the text was written: the payload of a key is always the same.
    payload = attach_source(_with_first_mask(image, vocabulary), parsed.canonical().to_bytes())
    return Compiled(payload, parsed.text_digest(vocabulary.fingerprint) or NO_TEXT)


def _with_first_mask(image: bytes, vocabulary: Vocabulary) -> bytes:
    try:
        mask = first_mask_of(open_image(image, check_bounds=False), vocabulary)
    except LimitError:
        # The grammar is good, and every request with it will hear of that.
        return image
    return with_first_mask(image, mask)
