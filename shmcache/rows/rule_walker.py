"""The rows of one rule by itself, whatever calls it.

Owns which states are walked over the whole trie, which only where they differ from another, and which not at all. Must
never know what follows a rule.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.automaton.inlining import WIDE_SYMBOLS
from shmcache.limits import Budget
from shmcache.rows.arrays import ACCEPTED, STACKS_FULL, UNCERTAIN, AutomatonArrays, TrieArrays
from shmcache.rows.equivalence import state_classes
from shmcache.rows.row_table import ACCEPTED_IDS, Int32Array, RowTable, RowTableBuilder, smallest_form
from shmcache.rows.stacks import StackTable, front
from shmcache.vocabulary.trie import Trie

_EQUIVALENCE_STATES_MIN = 64
"""Rules with fewer wide states are not worth the search for equivalent ones."""

Verdicts = npt.NDArray[np.uint8]
"""uint8 (T): what a state makes of each token in trie order: 0, ACCEPTED or UNCERTAIN."""


class RuleWalker:
    """Computes rows over one vocabulary, rule by rule."""

    def __init__(self, automaton: GrammarAutomaton, trie: Trie, budget: Budget) -> None:
        self.automaton = automaton
        self.trie = trie
        self._budget = budget
        self._arrays = AutomatonArrays.of(automaton)
        self._trie_arrays = TrieArrays.of(trie)
        self._stacks = StackTable()
        self._accepted = np.zeros(trie.token_count, dtype=np.int32)
        self._uncertain = np.zeros(trie.token_count, dtype=np.int32)
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
        classes: npt.NDArray[np.int64] | None = None
        if np.count_nonzero(self._is_wide[states.start : states.stop]) >= _EQUIVALENCE_STATES_MIN:
            classes = state_classes(automaton, rule, self.trie.longest_token_bytes, self._budget)
        has_calls = bool(automaton.call_offset[states.start] != automaton.call_offset[states.stop])
        bases: dict[int, Verdicts] = {}
        rows: dict[int, tuple[int, int]] = {}
        for at, state in enumerate(states):
            self._budget.check_time()
            if automaton.edge_offset[state] == automaton.edge_offset[state + 1]:
                continue
            name = at if classes is None else int(classes[at])
            if name not in rows:
                base = None if has_calls or not self._is_wide[state] else self._base_of(state)
                accepted, uncertain = self._row(state) if base is None else self._row_from(state, base, bases)
                rows[name] = (builder.add_accepted(*accepted), builder.append_uncertain(uncertain))
            builder.set_row(at, *rows[name])
        return builder.finish()

    def _base_of(self, state: int) -> int | None:
        """The state to which most bytes lead from ``state``, if most of its own lead to itself."""
        base = self._most_frequent_target(state)
        return base if self._most_frequent_target(base) == base else None

    def _most_frequent_target(self, state: int) -> int:
        symbols: dict[int, int] = {}
        for low, high, target in self.automaton.edges_of(state):
            symbols[target] = symbols.get(target, 0) + high - low + 1
        return max(symbols, key=symbols.__getitem__, default=state)

    def _row(self, state: int) -> tuple[tuple[int, Int32Array], Int32Array]:
        """Accepted set, as form and data, and uncertain ids of a state, by a walk of the whole trie."""
        accepted, uncertain = self._walk(state)
        if not self._is_wide[state] and len(accepted) <= min(self.trie.token_count // 2, len(self.trie.text_bitmask)):
            return (ACCEPTED_IDS, np.sort(self.trie.token_order[accepted])), self.trie.token_order[uncertain]
        return self._of_verdicts(self._verdicts_of(accepted, uncertain))

    def _row_from(self, state: int, base: int, bases: dict[int, Verdicts]) -> tuple[tuple[int, Int32Array], Int32Array]:
        """The same, by a walk of only those parts of the trie where ``state`` and ``base`` may differ."""
        from shmcache.rows.kernels import walk_difference

        known = bases.get(base)
        if known is None:
            known = bases[base] = self._verdicts_of(*self._walk(base))
        if state == base:
            return self._of_verdicts(known)
        verdicts = known.copy()
        room = front(self.trie.longest_token_bytes)
        count = walk_difference(self._arrays, self._trie_arrays, state, base, room, self._accepted, self._verdicts)
        verdicts[self._accepted[:count]] = self._verdicts[:count]
        return self._of_verdicts(verdicts)

    def _verdicts_of(self, accepted: Int32Array, uncertain: Int32Array) -> Verdicts:
        verdicts = np.zeros(self.trie.token_count, dtype=np.uint8)
        verdicts[accepted] = ACCEPTED
        verdicts[uncertain] = UNCERTAIN
        return verdicts

    def _of_verdicts(self, verdicts: Verdicts) -> tuple[tuple[int, Int32Array], Int32Array]:
        return smallest_form(verdicts == ACCEPTED, self.trie), self.trie.token_order[verdicts == UNCERTAIN]

    def _walk(self, state: int) -> tuple[Int32Array, Int32Array]:
        """Places in trie order of the tokens that ``state`` accepts, and of those that it leaves uncertain."""
        from shmcache.rows.kernels import walk_trie

        while True:
            accepted, uncertain, status = walk_trie(
                self._arrays,
                self._stacks.arrays,
                self._trie_arrays,
                state,
                front(self.trie.longest_token_bytes),
                self._accepted,
                self._uncertain,
            )
            if status != STACKS_FULL:
                return self._accepted[:accepted].copy(), self._uncertain[:uncertain].copy()
            self._stacks.grow()


def _edge_symbols(automaton: GrammarAutomaton) -> npt.NDArray[np.int64]:
    """For each state the number of bytes on its edges."""
    spans = automaton.edge_high.astype(np.int64) - automaton.edge_low + 1
    totals = np.concatenate(([0], np.cumsum(spans)))
    symbols: npt.NDArray[np.int64] = totals[automaton.edge_offset[1:]] - totals[automaton.edge_offset[:-1]]
    return symbols
