"""Whole tokens: a mask allows exactly what accepting accepts, and exactly what some reading of the tokens allows."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Repeat, Sequence, Tokens
from shmcache.grammar.whole_tokens import with_token_ids
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.whole_tokens import Readings, with_random_tokens

pytestmark = pytest.mark.reference

WORDS = Vocabulary(
    [b"a", b"b", b"ab", b"<tool>", b"</s>", b"", b"a", b"<pad>"], special_token_ids=[3, 7], stop_token_ids=[4]
)


def matcher_of(root: object, vocabulary: Vocabulary = WORDS, **rules: object) -> GrammarMatcher:
    tested = Grammar({"root": root, **rules}, "root")  # type: ignore[dict-item]
    return GrammarMatcher(compiled(with_token_ids(tested, vocabulary, Budget()), vocabulary))


@pytest.mark.parametrize("seed", range(12))
def test_masks_along_random_walks(seed: int) -> None:
    rng = Random(seed)
    steps = wholes = 0
    for _ in range(6):
        vocabulary = random_vocabulary(rng)
        try:
            tested = with_random_tokens(rng, random_grammar(rng), vocabulary)
            grammar = compiled_or_none(with_token_ids(tested, vocabulary, Budget()), vocabulary)
        except SourceError:
            continue
        if grammar is None:
            continue
        wholes += grammar.image.automaton.has_whole_tokens
        for _ in range(2):
            matcher, readings = GrammarMatcher(grammar), Readings.of(tested, vocabulary)
            stops = set(matcher.stop_token_ids)
            for _ in range(4):
                try:
                    found = allowed(matcher, vocabulary.width)
                    accepted = {one for one in range(-2, vocabulary.width + 40) if matcher.fork().accept_token(one)}
                except LimitError:
                    break
                context = (readings.texts, tested, [vocabulary.token_bytes(one) for one in range(vocabulary.size)])
                assert found == accepted, context
                assert found == readings.mask(stops), context
                assert matcher.is_completed() == readings.ended, context
                ways = sorted(found - stops)
                if not ways:
                    break
                token = rng.choice(ways)
                assert matcher.accept_token(token)
                readings = readings.after(token)
                steps += 1
    assert steps > 10
    assert wholes > 0


def test_a_token_is_one_thing_and_its_bytes_another() -> None:
    matcher = matcher_of(Sequence((Literal(b"a"), Tokens((1,)))))
    assert allowed(matcher, WORDS.width) == {0, 6}
    assert not matcher.fork().accept_token(2), "its second byte is no token"
    assert matcher.accept_token(6)
    assert allowed(matcher, WORDS.width) == {1}
    assert not matcher.accept_string("b"), "bytes are no token"
    assert matcher.accept_token(1)
    assert allowed(matcher, WORDS.width) == {4}


def test_both_ways_to_read_a_token_go_on() -> None:
    matcher = matcher_of(Choice((Sequence((Tokens((0,)), Literal(b"a"))), Sequence((Literal(b"a"), Literal(b"b"))))))
    assert allowed(matcher, WORDS.width) == {0, 2, 6}
    assert matcher.accept_token(0)
    assert allowed(matcher, WORDS.width) == {0, 1, 6}
    matcher.rollback(1)
    assert matcher.accept_token(6)
    assert allowed(matcher, WORDS.width) == {1}


def test_special_tokens_and_stop_tokens() -> None:
    any_tokens = Repeat(Tokens(("<tool>", 0), is_excluded=True), 0, None)
    matcher = matcher_of(any_tokens)
    assert allowed(matcher, WORDS.width) == {1, 2, 4, 6, 7}, "the text may end: 4 stops"
    matcher = matcher_of(Sequence((any_tokens, Tokens(("<tool>",)))))
    assert allowed(matcher, WORDS.width) == {1, 2, 3, 6, 7}
    assert not matcher.accept_token(4), "a stop token is no token of the text"
    assert not matcher.accept_token(5), "it stands for nothing"
    assert matcher.accept_token(3)
    assert matcher.is_completed()
    overridden = GrammarMatcher(matcher._grammar, override_stop_tokens=7)
    assert allowed(overridden, WORDS.width) == {1, 2, 3, 4, 6}


def test_a_text_names_every_token_with_these_bytes() -> None:
    matcher = matcher_of(Sequence((Tokens(("a",)), Literal(b"b"))))
    assert allowed(matcher, WORDS.width) == {0, 6}


def test_whole_tokens_inside_calls_and_recursion() -> None:
    pair = Sequence((Tokens((3,)), Repeat(Reference("pair"), 0, 1), Literal(b"b")))
    matcher = matcher_of(Sequence((Reference("pair"), Tokens((7,)))), pair=pair)
    for token in (3, 3, 1, 1, 7):
        assert token in allowed(matcher, WORDS.width)
        assert matcher.accept_token(token)
    assert matcher.is_completed()
    matcher.rollback(2)
    assert allowed(matcher, WORDS.width) == {1}


def test_a_choice_of_whole_tokens_forces_no_bytes() -> None:
    matcher = matcher_of(Sequence((Literal(b"ab"), Tokens((0,)), Literal(b"b"))))
    assert matcher.find_jump_forward_string() == "ab"
    assert matcher.accept_string("ab")
    assert matcher.find_jump_forward_string() == ""
