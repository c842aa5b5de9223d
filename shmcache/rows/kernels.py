"""The hot loops, compiled by Numba: bytes, calls and returns over an automaton's flat arrays.

Owns the steps of a configuration. With ``trie_kernels.py``, ``counting_kernels.py`` and ``entries.py``, through which
all are called, the only module that imports Numba; they are imported inside the functions that need them. Kernels are
private to ``rows`` and ``matcher``, take plain arrays, raise nothing and report a status. Each has a slow twin under
tests/reference. ``arrays.py`` explains *front*, *level* and *stack*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from shmcache.array_types import Int32Array, UInt8Array
from shmcache.limits import CONFIGURATION_ENTRIES_MAX
from shmcache.rows.arrays import (
    ACCEPTED,
    FRONT_FULL,
    NO_NODE,
    OK,
    OVERFLOWED,
    STACKS_FULL,
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
def add_entry(states: Int32Array, nodes: Int32Array, begin: int, end: int, state: int, node: int) -> int:
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
            end = add_entry(states, nodes, begin, end, return_state, stacks.parent[node])
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
                end = add_entry(states, nodes, begin, end, automaton.rule_start[automaton.call_rule[call]], below)
    return end, ended


@njit(cache=True)
def step(
    automaton: Any, stacks: Any, states: Int32Array, nodes: Int32Array, begin: int, end: int, place: int, byte: int
) -> tuple[int, bool]:
    """Writes at ``place`` what comes after the level begin..end by ``byte``: its end (or a status), and ended."""
    edge_offset, edge_low, edge_high = automaton.edge_offset, automaton.edge_low, automaton.edge_high
    place_end = place
    for at in range(begin, end):
        state = states[at]
        for edge in range(edge_offset[state], edge_offset[state + 1]):
            if byte <= edge_high[edge]:
                if byte >= edge_low[edge] and place_end >= 0:
                    place_end = add_entry(states, nodes, place, place_end, automaton.edge_target[edge], nodes[at])
                break
    return _close(automaton, stacks, states, nodes, place, place_end)


@njit(cache=True, inline="always")
def _resolve_behind(automaton: Any, stacks: Any, blob: UInt8Array, start: int, stop: int, behind: Any) -> int:
    """ACCEPTED, 0, or a status for ``blob[start:stop]`` from level 0 of ``behind``; later levels are overwritten."""
    states, nodes, begin = behind.state, behind.stack, behind.begin
    level = 0
    ended = False
    at = start
    while at < stop and begin[level] < begin[level + 1]:
        end, ended = step(automaton, stacks, states, nodes, begin[level], begin[level + 1], begin[level + 1], blob[at])
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
            byte = blob[start + depth]
            end, ended = step(automaton, stacks, states, nodes, begin[depth], begin[depth + 1], begin[depth + 1], byte)
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
        end, ended = step(automaton, stacks, front.state, front.stack, 0, length, length, data[at])
        if end < 0:
            return end, ended
        length = _move_down(automaton, front, length, end)
        if length == 0 and (not ended or at + 1 < stop):
            return 0, ended and at + 1 == stop
    return length, ended
