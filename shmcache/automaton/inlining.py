"""Which rules stay calls and which become part of their caller.

Owns the decision. A rule is inlined when that keeps automata small: it is not recursive, not shared with other
grammars, has no wide part (a wide state costs a long walk of the vocabulary, which as a rule of its own is paid once
per host), and is either small or called from one place only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeVar

from shmcache.errors import SourceError
from shmcache.grammar.ir import (
    Characters,
    Choice,
    Expression,
    Grammar,
    Graph,
    Literal,
    Reference,
    Regular,
    Repeat,
    Sequence,
)
from shmcache.regular.dfa import Dfa

WIDE_SYMBOLS = 64
"""A state that goes on with this many different bytes, or more, is wide."""

_INLINE_SIZE_MAX = 48
"""Rules up to this size are inlined at every call."""

_INLINE_ONCE_SIZE_MAX = 20_000
"""Rules up to this size are inlined when called from one place."""


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, without recursion."""
    pending: list[Expression] = [expression]
    while pending:
        here = pending.pop()
        yield here
        if isinstance(here, Sequence):
            pending.extend(reversed(here.items))
        elif isinstance(here, Choice):
            pending.extend(reversed(here.options))
        elif isinstance(here, Repeat):
            pending.append(here.item)
        elif isinstance(here, Graph):
            pending.extend(item for _, item, _ in reversed(here.edges))


def references(expression: Expression) -> list[str]:
    """Names of the rules called, in order, with repetitions."""
    return [part.rule for part in walk(expression) if isinstance(part, Reference)]


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


Node = TypeVar("Node", bound=Hashable)


def strongly_connected(graph: dict[Node, list[Node]]) -> list[list[Node]]:
    """Components of ``graph``, callees before callers (Tarjan 1972, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on_stack: set[Node] = set()
    stack: list[Node] = []
    components: list[list[Node]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph[successor])))
                    break
                if successor in on_stack:
                    low[name] = min(low[name], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = stack.index(name) if stack[-1] != name else len(stack) - 1
                    component = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(component)
                    components.append(component)
    return components


def reachable_graph(grammar: Grammar) -> dict[str, list[str]]:
    """Rule name → names it calls, for the rules the root leads to. Raises SourceError for an undefined rule."""
    graph: dict[str, list[str]] = {}
    pending = [grammar.root]
    while pending:
        name = pending.pop()
        if name in graph:
            continue
        if name not in grammar.rules:
            raise SourceError(f"rule {name!r} is not defined")
        graph[name] = references(grammar.rules[name])
        pending.extend(reversed(graph[name]))
    return graph


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
