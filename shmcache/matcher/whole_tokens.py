"""Edges of whole tokens, as a matcher follows them.

Owns the look-up of a token in the sets of an image, and those sets as bitmasks. Must never know bytes or stacks.
"""

from __future__ import annotations

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.matcher.token_table import TokenTable
from shmcache.rows.row_table import bitmask_of

_BITMASKS_MAX = 64
"""Sets kept as bitmasks in this process; 16 KB each for 131,072 tokens."""


class WholeTokens:
    """The edges of whole tokens of one grammar, which has some."""

    def __init__(self, automaton: GrammarAutomaton, tokens: TokenTable) -> None:
        self._automaton = automaton
        self._tokens = tokens
        self._bitmasks: dict[int, Int32Array] = {}

    def contains(self, number: int, token_id: int) -> bool:
        """Whether a token is in a set."""
        if not self._tokens.has_bytes[token_id]:
            return False
        is_excluded, ids = self._automaton.token_set(number)
        at = int(np.searchsorted(ids, token_id))
        return is_excluded != (at < len(ids) and int(ids[at]) == token_id)

    def after(self, states: Int32Array, nodes: Int32Array, token_id: int) -> list[tuple[int, int]]:
        """The entries (state, stack) to which a token, taken whole, leads."""
        found: dict[tuple[int, int], None] = {}
        for state, node in zip(states.tolist(), nodes.tolist(), strict=True):
            for number, target in self._automaton.whole_edges_of(state):
                if (target, node) not in found and self.contains(number, token_id):
                    found[target, node] = None
        return list(found)

    def bitmasks(self, states: Int32Array) -> list[Int32Array]:
        """The sets of all edges of these states, each once, as read-only bitmasks."""
        numbers = dict.fromkeys(
            number for state in states.tolist() for number, _ in self._automaton.whole_edges_of(state)
        )
        return [self._bitmask(number) for number in numbers]

    def _bitmask(self, number: int) -> Int32Array:
        bitmask = self._bitmasks.get(number)
        if bitmask is None:
            is_excluded, ids = self._automaton.token_set(number)
            usable = self._tokens.bytes_bitmask
            bitmask = bitmask_of(ids, len(usable))
            if is_excluded:
                bitmask = usable & ~bitmask
            if len(self._bitmasks) < _BITMASKS_MAX:
                self._bitmasks[number] = bitmask
        return bitmask
