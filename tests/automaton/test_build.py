"""Automata of grammars against the reference recogniser: every kind of recursion, emptiness, and inlining."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

import numpy as np
import pytest

from shmcache.automaton import build
from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton
from shmcache.automaton.inlining import choose_inlined
from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import (
    EMPTY,
    NOTHING,
    Characters,
    Choice,
    Expression,
    Grammar,
    Literal,
    Reference,
    Regular,
    Repeat,
    Sequence,
)
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import everything
from tests.reference.configurations import TooAmbiguousError, advance, initial
from tests.reference.grammar_recogniser import is_viable_prefix, recognises
from tests.reference.grammars import random_grammar, random_texts

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")
ROOT = Reference("root")


def grammar(root: Expression, **rules: Expression) -> Grammar:
    return Grammar({"root": root, **rules}, "root")


def check_structure(automaton: GrammarAutomaton) -> None:
    """What kernels rely on: indices in bounds, rules in line, and no way to call for ever without a byte."""
    automaton.check_bounds()
    assert list(automaton.rule_start) == sorted(set(automaton.rule_start.tolist()))
    assert automaton.rule_start[0] == 0
    for rule in range(automaton.rule_count):
        for state in automaton.states_of(rule):
            assert automaton.rule_of_state[state] == rule
            ends = [high for _, high, _ in automaton.edges_of(state)]
            begins = [low for low, _, _ in automaton.edges_of(state)]
            assert all(high < low for high, low in zip(ends, begins[1:], strict=False))
            assert all(automaton.rule_of_state[target] == rule for _, _, target in automaton.edges_of(state))
            assert all(
                back == TAIL_CALL or automaton.rule_of_state[back] == rule for _, back in automaton.calls_of(state)
            )
        assert not automaton.final[automaton.rule_start[rule]], "a call consumes at least one byte"
    left: dict[int, set[int]] = {
        rule: {callee for callee, _ in automaton.calls_of(int(automaton.rule_start[rule]))}
        for rule in range(automaton.rule_count)
    }
    while left:
        innermost = [rule for rule, callees in left.items() if not callees & left.keys()]
        assert innermost, "left recursion"
        for rule in innermost:
            del left[rule]


def agrees(automaton: GrammarAutomaton, tested: Grammar, text: bytes) -> None:
    try:
        reached = advance(automaton, initial(automaton), text)
    except TooAmbiguousError:
        return
    assert reached.ended == recognises(tested, text), (text, tested)
    assert reached.is_alive == is_viable_prefix(tested, text), (text, tested)


@pytest.mark.parametrize("seed", range(8))
def test_random_grammars(seed: int) -> None:
    rng = Random(seed)
    built = 0
    for _ in range(30):
        tested = random_grammar(rng)
        try:
            automata = [
                build_automaton(tested, Budget(states_max=20_000)),
                build._build(tested, frozenset(), Budget(states_max=20_000)),
            ]
        except SourceError:
            assert not is_viable_prefix(tested, b""), tested
            continue
        built += 1
        for automaton in automata:
            check_structure(automaton)
        for text in random_texts(rng, tested, 12):
            for automaton in automata:
                agrees(automaton, tested, text)
    assert built > 20


NAMED: dict[str, Grammar] = {
    "left": grammar(Choice((Sequence((ROOT, A)), B))),
    "left, twice": grammar(Choice((Sequence((ROOT, A)), Sequence((ROOT, B, B)), C))),
    "left and right": grammar(Choice((Sequence((ROOT, A, ROOT)), B))),
    "only itself or a letter": grammar(Choice((ROOT, A))),
    "twice itself": grammar(Choice((Sequence((ROOT, ROOT)), A, EMPTY))),
    "hidden left": grammar(Choice((Sequence((Reference("maybe"), ROOT, B)), A)), maybe=Choice((Literal(b"c"), EMPTY))),
    "hidden left behind a repetition": grammar(Choice((Sequence((Repeat(C, 0, None), ROOT, B)), A))),
    "mutual left": grammar(
        Choice((Sequence((Reference("one"), A)), B)),
        one=Choice((Sequence((Reference("two"), B)), C)),
        two=Choice((Sequence((ROOT, C)), Sequence((Reference("one"), A)), A)),
    ),
    "left behind a rule that is only empty": grammar(
        Choice((Sequence((Reference("nothing"), ROOT, A)), B)), nothing=Sequence((EMPTY, EMPTY))
    ),
    "a cycle of empty rules": grammar(
        Sequence((Reference("one"), A)), one=Choice((Reference("two"), EMPTY)), two=Choice((Reference("one"), B))
    ),
    "middle": grammar(Choice((Sequence((A, ROOT, B)), EMPTY))),
    "middle, ambiguous": grammar(Choice((Sequence((A, ROOT, B)), Sequence((A, ROOT, C)), EMPTY))),
    "right": grammar(Choice((Sequence((A, ROOT)), B))),
    "hidden right": grammar(Choice((Sequence((A, ROOT, Repeat(B, 0, 1))), C))),
    "an unproductive option": grammar(
        Choice((Sequence((A, Reference("never"))), B)), never=Sequence((C, Reference("never")))
    ),
    "unproductive left recursion": grammar(Choice((Sequence((ROOT, NOTHING)), Sequence((ROOT, A)), B))),
    "a star of stars": grammar(Repeat(Repeat(A, 0, None), 0, None)),
    "a star of something that may be empty": grammar(Repeat(Choice((A, EMPTY, Repeat(B, 0, None))), 0, None)),
    "a counted star": grammar(Repeat(Repeat(A, 0, None), 2, 3)),
    "the last byte beside a call of the root": grammar(Choice((Sequence((A, Choice((Literal(b"\xff"), ROOT)))), B))),
    "contradicting bounds": grammar(Choice((Repeat(A, 3, 2), B))),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_grammars(name: str) -> None:
    tested = NAMED[name]
    for automaton in (build_automaton(tested, Budget()), build._build(tested, frozenset(), Budget())):
        check_structure(automaton)
        rng = Random(1)
        texts = [b"", *(bytes(rng.choice(b"abc") for _ in range(rng.randint(1, 6))) for _ in range(150))]
        for text in [*texts, *random_texts(rng, tested, 60), b"a\xff", b"\xff", b"aab", b"aa\xff"]:
            agrees(automaton, tested, text)


def test_the_empty_text_alone() -> None:
    for tested in (grammar(EMPTY), grammar(Literal(b"")), grammar(Repeat(A, 0, 0)), grammar(Repeat(NOTHING, 0, None))):
        automaton = build_automaton(tested, Budget())
        check_structure(automaton)
        assert automaton.root_nullable
        assert initial(automaton).ended
        assert not initial(automaton).entries
        assert not advance(automaton, initial(automaton), b"a").is_alive


@pytest.mark.parametrize(
    "tested",
    [
        grammar(NOTHING),
        grammar(ROOT),
        grammar(Sequence((A, ROOT))),
        grammar(Characters(CodePoints(()))),
        grammar(Sequence((A, NOTHING))),
        grammar(Repeat(A, 2, 1)),
        grammar(Sequence((Reference("one"), A)), one=Sequence((Reference("two"), B)), two=Reference("one")),
    ],
)
def test_a_grammar_without_texts_is_refused(tested: Grammar) -> None:
    with pytest.raises(SourceError, match="no text"):
        build_automaton(tested, Budget())


@pytest.mark.parametrize("tested", [grammar(Reference("missing")), Grammar({"other": A}, "root")])
def test_a_missing_rule_is_refused(tested: Grammar) -> None:
    with pytest.raises(SourceError, match="not defined"):
        build_automaton(tested, Budget())


def test_a_missing_rule_that_nothing_reaches_is_not_missed() -> None:
    build_automaton(grammar(A, other=Reference("missing")), Budget())


def test_a_call_at_the_end_pushes_nothing() -> None:
    automaton = build_automaton(NAMED["right"], Budget())
    assert [call for state in range(automaton.state_count) for call in automaton.calls_of(state)] == [(0, TAIL_CALL)]
    configuration = advance(automaton, initial(automaton), b"a" * 100)
    assert {stack for _, stack in configuration.entries} == {()}


LENGTH = 10_000


def chain(length: int, last: Expression, link: Callable[[Reference], Expression]) -> Grammar:
    """A rule calls the next one, and so on; ``link`` makes the body of a rule from the call."""
    rules = {f"rule-{at}": link(Reference(f"rule-{at + 1}")) for at in range(length)}
    rules[f"rule-{length}"] = last
    return Grammar(rules, "rule-0")


def uninlined(tested: Grammar) -> Grammar:
    return replace(tested, shared_rules=frozenset(tested.rules))


FIRST = Reference("rule-0")


@pytest.mark.parametrize(
    ("tested", "member", "other"),
    [
        (chain(LENGTH, A, lambda call: call), b"a", b"aa"),
        (chain(LENGTH, A, lambda call: Sequence((B, call))), b"b" * LENGTH + b"a", b"ba"),
        (uninlined(chain(LENGTH, A, lambda call: Sequence((B, call)))), b"b" * LENGTH + b"a", b"ba"),
        (uninlined(chain(LENGTH, EMPTY, lambda call: Sequence((call, call)))), b"", b"a"),
        (chain(LENGTH, FIRST, lambda call: Choice((Sequence((A, call)), B))), b"aaab", b"aaba"),
        (chain(40, FIRST, lambda call: Choice((Sequence((call, A)), B))), b"baaa", b"ab"),
    ],
    ids=["plain", "inlined", "called", "empty", "a ring", "a left-recursive ring"],
)
def test_ten_thousand_rules_in_a_chain(tested: Grammar, member: bytes, other: bytes) -> None:
    """An answer, not a RecursionError, and not after the square of their number in steps."""
    automaton = build_automaton(tested, Budget(seconds_max=10))
    assert advance(automaton, initial(automaton), member).ended
    assert not advance(automaton, initial(automaton), other).is_alive


def test_nested_repetitions_are_stopped_at_once() -> None:
    tested = grammar(Repeat(Repeat(Repeat(A, 1_000, 1_000), 1_000, 1_000), 1_000, 1_000))
    with pytest.raises(LimitError) as caught:
        build_automaton(tested, Budget(states_max=20_000))
    assert caught.value.limit == "states"


def test_a_substitution_that_multiplies_is_stopped() -> None:
    """Paull's elimination is exponential in the worst case: every rule calls every other one first."""
    count = 14
    names = [f"rule-{at}" for at in range(count)]
    rules: dict[str, Expression] = {
        name: Choice(
            (
                Literal(b"%x" % at),
                *(Sequence((Reference(other), Literal(b"%x%x" % (at, to)))) for to, other in enumerate(names)),
            )
        )
        for at, name in enumerate(names)
    }
    with pytest.raises(LimitError):
        build_automaton(Grammar(rules, "rule-0"), Budget(states_max=20_000, edges_max=200_000))


def test_time_is_a_limit_too() -> None:
    now = iter(range(1_000_000))
    with pytest.raises(LimitError) as caught:
        build_automaton(chain(300, A, lambda call: Sequence((B, call))), Budget(clock=lambda: float(next(now)) * 10))
    assert caught.value.limit == "seconds"


def test_inlining_that_explodes_is_given_up() -> None:
    """Each rule alone is small; determinised together with what follows, it has 2**20 states."""
    letter = Characters(CodePoints.of("ab"))
    tested = grammar(
        Sequence((Reference("any"), A, Reference("tail"))),
        any=Repeat(letter, 0, None),
        tail=Repeat(letter, 20, 20),
    )
    assert choose_inlined(tested) == {"any", "tail"}
    automaton = build_automaton(tested, Budget(states_max=100_000, seconds_max=20))
    assert automaton.rule_count == 3
    assert advance(automaton, initial(automaton), b"ba" + b"ab" * 10).ended


def test_shared_and_wide_and_recursive_rules_stay_calls() -> None:
    text = Regular(encode_json_string(everything(ANY), Budget()))
    rules: dict[str, Expression] = {
        "root": Sequence((Reference("string"), Reference("shared"), Reference("loop"), Reference("small"))),
        "string": text,
        "shared": A,
        "loop": Choice((Sequence((A, Reference("loop"), B)), C)),
        "small": B,
    }
    assert choose_inlined(Grammar(rules, "root", frozenset({"shared"}))) == {"small"}


def test_the_automaton_does_not_depend_on_how_fast_it_was_made() -> None:
    number = Sequence((Repeat(Characters(CodePoints.of((0x30, 0x39))), 1, None), Repeat(Literal(b"."), 0, 1)))
    members = [Sequence((Literal(b"k%d:" % at), Reference("number"))) for at in range(40)]
    tested = grammar(Sequence(tuple(members)), number=number)
    readings = count()
    quick = build_automaton(tested, Budget(clock=lambda: 0.0 * next(readings)))
    second_per_reading = 0.9 * Budget().seconds_max / next(readings)
    readings = count()
    slow = build_automaton(tested, Budget(clock=lambda: second_per_reading * next(readings)))
    assert quick.rule_count == 1
    assert all(np.array_equal(one, other) for one, other in zip(quick.arrays(), slow.arrays(), strict=True))
