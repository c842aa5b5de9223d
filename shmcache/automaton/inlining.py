"""Which rules stay calls and which become part of their caller.

Owns the decision. A rule is inlined when that keeps automata small: it is not recursive, not shared with other
grammars, has no wide part (a wide state costs a long walk of the vocabulary, which as a rule of its own is paid once
per host), and is either small or called from one place only.
"""

from __future__ import annotations

from shmcache.automaton.rule_graph import reachable_graph, strongly_connected
from shmcache.grammar.ir import Characters, Expression, Grammar, Literal, Regular, Repeat
from shmcache.grammar.rewriting import walk
from shmcache.regular.dfa import Dfa

WIDE_SYMBOLS = 64
"""A state that goes on with this many different bytes, or more, is wide."""

_INLINE_SIZE_MAX = 48
"""Rules up to this size are inlined at every call."""

_INLINE_ONCE_SIZE_MAX = 20_000
"""Rules up to this size are inlined when called from one place."""


def _has_wide_state(dfa: Dfa) -> bool:
    return any(sum(high - low + 1 for low, high, _ in row) >= WIDE_SYMBOLS for row in dfa.edges)


def _is_wide(expression: Expression) -> bool:
    for part in walk(expression):
        if isinstance(part, Regular) and _has_wide_state(part.automaton):
            return True
        if (
            isinstance(part, Repeat)
            and isinstance(part.item, Characters)
            and len(part.item.code_points) >= WIDE_SYMBOLS
            and (part.maximum is None or part.maximum > 1)
        ):
            return True
    return False


def _own_size(expression: Expression) -> int:
    """About how many automaton states the expression takes; repetition counts are looked at one level deep."""
    size = 0
    for part in walk(expression):
        if isinstance(part, Literal):
            size += len(part.data)
        elif isinstance(part, Regular):
            size += part.automaton.state_count
        elif isinstance(part, Repeat):
            size += 2 * max(part.minimum, part.maximum or 0)
        else:
            size += 1
    return size


def choose_inlined(grammar: Grammar) -> frozenset[str]:
    """Names of the rules to be made part of their callers."""
    graph = reachable_graph(grammar)
    calls: dict[str, int] = {}
    for names in graph.values():
        for name in names:
            calls[name] = calls.get(name, 0) + 1
    inlined: set[str] = set()
    sizes: dict[str, int] = {}
    for component in strongly_connected(graph):
        name = component[0]
        expression = grammar.rules[name]
        recursive = len(component) > 1 or name in graph[name]
        if recursive or name in grammar.shared_rules or name == grammar.root or _is_wide(expression):
            continue
        sizes[name] = _own_size(expression) + sum(sizes[callee] for callee in graph[name] if callee in inlined)
        limit = _INLINE_ONCE_SIZE_MAX if calls.get(name, 0) <= 1 else _INLINE_SIZE_MAX
        if sizes[name] <= limit:
            inlined.add(name)
    return frozenset(inlined)
