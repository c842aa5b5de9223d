"""Several byte strings in one payload, each at a multiple of 64 bytes.

Owns that layout: a table of lengths, then the parts. Must never know what the parts are. A vocabulary's segment holds
the vocabulary and its trie this way, so that a reader views both in place.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from shmcache.errors import SegmentError

ALIGNMENT_BYTES = 64
PARTS_MAX = 7
_TABLE = struct.Struct(f"<8s{PARTS_MAX}Q")
_MAGIC = b"shmcPRT\1"


def join_parts(parts: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """The pieces, padding included, that one after the other make the payload."""
    if not 1 <= len(parts) <= PARTS_MAX:
        raise ValueError(f"1 to {PARTS_MAX} parts, not {len(parts)}")
    lengths = [len(part) for part in parts]
    pieces: list[bytes | memoryview] = [_TABLE.pack(_MAGIC, *lengths, *[0] * (PARTS_MAX - len(lengths)))]
    for part in parts:
        pieces += [part, bytes(-len(part) % ALIGNMENT_BYTES)]
    return pieces


def split_parts(payload: bytes | memoryview, count: int) -> list[memoryview]:
    """Views of the first ``count`` parts. Raises :class:`SegmentError` for what :func:`join_parts` did not make."""
    view = memoryview(payload)
    if len(view) < _TABLE.size or view[: len(_MAGIC)] != _MAGIC:
        raise SegmentError("not a payload of several parts")
    lengths = _TABLE.unpack_from(view)[1:]
    parts: list[memoryview] = []
    start = _TABLE.size
    for length in lengths[:count]:
        if start + length > len(view):
            raise SegmentError("a part reaches past the payload's end")
        parts.append(view[start : start + length])
        start += length + -length % ALIGNMENT_BYTES
    return parts


def split_vocabulary(payload: bytes | memoryview) -> tuple[memoryview, memoryview]:
    """The bytes of the vocabulary and of its trie, in the payload of a vocabulary's segment."""
    vocabulary, trie = split_parts(payload, 2)
    return vocabulary, trie
