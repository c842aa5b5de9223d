"""What may follow a rule in its grammar, two bytes deep, whoever calls it.

Owns the search through callers and callees for these bytes, and the states that stand for them. Must never know tokens.

FIRST and FOLLOW sets as of parsers with two symbols to look ahead (Aho, Ullman 1972), but where a rule returns to is
not remembered from one of the bytes to the other. What they admit is therefore too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton, frozen
from shmcache.limits import Budget
from shmcache.rows.arrays import AutomatonArrays

_Bytes = int
"""A set of bytes: bit ``b`` is set for byte ``b``."""


@dataclass(frozen=True, slots=True, eq=False)
class FollowedAutomaton:
    """An automaton with states for what may follow some of its rules, instead of callers."""

    arrays: AutomatonArrays
    state_behind: dict[int, int]
    """For each of the rules the state behind it: the bytes that it admits may follow, and two of them anything."""


def followed(automaton: GrammarAutomaton, rules: dict[int, frozenset[int]], budget: Budget) -> FollowedAutomaton:
    """``automaton`` with a state behind each of ``rules``, for what may follow any of those that it is given with.

    Rules that are given with the same ones share their state.
    """
    search = _Search(automaton, budget)
    count = automaton.state_count
    anything = count
    rows: list[list[tuple[int, int, int]]] = [[(0, 255, anything)]]
    known: dict[_Bytes, int] = {}
    behind: dict[frozenset[int], int] = {}
    for alike in rules.values():
        if alike in behind:
            continue
        second = search.pairs_behind(alike)
        edges: list[tuple[int, int, int]] = []
        for byte in sorted(second):
            if second[byte] not in known:
                known[second[byte]] = count + len(rows)
                rows.append([(low, high, anything) for low, high in _ranges(second[byte])])
            edges.append((byte, byte, known[second[byte]]))
        behind[alike] = count + len(rows)
        rows.append(edges)
    state_behind = {rule: behind[alike] for rule, alike in rules.items()}
    return FollowedAutomaton(_with_states(automaton, rows), state_behind)


class _Search:
    """Walks from state to state. It reads arrays as memoryviews: an item takes a fraction of the time of NumPy's."""

    def __init__(self, automaton: GrammarAutomaton, budget: Budget) -> None:
        self._budget = budget
        self._edge_offset, self._edge_target = automaton.edge_offset.data, automaton.edge_target.data
        self._edge_low, self._edge_high = automaton.edge_low.data, automaton.edge_high.data
        self._call_offset, self._call_rule = automaton.call_offset.data, automaton.call_rule.data
        self._final, self._rule_of_state = automaton.final.data, automaton.rule_of_state.data
        self._rule_start = automaton.rule_start.data
        owners = np.repeat(automaton.rule_of_state, np.diff(automaton.call_offset)).tolist()
        self._sites: list[list[tuple[int, int]]] = [[] for _ in range(automaton.rule_count)]
        for owner, callee, return_state in zip(owners, self._call_rule, automaton.call_return.tolist(), strict=True):
            self._sites[callee].append((owner, return_state))
        self._behind: dict[int, _Bytes] = {}
        self._firsts: dict[int, _Bytes] = {}

    def pairs_behind(self, rules: frozenset[int]) -> dict[int, _Bytes]:
        """For each byte that may follow one of the rules those that may follow that."""
        after: dict[tuple[int, int], _Bytes] = {}
        for state in self._entries_behind(rules):
            self._budget.check_time()
            for edge in range(self._edge_offset[state], self._edge_offset[state + 1]):
                span = self._edge_low[edge], self._edge_high[edge]
                after[span] = after.get(span, 0) | self._first(self._edge_target[edge])
        pairs: dict[int, _Bytes] = {}
        for (low, high), first in after.items():
            for byte in range(low, high + 1):
                pairs[byte] = pairs.get(byte, 0) | first
        return pairs

    def _entries_behind(self, ended: Iterable[int]) -> list[int]:
        """States with which the text may go on behind any of these rules."""
        self._budget.check_time()
        rules = list(ended)
        seen = set(rules)
        states: dict[int, None] = {}
        for rule in rules:  # grows while it is walked
            for owner, return_state in self._sites[rule]:
                if return_state != TAIL_CALL:
                    states[return_state] = None
                if (return_state == TAIL_CALL or self._final[return_state]) and owner not in seen:
                    seen.add(owner)
                    rules.append(owner)
        return self._opened(states)

    def _opened(self, states: Iterable[int]) -> list[int]:
        """The states and those in which the rules that they call begin."""
        self._budget.check_time()
        opened = list(states)
        seen = set(opened)
        for state in opened:  # grows while it is walked
            for call in range(self._call_offset[state], self._call_offset[state + 1]):
                start = self._rule_start[self._call_rule[call]]
                if start not in seen:
                    seen.add(start)
                    opened.append(start)
        return opened

    def _first(self, state: int) -> _Bytes:
        """The bytes with which the text may go on from a state, its rule's end included."""
        first = self._firsts.get(state)
        if first is None:
            first = self._bytes_of(self._opened((state,)))
            if self._final[state]:
                rule = self._rule_of_state[state]
                if rule not in self._behind:
                    self._behind[rule] = self._bytes_of(self._entries_behind((rule,)))
                first |= self._behind[rule]
            self._firsts[state] = first
        return first

    def _bytes_of(self, states: list[int]) -> _Bytes:
        """The bytes on the edges of any of these states."""
        members = 0
        for state in states:
            for edge in range(self._edge_offset[state], self._edge_offset[state + 1]):
                members |= (2 << self._edge_high[edge]) - (1 << self._edge_low[edge])
        return members


def _ranges(members: _Bytes) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for byte in range(256):
        if members >> byte & 1:
            if ranges and ranges[-1][1] == byte - 1:
                ranges[-1] = (ranges[-1][0], byte)
            else:
                ranges.append((byte, byte))
    return ranges


def _with_states(automaton: GrammarAutomaton, rows: list[list[tuple[int, int, int]]]) -> AutomatonArrays:
    """The automaton's arrays with more states, which neither call nor end."""
    edges = [edge for row in rows for edge in row]
    lengths = np.array([len(row) for row in rows])

    def extended(values: npt.NDArray[Any], more: list[int]) -> npt.NDArray[Any]:
        return frozen(np.concatenate([values, np.array(more, dtype=values.dtype)]), values.dtype)

    return AutomatonArrays.of(automaton)._replace(
        edge_offset=extended(automaton.edge_offset, (automaton.edge_offset[-1] + np.cumsum(lengths)).tolist()),
        edge_low=extended(automaton.edge_low, [low for low, _, _ in edges]),
        edge_high=extended(automaton.edge_high, [high for _, high, _ in edges]),
        edge_target=extended(automaton.edge_target, [target for _, _, target in edges]),
        call_offset=extended(automaton.call_offset, [int(automaton.call_offset[-1])] * len(rows)),
        final=extended(automaton.final, [0] * len(rows)),
    )
