"""Tables that kernels write: interned stacks, and the scratch room for fronts and walks.

Owns their allocation and growth. Must never know what a state means.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from shmcache.errors import LimitError
from shmcache.limits import CONFIGURATION_ENTRIES_MAX, STACK_NODES_MAX
from shmcache.rows.arrays import NO_NODE, Front, StackArrays, WalkRoom
from shmcache.vocabulary.trie import Trie

_NODES_AT_FIRST = 256
_LEVELS_AT_FIRST = 256
_LEVELS_KEPT_MAX = 1 << 14
"""A thread's room for walks of so many levels takes 19 MB; a larger one, of a hostile grammar, is given back."""

_ENTRIES_PER_LEVEL = 16
_TIMES_A_WORD_CHANGES = 3
_MULTIPLIER_PARENT = 0x9E3779B1
_MULTIPLIER_RETURN = 0x85EBCA77


class StackTable:
    """Stacks as nodes (parent, return state), each held once. Node 0 is the empty stack.

    Kernels add nodes to ``arrays`` in place and report when it is full; :meth:`grow` then makes it twice as large and
    keeps all node numbers. Not safe to grow while a kernel runs on it: callers hold a lock.
    """

    __slots__ = ("_handle", "arrays")

    def __init__(self) -> None:
        self.arrays: StackArrays = StackArrays(
            parent=np.zeros(_NODES_AT_FIRST, dtype=np.int32),
            return_state=np.full(_NODES_AT_FIRST, NO_NODE, dtype=np.int32),
            alternative=np.full(_NODES_AT_FIRST, NO_NODE, dtype=np.int32),
            buckets=np.full(2 * _NODES_AT_FIRST, NO_NODE, dtype=np.int32),
            used=np.ones(1, dtype=np.int32),
        )

        self._handle: Any = None

    def __len__(self) -> int:
        return int(self.arrays.used[0])

    @property
    def handle(self) -> Any:
        """The arrays as entries of kernels take them."""
        if self._handle is None:
            from shmcache.rows.entries import handle

            self._handle = handle(self.arrays)
        return self._handle

    def add_chains(self, chains: list[list[tuple[int, int]]]) -> list[int]:
        """For each chain of (return state, number of the parent chain) a node that stands for any of its pairs.

        Chains may refer to each other in any way and are not interned; none may be empty.
        """
        heads: list[int] = []
        count = len(self)
        for chain in chains:
            heads.append(count)
            count += len(chain)
        while count > len(self.arrays.parent):
            self.grow()
        arrays = self.arrays
        for head, chain in zip(heads, chains, strict=True):
            for at, (return_state, parent) in enumerate(chain, start=head):
                arrays.return_state[at] = return_state
                arrays.parent[at] = heads[parent]
                arrays.alternative[at] = at + 1 if at + 1 < head + len(chain) else NO_NODE
        arrays.used[0] = count
        return heads

    def grow(self) -> None:
        """Twice the room. Raises :class:`LimitError` past STACK_NODES_MAX nodes."""
        old = self.arrays
        capacity = 2 * len(old.parent)
        if capacity > STACK_NODES_MAX:
            raise LimitError(
                f"the grammar nests into more than {STACK_NODES_MAX} different stacks",
                limit="stack_nodes",
                value=STACK_NODES_MAX,
            )
        buckets = np.full(2 * capacity, NO_NODE, dtype=np.int32)
        mask = 2 * capacity - 1
        interned = np.sort(old.buckets[old.buckets != NO_NODE])
        for node in interned.tolist():
            at = (int(old.parent[node]) * _MULTIPLIER_PARENT + int(old.return_state[node]) * _MULTIPLIER_RETURN) & mask
            while buckets[at] != NO_NODE:
                at = (at + 1) & mask
            buckets[at] = node
        more = capacity - len(old.parent)
        self._handle = None
        self.arrays = StackArrays(
            parent=np.concatenate([old.parent, np.zeros(more, dtype=np.int32)]),
            return_state=np.concatenate([old.return_state, np.full(more, NO_NODE, dtype=np.int32)]),
            alternative=np.concatenate([old.alternative, np.full(more, NO_NODE, dtype=np.int32)]),
            buckets=buckets,
            used=old.used.copy(),
        )


_scratch = threading.local()


def front(depth_max: int) -> Front:
    """This thread's room for levels of up to ``depth_max`` bytes; what the last kernel left there is overwritten."""
    return fronts(depth_max)[0]


def fronts(depth_max: int) -> tuple[Front, Front]:
    """Two such rooms, the first that of :func:`front`."""
    held: tuple[Front, Front] | None = getattr(_scratch, "fronts", None)
    if held is None or len(held[0].begin) < depth_max + 3:
        held = _scratch.fronts = (_new_front(depth_max), _new_front(depth_max))
    return held


def front_handles(depth_max: int) -> tuple[Any, Any]:
    """Both rooms of :func:`fronts` as entries of kernels take them."""
    rooms = fronts(depth_max)
    held: tuple[object, Any, Any] | None = getattr(_scratch, "front_handles", None)
    if held is None or held[0] is not rooms:
        from shmcache.rows.entries import handle

        held = _scratch.front_handles = (rooms, handle(rooms[0]), handle(rooms[1]))
    return held[1:]


def _new_front(depth_max: int) -> Front:
    entries = max(8 * CONFIGURATION_ENTRIES_MAX, depth_max + 3)
    return Front(
        state=np.zeros(entries, dtype=np.int32),
        stack=np.zeros(entries, dtype=np.int32),
        begin=np.zeros(depth_max + 3, dtype=np.int32),
        ended=np.zeros(depth_max + 3, dtype=np.uint8),
        left=np.zeros(depth_max + 3, dtype=np.uint8),
    )


def walk_room(trie: Trie, *, grows: bool = False) -> WalkRoom:
    """This thread's room for walks of ``trie``; what the last walk left there is overwritten.

    ``grows`` makes it four times as large for more levels; the next walk begins with a small one if that is very large.
    """
    held: WalkRoom | None = getattr(_scratch, "walk_room", None)
    tokens, words, depth = trie.token_count, len(trie.text_bitmask), trie.longest_token_bytes + 1
    levels = _LEVELS_AT_FIRST
    if held is not None:
        levels = len(held.level_ended)
        fits = len(held.accepted) >= tokens and len(held.words) >= words and len(held.path_level) >= depth
        if fits and not grows and levels <= _LEVELS_KEPT_MAX:
            return held
        tokens, words = max(tokens, len(held.accepted)), max(words, len(held.words))
        depth = max(depth, len(held.path_level))
        if grows:
            levels *= 4
        elif levels > _LEVELS_KEPT_MAX:
            levels = _LEVELS_AT_FIRST
    _scratch.walk_room = room = new_walk_room(tokens=tokens, words=words, depth=depth, levels=levels)
    return room


def walk_room_handle(room: WalkRoom) -> Any:
    """This thread's room of :func:`walk_room` as entries of kernels take it."""
    held: tuple[WalkRoom, Any] | None = getattr(_scratch, "walk_room_handle", None)
    if held is None or held[0] is not room:
        from shmcache.rows.entries import handle

        held = _scratch.walk_room_handle = (room, handle(room))
    return held[1]


def new_walk_room(*, tokens: int, words: int, depth: int, levels: int = _LEVELS_AT_FIRST) -> WalkRoom:
    """Room for walks of a trie of so many tokens, words of a mask, and bytes of the longest token and one more."""
    pool = levels * _ENTRIES_PER_LEVEL + CONFIGURATION_ENTRIES_MAX
    return WalkRoom(
        accepted=np.zeros(tokens, dtype=np.int32),
        uncertain=np.zeros(tokens, dtype=np.int32),
        verdicts=np.zeros(tokens, dtype=np.uint8),
        words=np.zeros(words, dtype=np.int32),
        word_index=np.zeros(_TIMES_A_WORD_CHANGES * words, dtype=np.int32),
        word_value=np.zeros(words, dtype=np.int32),
        path_level=np.zeros(depth, dtype=np.int32),
        path_base=np.zeros(depth, dtype=np.int32),
        path_left=np.zeros(depth, dtype=np.uint8),
        path_base_left=np.zeros(depth, dtype=np.uint8),
        pool_state=np.zeros(pool, dtype=np.int32),
        pool_stack=np.zeros(pool, dtype=np.int32),
        level_begin=np.zeros(levels + 1, dtype=np.int32),
        level_after=np.zeros(256 * levels, dtype=np.int32),
        level_digest=np.zeros(levels, dtype=np.int64),
        level_bucket=np.zeros(2 << (levels - 1).bit_length(), dtype=np.int32),
        level_place=np.zeros(levels, dtype=np.int32),
        level_ended=np.zeros(levels, dtype=np.uint8),
    )
