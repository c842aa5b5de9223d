"""Mask = truth: a bit is set exactly when ``accept_token`` accepts, and exactly when the reference recogniser does."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.errors import LimitError
from shmcache.grammar.ir import Grammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled_or_none
from tests.reference.grammars import random_grammar, random_texts, random_vocabulary
from tests.reference.masks import reference_jump, reference_mask

pytestmark = pytest.mark.reference


def check_step(tested: Grammar, vocabulary: Vocabulary, matcher: GrammarMatcher, text: bytes) -> set[int]:
    """The mask here, which must be what accepting says and what the grammar says."""
    found = allowed(matcher, vocabulary.width)
    context = (text, tested, vocabulary)
    stops = set(matcher.stop_token_ids)
    assert found == reference_mask(tested, vocabulary, text, stops), context
    accepted = {number for number in range(-2, vocabulary.width + 40) if matcher.fork().accept_token(number)}
    assert found == accepted, context
    assert matcher.is_completed() == (stops <= found if stops else matcher.is_completed()), context
    assert allowed(matcher, vocabulary.width) == found, context
    return found


@pytest.mark.parametrize("seed", range(6))
def test_masks_along_random_walks(seed: int) -> None:
    rng = Random(seed)
    steps = 0
    for _ in range(8):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        for _ in range(2):
            matcher, text = GrammarMatcher(grammar), b""
            for _ in range(4):
                try:
                    found = check_step(tested, vocabulary, matcher, text)
                except LimitError:
                    break
                ways = sorted(found - set(matcher.stop_token_ids))
                if not ways or len(text) > 6:
                    break
                token = rng.choice(ways)
                text += vocabulary.token_bytes(token)
                if rng.random() < 0.2:
                    assert matcher.accept_string(vocabulary.token_bytes(token))
                else:
                    assert matcher.accept_token(token)
                steps += 1
    assert steps > 10


@pytest.mark.parametrize("seed", range(4))
def test_bytes_and_jumps(seed: int) -> None:
    """``accept_string`` accepts what begins a member; what must follow is what the grammar forces, whole characters."""
    rng = Random(seed)
    vocabulary = Vocabulary([b"a", b"</s>"], stop_token_ids=[1])
    jumps = 0
    for _ in range(8):
        tested = random_grammar(rng)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        for text in random_texts(rng, tested, 4, length_max=5):
            matcher = GrammarMatcher(grammar)
            try:
                taken = b""
                for at in range(len(text)):
                    viable = bool(reference_mask(tested, Vocabulary([text[: at + 1]]), b"", set()))
                    assert matcher.accept_string(text[at : at + 1]) == viable, (text, tested)
                    if not viable:
                        break
                    taken = text[: at + 1]
                forced = reference_jump(tested, taken, 8)
                found = matcher.find_jump_forward_string().encode()
            except LimitError:
                continue
            assert forced.startswith(found[:8]), (text, tested)
            rest = forced[len(found) :]
            assert len(forced) == 8 or not rest or not is_text(rest), (text, tested)
            jumps += bool(found)
    assert jumps > 0


def is_text(data: bytes) -> bool:
    """Whether a whole character begins here."""
    for length in range(1, min(4, len(data)) + 1):
        try:
            data[:length].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False
