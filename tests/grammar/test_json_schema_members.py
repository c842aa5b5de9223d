"""The members of an object as a graph: against the definition of order, and in size."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.automaton.build import build_automaton
from shmcache.errors import SourceError
from shmcache.grammar.ir import Expression, Grammar, Graph, Literal
from shmcache.grammar.json_schema.counting import counted_string
from shmcache.grammar.json_schema.layout import Layout
from shmcache.grammar.json_schema.members import Levels, Member, Other, Way, member_graph
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.grammar.json_schema.rules import ROOT, Rules
from shmcache.grammar.json_schema.string_automata import NAME_ESCAPABLE, names_but, quoted
from shmcache.grammar.json_schema.strings import Strings
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.dfa import minimise
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import everything, subtract, words
from tests.reference.configurations import advance, initial
from tests.reference.grammar_recogniser import is_viable_prefix, recognises

COMMA = Literal(b",")
LEVELS = Levels()
OTHER = Literal(b'"?":0')


def graph(members: list[tuple[str, bool]], other: Expression | None, levels: Levels = LEVELS) -> Grammar:
    listed = [
        Member(name, (Way(Literal(b":" + str(at).encode()), 0),), needed) for at, (name, needed) in enumerate(members)
    ]
    others = [] if other is None else [Other(other, (Way(Literal(b""), 0),))]
    return Grammar({ROOT: member_graph(listed, others, COMMA, Strings(Budget()), levels)}, ROOT)


def expected_texts(members: list[tuple[str, bool]], with_other: bool, levels: Levels = LEVELS) -> set[bytes]:
    texts = set()
    for chosen in itertools.product((False, True), repeat=len(members)):
        if any(needed and not present for (_, needed), present in zip(members, chosen, strict=True)):
            continue
        parts = [
            f'"{name}":{at}' for at, ((name, _), present) in enumerate(zip(members, chosen, strict=True)) if present
        ]
        for others in range(4 if with_other else 1):
            count = len(parts) + others
            if count and count >= levels.minimum and (levels.maximum is None or count <= levels.maximum):
                texts.add(",".join([*parts, *['"?":0'] * others]).encode())
    return texts


NAMES = st.lists(st.text("ab", max_size=3), unique=True, min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(
    NAMES.flatmap(lambda names: st.tuples(*(st.tuples(st.just(name), st.booleans()) for name in names))),
    st.booleans(),
    st.just(LEVELS) | st.builds(Levels, st.integers(0, 3), st.none() | st.integers(1, 6)),
)
def test_the_graph_is_the_definition(members: tuple[tuple[str, bool], ...], with_other: bool, levels: Levels) -> None:
    listed = list(members)
    grammar = graph(listed, OTHER if with_other else None, levels)
    texts = expected_texts(listed, with_other, levels)
    if not texts:
        with pytest.raises(SourceError):
            build_automaton(grammar, Budget())
        return
    automaton = build_automaton(grammar, Budget())
    others = {text + b"," for text in texts} | {b"," + text for text in texts} | {b""}
    pieces = [f'"{name}":{at}'.encode() for at, (name, _) in enumerate(listed)]
    others |= {b",".join(pair) for pair in itertools.product(pieces, repeat=2)}
    for text in texts | others:
        assert recognises(grammar, text) == (text in texts), text
        assert advance(automaton, initial(automaton), text).ended == (text in texts), text


@pytest.mark.parametrize("required_every", [1, 7, 10**6])
def test_the_graph_is_linear_in_the_names(required_every: int) -> None:
    sizes = []
    for count in (200, 400):  # 100 more names part at one more character
        members = [(f"property {at:03}", at % required_every == 3) for at in range(count)]
        rule = graph(members, OTHER).rules[ROOT]
        assert isinstance(rule, Graph)
        sizes.append(rule.state_count + len(rule.edges))
    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[1] < 400 * 12 * 6


@pytest.mark.parametrize("levels", [Levels(minimum=1), Levels(maximum=8), Levels(minimum=4, maximum=6)])
def test_counting_members_is_linear_in_the_names(levels: Levels) -> None:
    sizes = []
    for count in (200, 400):  # 100 more names part at one more character
        rule = graph([(f"property {at:03}", False) for at in range(count)], OTHER, levels).rules[ROOT]
        assert isinstance(rule, Graph)
        sizes.append(rule.state_count + len(rule.edges))
    assert sizes[1] < 2.2 * sizes[0]


def test_needs_are_satisfied_by_different_members_or_one() -> None:
    ways = tuple(Way(Literal(b":" + str(needs).encode()), needs) for needs in range(4))
    members = [Member(name, ways, name == "c") for name in "abc"]
    grammar = Grammar({ROOT: member_graph(members, [], COMMA, Strings(Budget()), Levels(need_count=2))}, ROOT)
    for text in (b'"c":3', b'"a":1,"c":2', b'"a":1,"b":2,"c":0', b'"b":3,"c":0', b'"a":2,"b":0,"c":1'):
        assert recognises(grammar, text), text
    for text in (b'"c":0', b'"c":1', b'"a":1,"c":1', b'"a":3', b'"a":0,"b":2,"c":2'):
        assert not recognises(grammar, text), text


def test_names_beyond_ascii_may_be_escaped() -> None:
    grammar = graph([("é", False), ("è\n", True)], None)
    for text in ('"é":0,"è\\n":1', '"\\u00e9":0,"\\u00E8\\u000a":1', '"è\\n":1'):
        assert recognises(grammar, text.encode()), text
    for text in ('"é":0', '"\\u00e8\\\\n":1', '"e":0,"è\\n":1', '"è\n":1'):
        assert not recognises(grammar, text.encode()), text


@pytest.mark.parametrize(
    ("minimum", "maximum"),
    [(0, 0), (0, 3), (2, 2), (3, None), (0, None), (0, 2049), (255, 2100), (2055, None), (2560, 2560)],
)
def test_characters_are_counted(minimum: int, maximum: int | None) -> None:
    rules = Rules(Layout(JsonSchemaOptions()))
    rules.define(ROOT, counted_string(minimum, maximum, rules, Budget()))
    grammar = rules.grammar(())
    bounds = [minimum, 2 * minimum + 5] if maximum is None else [minimum, maximum]
    for count in {max(bound + change, 0) for bound in bounds for change in (-1, 0, 1)}:
        for character in ("a", "\\u00e9", "\\\\"):
            text = f'"{character * count}"'.encode()
            expected = count >= minimum and (maximum is None or count <= maximum)
            assert recognises(grammar, text) == expected, (count, character)
            assert is_viable_prefix(grammar, text[:-1]) == (maximum is None or count <= maximum)


def test_counting_far_takes_few_states() -> None:
    for maximum in (10**5, 2**31 - 1, 10**18):
        rules = Rules(Layout(JsonSchemaOptions()))
        rules.define(ROOT, counted_string(3, maximum, rules, Budget()))
        assert len(build_automaton(rules.grammar(()), Budget(states_max=100_000)).final) < 20_000


@settings(deadline=None, max_examples=60)
@given(st.sets(st.text("ab ", max_size=4), min_size=1, max_size=8))
def test_other_names_are_the_difference(names: set[str]) -> None:
    budget = Budget()
    direct = names_but(names, budget)
    others = subtract(everything(ANY), words(sorted(names), budget), budget)
    expected = quoted(encode_json_string(others, budget, escapable=NAME_ESCAPABLE))
    assert minimise(direct, budget) == minimise(expected, budget)
    assert direct.state_count == minimise(direct, budget).state_count
