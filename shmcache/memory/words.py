"""Aligned 8-byte words: the only unit in which processes change shared memory.

Owns the view of memory as words, and the bytes-to-words conversions. Must never know what a word means. Words are
stored by :func:`shmcache.memory.steps.store`.

A word is loaded and stored through a ``memoryview`` of format ``Q``, which CPython does with one 8-byte move.
``struct.pack_into`` writes byte by byte and tears. On x86-64 the processor keeps the order of loads among loads and
of stores among stores, so that program order is all the publication protocol needs; elsewhere it is not enough, and
:data:`LOCK_FREE` is false.
"""

from __future__ import annotations

import platform
import struct
import zlib
from collections.abc import Iterable, Sequence
from mmap import mmap

LOCK_FREE = platform.machine() in ("x86_64", "AMD64")
"""Whether plain loads and stores are ordered enough for the lock-free look-up."""

_KEY = struct.Struct("=4Q")
KEY_BYTES = _KEY.size


def words_of(buffer: mmap | bytearray | memoryview) -> memoryview:
    """``buffer`` as words; its length in bytes must be a multiple of 8. Writable when the buffer is."""
    return memoryview(buffer).cast("B").cast("Q")


def key_to_words(key: bytes) -> tuple[int, int, int, int]:
    """The four words of a 32-byte key."""
    return _KEY.unpack(key)


def words_to_key(words: Sequence[int]) -> bytes:
    """The 32-byte key of four words."""
    return _KEY.pack(*words)


def checksum(words: Iterable[int]) -> int:
    """A 32-bit checksum over words, never 0. It finds accidents, not attacks."""
    sequence = tuple(words)
    return zlib.crc32(struct.pack(f"=Q{len(sequence)}Q", len(sequence), *sequence)) | 1 << 32
