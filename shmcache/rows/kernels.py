"""The hot loops, compiled by Numba: bytes, calls and returns over an automaton's flat arrays.

Owns every compiled function of shmcache and is the only module that imports Numba; it is imported inside the
functions that need it. Kernels are private to ``rows`` and ``matcher``, take plain arrays, raise nothing and report a
status. Each has a slow twin under tests/reference. ``arrays.py`` explains *front*, *level* and *stack*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from shmcache.limits import CONFIGURATION_ENTRIES_MAX
from shmcache.rows.arrays import (
    ACCEPTED,
    FRONT_FULL,
    NO_NODE,
    NO_STATE,
    OK,
    OVERFLOWED,
    STACKS_FULL,
    UNCERTAIN,
    Int32Array,
    UInt8Array,
)


@njit(cache=True, inline="always")
def _push(stacks: Any, parent: int, return_state: int) -> int:
    """The node of that stack, made when it is new; STACKS_FULL when there is no room."""
    mask = len(stacks.buckets) - 1
    at = (int(parent) * 0x9E3779B1 + int(return_state) * 0x85EBCA77) & mask
    while True:
        node = stacks.buckets[at]
        if node == NO_NODE:
            break
        if stacks.parent[node] == parent and stacks.return_state[node] == return_state:
            return int(node)
        at = (at + 1) & mask
    node = stacks.used[0]
    if node >= len(stacks.parent):
        return STACKS_FULL
    stacks.parent[node] = parent
    stacks.return_state[node] = return_state
    stacks.alternative[node] = NO_NODE
    stacks.buckets[at] = node
    stacks.used[0] = node + 1
    return int(node)


@njit(cache=True, inline="always")
def _add(states: Int32Array, nodes: Int32Array, begin: int, end: int, state: int, node: int) -> int:
    """The level's end after adding an entry that may be there already; FRONT_FULL when there is no room."""
    for at in range(begin, end):
        if states[at] == state and nodes[at] == node:
            return end
    if end >= len(states) or end - begin >= CONFIGURATION_ENTRIES_MAX:
        return FRONT_FULL
    states[end] = state
    nodes[end] = node
    return end + 1


@njit(cache=True, inline="always")
def _return(stacks: Any, states: Int32Array, nodes: Int32Array, begin: int, end: int, node: int) -> tuple[int, bool]:
    """Adds the entries behind a stack that is returned from: the level's new end (or a status), and ended."""
    ended = node == 0
    if ended:
        node = NO_NODE
    while node != NO_NODE and end >= 0:
        return_state = stacks.return_state[node]
        if return_state < 0:
            ended = True
        else:
            end = _add(states, nodes, begin, end, return_state, stacks.parent[node])
        node = stacks.alternative[node]
    return end, ended


@njit(cache=True, inline="always")
def _close(
    automaton: Any, stacks: Any, states: Int32Array, nodes: Int32Array, begin: int, end: int
) -> tuple[int, bool]:
    """Opens calls and returns from ended rules until the level stops growing: its new end (or a status), and ended."""
    final, call_offset = automaton.final, automaton.call_offset
    ended = False
    at = begin
    while at < end:
        state = states[at]
        node = nodes[at]
        at += 1
        if final[state]:
            end, is_end = _return(stacks, states, nodes, begin, end, node)
            ended |= is_end
        for call in range(call_offset[state], call_offset[state + 1]):
            below = node
            if automaton.call_return[call] >= 0:
                below = _push(stacks, node, automaton.call_return[call])
                if below < 0:
                    return below, ended
            if end >= 0:
                end = _add(states, nodes, begin, end, automaton.rule_start[automaton.call_rule[call]], below)
    return end, ended


@njit(cache=True)
def _step(
    automaton: Any, stacks: Any, states: Int32Array, nodes: Int32Array, begin: int, middle: int, byte: int
) -> tuple[int, bool]:
    """Appends behind the level begin..middle the level after ``byte``: its end (or a status), and ended."""
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    end = middle
    for at in range(begin, middle):
        state = states[at]
        for edge in range(edge_offset[state], edge_offset[state + 1]):
            if byte <= edge_high[edge]:
                if byte >= edge_low[edge] and end >= 0:
                    end = _add(states, nodes, middle, end, automaton.edge_target[edge], nodes[at])
                break
    return _close(automaton, stacks, states, nodes, middle, end)


@njit(cache=True, inline="always")
def _target(
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


@njit(cache=True)
def walk_trie(
    automaton: Any,
    stacks: Any,
    trie: Any,
    states: Int32Array,
    nodes: Int32Array,
    base: int,
    rounds: Any,
    first: int,
    fronts: Any,
    positions: Any,
    verdicts: Any,
) -> tuple[int, int]:
    """What some entries make of tokens: ACCEPTED where one goes on, UNCERTAIN where one only goes on behind the empty
    stack, 0 else. Only byte edges of the entries begin a token.

    ``positions`` receives places in the trie's token order, ascending, and ``verdicts`` what is made of them; both have
    room for every token. Returns how many, and a status: OK, STACKS_FULL, or FRONT_FULL where a level overflowed, whose
    tokens are uncertain. With NO_STATE as ``base`` all tokens whose verdict is not 0 are received.

    Otherwise the entry is one state behind the empty stack, and ``base`` another of its rule. Then all tokens are
    received whose verdict can differ from the base's. The walk stops where both are in one state, or in states that
    ``rounds``, int32 (R, states of the rule), finds alike for as many bytes as the trie goes on: item
    ``[r, s - first]`` is the class of ``s`` up to ``r`` bytes. Once the base may call, nothing more is known of it.

    A level of one entry that neither calls nor returns is worked out in place: going through the tuples takes eleven
    times as long.
    """
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    edge_target, call_offset, final = automaton.edge_target, automaton.call_offset, automaton.final
    node_byte, node_depth, node_end = trie.node_byte, trie.node_depth, trie.node_end
    node_height, node_first_token = trie.node_height, trie.node_first_token
    front_state, front_stack, front_begin, left = fronts[0].state, fronts[0].stack, fronts[0].begin, fronts[0].left
    other, other_left = fronts[1].begin, fronts[1].left
    front_state[: len(states)] = states
    front_stack[: len(states)] = nodes
    front_begin[0], front_begin[1], other[0] = 0, len(states), base
    left[0] = other_left[0] = 0
    status = OK
    count = 0
    node = 1
    node_count = len(node_byte)
    while node < node_count:
        depth = node_depth[node]
        begin, middle = front_begin[depth - 1], front_begin[depth]
        other_target = other[depth - 1]
        if other_target != NO_STATE:
            other_target = _target(edge_offset, edge_low, edge_high, edge_target, other_target, node_byte[node])
        target = -1
        is_plain = middle - begin == 1
        if is_plain:
            target = _target(edge_offset, edge_low, edge_high, edge_target, front_state[begin], node_byte[node])
            if other_target != NO_STATE and front_stack[begin] == 0 and left[depth - 1] == other_left[depth - 1]:
                is_alike = target == other_target
                # A call that is a rule's last leads into another rule, whose states the rounds do not know.
                is_known = len(rounds) > 0 and first <= target < first + rounds.shape[1]
                if not is_alike and is_known and other_target >= 0:
                    bytes_left = min(node_height[node], len(rounds) - 1)
                    is_alike = rounds[bytes_left, target - first] == rounds[bytes_left, other_target - first]
                if is_alike:
                    node = node_end[node]
                    continue
            is_plain = target < 0 or (
                call_offset[target] == call_offset[target + 1] and (final[target] == 0 or front_stack[begin] == 0)
            )
        ended = False
        end = middle
        if not is_plain:
            end, ended = _step(automaton, stacks, front_state, front_stack, begin, middle, node_byte[node])
        elif target >= 0:
            ended = final[target] != 0
            end = _add(front_state, front_stack, middle, middle, target, front_stack[begin])
        if end == STACKS_FULL:
            return 0, STACKS_FULL
        if end == FRONT_FULL:
            status = FRONT_FULL
        last = node
        verdict = ACCEPTED
        if (end == middle and not ended) or end < 0:
            last = node_end[node] - 1
            verdict = UNCERTAIN if left[depth - 1] or end < 0 else 0
        else:
            front_begin[depth + 1] = end
            left[depth] = left[depth - 1] or ended
            other_left[depth] = other_left[depth - 1] or (other_target >= 0 and final[other_target] != 0)
            if other_target >= 0 and call_offset[other_target] != call_offset[other_target + 1]:
                other_target = NO_STATE
            other[depth] = other_target
        if verdict or base != NO_STATE:
            for at in range(node_first_token[node], node_first_token[last + 1]):
                positions[count] = at
                verdicts[count] = verdict
                count += 1
        node = last + 1
    return count, status


@njit(cache=True, inline="always")
def _resolve_behind(automaton: Any, stacks: Any, blob: UInt8Array, start: int, stop: int, behind: Any) -> int:
    """ACCEPTED, 0, or a status for ``blob[start:stop]`` from level 0 of ``behind``; later levels are overwritten."""
    states, nodes, begin = behind.state, behind.stack, behind.begin
    level = 0
    ended = False
    at = start
    while at < stop and begin[level] < begin[level + 1]:
        end, ended = _step(automaton, stacks, states, nodes, begin[level], begin[level + 1], blob[at])
        if end < 0:
            return end
        level += 1
        begin[level + 1] = end
        at += 1
    return ACCEPTED if at == stop and (begin[level] < begin[level + 1] or ended) else 0


@njit(cache=True)
def resolve_tokens(
    automaton: Any,
    stacks: Any,
    offsets: npt.NDArray[np.int64],
    blob: UInt8Array,
    tokens: Int32Array,
    state: int,
    stack: int,
    front: Any,
    behind: Any,
    known: UInt8Array,
    verdicts: UInt8Array,
) -> int:
    """Decides ``tokens`` (ids in trie order) from one entry: ``verdicts`` gets 0, ACCEPTED or OVERFLOWED for each.

    A token first runs inside the entry's rule, where neighbours share the levels of their common beginning. Wherever it
    can leave the rule, the rest of it is tried behind the stack. ``known``, uint8 with an item for each of ``blob`` or
    empty, remembers for every rest 1 + verdict, or 0; it holds for one stack. Returns a status: where nothing is to be
    remembered, FRONT_FULL at the first token that overflows, as one of them takes as long as thousands of others.
    """
    states, nodes, begin, left = front.state, front.stack, front.begin, front.ended
    end = 0
    if stack != 0:
        end, _ = _return(stacks, behind.state, behind.stack, 0, 0, stack)
        end, _ = _close(automaton, stacks, behind.state, behind.stack, 0, end)
    if end == STACKS_FULL:
        return STACKS_FULL
    overflows_behind = end < 0
    behind.begin[0] = 0
    behind.begin[1] = max(end, 0)
    states[0], nodes[0] = state, 0
    begin[0], begin[1] = 0, 1
    levels = previous_start = previous_length = 0
    for index in range(len(tokens)):
        start = offsets[tokens[index]]
        length = offsets[tokens[index] + 1] - start
        depth = 0
        shared = min(levels, min(length, previous_length))
        while depth < shared and blob[start + depth] == blob[previous_start + depth]:
            depth += 1
        verdict = 0
        while depth < length and begin[depth] < begin[depth + 1]:
            end, ended = _step(automaton, stacks, states, nodes, begin[depth], begin[depth + 1], blob[start + depth])
            if end == STACKS_FULL:
                return STACKS_FULL
            if end < 0:
                verdict = OVERFLOWED
                break
            depth += 1
            begin[depth + 1] = end
            left[depth] = ended
        if depth == length and depth > 0 and (begin[depth] < begin[depth + 1] or left[depth]):
            verdict = ACCEPTED
        for leave in range(1, min(depth, length - 1) + 1):
            if verdict == ACCEPTED or not left[leave]:
                continue
            rest = start + leave
            if overflows_behind:
                result = OVERFLOWED
            elif len(known) and known[rest]:
                result = known[rest] - 1
            else:
                result = _resolve_behind(automaton, stacks, blob, rest, start + length, behind)
                if result == STACKS_FULL:
                    return STACKS_FULL
                if result < 0:
                    result = OVERFLOWED
                if len(known):
                    known[rest] = result + 1
            if result:
                verdict = result
        verdicts[index] = verdict
        if verdict == OVERFLOWED and not len(known):
            return FRONT_FULL
        levels = depth
        previous_start = start
        previous_length = length
    return OK


@njit(cache=True, inline="always")
def _move_down(automaton: Any, front: Any, begin: int, end: int) -> int:
    """Brings a level to the beginning of the front, without entries that can consume nothing, sorted; its length."""
    whole_offset = automaton.whole_offset
    length = 0
    for at in range(begin, end):
        state = front.state[at]
        stack = front.stack[at]
        if automaton.edge_offset[state] == automaton.edge_offset[state + 1] and (
            len(whole_offset) == 0 or whole_offset[state] == whole_offset[state + 1]
        ):
            continue
        place = length
        while place > 0 and (
            front.state[place - 1] > state or (front.state[place - 1] == state and front.stack[place - 1] > stack)
        ):
            front.state[place] = front.state[place - 1]
            front.stack[place] = front.stack[place - 1]
            place -= 1
        front.state[place] = state
        front.stack[place] = stack
        length += 1
    return length


@njit(cache=True)
def open_level(automaton: Any, stacks: Any, states: Any, nodes: Any, front: Any) -> tuple[int, bool]:
    """The level of these entries, closed, at the beginning of the front, sorted: its length (or status), and ended."""
    length = len(states)
    front.state[:length] = states
    front.stack[:length] = nodes
    end, ended = _close(automaton, stacks, front.state, front.stack, 0, length)
    if end < 0:
        return end, ended
    return _move_down(automaton, front, 0, end), ended


@njit(cache=True)
def advance(
    automaton: Any, stacks: Any, states: Any, nodes: Any, data: Any, start: int, stop: int, front: Any
) -> tuple[int, bool]:
    """The level after ``data[start:stop]`` from the entries given, at the beginning of the front, sorted.

    Returns its length (or a status), and ended. A length of 0 that is not ended means that the bytes are rejected.
    """
    length = len(states)
    front.state[:length] = states
    front.stack[:length] = nodes
    ended = False
    for at in range(start, stop):
        end, ended = _step(automaton, stacks, front.state, front.stack, 0, length, data[at])
        if end < 0:
            return end, ended
        length = _move_down(automaton, front, length, end)
        if length == 0 and (not ended or at + 1 < stop):
            return 0, ended and at + 1 == stop
    return length, ended
