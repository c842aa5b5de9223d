"""Which rules of a grammar call which.

Owns the graph of calls and its components. Must never know automata.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from shmcache.errors import SourceError
from shmcache.grammar.ir import Expression, Grammar, Reference
from shmcache.grammar.rewriting import walk

Node = TypeVar("Node", bound=Hashable)


def references(expression: Expression) -> list[str]:
    """Names of the rules called, in order, with repetitions."""
    return [part.rule for part in walk(expression) if isinstance(part, Reference)]


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
                    component = [stack.pop()]
                    while component[-1] != name:
                        component.append(stack.pop())
                    component.reverse()
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
