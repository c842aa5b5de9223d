"""The line from grammar rules to the grammar's automaton.

Owns the order of the steps, and the second try without inlining where inlining explodes.
"""

from __future__ import annotations

import contextlib

from shmcache.automaton.grammar_automaton import GrammarAutomaton, assemble
from shmcache.automaton.inlining import choose_inlined
from shmcache.automaton.lowering import lower
from shmcache.automaton.recursion import remove_empty_words, remove_left_recursion
from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Grammar, Regular
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.nfa import determinise

_INLINED_SHARE = 0.25
"""The part of the states and edges left of a budget that the try with inlining may spend; about a second's work."""


def build_automaton(grammar: Grammar, budget: Budget) -> GrammarAutomaton:
    """The automaton of ``grammar``, whose whole tokens are ids; rules may recurse in any way, and may be empty.

    Raises :class:`SourceError` when no text at all is accepted, :class:`LimitError` when the budget is exceeded.
    """
    inlined = choose_inlined(grammar)
    if inlined:
        attempt = budget.share(_INLINED_SHARE)
        # Determinising a rule together with its callers can explode where each alone does not.
        with contextlib.suppress(LimitError):
            return _build(grammar, inlined, attempt)
    return _build(grammar, frozenset(), budget)


def _build(grammar: Grammar, inlined: frozenset[str], budget: Budget) -> GrammarAutomaton:
    lowered = lower(grammar, inlined, budget)
    nullable = remove_empty_words(lowered)
    remove_left_recursion(lowered)
    dfas: list[Dfa] = []
    for name, start, final in zip(lowered.names, lowered.starts, lowered.finals, strict=True):
        expression = grammar.rules[name]
        if isinstance(expression, Regular):
            # It is deterministic and minimal already; a long bounded repetition would take seconds to make so again.
            dfas.append(expression.automaton.without_empty_word())
        else:
            dfas.append(determinise(lowered.nfa, start, {final}, budget, start_accepts=False))
    if dfas[0].is_empty and not nullable[0]:
        raise SourceError("no text at all satisfies this grammar")
    return assemble(dfas, lowered.token_sets, nullable[0], range(lowered.called_count, len(dfas)))
