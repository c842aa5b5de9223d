"""The hot loops over a vocabulary's trie, compiled by Numba.

Owns the walks that find the tokens of a state or of a configuration, and the pairing of states that makes walks short.
``kernels.py`` says what holds for all kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from shmcache.array_types import Int32Array, UInt8Array
from shmcache.limits import CONFIGURATION_ENTRIES_MAX
from shmcache.rows.arrays import (
    ACCEPTED,
    ALIKE_FOREVER,
    DEAD,
    FRONT_FULL,
    OK,
    OVERFLOW,
    ROOM_FULL,
    STACKS_FULL,
    UNCERTAIN,
    UNKNOWN,
    UNLIKE,
)
from shmcache.rows.kernels import step


@njit(cache=True, inline="always")
def target_of(
    edge_offset: Int32Array, edge_low: UInt8Array, edge_high: UInt8Array, edge_target: Int32Array, state: int, byte: int
) -> int:
    """The state after ``byte``; -1 from state -1, or where no edge has the byte."""
    if state >= 0:
        for edge in range(edge_offset[state], edge_offset[state + 1]):
            if byte <= edge_high[edge]:
                if byte >= edge_low[edge]:
                    return int(edge_target[edge])
                break
    return -1


@njit(cache=True, inline="always")
def _known_level(room: Any, count: int, begin: int, end: int, ended: bool) -> int:
    """The number of the level begin..end of the pool, which is the last and becomes level ``count`` if it is new."""
    states, nodes, level_begin = room.pool_state, room.pool_stack, room.level_begin
    digest = int(ended)
    for at in range(begin, end):
        # The mask and the conversions are for plain Python, whose integers have no end and NumPy's no way to wrap.
        digest = (digest * 0x9E3779B1 + int(states[at]) * 0x85EBCA77 + int(nodes[at])) & 0x7FFFFFFFFFFFFFFF
    mask = len(room.level_bucket) - 1
    bucket = digest & mask
    # What an earlier walk left in a bucket is no level of this one, or one that says that it is elsewhere (Briggs and
    # Torczon 1993): nothing need be cleared before a walk.
    while room.level_bucket[bucket] < count and room.level_place[room.level_bucket[bucket]] == bucket:
        level = int(room.level_bucket[bucket])
        if room.level_digest[level] == digest and room.level_ended[level] == ended:
            first = level_begin[level]
            is_same = level_begin[level + 1] - first == end - begin
            at = 0
            while is_same and at < end - begin:
                is_same = states[first + at] == states[begin + at] and nodes[first + at] == nodes[begin + at]
                at += 1
            if is_same:
                return level
        bucket = (bucket + 1) & mask
    room.level_bucket[bucket] = count
    room.level_place[count] = bucket
    level_begin[count + 1] = end
    room.level_digest[count] = digest
    room.level_ended[count] = ended
    room.level_after[256 * count : 256 * (count + 1)] = UNKNOWN
    return count


@njit(cache=True)
def walk_trie(
    automaton: Any, stacks: Any, trie: Any, states: Int32Array, nodes: Int32Array, room: Any, overflows: bool
) -> tuple[int, int, int]:
    """Tokens that go on from some of the entries given, and tokens that begin there and go on behind the empty stack.

    ``room.accepted`` and ``room.uncertain`` receive places in the trie's token order, ascending. Returns how many of
    each, and a status: OK, FRONT_FULL where a level overflowed, STACKS_FULL or ROOM_FULL. Tokens of a level that
    overflowed are uncertain where ``overflows``; otherwise the walk ends there, as one such level takes as long as
    thousands of others.
    Only byte edges of the entries begin a token. Levels met in the walk are numbered, and the level after each byte is
    remembered: tokens are many, and the levels they lead to are few (a lazy automaton, Thompson 1968).
    """
    node_byte, node_depth, node_end = trie.node_byte, trie.node_depth, trie.node_end
    node_first_token = trie.node_first_token
    accepted, uncertain = room.accepted, room.uncertain
    level_begin, level_after, level_ended = room.level_begin, room.level_after, room.level_ended
    path, left = room.path_level, room.path_left
    accepted_count = uncertain_count = 0
    status = OK
    room.pool_state[: len(states)] = states
    room.pool_stack[: len(states)] = nodes
    level_begin[0] = 0
    path[0] = _known_level(room, 0, 0, len(states), False)
    left[0] = 0
    level_count = 1
    # Of the bytes a token may begin with only those are tried with which an entry goes on.
    level_after[:256] = DEAD
    for at in range(len(states)):
        for edge in range(automaton.edge_offset[states[at]], automaton.edge_offset[states[at] + 1]):
            level_after[int(automaton.edge_low[edge]) : int(automaton.edge_high[edge]) + 1] = UNKNOWN
    for first_byte in range(256):
        node = trie.first_node[first_byte]
        node_stop = node_end[node] if node >= 0 and level_after[first_byte] != DEAD else node
        while node < node_stop:
            depth = node_depth[node]
            level = path[depth - 1]
            byte = node_byte[node]
            after = level_after[256 * level + byte]
            if after == UNKNOWN:
                place = level_begin[level_count]
                if level_count + 1 >= len(level_begin) or place + CONFIGURATION_ENTRIES_MAX > len(room.pool_state):
                    return 0, 0, ROOM_FULL
                begin, end = level_begin[level], level_begin[level + 1]
                end, ended = step(automaton, stacks, room.pool_state, room.pool_stack, begin, end, place, byte)
                if end == STACKS_FULL:
                    return 0, 0, STACKS_FULL
                if end == FRONT_FULL:
                    if not overflows:
                        return 0, 0, FRONT_FULL
                    after = OVERFLOW
                    status = FRONT_FULL
                elif end == place and not ended:
                    after = DEAD
                else:
                    after = _known_level(room, level_count, place, end, ended)
                    level_count = max(level_count, after + 1)
                level_after[256 * level + byte] = after
            if after < 0:
                if left[depth - 1] or after == OVERFLOW:
                    for at in range(node_first_token[node], node_first_token[node_end[node]]):
                        uncertain[uncertain_count] = at
                        uncertain_count += 1
                node = node_end[node]
                continue
            path[depth] = after
            left[depth] = left[depth - 1] or level_ended[after]
            for at in range(node_first_token[node], node_first_token[node + 1]):
                accepted[accepted_count] = at
                accepted_count += 1
            node += 1
    return accepted_count, uncertain_count, status


@njit(cache=True)
def gather_words(trie: Any, count: int, room: Any) -> int:
    """The mask of the tokens at the first ``count`` places of ``room.accepted``, as :func:`walk_trie` leaves them.

    ``room.word_index`` and ``room.word_value`` receive the words that are not 0, in no order. Returns how many.
    ``room.words`` is 0 before and after.
    """
    words, index = room.words, room.word_index
    word_count = 0
    for at in range(count):
        token = trie.token_order[room.accepted[at]]
        if words[token >> 5] == 0:
            index[word_count] = token >> 5
            word_count += 1
        words[token >> 5] |= np.int32(1) << np.int32(token & 31)
    for at in range(word_count):
        room.word_value[at] = words[index[at]]
        words[index[at]] = 0
    return word_count


@njit(cache=True)
def pair_states(
    automaton: Any, start: int, base_start: int, first: int, length: int, base: Int32Array, alike: Int32Array
) -> None:
    """For each state of a rule, from ``first`` on, the state of another rule that the same bytes lead to.

    Neither rule may call. ``base`` (int32) gets that state, -1 for none; where several are found the first stays.
    ``alike`` (int32) gets how many bytes cannot tell a state from its base, whatever they are: UNLIKE where there is
    none, or their ends differ already, ALIKE_FOREVER where no bytes can. A state is as much alike as the least alike
    of its successors and one byte more, worked out backwards until nothing changes (Bellman 1958), or ``length``
    times: more than so many bytes, of the longest token, are as good as any.
    """
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    edge_target, final = automaton.edge_target, automaton.final
    order = np.empty(len(base), dtype=np.int32)
    base[:] = -1
    alike[:] = UNLIKE
    order[0] = start
    base[start - first] = base_start
    alike[start - first] = ALIKE_FOREVER
    count = 1
    at = 0
    while at < count:
        state = order[at]
        other = base[state - first]
        at += 1
        own_edge, own_end = edge_offset[state], edge_offset[state + 1]
        other_edge, other_end = edge_offset[other], edge_offset[other + 1]
        byte = 0
        differs = False
        while own_edge < own_end and other_edge < other_end:
            own_low, other_low = max(byte, edge_low[own_edge]), max(byte, edge_low[other_edge])
            byte = int(min(edge_high[own_edge], edge_high[other_edge]))
            differs = differs or own_low != other_low
            if max(own_low, other_low) <= byte:
                target = edge_target[own_edge] - first
                if base[target] < 0:
                    base[target] = edge_target[other_edge]
                    alike[target] = ALIKE_FOREVER
                    order[count] = target + first
                    count += 1
                differs = differs or base[target] != edge_target[other_edge]
            byte += 1
            if edge_high[own_edge] < byte:
                own_edge += 1
            if edge_high[other_edge] < byte:
                other_edge += 1
        if differs or own_edge < own_end or other_edge < other_end:
            alike[state - first] = 0
        if final[state] != final[other]:
            alike[state - first] = UNLIKE
    changes = True
    for _ in range(length):
        if not changes:
            break
        changes = False
        for place in range(count - 1, -1, -1):
            state = order[place]
            least = alike[state - first]
            for edge in range(edge_offset[state], edge_offset[state + 1]):
                least = min(least, alike[edge_target[edge] - first] + 1)
            if least < alike[state - first]:
                alike[state - first] = least
                changes = True


@njit(cache=True)
def walk_difference(
    automaton: Any, trie: Any, state: int, first: int, base: Int32Array, alike: Int32Array, room: Any
) -> int:
    """Where the tokens of ``state``, by its rule alone, can differ from those of its base; neither rule may call.

    ``base`` and ``alike`` are those of :func:`pair_states` for the rule whose first state is ``first``.
    ``room.accepted`` receives places in the trie's token order, ascending, and ``room.verdicts`` what ``state`` makes
    of them: 0, ACCEPTED or UNCERTAIN. Returns how many. All other tokens are as the base has them: the walk stops
    where the trie goes on for no more bytes than those that cannot tell a state from its base.
    """
    node_byte, node_depth, node_end = trie.node_byte, trie.node_depth, trie.node_end
    node_height, node_first_token = trie.node_height, trie.node_first_token
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    edge_target, final = automaton.edge_target, automaton.final
    positions, verdicts = room.accepted, room.verdicts
    own, other, own_left, other_left = room.path_level, room.path_base, room.path_left, room.path_base_left
    own[0], other[0] = state, base[state - first]
    own_left[0] = other_left[0] = 0
    count = 0
    node = 1
    node_count = len(node_byte)
    while node < node_count:
        depth = node_depth[node]
        own_target = target_of(edge_offset, edge_low, edge_high, edge_target, own[depth - 1], node_byte[node])
        before = own[depth - 1]
        if before >= 0 and base[before - first] == other[depth - 1] and alike[before - first] > 0:
            # What one byte cannot tell apart goes on in pairs.
            other_target = base[own_target - first] if own_target >= 0 else -1
        else:
            other_target = target_of(edge_offset, edge_low, edge_high, edge_target, other[depth - 1], node_byte[node])
        is_alike = own_target < 0 and other_target < 0
        if own_target >= 0 and base[own_target - first] == other_target:
            is_alike = alike[own_target - first] >= node_height[node]
        if is_alike and own_left[depth - 1] == other_left[depth - 1]:
            node = node_end[node]
            continue
        last = node
        verdict = ACCEPTED
        if own_target < 0:
            last = node_end[node] - 1
            verdict = UNCERTAIN if own_left[depth - 1] else 0
        else:
            own[depth] = own_target
            other[depth] = other_target
            own_left[depth] = own_left[depth - 1] or final[own_target] != 0
            other_left[depth] = other_left[depth - 1] or (other_target >= 0 and final[other_target] != 0)
        for at in range(node_first_token[node], node_first_token[last + 1]):
            positions[count] = at
            verdicts[count] = verdict
            count += 1
        node = last + 1
    return count


@njit(cache=True)
def change_words(
    base: Int32Array, fewer: Int32Array, more: Int32Array, word_index: Any, word_value: Int32Array, room: Any
) -> int:
    """The mask ``base`` without the tokens ``fewer``, with ``more``, and with the bits of some words, word by word.

    ``room.word_index`` and ``room.word_value`` receive the words that differ from the base, in no order; returns how
    many. ``room.words``, 0 before and after, holds what is to be flipped.
    """
    words, index = room.words, room.word_index
    count = 0
    for token in fewer:
        word, bit = token >> 5, np.int32(1) << np.int32(token & 31)
        if (base[word] ^ words[word]) & bit:
            if words[word] == 0:
                index[count] = word
                count += 1
            words[word] ^= bit
    for token in more:
        word, bit = token >> 5, np.int32(1) << np.int32(token & 31)
        if not (base[word] ^ words[word]) & bit:
            if words[word] == 0:
                index[count] = word
                count += 1
            words[word] ^= bit
    for at in range(len(word_index)):
        word = word_index[at]
        flipped = (base[word] ^ words[word] | word_value[at]) ^ base[word]
        if words[word] == 0 and flipped != 0:
            index[count] = word
            count += 1
        words[word] = flipped
    # A word whose bits were put back and changed again stands there twice.
    kept = 0
    for at in range(count):
        word = index[at]
        if words[word] != 0:
            index[kept] = word
            room.word_value[kept] = base[word] ^ words[word]
            words[word] = 0
            kept += 1
    return kept
