"""Whole tokens become ids: equal sets are equal expressions, and what is unknown is refused."""

from __future__ import annotations

import numpy as np
import pytest

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import NOTHING, Choice, Expression, Grammar, Graph, Literal, Metered, Repeat, Sequence, Tokens
from shmcache.grammar.whole_tokens import with_token_ids
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import everything
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.whole_tokens import members

pytestmark = pytest.mark.reference

VOCABULARY = Vocabulary(
    [b"a", b"b", b"ab", b"<tool>", b"</s>", b"", b"a", b"<pad>", None, b"late"],
    special_token_ids=[3, 7],
    stop_token_ids=[4],
    width=9,
)


def resolved(expression: Expression, budget: Budget | None = None) -> Expression:
    grammar = Grammar({"root": expression}, "root")
    return with_token_ids(grammar, VOCABULARY, budget or Budget()).rules["root"]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (Tokens((1, 0)), Tokens((0, 1))),
        (Tokens(("a", 2)), Tokens((0, 2, 6))),
        (Tokens(("<tool>",)), Tokens((3,))),
        (Tokens((0, 1, 2, 3, 6)), Tokens((4, 7), is_excluded=True)),
        (Tokens(("<tool>", 5, 8, 9, 99), is_excluded=True), Tokens((3,), is_excluded=True)),
        (Tokens((), is_excluded=True), Tokens((), is_excluded=True)),
        (Tokens(()), NOTHING),
        (Tokens((0, 1, 2, 3, 4, 6, 7), is_excluded=True), NOTHING),
    ],
)
def test_sets_are_named_in_one_way(tokens: Tokens, expected: Expression) -> None:
    assert resolved(tokens) == expected
    if isinstance(expected, Tokens):
        assert members(tokens, VOCABULARY) == members(expected, VOCABULARY)


@pytest.mark.parametrize("name", [5, 8, 9, 99, -1, "late", "none such", ""])
def test_what_the_vocabulary_does_not_have_is_refused(name: int | str) -> None:
    with pytest.raises(SourceError, match=repr(name)):
        resolved(Sequence((Literal(b"x"), Tokens((name,)))))


def test_an_unknown_text_is_refused_among_the_excluded_too() -> None:
    with pytest.raises(SourceError, match="'</think>'"):
        resolved(Tokens(("</think>",), is_excluded=True))


def test_a_grammar_of_bytes_is_left_alone() -> None:
    grammar = Grammar({"root": Choice((Literal(b"a"), Graph(1, ((0, Literal(b"b"), 0),), 0)))}, "root")
    assert with_token_ids(grammar, VOCABULARY, Budget()) is grammar


def test_every_place_is_reached() -> None:
    def of(leaf: Expression) -> Expression:
        return Choice((Repeat(Sequence((Literal(b"x"), leaf)), 0, 3), Graph(2, ((0, leaf, 1), (1, leaf, 0)), 1)))

    assert resolved(of(Tokens(("ab",)))) == of(Tokens((2,)))


def test_nesting_is_no_recursion() -> None:
    deep: Expression = Tokens(("ab",))
    for _ in range(5_000):
        deep = Sequence((deep,))
    found = resolved(deep)
    for _ in range(5_000):
        assert isinstance(found, Sequence)
        (found,) = found.items
    assert found == Tokens((2,))


def test_a_text_of_some_tokens() -> None:
    """Behind ``b`` alone the automaton is in another state than behind ``a``; special tokens are no text."""
    found = resolved(Metered(encode_utf8(everything(CodePoints.of("ab")), Budget()), 2))
    assert isinstance(found, Graph)
    steps = [edge for edge in found.edges if isinstance(edge[1], Tokens)]
    assert [members(step, VOCABULARY) for _, step, _ in steps if isinstance(step, Tokens)] == [{0, 1, 2, 6}] * 2
    assert resolved(Metered(encode_utf8(everything(CodePoints.of("x")), Budget()), 2)) == Graph(
        2, ((0, Sequence(()), 1),), 1
    )


def test_more_tokens_than_the_budget_has_states_for() -> None:
    with pytest.raises(LimitError):
        resolved(Metered(encode_utf8(everything(ANY), Budget()), 1 << 31))
    with pytest.raises(LimitError):
        resolved(Metered(encode_utf8(everything(ANY), Budget()), 100_000), Budget(states_max=50_000))


def test_too_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmcache.grammar.whole_tokens.TOKEN_SETS_MAX", 2)
    options = [Tokens((one,)) for one in (0, 1, 0)]
    resolved(Choice(tuple(options)))
    with pytest.raises(LimitError) as caught:
        resolved(Choice((*options, Tokens((2,)))))
    assert caught.value.limit == "token_sets"


def test_too_many_ids_in_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmcache.grammar.whole_tokens.TOKEN_SET_IDS_MAX", 5)
    within = Choice((Tokens((0, 1)), Tokens((1, 2)), Tokens((0, 1)), Tokens((0,), is_excluded=True)))
    assert resolved(within) == within
    with pytest.raises(LimitError) as caught:
        resolved(Sequence((within, Tokens((2,)))))
    assert (caught.value.limit, caught.value.value) == ("token_set_ids", 5)


def test_edges_are_spent_as_they_are_made() -> None:
    """Not only when all are there: a state may have thousands, at each of as many places as there are tokens."""
    graph = resolved(Metered(encode_utf8(everything(ANY), Budget()), 50))
    assert isinstance(graph, Graph)
    budget = Budget(edges_max=40)
    with pytest.raises(LimitError):
        resolved(Metered(encode_utf8(everything(ANY), Budget()), 50), budget)
    assert 40 < budget.edges < len(graph.edges)


def test_steps_agree_with_the_automaton_token_by_token() -> None:
    rng = np.random.default_rng(20261130)
    tokens = [rng.integers(97, 102, size=rng.integers(0, 5)).astype(np.uint8).tobytes() for _ in range(200)]
    tokens += ["é".encode(), b"\xc3", b"\xa9", b"\xa9a"]
    vocabulary = Vocabulary(tokens, special_token_ids=[3], width=203)
    automaton = encode_utf8(everything(CodePoints.of("abcé")), Budget())
    grammar = with_token_ids(Grammar({"root": Metered(automaton, 1)}, "root"), vocabulary, Budget())
    graph = grammar.rules["root"]
    assert isinstance(graph, Graph)
    found = set()
    for source, step, _ in graph.edges:
        if isinstance(step, Tokens):
            assert source == 0
            found |= members(step, vocabulary)
    expected = set()
    for number in range(vocabulary.width):
        state = 0
        for byte in vocabulary.token_bytes(number):
            state = automaton.target(state, byte) if state >= 0 else -1
        if state >= 0 and vocabulary.is_text(number):
            expected.add(number)
    assert found == expected
    assert {203, 202} & expected == set()
