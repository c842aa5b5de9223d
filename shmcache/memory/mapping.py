"""Read-only mappings that cost no descriptor.

Owns the mapping of a whole file for reading, and its end. Must never know what is in it.

A grammar's mapping lives as long as the grammar, and a process may hold more grammars than it may open files. Python's
``mmap`` keeps a copy of the descriptor for each mapping; only since 3.13 can that be switched off. Before that the C
library is called directly: the pages then belong to a ``ctypes`` array, which every view keeps alive and whose end
unmaps them.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from functools import cache
from typing import Any


def map_read_only(descriptor: int, size_bytes: int) -> memoryview:
    """The first ``size_bytes`` of a file as a read-only view of bytes; the descriptor stays the caller's.

    The mapping ends with the last view of it. Raises OSError.
    """
    try:
        return _map(descriptor, size_bytes, mmap.MAP_SHARED)
    except PermissionError:
        # Kernels before 6.7 refuse even read-only shared mappings of sealed memory; private ones share its pages too.
        return _map(descriptor, size_bytes, mmap.MAP_PRIVATE)


if sys.version_info >= (3, 13):

    def _map(descriptor: int, size_bytes: int, flags: int) -> memoryview:
        return memoryview(mmap.mmap(descriptor, size_bytes, flags=flags, prot=mmap.PROT_READ, trackfd=False))

else:

    def _map(descriptor: int, size_bytes: int, flags: int) -> memoryview:
        address = _library().mmap(None, size_bytes, mmap.PROT_READ, flags, descriptor, 0)
        if address == _MAP_FAILED:
            import ctypes

            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        pages = _array_type(size_bytes.bit_length()).from_address(address)
        pages.size_bytes = size_bytes
        return memoryview(pages).cast("B")[:size_bytes].toreadonly()


_MAP_FAILED = (1 << 8 * struct.calcsize("P")) - 1


@cache
def _array_type(bits: int) -> Any:
    """The type of arrays that stand for mappings of up to ``2**bits`` bytes; no view reaches past what is mapped.

    One for each power of two: a type for each size would take longer to make than the mapping [m: 100 µs, not 10].
    """
    import ctypes

    address_of, unmap = ctypes.addressof, _library().munmap

    class Pages(ctypes.c_ubyte * (1 << bits)):  # type: ignore[misc]
        size_bytes = 0

        def __del__(self) -> None:
            unmap(address_of(self), self.size_bytes)

    return Pages


@cache
def _library() -> Any:
    """The C library's ``mmap`` and ``munmap``."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library
