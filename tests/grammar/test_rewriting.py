"""Expressions walked and rewritten part by part: what changes, what stays the same object, and any depth."""

from __future__ import annotations

from shmcache.grammar.ir import EMPTY, Choice, Expression, Graph, Literal, Reference, Repeat, Sequence
from shmcache.grammar.rewriting import rewritten, walk

DEPTH = 20_000


def renamed(part: Expression) -> Expression:
    return Reference(f"x_{part.rule}") if isinstance(part, Reference) else part


def test_parts_are_changed_wherever_they_stand() -> None:
    call, other = Reference("a"), Reference("x_a")
    pairs: list[tuple[Expression, Expression]] = [
        (call, other),
        (Sequence((Literal(b"a"), call)), Sequence((Literal(b"a"), other))),
        (Choice((call, EMPTY)), Choice((other, EMPTY))),
        (Repeat(call, 1, None), Repeat(other, 1, None)),
        (Graph(2, ((0, call, 1), (1, EMPTY, 0)), 1), Graph(2, ((0, other, 1), (1, EMPTY, 0)), 1)),
    ]
    for before, after in pairs:
        assert rewritten(before, renamed) == after


def test_what_does_not_change_is_not_copied() -> None:
    kept = Sequence((Literal(b"a"), Repeat(Literal(b"b"), 0, 2)))
    assert rewritten(kept, renamed) is kept
    whole = rewritten(Choice((kept, Reference("a"))), renamed)
    assert isinstance(whole, Choice)
    assert whole.options[0] is kept


def test_deep_expressions_need_no_deep_stack() -> None:
    deep: Expression = Reference("a")
    for _ in range(DEPTH):
        deep = Sequence((deep,))
    here = rewritten(deep, renamed)
    for _ in range(DEPTH):
        assert isinstance(here, Sequence)
        (here,) = here.items
    assert here == Reference("x_a")


def test_all_parts_come_in_order() -> None:
    one, two = Reference("one"), Reference("two")
    graph = Graph(2, ((0, one, 1), (1, EMPTY, 0)), 1)
    repeat = Repeat(two, 0, 1)
    choice = Choice((one, repeat))
    whole = Sequence((Literal(b"a"), choice, graph))
    assert list(walk(whole)) == [whole, Literal(b"a"), choice, one, repeat, two, graph, one, EMPTY]
