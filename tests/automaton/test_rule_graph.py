"""The graph of rules and its components, against brute force."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.automaton.rule_graph import reachable_graph, references, strongly_connected
from shmcache.errors import SourceError
from shmcache.grammar.ir import Choice, Expression, Grammar, Literal, Reference, Repeat, Sequence

A = Literal(b"a")


def reaches(graph: dict[str, list[str]], source: str) -> set[str]:
    seen = {source}
    pending = [source]
    while pending:
        for target in graph[pending.pop()]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_components_are_those_of_mutual_reachability(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        names = [str(number) for number in range(rng.randint(1, 8))]
        graph = {name: rng.choices(names, k=rng.randint(0, 3)) for name in names}
        reached = {name: reaches(graph, name) for name in names}
        expected = {frozenset(b for b in names if b in reached[a] and a in reached[b]) for a in names}
        components = strongly_connected(graph)
        assert {frozenset(component) for component in components} == expected, graph
        assert sum(map(len, components)) == len(names)
        done: set[str] = set()
        for component in components:
            done.update(component)
            assert all(set(graph[name]) <= done for name in component), "callees come first"


def test_components_take_time_in_proportion() -> None:
    """Pairs that call each other, in one long chain: a component lies on top of all those that lead to it."""
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    count = 1_000
    names = [(Name(f"{number}"), Name(f"{number}'")) for number in range(count)]
    graph: dict[Name, list[Name]] = {}
    for at, (one, other) in enumerate(names):
        graph[one] = [other, *(names[at + 1][:1] if at + 1 < count else ())]
        graph[other] = [one]
    components = strongly_connected(graph)
    assert components == [list(pair) for pair in reversed(names)]
    assert compared < 20 * count


def test_calls_come_in_order() -> None:
    expression = Sequence((A, Choice((Reference("one"), Repeat(Reference("two"), 0, 1))), Reference("one")))
    assert references(expression) == ["one", "two", "one"]


def test_only_rules_that_the_root_leads_to_are_looked_at() -> None:
    rules: dict[str, Expression] = {
        "root": Sequence((Reference("two"), Reference("one"))),
        "one": A,
        "two": Reference("one"),
        "other": Reference("missing"),
    }
    assert list(reachable_graph(Grammar(rules, "root"))) == ["root", "two", "one"]
    with pytest.raises(SourceError, match="missing"):
        reachable_graph(Grammar(rules, "other"))
