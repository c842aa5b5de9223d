"""The source that stands behind an image in shared memory, for people who want to know what a grammar was made of.

Owns how it is attached and found again. Must never be needed to use the image: who opens one ignores what follows.

The source's bytes (:meth:`Source.to_bytes`) are compressed and lie behind the image at the next multiple of 64 bytes,
after a header of magic, compressed length and length.
"""

from __future__ import annotations

import struct
import zlib

from shmcache.errors import SegmentError
from shmcache.limits import SOURCE_BYTES_MAX
from shmcache.vocabulary.sections import Readable, stored_bytes

_HEADER = struct.Struct("<8sII")
_MAGIC = b"shmcSRC\1"
_ALIGNMENT_BYTES = 64
_LENGTH_MAX = SOURCE_BYTES_MAX + (1 << 16)


def attach_source(image: bytes, source: bytes) -> bytes:
    """The image with its source behind it."""
    packed = zlib.compress(source)
    padding = bytes(-len(image) % _ALIGNMENT_BYTES)
    return b"".join((image, padding, _HEADER.pack(_MAGIC, len(packed), len(source)), packed))


def attached_source(payload: Readable) -> bytes | None:
    """The source behind the image in ``payload``, None when there is none.

    Raises :class:`SegmentError` when what is there is damaged.
    """
    view = memoryview(payload).cast("B")
    start = -(-stored_bytes(view) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    if start + _HEADER.size > len(view):
        return None
    magic, packed_bytes, source_bytes = _HEADER.unpack_from(view, start)
    packed = view[start + _HEADER.size : start + _HEADER.size + packed_bytes]
    if magic != _MAGIC or len(packed) != packed_bytes or source_bytes > _LENGTH_MAX:
        raise SegmentError("what follows the image is not its source")
    try:
        source = zlib.decompressobj().decompress(packed, source_bytes + 1)
    except zlib.error as error:
        raise SegmentError(f"the source behind the image is damaged: {error}") from None
    if len(source) != source_bytes:
        raise SegmentError("the source behind the image has another length than it should")
    return source
