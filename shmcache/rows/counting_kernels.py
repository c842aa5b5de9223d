"""The hot loops over counted strings, compiled by Numba.

Owns how many characters follow each state of a bounded string, and how many each token begins. ``kernels.py`` says what
holds for all kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from shmcache.array_types import Int32Array
from shmcache.rows.arrays import ACCEPTED, ALIKE_FOREVER, DEAD, INSIDE, UNCERTAIN, UNCOUNTED, UNKNOWN
from shmcache.rows.trie_kernels import target_of


@njit(cache=True)
def count_states(
    automaton: Any, loop: int, first: int, base: Int32Array, alike: Int32Array, left: Int32Array, needed: Int32Array
) -> None:
    """For each state of a rule between two characters of a counted string, how many characters may and must follow.

    ``base`` and ``alike`` are those of :func:`pair_states` for the rule whose first state is ``first``; ``loop`` is the
    state of the other rule that each of its characters comes back to, and only final states without edges end the
    string. ``left`` and ``needed`` (int32) get the most and the fewest characters before the end, ALIKE_FOREVER where
    there is no most, UNCOUNTED for states inside of a character and for those that are not such: where a state goes on
    with some characters of the loop only, or those lead to states of different counts.
    """
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    edge_target, final = automaton.edge_target, automaton.final
    # Of a state inside of a character, the one behind it.
    behind = np.full(len(base), UNKNOWN, dtype=np.int32)
    left[:] = UNKNOWN
    needed[:] = UNCOUNTED
    changes = True
    while changes:
        changes = False
        # Successors mostly have higher numbers.
        for place in range(len(base) - 1, -1, -1):
            is_between = base[place] == loop
            if base[place] < 0 or (left[place] if is_between else behind[place]) != UNKNOWN:
                continue
            state = first + place
            goal = DEAD
            is_known, is_counted = True, final[state] == 0 and (is_between or alike[place] > 0)
            goes_on = ends = False
            for edge in range(edge_offset[state], edge_offset[state + 1]):
                target = edge_target[edge]
                if final[target]:
                    ends = True
                    is_counted = is_counted and is_between and edge_offset[target] == edge_offset[target + 1]
                    continue
                goes_on = True
                after = target - first if base[target - first] == loop else behind[target - first]
                if after == UNKNOWN:
                    is_known = False
                else:
                    is_counted = is_counted and after != UNCOUNTED and goal in (DEAD, after)
                    goal = after
            if is_counted and not is_known:
                continue
            if is_counted and is_between and alike[place] <= 0:
                # Of those bytes of the loop that go on, and of those that end, it must have all or none.
                for byte in range(256):
                    own = target_of(edge_offset, edge_low, edge_high, edge_target, state, byte)
                    other = target_of(edge_offset, edge_low, edge_high, edge_target, loop, byte)
                    if other < 0:
                        is_counted = is_counted and own < 0
                    elif own >= 0:
                        is_counted = is_counted and base[own - first] == other and final[own] == final[other]
                    else:
                        is_counted = is_counted and not (ends if final[other] else goes_on)
            if not is_between:
                behind[place] = goal if is_counted and goal != DEAD else UNCOUNTED
            elif not is_counted:
                left[place] = UNCOUNTED
            elif goal == place:
                left[place] = ALIKE_FOREVER if ends else UNCOUNTED
                needed[place] = 0
            elif goes_on:
                if left[goal] == UNKNOWN:
                    continue
                if left[goal] == UNCOUNTED or (ends and needed[goal] > 0):
                    left[place] = UNCOUNTED
                else:
                    left[place] = min(left[goal] + 1, ALIKE_FOREVER)
                    needed[place] = 0 if ends else needed[goal] + 1
            else:
                left[place] = 0
                needed[place] = 0
            changes = True
    for place in range(len(base)):
        if left[place] < 0:
            left[place] = UNCOUNTED


@njit(cache=True)
def walk_characters(automaton: Any, trie: Any, loop: int, room: Any) -> int:
    """The tokens that go on from ``loop``, a state of a rule without calls, and how many characters each begins.

    A character begins with a byte from ``loop`` to a state that is not final. ``room.accepted`` receives places in the
    trie's token order, ascending, ``room.uncertain`` the counts, ``room.verdicts`` INSIDE, ACCEPTED for a token that
    ends in a final state, or UNCERTAIN for one that goes on behind it. Final states have no edges. Returns how many.
    """
    node_byte, node_depth, node_end = trie.node_byte, trie.node_depth, trie.node_end
    node_first_token, final = trie.node_first_token, automaton.final
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    edge_target = automaton.edge_target
    positions, counts, verdicts = room.accepted, room.uncertain, room.verdicts
    path, begun, ended = room.path_level, room.path_base, room.path_left
    after_loop = np.empty(256, dtype=np.int32)
    for byte in range(256):
        after_loop[byte] = target_of(edge_offset, edge_low, edge_high, edge_target, loop, byte)
    path[0] = loop
    begun[0] = ended[0] = 0
    count = 0
    node = 1
    while node < len(node_byte):
        depth = node_depth[node]
        before, characters = path[depth - 1], begun[depth - 1]
        if before == loop:
            target = after_loop[node_byte[node]]
        else:
            target = target_of(edge_offset, edge_low, edge_high, edge_target, before, node_byte[node])
        if target < 0 and not ended[depth - 1]:
            node = node_end[node]
            continue
        last = node
        if target < 0:
            last = node_end[node] - 1
            verdict = UNCERTAIN
        else:
            verdict = ACCEPTED if final[target] else INSIDE
            if before == loop and not final[target]:
                characters += 1
            path[depth], begun[depth], ended[depth] = target, characters, final[target]
        for at in range(node_first_token[node], node_first_token[last + 1]):
            positions[count] = at
            counts[count] = characters
            verdicts[count] = verdict
            count += 1
        node = last + 1
    return count
