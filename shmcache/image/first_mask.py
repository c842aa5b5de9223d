"""The mask of a grammar's beginning, which lies behind its image in shared memory: what everybody asks for first.

Owns its form at rest. Must never know how it is worked out, nor be needed to use the image.

It begins at the next multiple of 8 bytes behind the image, little-endian::

    0   magic          8 bytes
    8   flags          uint32: 1 where the empty text is a whole text, 2 where tokens may be taken whole
    12  word count     uint32
    16  index          int32 each, ascending: the words of the mask that are not 0
    ..  value          int32 each
    ..  checksum       uint32: CRC-32 of all of these
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.errors import SegmentError
from shmcache.vocabulary.sections import Readable, stored_bytes

_HEADER = struct.Struct("<8sII")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"shmcMSK\1"
_MAY_END = 1
_HAS_WHOLE_TOKENS = 2


@dataclass(frozen=True, slots=True, eq=False)
class FirstMask:
    """The tokens that a text may begin with. What it says of stop tokens that are no text is void."""

    index: Int32Array
    """int32 (n), ascending: the words of the mask that are not 0; ``value``, int32 (n), has them."""
    value: Int32Array
    may_end: bool
    """Whether the empty text is a whole text."""
    has_whole_tokens: bool
    """Whether the grammar takes tokens whole somewhere."""


def with_first_mask(image: bytes, mask: FirstMask) -> bytes:
    """The image with the mask behind it."""
    flags = _MAY_END * mask.may_end | _HAS_WHOLE_TOKENS * mask.has_whole_tokens
    data = _HEADER.pack(_MAGIC, flags, len(mask.index)) + _bytes(mask.index) + _bytes(mask.value)
    return b"".join((image, bytes(-len(image) % 8), data, _CHECKSUM.pack(zlib.crc32(data))))


def first_mask(payload: Readable, word_count: int) -> FirstMask | None:
    """The mask behind the image at the beginning of ``payload``, in place; None where there is none.

    ``word_count`` is that of a mask. Raises :class:`SegmentError` when what is there is damaged.
    """
    view = memoryview(payload).toreadonly().cast("B")
    start = -(-stored_bytes(view) // 8) * 8
    if start + _HEADER.size > len(view):
        return None
    magic, flags, count = _HEADER.unpack_from(view, start)
    if magic != _MAGIC:
        return None
    arrays = start + _HEADER.size
    end = arrays + 8 * count
    if end + _CHECKSUM.size > len(view) or zlib.crc32(view[start:end]) != _CHECKSUM.unpack_from(view, end)[0]:
        raise SegmentError("the first mask of the grammar is damaged")
    index = np.frombuffer(view, "<i4", count, arrays)
    if count and not 0 <= index[0] <= index[-1] < word_count:
        raise SegmentError("the first mask of the grammar is one of another vocabulary")
    value = np.frombuffer(view, "<i4", count, arrays + 4 * count)
    return FirstMask(index, value, bool(flags & _MAY_END), bool(flags & _HAS_WHOLE_TOKENS))


def _bytes(words: Int32Array) -> bytes:
    return np.ascontiguousarray(words, dtype="<i4").tobytes()
