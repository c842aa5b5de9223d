"""Which rules become part of their caller."""

from __future__ import annotations

from shmcache.automaton.inlining import choose_inlined
from shmcache.grammar.ir import Grammar, Literal, Reference, Sequence

A = Literal(b"a")


def test_size_decides_between_one_call_and_several() -> None:
    long = Literal(b"x" * 100)
    once = Grammar({"root": Reference("long"), "long": long}, "root")
    twice = Grammar({"root": Sequence((Reference("long"), Reference("long"))), "long": long}, "root")
    assert choose_inlined(once) == {"long"}
    assert choose_inlined(twice) == frozenset()
    short = Grammar({"root": Sequence((Reference("short"), Reference("short"))), "short": A}, "root")
    assert choose_inlined(short) == {"short"}
