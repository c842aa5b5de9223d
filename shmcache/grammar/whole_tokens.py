"""Whole tokens of a grammar, looked up in the vocabulary it is compiled for.

Owns what :class:`ir.Tokens` and :class:`ir.Metered` mean: it turns names into ids, and a text of a bounded number of
tokens into a graph of whole tokens. The only place where rules meet a vocabulary; must never know how rules are
compiled.

A token with no bytes stands for nothing and can never be taken.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int64Array
from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import EMPTY, NOTHING, Expression, Grammar, Graph, Metered, Tokens
from shmcache.grammar.rewriting import rewritten, walk
from shmcache.limits import TOKEN_SET_IDS_MAX, TOKEN_SETS_MAX, Budget
from shmcache.regular.dfa import Dfa
from shmcache.vocabulary.vocabulary import Vocabulary


def with_token_ids(grammar: Grammar, vocabulary: Vocabulary, budget: Budget) -> Grammar:
    """``grammar`` with every set of whole tokens as ascending ids, and without :class:`ir.Metered`.

    Equal sets become equal expressions; a set of no token is ``NOTHING``. A grammar without whole tokens is returned as
    it is. Raises :class:`SourceError` for a token that the vocabulary does not have, and :class:`LimitError` where the
    budget is exceeded or more than TOKEN_SETS_MAX different sets are needed, or TOKEN_SET_IDS_MAX ids in them.
    """
    parts = (part for expression in grammar.rules.values() for part in walk(expression))
    if not any(isinstance(part, (Tokens, Metered)) for part in parts):
        return grammar
    resolver = _Resolver(vocabulary, budget)
    rules = {name: rewritten(expression, resolver.resolved) for name, expression in grammar.rules.items()}
    return replace(grammar, rules=rules)


class _Resolver:
    def __init__(self, vocabulary: Vocabulary, budget: Budget) -> None:
        self._vocabulary = vocabulary
        self._budget = budget
        lengths = np.diff(vocabulary.flat.offsets)[: vocabulary.width]
        self._usable: Int64Array = np.flatnonzero(lengths > 0)
        self._by_bytes: dict[bytes, list[int]] | None = None
        self._known: dict[Tokens, Expression] = {}
        self._metered: dict[Metered, Expression] = {}
        self._sets: dict[bytes, Expression] = {}
        self._named = 0

    def resolved(self, part: Expression) -> Expression:
        """A part without parts, its whole tokens looked up."""
        self._budget.check_time()
        if isinstance(part, Tokens):
            if part not in self._known:
                self._known[part] = self._set_of(self._ids_of(part))
            return self._known[part]
        if isinstance(part, Metered):
            if part not in self._metered:
                self._metered[part] = self._graph_of(part)
            return self._metered[part]
        return part

    def _ids_of(self, tokens: Tokens) -> Int64Array:
        named: set[int] = set()
        for name in tokens.names:
            found = self._ids_of_text(name) if isinstance(name, str) else [name]
            if isinstance(name, int) and not tokens.is_excluded and not self._is_usable(name):
                raise SourceError(f"the vocabulary has no token {name}, or one that stands for no text")
            named.update(found)
        ids = np.array(sorted(named), dtype=np.int64)
        return np.setdiff1d(self._usable, ids, assume_unique=True) if tokens.is_excluded else ids

    def _is_usable(self, token_id: int) -> bool:
        at = int(np.searchsorted(self._usable, token_id))
        return at < len(self._usable) and int(self._usable[at]) == token_id

    def _ids_of_text(self, text: str) -> list[int]:
        if self._by_bytes is None:
            self._by_bytes = {}
            for token_id in self._usable.tolist():
                self._by_bytes.setdefault(self._vocabulary.token_bytes(token_id), []).append(token_id)
        ids = self._by_bytes.get(text.encode())
        if ids is None:
            raise SourceError(f"the vocabulary has no token {text!r}; name it by its id, or spell it as text")
        return ids

    def _set_of(self, ids: Int64Array) -> Expression:
        """One expression for every set of ids, ascending, in whichever way names fewer of them."""
        if not len(ids):
            return NOTHING
        # The ids themselves would take a megabyte for each of thousands of sets.
        key = hashlib.blake2b(ids.tobytes(), digest_size=32).digest()
        known = self._sets.get(key)
        if known is not None:
            return known
        if len(self._sets) >= TOKEN_SETS_MAX:
            raise LimitError(
                f"the grammar needs more than {TOKEN_SETS_MAX} different sets of whole tokens",
                limit="token_sets",
                value=TOKEN_SETS_MAX,
            )
        others = np.setdiff1d(self._usable, ids, assume_unique=True)
        is_excluded = len(others) < len(ids)
        self._named += min(len(others), len(ids))
        if self._named > TOKEN_SET_IDS_MAX:
            raise LimitError(
                f"the sets of whole tokens of the grammar name more than {TOKEN_SET_IDS_MAX} ids",
                limit="token_set_ids",
                value=TOKEN_SET_IDS_MAX,
            )
        self._sets[key] = Tokens(tuple((others if is_excluded else ids).tolist()), is_excluded)
        return self._sets[key]

    def _graph_of(self, metered: Metered) -> Expression:
        """States (tokens taken, state of the automaton), and one to end in; an edge for every step of one token."""
        automaton = metered.automaton
        steps = self._token_steps(automaton)
        levels = [{0}]
        while len(levels) <= metered.tokens_max and levels[-1]:
            levels.append({target for source in levels[-1] for target, _ in steps[source]})
            self._budget.spend_states(len(levels[-1]))
            self._budget.check_time()
        numbers: dict[tuple[int, int], int] = {}
        for level, states in enumerate(levels):
            for state in sorted(states):
                numbers[level, state] = len(numbers)
        final = len(numbers)
        edges: list[tuple[int, Expression, int]] = []
        spent = 0
        for (level, state), number in numbers.items():
            if automaton.accepting[state]:
                edges.append((number, EMPTY, final))
            if level + 1 < len(levels):
                edges += [(number, step, numbers[level + 1, target]) for target, step in steps[state]]
            self._budget.spend_edges(len(edges) - spent)
            spent = len(edges)
        return Graph(final + 1, tuple(edges), final)

    def _token_steps(self, automaton: Dfa) -> list[list[tuple[int, Expression]]]:
        """For each state the states to which some text token leads, each with the set of those tokens."""
        flat = self._vocabulary.flat
        ids = self._vocabulary.text_token_ids()
        starts = flat.offsets[ids]
        lengths = flat.offsets[ids + 1] - starts
        table = _dense_table(automaton)
        steps: list[list[tuple[int, Expression]]] = []
        for state in range(automaton.state_count):
            self._budget.check_time()
            after = _after_tokens(table, state, flat.blob, starts, lengths)
            targets = np.unique(after[after >= 0]).tolist()
            steps.append([(target, self._set_of(ids[after == target])) for target in targets])
        return steps


def _dense_table(automaton: Dfa) -> npt.NDArray[np.int32]:
    """int32 (states, 256): the state after a byte, or -1."""
    table = np.full((automaton.state_count, 256), -1, dtype=np.int32)
    for state, row in enumerate(automaton.edges):
        for low, high, target in row:
            table[state, low : high + 1] = target
    return table


def _after_tokens(
    table: npt.NDArray[np.int32], state: int, blob: npt.NDArray[np.uint8], starts: Int64Array, lengths: Int64Array
) -> npt.NDArray[np.int32]:
    """int32 (tokens): the state to which each token leads from ``state``, or -1; all tokens byte by byte together."""
    after = np.full(len(starts), state, dtype=np.int32)
    going = np.arange(len(starts))
    depth = 0
    while len(going):
        after[going] = table[after[going], blob[starts[going] + depth]]
        depth += 1
        going = going[(after[going] >= 0) & (lengths[going] > depth)]
    return after
