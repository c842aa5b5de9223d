"""The rows of one rule by itself, whatever calls it.

Owns the walk of the vocabulary for each state of a rule, and which rules are worth it ahead of any request. Must never
know what follows a rule.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.limits import Budget
from shmcache.rows.arrays import ROOM_FULL, STACKS_FULL, AutomatonArrays, TrieArrays
from shmcache.rows.row_table import RowTable, RowTableBuilder, smallest_form
from shmcache.rows.stacks import StackTable, walk_room, walk_room_handle
from shmcache.vocabulary.trie import Trie

_WIDE_PART = 8
"""A walk of an eighth of the vocabulary, or more, takes long enough to be spared those who come later."""

_WALKS_MAX = 4
"""A rule whose wide states take more than so many walks of the whole vocabulary has most of their rows for nothing."""

BESIDE_PART = 16
"""A walk of less than this part of the vocabulary is quicker than one beside a state that has a row."""


class RuleWalker:
    """Computes rows over one vocabulary, rule by rule."""

    def __init__(self, automaton: GrammarAutomaton, trie: Trie, budget: Budget) -> None:
        self.automaton = automaton
        self.trie = trie
        self._budget = budget

    def rules_ahead(self) -> npt.NDArray[np.bool_]:
        """Bool (R): whether the rule's rows are computed with the grammar; those of other rules are left to matchers.

        A matcher walks the trie for a state where it comes to one, which takes microseconds where few tokens begin
        there. Rules are worth computing ahead, and sharing, that have a few states where many begin, as inside a
        string; not those with hundreds, as inside a string of bounded length, of which a text visits few.
        """
        total = np.add.reduceat(np.where(self._is_wide, self._weights, 0), self.automaton.rule_start)
        ahead: npt.NDArray[np.bool_] = (total > 0) & (total <= self.trie.node_count * _WALKS_MAX)
        return ahead

    def rules_beside(self) -> npt.NDArray[np.bool_]:
        """Bool (R): rules of which a matcher may walk states beside those of a rule that has rows."""
        widest = np.maximum.reduceat(self._weights, self.automaton.rule_start)
        beside: npt.NDArray[np.bool_] = plain_rules(self.automaton) & (widest * BESIDE_PART >= self.trie.node_count)
        return beside

    @cached_property
    def _weights(self) -> npt.NDArray[np.int64]:
        return walk_weights(self.automaton, self.trie)

    @cached_property
    def _is_wide(self) -> npt.NDArray[np.bool_]:
        """Bool (S): whether so much of the trie lies behind the bytes of a state that it is walked ahead."""
        wide: npt.NDArray[np.bool_] = self._weights * _WIDE_PART >= self.trie.node_count
        return wide

    def rule_table(self, rule: int) -> RowTable:
        """The rows of the rule's wide states by itself; states are numbered from its start.

        A state that accepts little all the same has none. A space begins half of all tokens, but few of these go on
        between two members of an object: a walk is quicker there than a row, all of whose tokens are uncertain.
        """
        states = self.automaton.states_of(rule)
        builder = RowTableBuilder(len(states))
        for at in np.flatnonzero(self._is_wide[states.start : states.stop]).tolist():
            self._budget.check_time()
            accepted, uncertain = self._walk(states.start + at)
            if len(accepted) * _WIDE_PART < self.trie.token_count:
                continue
            is_accepted = np.zeros(self.trie.token_count, dtype=np.bool_)
            is_accepted[accepted] = True
            number = builder.add_accepted(*smallest_form(is_accepted, self.trie))
            builder.set_row(at, number, builder.add_uncertain(self.trie.token_order[uncertain]))
        return builder.finish()

    @cached_property
    def _stacks(self) -> StackTable:
        return StackTable()

    @cached_property
    def _arrays(self) -> tuple[AutomatonArrays, TrieArrays]:
        return AutomatonArrays.of(self.automaton), TrieArrays.of(self.trie)

    @cached_property
    def _handles(self) -> tuple[Any, Any]:
        """Automaton and trie as entries of kernels take them."""
        from shmcache.rows.entries import handle

        return handle(self._arrays[0]), handle(self._arrays[1])

    def _walk(self, state: int) -> tuple[Int32Array, Int32Array]:
        """Places in trie order of the tokens that ``state`` accepts, and of those that it leaves uncertain."""
        from shmcache.rows.entries import walk_trie

        room = walk_room(self.trie)
        states, empty_stack = np.array([state], dtype=np.int32), np.zeros(1, dtype=np.int32)
        arrays, trie = self._handles
        while True:
            at_room = walk_room_handle(room)
            accepted, uncertain, status = walk_trie(
                arrays, self._stacks.handle, trie, states, empty_stack, at_room, True
            )
            if status == STACKS_FULL:
                self._stacks.grow()
            elif status == ROOM_FULL:
                room = walk_room(self.trie, grows=True)
            else:
                return room.accepted[:accepted], room.uncertain[:uncertain]


def plain_rules(automaton: GrammarAutomaton) -> npt.NDArray[np.bool_]:
    """Bool (R): whether the rule has byte edges only: it calls nothing and takes no whole tokens."""
    starts = automaton.rule_start
    ends = np.append(starts[1:], automaton.state_count)
    plain: npt.NDArray[np.bool_] = automaton.call_offset[starts] == automaton.call_offset[ends]
    if automaton.has_whole_tokens:
        plain &= automaton.whole_offset[starts] == automaton.whole_offset[ends]
    return plain


def walk_weights(automaton: GrammarAutomaton, trie: Trie) -> npt.NDArray[np.int64]:
    """int64 (S): how many nodes of the trie lie behind the first bytes that each state goes on with."""
    behind = np.concatenate(([0], np.cumsum(trie.first_byte_nodes())))
    spans = behind[automaton.edge_high.astype(np.int64) + 1] - behind[automaton.edge_low]
    totals = np.concatenate(([0], np.cumsum(spans)))
    weights: npt.NDArray[np.int64] = totals[automaton.edge_offset[1:]] - totals[automaton.edge_offset[:-1]]
    return weights
