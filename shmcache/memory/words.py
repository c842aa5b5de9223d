"""Aligned 8-byte words: the only unit in which processes change shared memory.

Owns the view of memory as words, and the bytes-to-words conversions. Must never know what a word means. Words are
stored by :func:`shmcache.memory.steps.store`.

A word is loaded and stored through a ``memoryview`` of format ``Q``, which CPython does with one 8-byte move.
``struct.pack_into`` writes byte by byte and tears. On x86-64 the processor keeps the order of loads among loads and
of stores among stores, so that program order is all the publication protocol needs. ARM64 does not: there words are
loaded and stored by acquiring and releasing instructions (``ordered_words.py``). Anywhere else, and on ARM64 without
Numba, :data:`LOCK_FREE` is false.
"""

from __future__ import annotations

import importlib.util
import platform
import struct
import zlib
from collections.abc import Iterable, Sequence
from mmap import mmap
from typing import cast

ORDERED_MACHINES = ("x86_64", "AMD64")
"""Processors whose plain loads and stores are in program order, each among themselves."""

WEAK_MACHINES = ("aarch64", "arm64")
"""Processors for which ``ordered_words.py`` has the instructions that are."""


def needs_ordered_words(machine: str) -> bool:
    """Whether words are to be loaded and stored through ``ordered_words.py`` on such a machine."""
    return machine in WEAK_MACHINES and importlib.util.find_spec("numba") is not None


_NEEDS_ORDERED_WORDS = needs_ordered_words(platform.machine())

LOCK_FREE = platform.machine() in ORDERED_MACHINES or _NEEDS_ORDERED_WORDS
"""Whether loads and stores are ordered enough for the lock-free look-up; otherwise the manager is asked."""

_KEY = struct.Struct("=4Q")
KEY_BYTES = _KEY.size


def words_of(buffer: mmap | bytearray | memoryview) -> memoryview:
    """``buffer`` as words; its length in bytes must be a multiple of 8. Writable when the buffer is."""
    return memoryview(buffer).cast("B").cast("Q")


def shared_words(buffer: mmap | bytearray) -> memoryview:
    """As :func:`words_of`, for words that one process stores and another loads: in program order on every machine.

    On ARM64 it is an object that does for words what a memoryview does, and nothing else.
    """
    words = words_of(buffer)
    if not _NEEDS_ORDERED_WORDS:
        return words
    from shmcache.memory.ordered_words import OrderedWords

    return cast("memoryview", OrderedWords(words))


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
