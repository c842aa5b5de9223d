"""The line from an automaton and a trie to rows.

Owns the order of the steps: which rules get rows, those of each rule by itself (taken from the rule tier where they are
known), then the uncertain tokens that nothing behind the rule in this grammar can accept are struck out.

Rows of a rule by itself depend on the rule and the vocabulary only, not on what follows the rule, so they serve every
grammar that has the rule.
"""

from __future__ import annotations

import hashlib
import time
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import GrammarAutomaton, frozen
from shmcache.automaton.structure import rule_digests
from shmcache.errors import SegmentError
from shmcache.limits import Budget
from shmcache.rows.arrays import STACKS_FULL
from shmcache.rows.followers import followed
from shmcache.rows.row_table import ARRAY_DTYPES, NO_ROW, RowTable, RowTableBuilder
from shmcache.rows.rule_walker import RuleWalker, plain_rules
from shmcache.rows.stacks import StackTable, front_handles
from shmcache.vocabulary.sections import pack_sections, unpack_sections
from shmcache.vocabulary.vocabulary import FlatTokens, Vocabulary

_MAGIC = b"SHMCrow\0"
_VERSION = 4


class RuleRows(Protocol):
    """The rule tier as the compiler sees it: rows of single rules by key, as bytes."""

    def get(self, key: bytes) -> bytes | memoryview | None:
        """What was put under ``key``, or None."""

    def put(self, key: bytes, payload: bytes, cost_us: int) -> None:
        """Offers ``payload``, which took ``cost_us`` microseconds to compute; it may be declined in silence."""


def build_rows(
    automaton: GrammarAutomaton, vocabulary: Vocabulary, rule_rows: RuleRows | None, budget: Budget
) -> RowTable:
    """The rows over the text tokens of ``vocabulary`` that are worth computing before anybody asks for them."""
    walker = RuleWalker(automaton, vocabulary.trie, budget)
    rules: list[int] = np.flatnonzero(walker.rules_ahead()).tolist()
    if rule_rows is None or not rules:
        tables = {rule: walker.rule_table(rule) for rule in rules}
    else:
        digests = rule_digests(automaton, rules)
        tables = {rule: _shared_table(walker, rule, digests[rule], rule_rows) for rule in rules}
    tables = {rule: table for rule, table in tables.items() if len(table.form)}
    if not tables:
        return RowTableBuilder(automaton.state_count).finish()
    is_plain = plain_rules(automaton)
    # The uncertain tokens of a rule with rows are those of the rules that are walked beside it, too; it is one of them.
    beside: frozenset[int] = frozenset(np.flatnonzero(walker.rules_beside()).tolist())
    alike = {rule: beside if is_plain[rule] else frozenset((rule,)) for rule in tables}
    return _struck_out(automaton, vocabulary, tables, alike, budget)


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


def _struck_out(
    automaton: GrammarAutomaton,
    vocabulary: Vocabulary,
    tables: dict[int, RowTable],
    alike: dict[int, frozenset[int]],
    budget: Budget,
) -> RowTable:
    """One table of all states, without the uncertain tokens that nothing behind their rule, or one alike, accepts."""
    resolver = _FollowResolver(automaton, vocabulary, alike, budget)
    builder = RowTableBuilder(automaton.state_count)
    for rule, table in tables.items():
        first = automaton.states_of(rule).start
        sets = builder.add_sets(table)
        for at, (accepted, uncertain) in enumerate(
            zip(table.state_accepted.tolist(), table.state_uncertain.tolist(), strict=True)
        ):
            if accepted == NO_ROW:
                continue
            budget.check_time()
            possible = resolver.possible(first + at, rule, table.uncertain_list(uncertain))
            builder.set_row(first + at, sets[accepted], builder.add_uncertain(possible))
    return builder.finish()


class _FollowResolver:
    """Decides tokens behind rules of which only what may follow is known."""

    def __init__(
        self, automaton: GrammarAutomaton, vocabulary: Vocabulary, rules: dict[int, frozenset[int]], budget: Budget
    ) -> None:
        self._flat = vocabulary.flat
        self._depth_max = vocabulary.trie.longest_token_bytes
        self._followed = followed(automaton, rules, budget)
        self._stacks = StackTable()
        states = list(dict.fromkeys(self._followed.state_behind.values()))
        heads = self._stacks.add_chains([[(state, 0)] for state in states])
        self._heads = dict(zip(states, heads, strict=True))

    @cached_property
    def _automaton_at(self) -> Any:
        """The automaton as entries of kernels take it."""
        from shmcache.rows.entries import handle

        return handle(self._followed.arrays)

    def possible(self, state: int, rule: int, tokens: Int32Array) -> Int32Array:
        """Those of ``tokens`` that may be accepted behind ``rule``, which is in ``state``."""
        from shmcache.rows.entries import resolve_tokens

        if not len(tokens):
            return tokens
        head = self._heads[self._followed.state_behind[rule]]
        flat = _flat_part(self._flat, tokens)
        known = np.zeros(len(flat.blob), dtype=np.uint8)
        verdicts = np.zeros(len(tokens), dtype=np.uint8)
        while True:
            status = resolve_tokens(
                self._automaton_at,
                self._stacks.handle,
                flat.offsets,
                flat.blob,
                frozen(np.arange(len(tokens)), np.int32),
                state,
                head,
                *front_handles(self._depth_max),
                known,
                verdicts,
            )
            if status != STACKS_FULL:
                # What overflows here is left for the matcher, which knows the real stack.
                possible: Int32Array = tokens[verdicts != 0]
                return possible
            self._stacks.grow()


def _flat_part(flat: FlatTokens, tokens: Int32Array) -> FlatTokens:
    """The bytes of some tokens alone: a kernel that remembers something for each byte then writes to few pages."""
    starts = flat.offsets[tokens]
    lengths = flat.offsets[tokens + 1] - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return FlatTokens(frozen(offsets, np.int64), frozen(flat.blob[places], np.uint8))
