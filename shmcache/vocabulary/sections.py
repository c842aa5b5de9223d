"""A checksummed byte string of numbers and flat arrays: what a vocabulary, a trie, rows and an image look like at rest.

Owns the layout (magic, version, length, checksum, words, aligned arrays) and the refusal of anything else. Must never
know what the words and arrays mean: that is checked by whoever reads them.

Layout, little-endian::

    0   magic             8 bytes
    8   version           uint32
    12  section count     uint32
    16  total length      uint64, bytes
    24  word count        uint32
    28  checksum          uint32, of everything else
    32  words             uint64 each
    ..  section table     uint64 each: the number of items of that array
    ..  arrays            each at the next multiple of 64 bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.errors import SegmentError

Readable = bytes | bytearray | memoryview
"""Bytes from outside; a memoryview may lie over a mapped segment."""

_HEADER = struct.Struct("<8sIIQII")
_ALIGNMENT_BYTES = 64
_CHECKSUM = struct.Struct("<I")
_CHECKSUM_START = 28
_CHECKSUM_END = 32
_COLUMNS = 64
_CHUNKS = 16
_BLOCK_BYTES = 8 * _COLUMNS * _CHUNKS
_WEIGHTS = np.arange(1, 2 * _COLUMNS, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that no change of a sum is lost."""


def _aligned(offset_bytes: int) -> int:
    return -(-offset_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def checksum(view: memoryview) -> int:
    """A CRC-32 of the ends, and of the whole blocks between them weighted sums of 8-byte words by column and by chunk.

    Against damage, not against malice, which owner and mode of a segment keep out. It misses one damage in four
    billion, and is checked before the first use of a segment in a process: for 1 MB it takes a quarter of the time of a
    CRC-32 [m].
    """
    blocks = (len(view) - _CHECKSUM_END) // _BLOCK_BYTES
    end = _CHECKSUM_END + blocks * _BLOCK_BYTES
    crc = zlib.crc32(view[end:], zlib.crc32(view[:_CHECKSUM_START]))
    if not blocks:
        return crc
    words = np.frombuffer(view, "<u8", blocks * _CHUNKS * _COLUMNS, _CHECKSUM_END)
    # Columns of each chunk, of which those of all and all of each follow: one reading of the bytes.
    sums = np.add.reduce(words.reshape(_CHUNKS, -1, _COLUMNS), axis=1)
    by_column = int(np.dot(np.add.reduce(sums, axis=0), _WEIGHTS))
    by_chunk = int(np.dot(np.add.reduce(sums, axis=1), _WEIGHTS[:_CHUNKS]))
    # Turned, so that a change of a word's highest bits, which weights cannot spread, does not cancel itself.
    by_chunk = by_chunk >> 47 | by_chunk << 17
    mixed = by_column ^ by_chunk
    return (crc ^ mixed ^ mixed >> 32) & 0xFFFFFFFF


def pack_sections(magic: bytes, version: int, words: Sequence[int], arrays: Sequence[npt.NDArray[Any]]) -> bytes:
    """The byte string of ``words`` (each 0 .. 2**64-1) and one-dimensional ``arrays``, under an 8-byte ``magic``."""
    table_end = _HEADER.size + 8 * (len(words) + len(arrays))
    starts: list[int] = []
    end = table_end
    for array in arrays:
        starts.append(_aligned(end))
        end = starts[-1] + array.nbytes
    data = bytearray(end)
    _HEADER.pack_into(data, 0, magic, version, len(arrays), end, len(words), 0)
    struct.pack_into(f"<{len(words) + len(arrays)}Q", data, _HEADER.size, *words, *(len(array) for array in arrays))
    for start, array in zip(starts, arrays, strict=True):
        data[start : start + array.nbytes] = array.tobytes()
    _CHECKSUM.pack_into(data, _CHECKSUM_START, checksum(memoryview(data)))
    return bytes(data)


def unpack_sections(
    buffer: Readable, magic: bytes, version: int, word_count: int, dtypes: Sequence[npt.DTypeLike]
) -> tuple[tuple[int, ...], tuple[npt.NDArray[Any], ...]]:
    """The words and arrays in ``buffer``; the arrays are read-only views of it, without a copy.

    ``buffer`` may be longer than what is stored in it (a mapping is rounded up to pages); the rest is ignored. Raises
    :class:`SegmentError` for anything that :func:`pack_sections` with this magic, version and shape did not write.
    """
    sections = find_sections(buffer, magic, version, word_count, dtypes)
    sections.check()
    return sections.words, sections.arrays()


@dataclass(frozen=True, slots=True)
class Sections:
    """A byte string of sections of which the header was looked at."""

    words: tuple[int, ...]
    view: memoryview
    lengths: tuple[int, ...]
    dtypes: Sequence[Any]
    checksum: int

    def check(self) -> None:
        """Reads all of it. Raises :class:`SegmentError` when it is not what was written."""
        if checksum(self.view) != self.checksum:
            raise SegmentError("the checksum does not match")

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays, read-only views without a copy. Raises :class:`SegmentError` when they do not fit."""
        view, total_bytes = self.view, len(self.view)
        arrays: list[npt.NDArray[Any]] = []
        end = _HEADER.size + 8 * (len(self.words) + len(self.lengths))
        for item_count, dtype in zip(self.lengths, self.dtypes, strict=True):
            start = end + _ALIGNMENT_BYTES - 1 & -_ALIGNMENT_BYTES
            end = start + item_count * _item_bytes(dtype)
            if end > total_bytes:
                raise SegmentError("an array reaches past the end")
            # An empty last array may have no byte of its own to start at.
            arrays.append(np.frombuffer(view, dtype, item_count, start) if item_count else _empty(dtype))
        if end != total_bytes:
            raise SegmentError("bytes left over after the last array")
        return tuple(arrays)


def find_sections(
    buffer: Readable, magic: bytes, version: int, word_count: int, dtypes: Sequence[npt.DTypeLike]
) -> Sections:
    """As :func:`unpack_sections`, but for the checksum and the arrays, which are left for when they are needed."""
    view = memoryview(buffer).toreadonly().cast("B")
    if len(view) < _HEADER.size:
        raise SegmentError(f"{len(view)} bytes are too few for a header")
    found_magic, found_version, section_count, total_bytes, found_words, expected = _HEADER.unpack_from(view)
    if found_magic != magic:
        raise SegmentError(f"foreign bytes: magic {found_magic!r}, expected {magic!r}")
    if found_version != version:
        raise SegmentError(f"layout version {found_version}, expected {version}")
    if section_count != len(dtypes) or found_words != word_count:
        raise SegmentError("the header describes another layout")
    table_end = _HEADER.size + 8 * (word_count + section_count)
    if not table_end <= total_bytes <= len(view):
        raise SegmentError(f"truncated: the header says {total_bytes} bytes, there are {len(view)}")
    numbers = struct.unpack_from(f"<{word_count + section_count}Q", view, _HEADER.size)
    return Sections(numbers[:word_count], view[:total_bytes], numbers[word_count:], dtypes, expected)


def stored_bytes(buffer: Readable) -> int:
    """How long the byte string at the beginning of ``buffer`` is, as its header says; 0 where there is no header."""
    return int(_HEADER.unpack_from(buffer)[3]) if len(buffer) >= _HEADER.size else 0


@cache
def _item_bytes(dtype: Any) -> int:
    size: int = np.dtype(dtype).itemsize
    return size


@cache
def _empty(dtype: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.empty(0, dtype=dtype)
    array.setflags(write=False)
    return array
