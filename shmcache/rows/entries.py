"""The kernels as everything else calls them: groups of arrays are handed over as addresses.

Owns that hand-over. Numba takes a tenth of a microsecond for each array that a compiled function is called with, and a
walk has forty, more than most walks take themselves. A group of arrays becomes a *handle* once, an array of address and
length of each; the kernel makes arrays of it again, which costs it nothing. Whoever keeps a handle keeps the group.

Where kernels run as plain Python, a group is its own handle.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from shmcache.rows import counting_kernels, kernels, trie_kernels
from shmcache.rows.arrays import AutomatonArrays, Front, StackArrays, TrieArrays, WalkRoom

_IS_PLAIN_PYTHON = not hasattr(kernels.advance, "py_func")

Group = TypeVar("Group", AutomatonArrays, StackArrays, TrieArrays, Front, WalkRoom)


_DTYPES: dict[type, str] = {
    AutomatonArrays: "i4 u1 u1 i4 i4 i4 i4 u1 i4 i4",
    StackArrays: "i4 i4 i4 i4 i4",
    TrieArrays: "u1 i4 i4 i4 i4 i4 i4",
    Front: "i4 i4 i4 u1 u1",
    WalkRoom: "i4 i4 u1 i4 i4 i4 i4 i4 u1 u1 i4 i4 i4 i4 i8 i4 i4 u1",
}
"""Of the arrays of each group, in order, as the functions below read them."""


def handle(group: Group) -> Any:
    """What entries take for a group of one-dimensional arrays; it holds as long as the group does.

    Raises TypeError for an array of another kind: a kernel would read it as what it is not.
    """
    arrays: tuple[Any, ...] = tuple(group)
    for array, dtype in zip(arrays, _DTYPES[type(group)].split(), strict=True):
        if array.dtype.str[1:] != dtype or array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError(f"a kernel wants one row of {dtype}, not {array.dtype} of shape {array.shape}")
    if _IS_PLAIN_PYTHON:
        return group
    return np.array([(array.ctypes.data, len(array)) for array in arrays], dtype=np.int64).reshape(-1)


def _as_pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


_pointer: Any = intrinsic(_as_pointer)


@njit(cache=True, inline="always")
def _int32(addresses: Any, number: int) -> Any:
    return carray(_pointer(addresses[2 * number]), (addresses[2 * number + 1],), np.int32)


@njit(cache=True, inline="always")
def _uint8(addresses: Any, number: int) -> Any:
    return carray(_pointer(addresses[2 * number]), (addresses[2 * number + 1],), np.uint8)


@njit(cache=True, inline="always")
def _int64(addresses: Any, number: int) -> Any:
    return carray(_pointer(addresses[2 * number]), (addresses[2 * number + 1],), np.int64)


if _IS_PLAIN_PYTHON:

    def _automaton(group: Any) -> Any:
        return group

    _stacks = _trie = _front = _room = _automaton

else:

    @njit(cache=True, inline="always")
    def _automaton(at: Any) -> Any:
        return AutomatonArrays(
            _int32(at, 0),
            _uint8(at, 1),
            _uint8(at, 2),
            _int32(at, 3),
            _int32(at, 4),
            _int32(at, 5),
            _int32(at, 6),
            _uint8(at, 7),
            _int32(at, 8),
            _int32(at, 9),
        )

    @njit(cache=True, inline="always")
    def _stacks(at: Any) -> Any:
        return StackArrays(_int32(at, 0), _int32(at, 1), _int32(at, 2), _int32(at, 3), _int32(at, 4))

    @njit(cache=True, inline="always")
    def _trie(at: Any) -> Any:
        return TrieArrays(
            _uint8(at, 0),
            _int32(at, 1),
            _int32(at, 2),
            _int32(at, 3),
            _int32(at, 4),
            _int32(at, 5),
            _int32(at, 6),
        )

    @njit(cache=True, inline="always")
    def _front(at: Any) -> Any:
        return Front(_int32(at, 0), _int32(at, 1), _int32(at, 2), _uint8(at, 3), _uint8(at, 4))

    @njit(cache=True, inline="always")
    def _room(at: Any) -> Any:
        return WalkRoom(
            _int32(at, 0),
            _int32(at, 1),
            _uint8(at, 2),
            _int32(at, 3),
            _int32(at, 4),
            _int32(at, 5),
            _int32(at, 6),
            _int32(at, 7),
            _uint8(at, 8),
            _uint8(at, 9),
            _int32(at, 10),
            _int32(at, 11),
            _int32(at, 12),
            _int32(at, 13),
            _int64(at, 14),
            _int32(at, 15),
            _int32(at, 16),
            _uint8(at, 17),
        )


@njit(cache=True)
def open_level(automaton: Any, stacks: Any, states: Any, nodes: Any, front: Any) -> tuple[int, bool]:
    """:func:`kernels.open_level`."""
    return kernels.open_level(_automaton(automaton), _stacks(stacks), states, nodes, _front(front))


@njit(cache=True)
def advance(
    automaton: Any, stacks: Any, states: Any, nodes: Any, data: Any, start: int, stop: int, front: Any
) -> tuple[int, bool]:
    """:func:`kernels.advance`."""
    return kernels.advance(_automaton(automaton), _stacks(stacks), states, nodes, data, start, stop, _front(front))


@njit(cache=True)
def resolve_tokens(
    automaton: Any,
    stacks: Any,
    offsets: Any,
    blob: Any,
    tokens: Any,
    state: int,
    stack: int,
    front: Any,
    behind: Any,
    known: Any,
    verdicts: Any,
) -> int:
    """:func:`kernels.resolve_tokens`."""
    opened = _automaton(automaton), _stacks(stacks)
    rooms = _front(front), _front(behind)
    return kernels.resolve_tokens(
        opened[0], opened[1], offsets, blob, tokens, state, stack, rooms[0], rooms[1], known, verdicts
    )


@njit(cache=True)
def walk_trie(
    automaton: Any, stacks: Any, trie: Any, states: Any, nodes: Any, room: Any, overflows: bool
) -> tuple[int, int, int]:
    """:func:`trie_kernels.walk_trie`."""
    return trie_kernels.walk_trie(
        _automaton(automaton), _stacks(stacks), _trie(trie), states, nodes, _room(room), overflows
    )


@njit(cache=True)
def gather_words(trie: Any, count: int, room: Any) -> int:
    """:func:`trie_kernels.gather_words`."""
    return trie_kernels.gather_words(_trie(trie), count, _room(room))


@njit(cache=True)
def pair_states(automaton: Any, start: int, base_start: int, first: int, length: int, base: Any, alike: Any) -> None:
    """:func:`trie_kernels.pair_states`."""
    trie_kernels.pair_states(_automaton(automaton), start, base_start, first, length, base, alike)


@njit(cache=True)
def walk_difference(automaton: Any, trie: Any, state: int, first: int, base: Any, alike: Any, room: Any) -> int:
    """:func:`trie_kernels.walk_difference`."""
    return trie_kernels.walk_difference(_automaton(automaton), _trie(trie), state, first, base, alike, _room(room))


@njit(cache=True)
def count_states(automaton: Any, loop: int, first: int, base: Any, alike: Any, left: Any, needed: Any) -> None:
    """:func:`counting_kernels.count_states`."""
    counting_kernels.count_states(_automaton(automaton), loop, first, base, alike, left, needed)


@njit(cache=True)
def walk_characters(automaton: Any, trie: Any, loop: int, room: Any) -> int:
    """:func:`counting_kernels.walk_characters`."""
    return counting_kernels.walk_characters(_automaton(automaton), _trie(trie), loop, _room(room))


@njit(cache=True)
def change_words(base: Any, fewer: Any, more: Any, word_index: Any, word_value: Any, room: Any) -> int:
    """:func:`trie_kernels.change_words`."""
    return trie_kernels.change_words(base, fewer, more, word_index, word_value, _room(room))
