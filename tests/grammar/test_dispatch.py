"""Dispatch against its definition: every way to cut a short text into free stretches and dispatched words."""

from __future__ import annotations

import random

import pytest

from shmcache.grammar.dispatch import dispatch, token_dispatch
from shmcache.grammar.ir import Choice, Expression, Grammar, Graph, Literal, Tokens
from shmcache.limits import Budget
from tests.grammar.test_free_text import TEXTS, occurrences, random_strings, trigger_led_to
from tests.reference.grammar_recogniser import recognises

Words = dict[str, frozenset[str]]
"""For each trigger the words that may follow it."""


def is_dispatched(text: str, words: Words, excludes: tuple[str, ...], is_loop: bool) -> bool:
    """The definition, by trying every cut."""
    triggers = tuple(words)
    if not occurrences(text, triggers + excludes):
        return True
    for cut in range(1, len(text) + 1):
        free = text[:cut]
        trigger = trigger_led_to(free, triggers)
        if trigger is None or occurrences(free, excludes):
            continue
        for word in words[trigger]:
            if text.startswith(word, cut):
                rest = text[cut + len(word) :]
                if is_dispatched(rest, words, excludes, is_loop) if is_loop else not rest:
                    return True
    return False


def expression_of(words: frozenset[str]) -> Expression:
    return Choice(tuple(Literal(word.encode()) for word in sorted(words)))


@pytest.mark.parametrize("seed", range(30))
def test_texts_are_cut_as_the_definition_says(seed: int) -> None:
    rng = random.Random(seed)
    words = {trigger: frozenset((*random_strings(rng, 2), "a")) for trigger in random_strings(rng, 3)}
    excludes = random_strings(rng, 2)
    is_loop = rng.random() < 0.7
    rules = [(trigger, expression_of(allowed)) for trigger, allowed in words.items()]
    expression = dispatch(rules, is_loop=is_loop, excludes=excludes, budget=Budget())
    grammar = Grammar({"root": expression}, "root")
    for text in rng.sample(TEXTS, 150):
        expected = is_dispatched(text, words, excludes, is_loop)
        assert recognises(grammar, text.encode()) == expected, (text, words, excludes, is_loop)


def accepts(expression: Expression, text: str) -> bool:
    return recognises(Grammar({"root": expression}, "root"), text.encode())


def test_what_a_rule_spells_is_not_searched() -> None:
    rules: list[tuple[str, Expression]] = [("<a>", Literal(b"<a>no"))]
    expression = dispatch(rules, is_loop=True, excludes=("no",), budget=Budget())
    assert accepts(expression, "x<a><a>no<a><a>no.")
    assert not accepts(expression, "no")
    assert not accepts(expression, "<a><a>nono")
    assert accepts(expression, "<a><a>no<a")
    assert not accepts(expression, "<a>")


def test_an_excluded_string_ends_before_the_trigger_does() -> None:
    """One that overlaps the beginning of a trigger forbids it there; one that goes on behind it does not."""
    rules: list[tuple[str, Expression]] = [("abc", Literal(b"d"))]
    expression = dispatch(rules, is_loop=False, excludes=("zab", "bcd"), budget=Budget())
    assert accepts(expression, "abcd")
    assert accepts(expression, "yabcd")
    assert not accepts(expression, "zabcd")
    assert not accepts(expression, "bcd")


def test_the_same_trigger_twice_is_a_choice() -> None:
    rules: list[tuple[str, Expression]] = [("a", Literal(b"x")), ("a", Literal(b"y"))]
    expression = dispatch(rules, is_loop=False, excludes=(), budget=Budget())
    assert [text for text in ("ax", "ay", "az", "axy") if accepts(expression, text)] == ["ax", "ay"]


def test_without_triggers_all_is_free() -> None:
    expression = dispatch([], is_loop=True, excludes=("end",), budget=Budget())
    assert accepts(expression, "en")
    assert not accepts(expression, "the end")


def test_graphs_are_linear_in_the_length_of_the_triggers() -> None:
    rules: list[tuple[str, Expression]] = [(f"<call {number:09}>", Literal(b"x")) for number in range(1000)]
    expression = dispatch(rules, is_loop=True, excludes=(), budget=Budget())
    assert isinstance(expression, Graph)
    assert expression.state_count <= 16_000
    assert len(expression.edges) <= 200_000


@pytest.mark.parametrize("is_loop", [False, True])
def test_tokens_are_dispatched_whole(is_loop: bool) -> None:
    word = Literal(b"x")
    expression = token_dispatch([(7, word), ("<t>", word)], is_loop=is_loop, exclude_tokens=(3, "<e>"))
    assert isinstance(expression, Graph)
    after = [target for _, item, target in expression.edges if item == word]
    free = [(source, item) for source, item, target in expression.edges if source == target]
    assert free == [(0, Tokens((7, "<t>", 3, "<e>"), is_excluded=True))]
    assert after == ([0, 0] if is_loop else [expression.final] * 2)
    triggers = {item for source, item, _ in expression.edges if source == 0 and isinstance(item, Tokens)}
    assert {Tokens((7,)), Tokens(("<t>",))} < triggers


def test_an_excluded_token_triggers_nothing() -> None:
    expression = token_dispatch([(7, Literal(b"x"))], is_loop=True, exclude_tokens=(7,))
    assert isinstance(expression, Graph)
    assert [item for _, item, _ in expression.edges if item == Literal(b"x")] == []


def test_ten_thousand_tokens_are_dispatched_quickly() -> None:
    count = 10_000
    rules: list[tuple[int | str, Expression]] = [(number, Literal(b"x")) for number in range(count)]
    expression = token_dispatch(rules, is_loop=True, exclude_tokens=range(count // 2, 2 * count))
    assert isinstance(expression, Graph)
    assert len(expression.edges) == count + 2
    assert Tokens(tuple(range(2 * count)), is_excluded=True) in {item for _, item, _ in expression.edges}
