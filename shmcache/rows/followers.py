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
    def __init__(self, automaton: GrammarAutomaton, budget: Budget) -> None:
        self._automaton = automaton
        self._budget = budget
        owners = np.repeat(automaton.rule_of_state, np.diff(automaton.call_offset)).tolist()
        self._sites: list[list[tuple[int, int]]] = [[] for _ in range(automaton.rule_count)]
        calls = zip(owners, automaton.call_rule.tolist(), automaton.call_return.tolist(), strict=True)
        for owner, callee, return_state in calls:
            self._sites[callee].append((owner, return_state))
        self._behind: dict[int, list[int]] = {}
        self._firsts: dict[int, _Bytes] = {}

    def pairs_behind(self, rules: frozenset[int]) -> dict[int, _Bytes]:
        """For each byte that may follow one of the rules those that may follow that."""
        pairs: dict[int, _Bytes] = {}
        for state in self._entries_behind(rules):
            self._budget.check_time()
            for low, high, target in self._automaton.edges_of(state):
                first = self._first(target)
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
                if (return_state == TAIL_CALL or self._automaton.final[return_state]) and owner not in seen:
                    seen.add(owner)
                    rules.append(owner)
        return self._opened(states)

    def _opened(self, states: dict[int, None]) -> list[int]:
        """The states and those in which the rules that they call begin."""
        self._budget.check_time()
        opened, seen = list(states), set(states)
        for state in opened:  # grows while it is walked
            for callee, _ in self._automaton.calls_of(state):
                start = int(self._automaton.rule_start[callee])
                if start not in seen:
                    seen.add(start)
                    opened.append(start)
        return opened

    def _first(self, state: int) -> _Bytes:
        """The bytes with which the text may go on from a state, its rule's end included."""
        first = self._firsts.get(state)
        if first is None:
            entries = self._opened({state: None})
            if self._automaton.final[state]:
                rule = int(self._automaton.rule_of_state[state])
                if rule not in self._behind:
                    self._behind[rule] = self._entries_behind((rule,))
                entries += self._behind[rule]
            first = 0
            for entry in entries:
                for low, high, _ in self._automaton.edges_of(entry):
                    first |= (2 << high) - (1 << low)
            self._firsts[state] = first
        return first


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
