"""The source that stands behind an image in shared memory, for people who want to know what a grammar was made of.

Owns how it is attached and found again. Must never be needed to use the image: who opens one ignores what follows.

The source's bytes (:meth:`Source.to_bytes`) are compressed and lie behind the image; the last 16 bytes of all say how
many they are: magic, compressed length, length.
"""

from __future__ import annotations

import struct
import zlib

from shmcache.errors import SegmentError
from shmcache.limits import SOURCE_BYTES_MAX

_FOOTER = struct.Struct("<8sII")
_MAGIC = b"shmcSRC\1"
_LENGTH_MAX = SOURCE_BYTES_MAX + (1 << 16)


def attach_source(image: bytes, source: bytes) -> bytes:
    """The image with its source behind it."""
    packed = zlib.compress(source)
    return b"".join((image, packed, _FOOTER.pack(_MAGIC, len(packed), len(source))))


def attached_source(payload: bytes | bytearray | memoryview) -> bytes | None:
    """The source behind the image that is the rest of ``payload``, None when there is none.

    Raises :class:`SegmentError` when what is there is damaged.
    """
    view = memoryview(payload).cast("B")
    end = len(view) - _FOOTER.size
    if end < 0:
        return None
    magic, packed_bytes, source_bytes = _FOOTER.unpack_from(view, end)
    if magic != _MAGIC:
        return None
    if packed_bytes > end or source_bytes > _LENGTH_MAX:
        raise SegmentError("the source behind the image has an impossible length")
    try:
        source = zlib.decompressobj().decompress(view[end - packed_bytes : end], source_bytes + 1)
    except zlib.error as error:
        raise SegmentError(f"the source behind the image is damaged: {error}") from None
    if len(source) != source_bytes:
        raise SegmentError("the source behind the image has another length than it should")
    return source
