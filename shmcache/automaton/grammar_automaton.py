"""A whole grammar as flat arrays of states: byte edges, edges of whole tokens, calls, and where a rule may end.

Owns the arrays that kernels walk, in place, in whatever memory they lie. Must never know the bytes
of tokens, nor masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array, UInt8Array
from shmcache.automaton.lowering import CALL_BASE, TOKENS_BASE
from shmcache.errors import SegmentError
from shmcache.grammar.ir import Tokens
from shmcache.regular.dfa import Dfa

TAIL_CALL = -1
"""The return state of a call behind which its caller has nothing left to do: it pushes nothing."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class GrammarAutomaton:
    """``S`` states of ``R`` rules; the states of a rule are consecutive, its start first; rule 0 is the root.

    Every call consumes at least one byte, and no chain of calls from a state comes back to a rule without a byte
    between. All arrays are one-dimensional, C-contiguous and read-only.
    """

    edge_offset: Int32Array
    """int32 (S + 1): state ``s`` has the byte edges ``edge_offset[s]:edge_offset[s + 1]``, sorted and disjoint."""
    edge_low: UInt8Array
    edge_high: UInt8Array
    edge_target: Int32Array
    call_offset: Int32Array
    """int32 (S + 1): calls of state ``s``."""
    call_rule: Int32Array
    call_return: Int32Array
    """int32: the state after the call, or :data:`TAIL_CALL`."""
    final: UInt8Array
    """uint8 (S): 1 where the rule may end."""
    rule_of_state: Int32Array
    rule_start: Int32Array
    """int32 (R): first state of each rule."""
    whole_offset: Int32Array
    """int32 (S + 1): edges of whole tokens of state ``s``; (0) where the grammar has none."""
    whole_set: Int32Array
    """int32: the set of tokens, any one of which, taken whole, leads to the target; sets of a state may overlap."""
    whole_target: Int32Array
    token_set_excluded: UInt8Array
    """uint8 (K): 1 where the set is every token that has bytes, but for its ids."""
    token_set_offset: Int32Array
    """int32 (K + 1): ids of set ``k``, ascending; (0) where the grammar has no whole tokens."""
    token_set_ids: Int32Array
    root_nullable: bool
    """Whether the empty text is in the language."""

    @property
    def state_count(self) -> int:
        """Number of states."""
        return len(self.final)

    @property
    def rule_count(self) -> int:
        """Number of rules that are called, the root included."""
        return len(self.rule_start)

    @classmethod
    def from_arrays(cls, arrays: tuple[Array, ...], root_nullable: bool) -> GrammarAutomaton:
        """The automaton of what :meth:`arrays` gave; call :meth:`check_bounds` on arrays from outside."""
        return cls(**dict(zip(ARRAY_NAMES, arrays, strict=True)), root_nullable=root_nullable)

    def arrays(self) -> tuple[Array, ...]:
        """The arrays, in the order of :data:`ARRAY_DTYPES`."""
        return tuple(getattr(self, name) for name in ARRAY_NAMES)

    def states_of(self, rule: int) -> range:
        """State numbers of a rule."""
        end = int(self.rule_start[rule + 1]) if rule + 1 < self.rule_count else self.state_count
        return range(int(self.rule_start[rule]), end)

    def edges_of(self, state: int) -> list[tuple[int, int, int]]:
        """(low, high, target) of a state's byte edges."""
        part = slice(int(self.edge_offset[state]), int(self.edge_offset[state + 1]))
        return list(
            zip(
                self.edge_low[part].tolist(),
                self.edge_high[part].tolist(),
                self.edge_target[part].tolist(),
                strict=True,
            )
        )

    def calls_of(self, state: int) -> list[tuple[int, int]]:
        """(rule, return state) of a state's calls."""
        part = slice(int(self.call_offset[state]), int(self.call_offset[state + 1]))
        return list(zip(self.call_rule[part].tolist(), self.call_return[part].tolist(), strict=True))

    @property
    def has_whole_tokens(self) -> bool:
        """Whether some state has edges of whole tokens."""
        return bool(len(self.whole_offset))

    def whole_edges_of(self, state: int) -> list[tuple[int, int]]:
        """(set, target) of a state's edges of whole tokens."""
        if not len(self.whole_offset):
            return []
        part = slice(int(self.whole_offset[state]), int(self.whole_offset[state + 1]))
        return list(zip(self.whole_set[part].tolist(), self.whole_target[part].tolist(), strict=True))

    def token_set(self, number: int) -> tuple[bool, Int32Array]:
        """Whether its ids are excluded, and the ids, of a set of whole tokens."""
        part = slice(int(self.token_set_offset[number]), int(self.token_set_offset[number + 1]))
        return bool(self.token_set_excluded[number]), self.token_set_ids[part]

    def has_byte_edges(self) -> npt.NDArray[np.bool_]:
        """Bool (S): whether the state has byte edges."""
        has_edges: npt.NDArray[np.bool_] = self.edge_offset[1:] != self.edge_offset[:-1]
        return has_edges

    def check_bounds(self) -> None:
        """Raises :class:`SegmentError` unless every index points into the array it is for."""
        states, rules = self.state_count, self.rule_count
        edges, calls = len(self.edge_low), len(self.call_rule)
        wholes, sets = len(self.whole_set), len(self.token_set_excluded)
        if not (
            states >= 1
            and rules >= 1
            and len(self.edge_offset) == len(self.call_offset) == states + 1
            and len(self.rule_of_state) == states
            and len(self.edge_high) == len(self.edge_target) == edges
            and len(self.call_return) == calls
            and is_offset_array(self.edge_offset, edges)
            and is_offset_array(self.call_offset, calls)
            and in_range(self.edge_target, 0, states)
            and in_range(self.call_rule, 0, rules)
            and in_range(self.call_return, TAIL_CALL, states)
            and self._rules_fit()
            and len(self.whole_offset) == (states + 1 if sets else 0)
            and len(self.token_set_offset) == (sets + 1 if sets else 0)
            and len(self.whole_target) == wholes
            and (not sets or is_offset_array(self.whole_offset, wholes))
            and (not sets or is_offset_array(self.token_set_offset, len(self.token_set_ids)))
            and in_range(self.whole_set, 0, sets)
            and in_range(self.whole_target, 0, states)
        ):
            raise SegmentError("the automaton holds an index out of bounds")

    def _rules_fit(self) -> bool:
        """Whether rules are consecutive states, and no byte leads out of one: kernels have arrays of one rule."""
        starts = self.rule_start
        if starts[0] != 0 or starts[-1] >= self.state_count or not (starts[1:] > starts[:-1]).all():
            return False
        lengths = np.diff(np.append(starts, self.state_count))
        owners = np.repeat(self.rule_of_state, np.diff(self.edge_offset))
        return bool(
            np.array_equal(self.rule_of_state, np.repeat(np.arange(len(starts)), lengths))
            and np.array_equal(self.rule_of_state[self.edge_target], owners)
        )


ARRAY_NAMES = tuple(field.name for field in fields(GrammarAutomaton))[:-1]

_BYTE_ARRAYS = frozenset(("edge_low", "edge_high", "final", "token_set_excluded"))
ARRAY_DTYPES = tuple(np.uint8 if name in _BYTE_ARRAYS else np.int32 for name in ARRAY_NAMES)


def is_offset_array(offsets: Array, end: int) -> bool:
    """Whether ``offsets`` cut an array of ``end`` items into parts."""
    return bool(offsets[0] == 0 and offsets[-1] == end and (offsets[1:] >= offsets[:-1]).all())


def in_range(values: Int32Array, low: int, end: int) -> bool:
    """Whether all values are in ``low:end``."""
    return not len(values) or bool(values.min() >= low and values.max() < end)


def frozen(values: Any, dtype: npt.DTypeLike) -> Array:
    """A read-only array: kernels then see one type, whether it was built here or lies in a mapped segment."""
    array = np.ascontiguousarray(values, dtype=dtype)
    array.setflags(write=False)
    return array


def assemble(
    dfas: list[Dfa], token_sets: list[Tokens], root_nullable: bool, uncalled: Sequence[int] = ()
) -> GrammarAutomaton:
    """Numbers the states of all rules' automata in one line, and drops rules that nothing calls, but ``uncalled``."""
    others = [_other_edges(dfa) for dfa in dfas]
    kept, numbers = _reachable_rules(others, uncalled)
    lengths = [dfas[rule].state_count for rule in kept]
    starts = [0, *np.cumsum(lengths).tolist()][:-1]
    call_counts, whole_counts = [0] * sum(lengths), [0] * sum(lengths)
    calls: list[tuple[int, int]] = []
    wholes: list[tuple[int, int]] = []
    for rule, first in zip(kept, starts, strict=True):
        dfa = dfas[rule]
        for state, low, high, target in others[rule]:
            if low < CALL_BASE:
                wholes.extend((symbol - TOKENS_BASE, first + target) for symbol in range(low, high + 1))
                whole_counts[first + state] += high - low + 1
                continue
            is_tail = dfa.accepting[target] and not dfa.edges[target]
            return_state = TAIL_CALL if is_tail else first + target
            calls.extend((numbers[symbol - CALL_BASE], return_state) for symbol in range(low, high + 1))
            call_counts[first + state] += high - low + 1
    rows = list(chain.from_iterable(dfas[rule].edges for rule in kept))
    edges = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), dtype=np.int64).reshape(-1, 3)
    is_byte = edges[:, 0] < TOKENS_BASE
    states = np.repeat(np.arange(len(rows)), list(map(len, rows)))[is_byte]
    edge_low, edge_high, edge_target = edges[is_byte].T
    return GrammarAutomaton(
        edge_offset=_offsets(np.bincount(states, minlength=len(rows))),
        edge_low=frozen(edge_low, np.uint8),
        edge_high=frozen(edge_high, np.uint8),
        edge_target=frozen(edge_target + np.repeat(starts, lengths)[states], np.int32),
        call_offset=_offsets(call_counts),
        call_rule=frozen([call[0] for call in calls], np.int32),
        call_return=frozen([call[1] for call in calls], np.int32),
        final=frozen(list(chain.from_iterable(dfas[rule].accepting for rule in kept)), np.uint8),
        rule_of_state=frozen(np.repeat(np.arange(len(kept)), lengths), np.int32),
        rule_start=frozen(starts, np.int32),
        **_whole_arrays(wholes, _offsets(whole_counts), token_sets),
        root_nullable=root_nullable,
    )


def _other_edges(dfa: Dfa) -> list[tuple[int, int, int, int]]:
    """(state, low, high, target) of the edges of whole tokens and of calls."""
    return [(state, *edge) for state, row in enumerate(dfa.edges) for edge in row if edge[0] >= TOKENS_BASE]


def _offsets(counts: npt.ArrayLike) -> Int32Array:
    return frozen(np.concatenate(([0], np.cumsum(counts))), np.int32)


def _whole_arrays(wholes: list[tuple[int, int]], offsets: Int32Array, token_sets: list[Tokens]) -> dict[str, Array]:
    """The arrays of whole tokens; all are empty where no edge of them is left."""
    sets = token_sets if wholes else []
    lengths = [len(one.names) for one in sets]
    return {
        "whole_offset": frozen(offsets if sets else [], np.int32),
        "whole_set": frozen([edge[0] for edge in wholes], np.int32),
        "whole_target": frozen([edge[1] for edge in wholes], np.int32),
        "token_set_excluded": frozen([one.is_excluded for one in sets], np.uint8),
        "token_set_offset": frozen(np.concatenate(([0], np.cumsum(lengths))) if sets else [], np.int32),
        "token_set_ids": frozen([name for one in sets for name in one.names], np.int32),
    }


def _reachable_rules(
    others: list[list[tuple[int, int, int, int]]], uncalled: Sequence[int]
) -> tuple[list[int], dict[int, int]]:
    kept = list(dict.fromkeys([0, *uncalled]))
    numbers = {rule: number for number, rule in enumerate(kept)}
    for rule in kept:  # grows while it is walked
        for _, low, high, _ in others[rule]:
            for symbol in range(max(low, CALL_BASE), high + 1):
                callee = symbol - CALL_BASE
                if callee not in numbers:
                    numbers[callee] = len(kept)
                    kept.append(callee)
    return kept, numbers
