"""Masks of configurations whose states have no rows in the image, worked out where a matcher comes to them.

Owns the walks of the trie on behalf of one arena. Must never know requests.

Most states go on with few bytes, and a walk of the tokens that begin with them takes microseconds. The states inside
strings go on with nearly all. There a rule of the image that has rows, that of any string, serves as a base: the same
bytes lead from the beginnings of both rules to a pair of states, and only the tokens that can tell the two apart are
looked at (``rows/trie_kernels.py``). A string of bounded length differs from any string in tokens longer than what is
left of it, and one that excludes some values in the ends of these. Where it is characters that are counted and nothing
else, even these tokens are known by their number of characters (``counted_tokens.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import GrammarAutomaton, frozen
from shmcache.automaton.structure import rule_digests
from shmcache.matcher.counted_tokens import CountedRow, CountedTokens
from shmcache.rows.arrays import ACCEPTED, ROOM_FULL, STACKS_FULL, UNCERTAIN, UNCOUNTED, AutomatonArrays, TrieArrays
from shmcache.rows.row_table import NO_ROW, RowTable
from shmcache.rows.rule_walker import BESIDE_PART, plain_rules, walk_weights
from shmcache.rows.stacks import StackTable, walk_room, walk_room_handle
from shmcache.vocabulary.vocabulary import Vocabulary

_ALIKE_BYTES_MIN = 3
_ALIKE_BYTES_ENOUGH = 16
_ALIKE_PART = 0.75
"""A walk beside a base is short where so much of the vocabulary begins with bytes behind which the two states are alike
for so many bytes more."""

_PAIRED_STATES_MAX = 1 << 20
"""States of a rule times the bases that it is compared with, a few hundredths of a second: a grammar may have thousands
of bases, and rules of hundreds of thousands of states."""

_IDS_MAX = 1 << 22
_IDS_PER_DIFFERENCE = 256
"""Ids in the differences that are remembered, each counted for so many more; past the most they are forgotten."""


_TABLES_MAX = 4
"""Tables of counted tokens kept for a vocabulary, half a megabyte each; nearly all strings have the same loop."""

_counted_tokens: WeakKeyDictionary[Vocabulary, dict[tuple[bytes, int], CountedTokens]] = WeakKeyDictionary()
"""By the rule and the place of the loop in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The row of a state as it differs from that of a state that has one in the image."""

    base: int
    """The state that has one."""
    accepted: Int32Array
    """Ids that the state accepts and that may be others than those of the base."""
    rejected: Int32Array
    """Ids that it does not accept by itself, uncertain ones among them, and that the base may."""
    uncertain: Int32Array
    """Ids that only its caller decides."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pairing:
    """Item ``s - first`` says what state ``s`` of a rule is like: arrays of :func:`pair_states`."""

    first: int
    base: Int32Array
    alike: Int32Array

    @property
    def alike_bytes(self) -> int:
        """How much the rule is like the other: longer tokens than this matter little."""
        return int(np.minimum(self.alike[self.base >= 0], _ALIKE_BYTES_ENOUGH).sum())


class LazyRows:
    """Works out what an image leaves open. Calls happen under the arena's lock."""

    def __init__(self, automaton: GrammarAutomaton, rows: RowTable, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._arrays = AutomatonArrays.of(automaton)
        self._rows = rows
        self._vocabulary = vocabulary
        self._pairings: dict[int, _Pairing | None] = {}
        self._differences: dict[int, Difference] = {}
        self._remembered_ids = 0
        self._names_of_loops: dict[int, tuple[bytes, int]] = {}
        self._counts_of: dict[tuple[int, int], tuple[Int32Array, Int32Array]] = {}

    @cached_property
    def automaton_at(self) -> Any:
        """The automaton as entries of kernels take it."""
        from shmcache.rows.entries import handle

        return handle(self._arrays)

    @cached_property
    def _trie_arrays(self) -> TrieArrays:
        """Kept beside the handle, which holds their addresses only: the vocabulary may be given another trie."""
        return TrieArrays.of(self._vocabulary.trie)

    @cached_property
    def _trie(self) -> Any:
        from shmcache.rows.entries import handle

        return handle(self._trie_arrays)

    @cached_property
    def _behind(self) -> list[int]:
        """Nodes of the trie behind all bytes below each."""
        return [0, *np.cumsum(self._vocabulary.trie.first_byte_nodes()).tolist()]

    @cached_property
    def _weights(self) -> npt.NDArray[np.int64]:
        return walk_weights(self._automaton, self._vocabulary.trie)

    @cached_property
    def _base_rules(self) -> list[int]:
        """Rules of bytes alone that have rows, small ones first, which say the least: more rules are like them."""
        has_row = self._rows.state_accepted != NO_ROW
        with_rows = np.logical_or.reduceat(has_row, self._automaton.rule_start)
        rules: list[int] = np.flatnonzero(with_rows & self._is_plain).tolist()
        return sorted(rules, key=lambda rule: len(self._automaton.states_of(rule)))

    @cached_property
    def _is_plain(self) -> npt.NDArray[np.bool_]:
        return plain_rules(self._automaton)

    def walk(self, states: Int32Array, nodes: Int32Array, stacks: StackTable) -> tuple[Int32Array, Int32Array, int]:
        """The mask of the tokens that go on from these entries with their stacks: words that are not 0, and status.

        ``stacks`` is the table that the nodes belong to. The arrays, index and value, are copies.
        """
        from shmcache.rows.entries import gather_words, walk_trie

        trie = self._vocabulary.trie
        room = walk_room(trie)
        while True:
            at_room = walk_room_handle(room)
            count, _, status = walk_trie(self.automaton_at, stacks.handle, self._trie, states, nodes, at_room, False)
            if status == STACKS_FULL:
                stacks.grow()
            elif status == ROOM_FULL:
                room = walk_room(trie, grows=True)
            else:
                words = gather_words(self._trie, count, at_room)
                return room.word_index[:words].copy(), room.word_value[:words].copy(), int(status)

    def counted(self, state: int) -> CountedRow | None:
        """The row of a state between two characters of a counted string; None of another, and of a narrow one."""
        pairing = self._wide_pairing(state)
        if pairing is None:
            return None
        base = int(pairing.base[state - pairing.first])
        if base < 0 or base not in self._successors(base):
            return None
        left, needed = (int(counts[state - pairing.first]) for counts in self._counts(pairing, base))
        if left == UNCOUNTED:
            return None
        table = _counted_tokens.get(self._vocabulary, {}).get(self._name_of_loop(base))
        if table is None:
            if self._is_alike_for_long(state, pairing):
                return None  # a walk beside the base looks at few tokens, and the table takes one over all
            table = self._new_table(base)
        return table.row(left, needed)

    def difference(self, state: int) -> Difference | None:
        """The state's row beside a base; None where a walk by itself is quicker."""
        known = self._differences.get(state)
        if known is not None:
            return known
        pairing = self._wide_pairing(state)
        if pairing is None:
            return None
        base = int(pairing.base[state - pairing.first])
        if base < 0 or self._rows.state_accepted[base] == NO_ROW:
            return None
        if self._alike_weight(state, pairing) < _ALIKE_PART * int(self._weights[base]):
            return None
        found = self._walk_beside(state, base, pairing)
        if self._remembered_ids > _IDS_MAX:
            self._differences.clear()
            self._remembered_ids = 0
        ids = len(found.accepted) + len(found.rejected) + len(found.uncertain)
        self._remembered_ids += _IDS_PER_DIFFERENCE + ids
        self._differences[state] = found
        return found

    def _wide_pairing(self, state: int) -> _Pairing | None:
        """What the state's rule is like, if so much of the vocabulary begins at the state that it is worth knowing."""
        if int(self._weights[state]) * BESIDE_PART < self._vocabulary.trie.node_count:
            return None
        return self._pairing(int(self._automaton.rule_of_state[state]))

    def _successors(self, state: int) -> list[int]:
        return [target for _, _, target in self._automaton.edges_of(state)]

    def _counts(self, pairing: _Pairing, loop: int) -> tuple[Int32Array, Int32Array]:
        """How many characters may, and must, follow each state of the rule: arrays of :func:`count_states`."""
        from shmcache.rows.entries import count_states

        known = self._counts_of.get((pairing.first, loop))
        if known is None:
            left, needed = (np.empty(len(pairing.base), dtype=np.int32) for _ in range(2))
            count_states(self.automaton_at, loop, pairing.first, pairing.base, pairing.alike, left, needed)
            known = self._counts_of[pairing.first, loop] = (left, needed)
        return known

    def _is_alike_for_long(self, state: int, pairing: _Pairing) -> bool:
        """Whether, wherever the state's first byte leads, only long tokens can tell it from its base."""
        return all(pairing.alike[target - pairing.first] >= _ALIKE_BYTES_ENOUGH for target in self._successors(state))

    def _name_of_loop(self, loop: int) -> tuple[bytes, int]:
        """Equal for equal loops of different grammars: the rule, and the place in it."""
        name = self._names_of_loops.get(loop)
        if name is None:
            rule = int(self._automaton.rule_of_state[loop])
            name = rule_digests(self._automaton, [rule])[rule], loop - int(self._automaton.rule_start[rule])
            self._names_of_loops[loop] = name
        return name

    def _new_table(self, loop: int) -> CountedTokens:
        """The table, made by a walk over all tokens, and kept for all grammars."""
        from shmcache.rows.entries import walk_characters

        trie = self._vocabulary.trie
        room = walk_room(trie)
        count = walk_characters(self.automaton_at, self._trie, loop, walk_room_handle(room))
        ids = trie.token_order[room.accepted[:count]]
        table = CountedTokens(ids, room.uncertain[:count], room.verdicts[:count], len(trie.text_bitmask))
        tables = _counted_tokens.setdefault(self._vocabulary, {})
        if len(tables) >= _TABLES_MAX:
            tables.clear()
        tables[self._name_of_loop(loop)] = table
        return table

    def _alike_weight(self, state: int, pairing: _Pairing) -> int:
        """Nodes of the trie behind those first bytes that lead to a state much like its base."""
        weight = 0
        for low, high, target in self._automaton.edges_of(state):
            if pairing.alike[target - pairing.first] >= _ALIKE_BYTES_MIN:
                weight += self._behind[high + 1] - self._behind[low]
        return weight

    def _pairing(self, rule: int) -> _Pairing | None:
        from shmcache.rows.entries import pair_states

        if rule in self._pairings:
            return self._pairings[rule]
        best: _Pairing | None = None
        if self._is_plain[rule]:
            states = self._automaton.states_of(rule)
            for base_rule in self._base_rules[: max(1, _PAIRED_STATES_MAX // len(states))]:
                base, alike = (np.empty(len(states), dtype=np.int32) for _ in range(2))
                start = int(self._automaton.rule_start[base_rule])
                length = self._vocabulary.trie.longest_token_bytes
                pair_states(self.automaton_at, states.start, start, states.start, length, base, alike)
                pairing = _Pairing(states.start, base, alike)
                if best is None or pairing.alike_bytes > best.alike_bytes:
                    best = pairing
        self._pairings[rule] = best
        return best

    def _walk_beside(self, state: int, base: int, pairing: _Pairing) -> Difference:
        from shmcache.rows.entries import walk_difference

        trie = self._vocabulary.trie
        room = walk_room(trie)
        count = walk_difference(
            self.automaton_at,
            self._trie,
            state,
            pairing.first,
            pairing.base,
            pairing.alike,
            walk_room_handle(room),
        )
        ids, verdicts = trie.token_order[room.accepted[:count]], room.verdicts[:count]
        inherited = self._rows.uncertain_list(int(self._rows.state_uncertain[base]))
        if count and len(inherited):
            is_new = np.zeros(self._vocabulary.size, dtype=np.bool_)
            is_new[ids] = True
            inherited = inherited[~is_new[inherited]]
        return Difference(
            base,
            accepted=frozen(ids[verdicts == ACCEPTED], np.int32),
            rejected=frozen(ids[verdicts != ACCEPTED], np.int32),
            # Read-only as lists of an image are: one type for kernels.
            uncertain=frozen(np.concatenate([inherited, ids[verdicts == UNCERTAIN]]), np.int32),
        )
