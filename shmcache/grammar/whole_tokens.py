"""Whole tokens of a grammar, looked up in the vocabulary it is compiled for.

Owns what :class:`ir.Tokens` and :class:`ir.Metered` mean: it turns names into ids, and a text of a bounded number of
tokens into a graph of whole tokens. The only place where rules meet a vocabulary; must never know how rules are
compiled.

A token with no bytes stands for nothing and can never be taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import (
    NOTHING,
    Choice,
    Expression,
    Grammar,
    Graph,
    Metered,
    Repeat,
    Sequence,
    Tokens,
)
from shmcache.limits import TOKEN_SETS_MAX, Budget
from shmcache.regular.dfa import Dfa
from shmcache.vocabulary.vocabulary import Vocabulary

Int64Array = npt.NDArray[np.int64]


def with_token_ids(grammar: Grammar, vocabulary: Vocabulary, budget: Budget) -> Grammar:
    """``grammar`` with every set of whole tokens as ascending ids, and without :class:`ir.Metered`.

    Equal sets become equal expressions; a set of no token is ``NOTHING``. A grammar without whole tokens is returned as
    it is. Raises :class:`SourceError` for a token that the vocabulary does not have, and :class:`LimitError` where the
    budget is exceeded or more than TOKEN_SETS_MAX different sets are needed.
    """
    if not any(_has_whole_tokens(expression) for expression in grammar.rules.values()):
        return grammar
    resolver = _Resolver(vocabulary, budget)
    rules = {name: resolver.resolved(expression) for name, expression in grammar.rules.items()}
    return replace(grammar, rules=rules)


def _has_whole_tokens(expression: Expression) -> bool:
    pending = [expression]
    while pending:
        here = pending.pop()
        if isinstance(here, (Tokens, Metered)):
            return True
        pending.extend(_parts(here))
    return False


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Sequence(items):
            return items
        case Choice(options):
            return options
        case Repeat(item, _, _):
            return (item,)
        case Graph(_, edges, _):
            return tuple(item for _, item, _ in edges)
        case _:
            return ()


def _with_parts(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    match expression:
        case Sequence():
            return Sequence(parts)
        case Choice():
            return Choice(parts)
        case Repeat(_, minimum, maximum):
            return Repeat(parts[0], minimum, maximum)
        case Graph(state_count, edges, final):
            joined = zip(edges, parts, strict=True)
            return Graph(state_count, tuple((source, part, target) for (source, _, target), part in joined), final)
        case _:
            return expression


@dataclass(slots=True)
class _Visit:
    """An expression whose parts are being rewritten."""

    expression: Expression
    parts: tuple[Expression, ...]
    done: list[Expression]


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

    def resolved(self, expression: Expression) -> Expression:
        """The expression with its whole tokens looked up; without recursion, as expressions nest deeply."""
        stack = [_Visit(expression, _parts(expression), [])]
        while True:
            visit = stack[-1]
            if len(visit.done) < len(visit.parts):
                part = visit.parts[len(visit.done)]
                stack.append(_Visit(part, _parts(part), []))
                continue
            stack.pop()
            self._budget.check_time()
            rewritten = self._rewritten(visit)
            if not stack:
                return rewritten
            stack[-1].done.append(rewritten)

    def _rewritten(self, visit: _Visit) -> Expression:
        expression = visit.expression
        if isinstance(expression, Tokens):
            if expression not in self._known:
                self._known[expression] = self._set_of(self._ids_of(expression))
            return self._known[expression]
        if isinstance(expression, Metered):
            if expression not in self._metered:
                self._metered[expression] = self._graph_of(expression)
            return self._metered[expression]
        # Not by comparing them, which goes down to the leaves.
        is_same = all(part is done for part, done in zip(visit.parts, visit.done, strict=True))
        return expression if is_same else _with_parts(expression, tuple(visit.done))

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
        key = ids.tobytes()
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
        numbers: dict[tuple[int, int], int] = {}
        for level, states in enumerate(levels):
            for state in sorted(states):
                numbers[level, state] = len(numbers)
        final = len(numbers)
        edges: list[tuple[int, Expression, int]] = []
        for (level, state), number in numbers.items():
            if automaton.accepting[state]:
                edges.append((number, Sequence(()), final))
            if level + 1 < len(levels):
                edges += [(number, step, numbers[level + 1, target]) for target, step in steps[state]]
        self._budget.spend_edges(len(edges))
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
