"""The rows of one rule by itself, whatever calls it.

Owns which states are walked over the whole trie, which only where they differ from another, and which not at all. Must
never know what follows a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.automaton.inlining import WIDE_SYMBOLS
from shmcache.limits import Budget
from shmcache.rows.arrays import ACCEPTED, NO_STATE, STACKS_FULL, UNCERTAIN, AutomatonArrays, TrieArrays
from shmcache.rows.equivalence import state_rounds
from shmcache.rows.row_table import (
    ACCEPTED_IDS,
    Int32Array,
    RowTable,
    RowTableBuilder,
    smallest_form,
    smallest_length,
)
from shmcache.rows.stacks import StackTable, fronts
from shmcache.vocabulary.trie import Trie

_EQUIVALENCE_STATES_MIN = 8
"""Rules with fewer wide states are not worth the search for equivalent ones."""

_ALIKE_BYTES_MIN = 3
"""States that fewer bytes tell apart are not worth walking together."""

_ANCHORS_MAX = 32
_FEW_TOKENS_MAX = 256
"""Sets of so few tokens are not worth an anchor, which takes a byte for every token of the vocabulary."""

_NO_ROUNDS: npt.NDArray[np.int32] = np.zeros((0, 0), dtype=np.int32)

Verdicts = npt.NDArray[np.uint8]
"""uint8 (T): what a state makes of each token in trie order: 0, ACCEPTED or UNCERTAIN."""


@dataclass(frozen=True, slots=True, eq=False)
class _Anchor:
    """A state whose row is known in full: ``accepted`` is the number of its set, ``uncertain`` in trie order."""

    state: int
    verdicts: Verdicts
    accepted: int
    accepted_count: int
    uncertain: Int32Array


class _Anchors:
    """The anchors of one rule, whose first state is ``first``; ``rounds`` is of :func:`state_rounds`, or empty."""

    def __init__(self, first: int, rounds: npt.NDArray[np.int32]) -> None:
        self.first = first
        self.rounds = rounds
        self.by_state: dict[int, _Anchor] = {}

    @property
    def has_room(self) -> bool:
        """Whether one more anchor would be kept."""
        return len(self.by_state) < _ANCHORS_MAX

    def add(self, anchor: _Anchor) -> None:
        """Keeps an anchor, if there is room."""
        if self.has_room:
            self.by_state[anchor.state] = anchor

    def most_alike(self, state: int) -> _Anchor | None:
        """The anchor that most bytes cannot tell from ``state``; None where few bytes can."""
        if not len(self.rounds) or not self.by_state:
            return None
        states = list(self.by_state)
        columns = self.rounds[:, [one - self.first for one in states]]
        alike = (columns == self.rounds[:, state - self.first, None]).sum(axis=0)
        best = int(alike.argmax())
        return self.by_state[states[best]] if alike[best] > _ALIKE_BYTES_MIN else None


class RuleWalker:
    """Computes rows over one vocabulary, rule by rule."""

    def __init__(self, automaton: GrammarAutomaton, trie: Trie, budget: Budget) -> None:
        self.automaton = automaton
        self.trie = trie
        self._budget = budget
        self._arrays = AutomatonArrays.of(automaton)
        self._trie_arrays = TrieArrays.of(trie)
        self._stacks = StackTable()
        self._places = np.zeros(trie.token_count, dtype=np.int32)
        self._verdicts = np.zeros(trie.token_count, dtype=np.uint8)
        self._is_wide = _edge_symbols(automaton) >= WIDE_SYMBOLS

    def has_wide_state(self, rule: int) -> bool:
        """Whether some state of the rule goes on with many different bytes, so that its row takes a long walk."""
        states = self.automaton.states_of(rule)
        return bool(self._is_wide[states.start : states.stop].any())

    def rule_table(self, rule: int) -> RowTable:
        """The rows of the rule by itself; states are numbered from its start."""
        automaton = self.automaton
        states = automaton.states_of(rule)
        builder = RowTableBuilder(len(states))
        rounds = _NO_ROUNDS
        if np.count_nonzero(self._is_wide[states.start : states.stop]) >= _EQUIVALENCE_STATES_MIN:
            rounds = state_rounds(automaton, rule, self.trie.longest_token_bytes, self._budget)
        anchors = _Anchors(states.start, rounds)
        rows: dict[int, tuple[int, int]] = {}
        for at, state in enumerate(states):
            self._budget.check_time()
            if automaton.edge_offset[state] == automaton.edge_offset[state + 1]:
                continue
            name = int(rounds[-1, at]) if len(rounds) else at
            if name not in rows:
                rows[name] = self._row(state, builder, anchors)
            builder.set_row(at, *rows[name])
        return builder.finish()

    def _row(self, state: int, builder: RowTableBuilder, anchors: _Anchors) -> tuple[int, int]:
        """The numbers of a state's accepted set and uncertain list, which are added to the table."""
        anchor = self._anchor_of(state, builder, anchors)
        if anchor is not None:
            return self._row_from(state, anchor, builder, anchors)
        accepted, uncertain = self._walk(state)
        if len(accepted) == smallest_length(len(accepted), self.trie) <= _FEW_TOKENS_MAX:
            ids = np.sort(self.trie.token_order[accepted])
            return builder.add_accepted(ACCEPTED_IDS, ids), builder.append_uncertain(self.trie.token_order[uncertain])
        anchor = self._new_anchor(state, accepted, uncertain, builder)
        anchors.add(anchor)
        return anchor.accepted, builder.append_uncertain(self.trie.token_order[uncertain])

    def _anchor_of(self, state: int, builder: RowTableBuilder, anchors: _Anchors) -> _Anchor | None:
        """A state whose row is known in full and differs little from that of ``state``.

        That is the state to which most bytes lead, if most of its own lead to itself, as inside a string some of whose
        values are excluded; or else the one that is alike for most bytes, as inside a string of bounded length.
        """
        base = self._most_frequent_target(state) if self._is_wide[state] else state
        if base != state and self._most_frequent_target(base) == base:
            if base not in anchors.by_state and anchors.has_room:
                anchors.add(self._new_anchor(base, *self._walk(base), builder))
            return anchors.by_state.get(base)
        return anchors.most_alike(state)

    def _most_frequent_target(self, state: int) -> int:
        symbols: dict[int, int] = {}
        for low, high, target in self.automaton.edges_of(state):
            symbols[target] = symbols.get(target, 0) + high - low + 1
        return max(symbols, key=symbols.__getitem__, default=state)

    def _new_anchor(self, state: int, accepted: Int32Array, uncertain: Int32Array, builder: RowTableBuilder) -> _Anchor:
        verdicts = np.zeros(self.trie.token_count, dtype=np.uint8)
        verdicts[accepted] = ACCEPTED
        verdicts[uncertain] = UNCERTAIN
        number = builder.add_accepted(*smallest_form(verdicts == ACCEPTED, self.trie))
        return _Anchor(state, verdicts, number, len(accepted), uncertain)

    def _row_from(self, state: int, anchor: _Anchor, builder: RowTableBuilder, anchors: _Anchors) -> tuple[int, int]:
        """The row by a walk of only those parts of the trie where ``state`` and the anchor may differ."""
        places, verdicts = self._verdicts_of(state, anchor.state, anchors)
        before = anchor.verdicts[places]
        toggled = places[(before == ACCEPTED) != (verdicts == ACCEPTED)]
        changed = places[(before == UNCERTAIN) != (verdicts == UNCERTAIN)]
        uncertain = np.setxor1d(anchor.uncertain, changed, assume_unique=True) if len(changed) else anchor.uncertain
        gained = int(np.count_nonzero(verdicts == ACCEPTED) - np.count_nonzero(before == ACCEPTED))
        accepted_count = anchor.accepted_count + gained
        if len(toggled) + 1 < smallest_length(accepted_count, self.trie):
            number = builder.add_difference(anchor.accepted, np.sort(self.trie.token_order[toggled]))
        else:
            whole = anchor.verdicts == ACCEPTED
            whole[places] = verdicts == ACCEPTED
            number = builder.add_accepted(*smallest_form(whole, self.trie))
        return number, builder.append_uncertain(self.trie.token_order[uncertain])

    def _walk(self, state: int) -> tuple[Int32Array, Int32Array]:
        """Places in trie order of the tokens that ``state`` accepts, and of those that it leaves uncertain."""
        places, verdicts = self._verdicts_of(state, NO_STATE, _Anchors(0, _NO_ROUNDS))
        return places[verdicts == ACCEPTED], places[verdicts == UNCERTAIN]

    def _verdicts_of(self, state: int, base: int, anchors: _Anchors) -> tuple[Int32Array, Verdicts]:
        """Places of tokens in trie order, and what the kernel makes of each. The next call overwrites both."""
        from shmcache.rows.kernels import walk_trie

        entry = np.array([state], dtype=np.int32), np.zeros(1, dtype=np.int32)
        while True:
            count, status = walk_trie(
                self._arrays,
                self._stacks.arrays,
                self._trie_arrays,
                *entry,
                base,
                anchors.rounds,
                anchors.first,
                fronts(self.trie.longest_token_bytes),
                self._places,
                self._verdicts,
            )
            if status != STACKS_FULL:
                return self._places[:count], self._verdicts[:count]
            self._stacks.grow()


def _edge_symbols(automaton: GrammarAutomaton) -> npt.NDArray[np.int64]:
    """For each state the number of bytes on its edges."""
    spans = automaton.edge_high.astype(np.int64) - automaton.edge_low + 1
    totals = np.concatenate(([0], np.cumsum(spans)))
    symbols: npt.NDArray[np.int64] = totals[automaton.edge_offset[1:]] - totals[automaton.edge_offset[:-1]]
    return symbols
