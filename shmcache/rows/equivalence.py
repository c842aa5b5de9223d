"""States that no token can tell apart.

Owns the partition of a rule's states up to a number of bytes (Moore 1956, stopped after as many rounds as the longest
token has bytes). States of a class have the same row, so a bounded repetition of 100,000 characters needs as many rows
as a token can be long, not as many as there are counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton
from shmcache.limits import Budget

_DEAD = -1
_TAIL = -2
_OUT_OF_REACH = -3
"""Behind a call that takes more bytes than there are rounds."""
_HASH_SEED = 20260101


def state_classes(automaton: GrammarAutomaton, rule: int, rounds_max: int, budget: Budget) -> npt.NDArray[np.int32]:
    """For each state of the rule, in order, the number of its class."""
    classes: npt.NDArray[np.int32] = state_rounds(automaton, rule, rounds_max, budget)[-1]
    return classes


def state_rounds(automaton: GrammarAutomaton, rule: int, rounds_max: int, budget: Budget) -> npt.NDArray[np.int32]:
    """int32 (R, states): item ``[r, s]`` is the class of state ``s`` up to ``r`` bytes; R - 1 ≤ ``rounds_max``.

    Where R - 1 is less, the last row holds for any number of bytes.
    """
    successors = _successors(automaton, rule, rounds_max)
    states = automaton.states_of(rule)
    block = np.asarray(automaton.final[states.start : states.stop], dtype=np.int64)
    multipliers = np.random.default_rng(_HASH_SEED).integers(1, 1 << 63, size=successors.shape[1] + 1, dtype=np.uint64)
    rounds = [block.astype(np.int32)]
    count = len(np.unique(block))
    for _ in range(rounds_max):
        budget.check_time()
        known = np.where(successors >= 0, block[np.maximum(successors, 0)], successors)
        signature = np.concatenate([block[:, None], known], axis=1)
        block = _group(signature, multipliers)
        rounds.append(block.astype(np.int32))
        finer = int(block.max()) + 1
        if finer == count:
            break
        count = finer
    return np.stack(rounds)


def _group(signature: npt.NDArray[np.int64], multipliers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Equal rows get equal numbers. Rows are hashed, and compared with the first of their number to be sure."""
    with np.errstate(over="ignore"):
        mixed = (signature.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * multipliers
        mixed ^= mixed >> np.uint64(29)
        hashed = (mixed * multipliers).sum(axis=1, dtype=np.uint64)
    _, first, number = np.unique(hashed, return_index=True, return_inverse=True)
    if not np.array_equal(signature, signature[first[number]]):
        _, number = np.unique(signature, axis=0, return_inverse=True)
    result: npt.NDArray[np.int64] = number.reshape(-1).astype(np.int64)
    return result


def _successors(automaton: GrammarAutomaton, rule: int, rounds_max: int) -> npt.NDArray[np.int64]:
    """One column for each class of bytes that the rule tells apart, and one for each rule it calls."""
    states = automaton.states_of(rule)
    first = states.start
    rows = [automaton.edges_of(state) for state in states]
    points = sorted({0} | {edge[0] for row in rows for edge in row} | {edge[1] + 1 for row in rows for edge in row})
    column = {point: at for at, point in enumerate(points)}
    callees = sorted({callee for state in states for callee, _ in automaton.calls_of(state)})
    call_column = {callee: len(points) + at for at, callee in enumerate(callees)}
    is_short = {callee: shortest_word_bytes(automaton, callee, rounds_max) < rounds_max for callee in callees}
    table = np.full((len(states), len(points) + len(callees)), _DEAD, dtype=np.int64)
    for at, row in enumerate(rows):
        for low, high, target in row:
            end = column.get(high + 1, len(points))
            table[at, column[low] : end] = target - first
        for callee, return_state in automaton.calls_of(first + at):
            after = return_state - first if return_state >= 0 else _TAIL
            table[at, call_column[callee]] = after if is_short[callee] else _OUT_OF_REACH
    return table


def shortest_word_bytes(automaton: GrammarAutomaton, rule: int, bytes_max: int) -> int:
    """A lower bound on the bytes of the rule's words, at most ``bytes_max``; a call counts as one byte."""
    reached = {int(automaton.rule_start[rule])}
    frontier = reached
    for length in range(1, bytes_max + 1):
        frontier = {target for state in frontier for target in _next_states(automaton, state)} - reached
        if TAIL_CALL in frontier or any(automaton.final[state] for state in frontier) or not frontier:
            return length
        reached |= frontier
    return bytes_max


def _next_states(automaton: GrammarAutomaton, state: int) -> list[int]:
    edges = [target for _, _, target in automaton.edges_of(state)]
    return edges + [return_state for _, return_state in automaton.calls_of(state)]
