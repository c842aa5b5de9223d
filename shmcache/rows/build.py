"""The line from an automaton and a trie to the row of every state.

Owns the order of the steps: rows of each rule by itself (taken from the rule tier where they are known), then the
uncertain tokens that no caller of the rule in this grammar can accept are struck out.

Rows of a rule by itself depend on the rule and the vocabulary only, not on what follows the rule, so they serve every
grammar that has the rule.
"""

from __future__ import annotations

import hashlib
import time
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton
from shmcache.automaton.structure import rule_digests
from shmcache.errors import SegmentError
from shmcache.limits import Budget
from shmcache.rows.arrays import STACKS_FULL, AutomatonArrays
from shmcache.rows.equivalence import state_classes
from shmcache.rows.row_table import ARRAY_DTYPES, NO_ROW, Int32Array, RowTable, RowTableBuilder
from shmcache.rows.rule_walker import RuleWalker
from shmcache.rows.stacks import StackTable, fronts
from shmcache.vocabulary.sections import pack_sections, unpack_sections
from shmcache.vocabulary.vocabulary import Vocabulary

_MAGIC = b"SHMCrow\0"
_VERSION = 2

_ALIKE_CALLERS_MIN = 8
"""Rules with fewer callers are not worth the search for those that are alike."""

END = -1
"""The return state behind the root: the text ends there."""


class RuleRows(Protocol):
    """The rule tier as the compiler sees it: rows of single rules by key, as bytes."""

    def get(self, key: bytes) -> bytes | memoryview | None:
        """What was put under ``key``, or None."""

    def put(self, key: bytes, payload: bytes, cost_us: int) -> None:
        """Offers ``payload``, which took ``cost_us`` microseconds to compute; it may be declined in silence."""


def build_rows(
    automaton: GrammarAutomaton, vocabulary: Vocabulary, rule_rows: RuleRows | None, budget: Budget
) -> RowTable:
    """The rows of all states of ``automaton`` over the text tokens of ``vocabulary``."""
    walker = RuleWalker(automaton, vocabulary.trie, budget)
    tables: list[RowTable] = []
    digests = rule_digests(automaton) if rule_rows is not None else []
    for rule in range(automaton.rule_count):
        if rule_rows is None or not walker.has_wide_state(rule):
            tables.append(walker.rule_table(rule))
        else:
            tables.append(_shared_table(walker, rule, digests[rule], rule_rows))
    return _struck_out(automaton, vocabulary, tables, budget)


def _shared_table(walker: RuleWalker, rule: int, digest: bytes, rule_rows: RuleRows) -> RowTable:
    """The rule's table from the rule tier, or computed and offered to it."""
    trie = walker.trie
    key = hashlib.blake2b(_MAGIC + bytes([_VERSION]) + digest + trie.fingerprint, digest_size=32).digest()
    states = walker.automaton.states_of(rule)
    payload = rule_rows.get(key)
    if payload is not None:
        try:
            _, arrays = unpack_sections(payload, _MAGIC, _VERSION, 0, ARRAY_DTYPES)
            table = RowTable(*arrays)
            has_byte_edges = walker.automaton.has_byte_edges()[states.start : states.stop]
            table.check_bounds(has_byte_edges, len(trie.text_bitmask), min(trie.size, trie.width))
            return table
        except SegmentError:
            pass  # computed anew below; whoever walks the cache reports the damaged entry
    started = time.perf_counter_ns()
    table = walker.rule_table(rule)
    cost_us = (time.perf_counter_ns() - started) // 1000
    rule_rows.put(key, pack_sections(_MAGIC, _VERSION, (), table.arrays()), cost_us)
    return table


def alike_callers(
    automaton: GrammarAutomaton, chains: list[list[tuple[int, int]]], bytes_max: int, budget: Budget
) -> list[list[tuple[int, int]]]:
    """The chains with one of all return states of a caller that no token can tell apart."""
    classes: dict[int, npt.NDArray[np.int32]] = {}
    shorter: list[list[tuple[int, int]]] = []
    for chain in chains:
        if len(chain) < _ALIKE_CALLERS_MIN:
            shorter.append(chain)
            continue
        kept: dict[tuple[int, int], tuple[int, int]] = {}
        for return_state, owner in chain:
            name = return_state
            if return_state >= 0:
                if owner not in classes:
                    classes[owner] = state_classes(automaton, owner, bytes_max, budget)
                name = int(classes[owner][return_state - automaton.rule_start[owner]])
            kept.setdefault((name, owner), (return_state, owner))
        shorter.append(list(kept.values()))
    return shorter


def caller_chains(automaton: GrammarAutomaton) -> list[list[tuple[int, int]]]:
    """For each rule every (return state, calling rule) that may lie on top of the stack while the rule runs.

    A tail call has no return state of its own and inherits those of its caller; the root's is :data:`END`.
    """
    found: list[dict[tuple[int, int], None]] = [{} for _ in range(automaton.rule_count)]
    inherits: list[set[int]] = [set() for _ in range(automaton.rule_count)]
    found[0][(END, 0)] = None
    owners = np.repeat(automaton.rule_of_state, np.diff(automaton.call_offset))
    for owner, callee, return_state in zip(
        owners.tolist(), automaton.call_rule.tolist(), automaton.call_return.tolist(), strict=True
    ):
        if return_state == TAIL_CALL:
            inherits[owner].add(callee)
        else:
            found[callee][(return_state, owner)] = None
    pending = list(range(automaton.rule_count))
    while pending:
        rule = pending.pop()
        for callee in inherits[rule]:
            before = len(found[callee])
            found[callee].update(found[rule])
            if len(found[callee]) > before:
                pending.append(callee)
    return [list(chain) for chain in found]


def _struck_out(
    automaton: GrammarAutomaton, vocabulary: Vocabulary, tables: list[RowTable], budget: Budget
) -> RowTable:
    """One table of all states, without the uncertain tokens that are rejected behind every possible caller."""
    resolver = CallerResolver(automaton, vocabulary, budget)
    builder = RowTableBuilder(automaton.state_count)
    for rule, table in enumerate(tables):
        first = automaton.states_of(rule).start
        sets = builder.add_sets(table)
        kept = {NO_ROW: NO_ROW}
        for at, (accepted, uncertain) in enumerate(
            zip(table.state_accepted.tolist(), table.state_uncertain.tolist(), strict=True)
        ):
            if accepted == NO_ROW:
                continue
            if uncertain not in kept:
                # States that share a list cannot be told apart by any token, so one of them stands for all.
                budget.check_time()
                possible = resolver.possible(first + at, rule, table.uncertain_list(uncertain))
                kept[uncertain] = builder.add_uncertain(possible)
            builder.set_row(first + at, sets[accepted], kept[uncertain])
    return builder.finish()


class CallerResolver:
    """Decides tokens behind a stack of which only the possible callers are known."""

    def __init__(self, automaton: GrammarAutomaton, vocabulary: Vocabulary, budget: Budget) -> None:
        self._arrays = AutomatonArrays.of(automaton)
        self._flat = vocabulary.flat
        self._depth_max = vocabulary.trie.longest_token_bytes
        self._stacks = StackTable()
        chains = alike_callers(automaton, caller_chains(automaton), self._depth_max, budget)
        self._heads = self._stacks.add_chains(chains)
        self._known_rule = -1
        self._known = np.zeros(len(self._flat.blob), dtype=np.uint8)

    def possible(self, state: int, rule: int, tokens: Int32Array) -> Int32Array:
        """Those of ``tokens`` that some caller of ``rule`` can accept, the rule being in ``state``."""
        from shmcache.rows.kernels import resolve_tokens

        if rule != self._known_rule:
            self._known_rule = rule
            self._known.fill(0)
        verdicts = np.zeros(len(tokens), dtype=np.uint8)
        while True:
            status = resolve_tokens(
                self._arrays,
                self._stacks.arrays,
                self._flat.offsets,
                self._flat.blob,
                tokens,
                state,
                self._heads[rule],
                *fronts(self._depth_max),
                self._known,
                verdicts,
            )
            if status != STACKS_FULL:
                # What overflows here is left for the matcher, which knows the real stack.
                possible: Int32Array = tokens[verdicts != 0]
                return possible
            self._stacks.grow()
