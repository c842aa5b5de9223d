"""A matcher whose first mask was known does what one does whose was not, at every step."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import threading
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Choice, Grammar, Literal, Repeat, Sequence, Tokens
from shmcache.grammar.whole_tokens import with_token_ids
from shmcache.image.first_mask import first_mask, with_first_mask
from shmcache.image.image import find_image, write_image
from shmcache.limits import Budget
from shmcache.matcher import arena as arena_module
from shmcache.matcher import beginning as beginning_module
from shmcache.matcher.arena import Arena
from shmcache.matcher.beginning import Beginning, first_mask_of
from shmcache.matcher.bitmask import word_count
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.masks import reference_mask
from tests.reference.whole_tokens import with_random_tokens

pytestmark = pytest.mark.reference

VOCABULARY = Vocabulary([b"a", b"b", b"ab", b"ba", b"</s>"], stop_token_ids=[4])
LETTERS = Grammar({"root": Repeat(Choice((Literal(b"ab"), Literal(b"b"))), 0, None)}, "root")


def begun(grammar: CompiledGrammar) -> CompiledGrammar:
    """The same grammar as a client finds it in shared memory, with its first mask beside it."""
    vocabulary = grammar.vocabulary
    payload = with_first_mask(write_image(grammar.image), first_mask_of(grammar.image, vocabulary))
    known = first_mask(payload, word_count(vocabulary.width))
    assert known is not None
    return CompiledGrammar(
        find_image(payload), vocabulary, generation=1, memory_size_bytes=len(payload), first_mask=known
    )


def requests(rng: Random, vocabulary: Vocabulary) -> dict[str, Any]:
    """Options of a request."""
    options: dict[str, Any] = {"terminate_without_stop_token": rng.random() < 0.3}
    if rng.random() < 0.5:
        count = rng.randrange(min(3, vocabulary.width) + 1)
        options["override_stop_tokens"] = rng.sample(range(vocabulary.width), count)
    return options


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("whole_tokens", [False, True])
def test_beside_one_that_was_not_known(seed: int, whole_tokens: bool) -> None:
    rng = Random(seed)
    steps = 0
    for _ in range(12):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        try:
            if whole_tokens:
                tested = with_token_ids(with_random_tokens(rng, tested, vocabulary), vocabulary, Budget())
            grammar = compiled_or_none(tested, vocabulary)
            known = None if grammar is None else begun(grammar)
        except (SourceError, LimitError):
            continue
        if grammar is None or known is None:
            continue
        assert isinstance(known.arena(), Beginning)
        for _ in range(3):
            options = requests(rng, vocabulary)
            pair = GrammarMatcher(grammar, **options), GrammarMatcher(known, **options)
            for _ in range(6):
                try:
                    masks = [allowed(matcher, vocabulary.width) for matcher in pair]
                    jumps = [matcher.find_jump_forward_string() for matcher in pair] if rng.random() < 0.3 else []
                except LimitError:
                    break
                assert masks[0] == masks[1], tested
                assert len(set(jumps)) <= 1
                assert len({(one.is_completed(), one.is_terminated()) for one in pair}) == 1
                token = rng.randrange(-1, vocabulary.width + 1) if rng.random() < 0.3 or not masks[0] else None
                if token is None:
                    token = rng.choice(sorted(masks[0]))
                forks = [matcher.fork() for matcher in pair]
                assert len({fork.accept_token(token) for fork in forks}) == 1
                assert len({matcher.accept_token(token) for matcher in pair}) == 1
                steps += 1
                if rng.random() < 0.2:
                    for matcher in pair:
                        matcher.reset()
    assert steps > 40


@pytest.mark.parametrize("seed", range(4))
def test_the_first_mask_is_what_the_grammar_says(seed: int) -> None:
    rng = Random(seed)
    checked = 0
    for _ in range(12):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        try:
            matcher = GrammarMatcher(begun(grammar))
        except LimitError:
            continue
        stops = set(matcher.stop_token_ids)
        assert allowed(matcher, vocabulary.width) == reference_mask(tested, vocabulary, b"", stops)
        checked += 1
    assert checked > 5


def test_the_first_mask_needs_neither_arena_nor_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = begun(compiled(LETTERS, VOCABULARY))

    def refuse(*_: object) -> None:
        raise AssertionError("asked for too early")

    with monkeypatch.context() as patch:
        patch.setattr(arena_module.Arena, "__init__", refuse)
        patch.setattr("shmcache.image.image.ClosedImage.open", refuse)
        matcher = GrammarMatcher(grammar)
        assert allowed(matcher, VOCABULARY.width) == {0, 1, 2, 3, 4}
        assert matcher.is_completed()
        assert not matcher.is_terminated()
        assert allowed(matcher.fork(), VOCABULARY.width) == {0, 1, 2, 3, 4}
        assert matcher.accept_token(4)
        assert allowed(matcher, VOCABULARY.width) == set()
        matcher.rollback()
        with pytest.raises(AssertionError, match="too early"):
            matcher.accept_token(0)
    assert matcher.accept_token(0)
    assert allowed(matcher, VOCABULARY.width) == {1, 3}
    assert grammar.warnings == ()
    assert grammar.image is grammar.image


def test_what_is_learnt_of_the_beginning_is_shared_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "REMEMBERED_STEPS_MAX", 50)
    tokens = [bytes([97, second]) for second in range(97, 197)]
    vocabulary = Vocabulary(tokens)
    pairs = Choice(tuple(Literal(token) for token in tokens))
    grammar = begun(compiled(Grammar({"root": Repeat(pairs, 0, None)}, "root"), vocabulary))
    matcher = GrammarMatcher(grammar)
    for token in range(len(tokens)):
        assert matcher.accept_token(token)
        matcher.rollback()
        assert len(matcher._configuration.after) <= 51
    assert GrammarMatcher(grammar)._configuration is matcher._configuration


def test_threads_that_go_on_at_once_share_one_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = begun(compiled(LETTERS, VOCABULARY))
    made: list[Arena] = []
    real = Arena

    def make(*arguments: Any) -> Arena:
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr("shmcache.matcher.beginning.Arena", make)
    barrier = threading.Barrier(8)
    masks: list[set[int]] = []

    def run() -> None:
        matcher = GrammarMatcher(grammar)
        barrier.wait(5)
        assert matcher.accept_token(0)
        masks.append(allowed(matcher, VOCABULARY.width))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert masks == [{1, 3}] * 8
    assert len(made) == 1


def test_a_matcher_that_begins_when_the_table_is_full_begins_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = Grammar({"root": Sequence((Literal(b"a"), Choice((Literal(b"b"), Sequence(())))))}, "root")
    grammar = begun(compiled(nested, VOCABULARY))
    first = grammar.arena()
    assert not first.is_full
    assert GrammarMatcher(grammar).accept_token(0)
    monkeypatch.setattr(Arena, "is_full", property(lambda _: True))
    assert first.is_full
    assert grammar.arena() is not first


def test_a_child_forked_while_another_thread_opens_goes_on() -> None:
    grammar = begun(compiled(LETTERS, VOCABULARY))
    matcher = GrammarMatcher(grammar)
    with beginning_module._opening:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            signal.alarm(5)
            try:
                os._exit(0 if matcher.accept_token(0) else 1)
            finally:
                os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("steps", [0, 3])
def test_its_bytes_are_let_go_without_waiting_for_the_collector(steps: int) -> None:
    image = compiled(LETTERS, VOCABULARY).image
    payload = with_first_mask(write_image(image), first_mask_of(image, VOCABULARY))
    pages = mmap.mmap(-1, len(payload))
    pages[:] = payload
    gc.disable()
    try:
        view = memoryview(pages)
        known = first_mask(view, word_count(VOCABULARY.width))
        fields: dict[str, Any] = {"generation": 1, "memory_size_bytes": 1, "first_mask": known}
        grammar = CompiledGrammar(find_image(view), VOCABULARY, **fields)
        matcher = GrammarMatcher(grammar)
        for token in (2, 1, 2)[:steps]:
            assert allowed(matcher, VOCABULARY.width)
            assert matcher.accept_token(token)
        assert allowed(matcher.fork(), VOCABULARY.width)
        del grammar, matcher, known, view, fields
        pages.close()  # raises BufferError while a view of it is left
    finally:
        gc.enable()


def test_whole_tokens_may_set_stop_tokens_from_the_beginning() -> None:
    """A stop token that may be taken whole elsewhere is not in the mask where the text may not end."""
    tested = Grammar({"root": Sequence((Tokens((0,)), Tokens((1,))))}, "root")
    grammar = compiled(with_token_ids(tested, VOCABULARY, Budget()), VOCABULARY)
    for stops in ([0], [1], [4]):
        expected = allowed(GrammarMatcher(grammar, stops), VOCABULARY.width)
        assert allowed(GrammarMatcher(begun(grammar), stops), VOCABULARY.width) == expected
    mask = first_mask_of(grammar.image, VOCABULARY)
    assert mask.has_whole_tokens
    assert np.array_equal(mask.index, [0])
