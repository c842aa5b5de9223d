"""Digests: equal for equal rules of different grammars, different where the languages or what is called differ."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.automaton.structure import rule_digests
from shmcache.errors import SourceError
from shmcache.grammar.ir import Choice, Expression, Grammar, Literal, Reference, Repeat, Sequence, Tokens
from shmcache.limits import Budget
from tests.reference.configurations import TooAmbiguousError, advance, initial
from tests.reference.grammars import random_grammar

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")


def digests_of(automaton: GrammarAutomaton) -> list[bytes]:
    """Of all rules, by number."""
    found = rule_digests(automaton, list(range(automaton.rule_count)))
    assert list(found) == list(range(automaton.rule_count))
    return list(found.values())


def digests(tested: Grammar) -> list[bytes]:
    return digests_of(build_automaton(tested, Budget()))


def root_digest(root: Expression, **rules: Expression) -> bytes:
    """Of the root, no other rule being inlined."""
    return digests(Grammar({"root": root, **rules}, "root", frozenset(rules)))[0]


def renamed(expression: Expression, names: dict[str, str]) -> Expression:
    match expression:
        case Reference(rule):
            return Reference(names[rule])
        case Sequence(items):
            return Sequence(tuple(renamed(item, names) for item in items))
        case Choice(options):
            return Choice(tuple(renamed(option, names) for option in options))
        case Repeat(item, minimum, maximum):
            return Repeat(renamed(item, names), minimum, maximum)
    return expression


@pytest.mark.parametrize("seed", range(4))
def test_names_and_the_order_of_definition_do_not_matter(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        tested = random_grammar(rng)
        names = {name: f"another {name} {rng.random()}" for name in tested.rules}
        order = rng.sample(list(tested.rules), len(tested.rules))
        twin = Grammar(
            {names[name]: renamed(tested.rules[name], names) for name in order},
            names["root"],
            frozenset(names[name] for name in tested.shared_rules),
        )
        try:
            assert digests(tested) == digests(twin), tested
        except SourceError:
            continue


def test_equal_digests_mean_equal_languages() -> None:
    """Among many small grammars some have equal roots; those accept the same texts."""
    rng = Random(1)
    texts = [bytes(rng.choice(b"ab\xff") for _ in range(rng.randint(0, 5))) for _ in range(30)]
    by_digest: dict[bytes, tuple[list[bool], Grammar]] = {}
    met_again = 0
    for _ in range(300):
        tested = random_grammar(rng, rng.choice((1, 1, 2)))
        try:
            automaton = build_automaton(tested, Budget())
        except SourceError:
            continue
        # The digest is of the non-empty words: whether the empty text is accepted is not the rule's business.
        try:
            accepted = [advance(automaton, initial(automaton), text).ended for text in texts if text]
        except TooAmbiguousError:
            continue
        known = by_digest.setdefault(digests_of(automaton)[0], (accepted, tested))
        assert known[0] == accepted, (known[1], tested)
        met_again += known[1] is not tested
    assert met_again > 3
    assert len(by_digest) > 20


def test_what_is_called_counts() -> None:
    call = Sequence((A, Reference("one"), B))
    assert root_digest(call, one=C) == root_digest(call, one=C)
    assert root_digest(call, one=C) != root_digest(call, one=A)
    assert root_digest(call, one=C) != root_digest(Sequence((A, Reference("one"), A)), one=C)
    two = Sequence((Reference("one"), A, Reference("two")))
    assert root_digest(two, one=B, two=C) != root_digest(two, one=C, two=B)
    assert root_digest(two, one=B, two=B) != root_digest(Sequence((Reference("one"), A, Reference("one"))), one=C)


def test_a_call_at_the_end_differs_from_one_before_something() -> None:
    recursive = Choice((Sequence((A, Reference("root"))), B))
    assert root_digest(recursive) != root_digest(Choice((Sequence((A, Reference("root"), C)), B)))


def test_groups_that_call_each_other_are_told_apart() -> None:
    """Three rules in a ring; the difference is as far from the root as it can be."""

    def ring(last: Literal) -> bytes:
        return root_digest(
            Choice((Sequence((A, Reference("one"), A)), B)),
            one=Choice((Sequence((A, Reference("two"), A)), B)),
            two=Choice((Sequence((A, Reference("root"), A)), last)),
        )

    assert ring(B) == ring(B)
    assert ring(B) != ring(C)


def test_a_rule_has_one_digest_wherever_it_stands() -> None:
    """In another grammar, called from elsewhere, beside other rules."""
    value = Choice((Sequence((A, Reference("value"), B)), Reference("leaf")))
    first = Grammar({"root": Sequence((C, Reference("value"))), "value": value, "leaf": C}, "root", frozenset({"leaf"}))
    second = Grammar(
        {
            "root": Sequence((Reference("other"), Reference("value"), Reference("leaf"), Reference("value"))),
            "other": Choice((Sequence((B, Reference("other"), C)), A)),
            "value": value,
            "leaf": C,
        },
        "root",
        frozenset({"leaf"}),
    )
    shared = set(digests(first)[1:]) & set(digests(second)[1:])
    assert len(shared) == 2


@pytest.mark.parametrize("seed", range(3))
def test_only_rules_that_are_asked_for_are_digested(seed: int) -> None:
    """Alone, or with others, in any order: a rule has the digest that it has among all."""
    rng = Random(seed)
    met = 0
    for _ in range(60):
        try:
            automaton = build_automaton(random_grammar(rng, 4), Budget())
        except SourceError:
            continue
        everything = digests_of(automaton)
        some = rng.sample(range(automaton.rule_count), rng.randint(1, automaton.rule_count))
        found = rule_digests(automaton, some)
        assert list(found) == some
        assert found == {rule: everything[rule] for rule in some}
        met += len(some) < automaton.rule_count
    assert rule_digests(automaton, []) == {}
    assert met > 1


def test_every_part_of_a_rule_counts() -> None:
    """A digest changes with each number in the automaton of a rule, but for what is of no consequence."""
    rules = {
        "root": Choice((Sequence((A, Reference("one"), Tokens((3, 4)), B)), Sequence((B, Reference("one"))), C)),
        "one": Choice((A, Sequence((B, C)))),
    }
    automaton = build_automaton(Grammar(rules, "root", frozenset({"one"})), Budget())
    known = {digests_of(automaton)[0]}
    changes = 0
    for name in ("edge_low", "edge_high", "edge_target", "call_return", "final", "whole_target", "token_set_ids"):
        array = getattr(automaton, name)
        own = array[: automaton.states_of(0).stop] if name == "final" else array
        for at in range(len(own)):
            if name.startswith("edge") and at >= automaton.edge_offset[automaton.states_of(0).stop]:
                continue
            other = array.copy()
            other[at] = 1 - array[at] if name == "final" else array[at] + 1
            known.add(digests_of(replace(automaton, **{name: other}))[0])
            changes += 1
    known.add(digests_of(replace(automaton, token_set_excluded=1 - automaton.token_set_excluded))[0])
    assert changes > 12
    assert len(known) == changes + 2


def test_parts_of_a_state_are_not_mistaken_for_parts_of_the_next() -> None:
    """The same edges, divided otherwise among the states."""
    automaton = build_automaton(Grammar({"root": Sequence((Choice((A, B)), C, A))}, "root"), Budget())
    moved = automaton.edge_offset.copy()
    moved[1] -= 1
    assert digests_of(automaton) != digests_of(replace(automaton, edge_offset=moved))


def test_a_large_group_is_digested_in_time() -> None:
    """Unfolding two thousand rules four thousand times would take half a minute."""
    length = 2_000
    rules: dict[str, Expression] = {
        f"rule-{at}": Choice((Sequence((A, Reference(f"rule-{(at + 1) % length}"), B)), Literal(b"%d" % at)))
        for at in range(length)
    }
    automaton = build_automaton(Grammar(rules, "rule-0"), Budget())
    once = digests_of(automaton)
    assert len(set(once)) == length
    assert once == digests_of(automaton)
    rules["rule-1000"] = C
    other = build_automaton(Grammar(rules, "rule-0"), Budget())
    assert not set(once) & set(digests_of(other))
