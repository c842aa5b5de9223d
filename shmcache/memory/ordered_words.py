"""Words whose loads acquire and whose stores release: program order on processors that do not keep it by themselves.

Owns the two LLVM instructions, and an object that looks like a ``memoryview`` of words and uses nothing else. Must
never be imported where plain loads are ordered enough (:mod:`shmcache.memory.words` decides): it imports Numba.

On ARM64 an acquiring load (``ldar``) is ordered before every later access, and a releasing store (``stlr``) after every
earlier one. With nothing but those, loads are in program order among loads and stores among stores, which is all that
the publication protocol asks for, and what x86-64 gives of itself.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic as numba_intrinsic
from numba.np.arrayobj import make_array

WORD_BYTES = 8
# Their declared types are those of the function that builds the code, not of the call it stands for.
njit: Any = numba.njit
intrinsic: Any = numba_intrinsic
_READABLE = types.Array(types.uint64, 1, "C", readonly=True)
_WRITABLE = types.Array(types.uint64, 1, "C")


def _pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    """The address of a word; positions are checked by the caller."""
    view: Any = make_array
    return builder.gep(view(kind)(context, builder, array).data, [position], inbounds=True)


@intrinsic
def load_acquire(typing_context: Any, words: Any, position: Any) -> Any:
    """``words[position]`` by one acquiring 8-byte load."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load_atomic(pointer, "acquire", WORD_BYTES)

    return types.uint64(words, types.intp), generate


@intrinsic
def store_release(typing_context: Any, words: Any, position: Any, value: Any) -> Any:
    """``words[position] = value`` by one releasing 8-byte store."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store_atomic(arguments[2], pointer, "release", WORD_BYTES)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.uint64), generate


@njit(types.uint64(_READABLE, types.intp), cache=True)
def load(words: Any, position: int) -> Any:
    """One word."""
    return load_acquire(words, position)


@njit(types.void(_READABLE, types.intp, _WRITABLE), cache=True)
def load_many(words: Any, start: int, copy: Any) -> None:
    """``len(copy)`` words one after the other, each loaded before the next."""
    for offset in range(len(copy)):
        copy[offset] = load_acquire(words, start + offset)


@njit(types.void(_WRITABLE, types.intp, types.uint64), cache=True)
def store(words: Any, position: int, value: int) -> None:
    """Stores one word."""
    store_release(words, position, value)


class Loaded(list[int]):
    """Words as they were loaded."""

    def tolist(self) -> list[int]:
        """A list, as a slice of a memoryview gives it."""
        return list(self)


class OrderedWords:
    """The words of a buffer: ``len``, indexing, slices, and item assignment where the buffer is writable."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words: npt.NDArray[np.uint64] = np.frombuffer(words, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, at: int | slice) -> int | Loaded:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self._words))
            if step != 1:
                raise ValueError("words are loaded one after the other")
            copy = np.empty(max(0, stop - start), dtype=np.uint64)
            load_many(self._words, start, copy)
            return Loaded(copy.tolist())
        return int(load(self._words, self._checked(at)))

    def __setitem__(self, at: int, value: int) -> None:
        if not self._words.flags.writeable:
            raise TypeError("cannot modify read-only memory")
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{value} is no word")
        store(self._words, self._checked(at), np.uint64(value))

    def _checked(self, at: int) -> int:
        position = at + len(self._words) if at < 0 else at
        if not 0 <= position < len(self._words):
            raise IndexError(f"there is no word {at}")
        return position
