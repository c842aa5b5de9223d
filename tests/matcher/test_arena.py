"""What is remembered of a grammar in one process: forgetting changes no mask, and limits are errors of one request."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
import weakref
from random import Random

import numpy as np
import pytest

from shmcache.errors import LimitError
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Regular, Repeat, Sequence
from shmcache.limits import Budget
from shmcache.matcher import arena as arena_module
from shmcache.matcher import compiled_grammar as compiled_grammar_module
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.regular.code_points import ANY
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import everything
from shmcache.rows import stacks as stacks_module
from shmcache.rows import warm_up as warm_up_module
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.reference.grammars import random_grammar, random_vocabulary

pytestmark = pytest.mark.reference

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")
NESTED = Grammar(
    {"root": Choice((Sequence((Literal(b"["), Repeat(Reference("root"), 0, None), Literal(b"]"))), A))}, "root"
)
AMBIGUOUS = Grammar(
    {
        "root": Choice((Sequence((Reference("one"), B)), Sequence((Reference("two"), C)), B)),
        "one": Sequence((A, Reference("root"), Literal(b"x"))),
        "two": Sequence((A, Reference("root"), Literal(b"y"))),
    },
    "root",
    frozenset({"one", "two"}),
)
"""Every ``a`` doubles the number of stacks."""

TOKENS = [b"a", b"b", b"c", b"[", b"]", b"[[", b"a]", b"x", b"y", b"bx", b"</s>"]
VOCABULARY = Vocabulary(TOKENS, stop_token_ids=[10])


def walk(grammar: CompiledGrammar, seed: int, steps: int) -> list[tuple[int, frozenset[int]]]:
    """Tokens taken and masks seen along a random walk with rollbacks."""
    rng = Random(seed)
    matcher = GrammarMatcher(grammar)
    taken = 0
    seen: list[tuple[int, frozenset[int]]] = []
    for _ in range(steps):
        found = allowed(matcher, grammar.vocabulary.width)
        ways = sorted(found)
        token = rng.choice(ways) if ways else -1
        if not ways or rng.random() < 0.1:
            back = rng.randint(0, taken)
            matcher.rollback(back)
            taken -= back
        elif matcher.accept_token(token):
            taken += 1
        seen.append((token, frozenset(found)))
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_forgetting_changes_no_mask(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    walked = 0
    for _ in range(12):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        try:
            expected = walk(grammar, seed, 20)
        except LimitError:
            continue
        with monkeypatch.context() as narrow:
            narrow.setattr(arena_module, "REMEMBERED_STEPS_MAX", rng.choice([1, 3, 8]))
            forgetful = CompiledGrammar(grammar.image, vocabulary, generation=0, memory_size_bytes=0)
            assert walk(forgetful, seed, 20) == expected, tested
            assert walk(forgetful, seed, 20) == expected, tested
        walked += 1
    assert walked > 3


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound counts what is held, not how often it was asked for; a matcher keeps what it needs itself."""
    monkeypatch.setattr(arena_module, "REMEMBERED_STEPS_MAX", 100)
    grammar = compiled(NESTED, VOCABULARY)
    matcher = GrammarMatcher(grammar)
    arena = grammar.arena()
    most = 0
    for _ in range(300):
        assert matcher.accept_token(3)
        allowed(matcher, VOCABULARY.width)
        most = max(most, len(arena._known))
    assert most <= 101
    matcher.rollback(300)
    assert allowed(matcher, VOCABULARY.width) == allowed(GrammarMatcher(grammar), VOCABULARY.width)


def test_transitions_have_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """One configuration that every token leads back to, or that rejects every token, remembers no more than many do."""
    monkeypatch.setattr(arena_module, "REMEMBERED_STEPS_MAX", 100)
    tokens = [bytes([first, second]) for first in b"abAB" for second in range(97, 197)]
    vocabulary = Vocabulary(tokens)
    letters = Choice(tuple(Literal(bytes([byte])) for byte in range(97, 197)))
    grammar = compiled(Grammar({"root": Repeat(letters, 0, None)}, "root"), vocabulary)
    matcher = GrammarMatcher(grammar)
    for token, data in enumerate(tokens):
        assert matcher.accept_token(token) is data[:1].islower()
        assert len(matcher._configuration.after) <= 101
        assert sum(len(one.after) for one in grammar.arena()._known.values()) <= 101


def test_large_configurations_and_masks_count_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bounded is memory: a configuration of many entries counts as many small ones."""
    monkeypatch.setattr(arena_module, "REMEMBERED_STEPS_MAX", 60)
    monkeypatch.setattr(arena_module, "_ITEMS_PER_STEP", 1)
    grammar = compiled(AMBIGUOUS, VOCABULARY)
    arena = grammar.arena()
    most = forgotten = before = 0
    for text in ("aaab", "aaabx", "aaaby", "aaabxc", "aab", "aabxb", "aabyc", "aaa", "aaabxby", "aaabycx", "ab", "abx"):
        matcher = GrammarMatcher(grammar)
        for letter in text:
            if not matcher.accept_token(TOKENS.index(letter.encode())):
                break
            allowed(matcher, VOCABULARY.width)
            held = sum(len(one.states) for one in arena._known.values())
            forgotten += held < before
            most = max(most, held)
            before = held
    assert forgotten > 0
    assert most <= 60 + 40


def test_a_matcher_that_begins_when_the_table_is_full_begins_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "CONFIGURATION_ENTRIES_MAX", 2)  # 32 stacks are then many
    grammar = compiled(NESTED, VOCABULARY)
    old = GrammarMatcher(grammar)
    arena = grammar.arena()
    for _ in range(40):
        assert old.accept_token(3)
    assert arena.is_full
    fresh = GrammarMatcher(grammar)
    assert grammar.arena() is not arena
    assert not grammar.arena().is_full
    assert allowed(fresh, VOCABULARY.width) == {0, 3, 5}
    assert allowed(old, VOCABULARY.width) == {0, 3, 4, 5, 6}
    old.rollback(40)
    assert allowed(old, VOCABULARY.width) == {0, 3, 5}
    gone = weakref.ref(arena)
    old.reset()
    del old, arena
    gc.collect()
    assert gone() is None, "the old arena lives as long as its matchers"


def steps_until_refused(matcher: GrammarMatcher, token: int, steps_max: int) -> None:
    for _ in range(steps_max):
        assert matcher.accept_token(token)


def steps_taken(matcher: GrammarMatcher) -> int:
    twin = matcher.fork()
    for steps in range(1_000):
        try:
            twin.rollback(1)
        except ValueError:
            return steps
    raise AssertionError("too many steps")


def test_too_many_stacks_are_an_error_of_that_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks_module, "STACK_NODES_MAX", 512)
    grammar = compiled(NESTED, VOCABULARY)
    deep = GrammarMatcher(grammar)
    with pytest.raises(LimitError) as caught:
        steps_until_refused(deep, 3, 600)
    assert caught.value.limit == "stack_nodes"
    before = allowed(deep, VOCABULARY.width)
    assert 4 in before
    assert deep.accept_token(4)
    deep.rollback(1)
    assert allowed(deep, VOCABULARY.width) == before


def test_ambiguity_is_an_error_of_that_request_only() -> None:
    grammar = compiled(AMBIGUOUS, VOCABULARY)
    bold, careful = GrammarMatcher(grammar), GrammarMatcher(grammar)
    with pytest.raises(LimitError) as caught:
        steps_until_refused(bold, 0, 100)
    assert caught.value.limit == "configuration_entries"
    steps = steps_taken(bold)
    assert 4 < steps < 20
    with pytest.raises(LimitError):
        bold.accept_string(b"a" * 30)
    assert careful.accept_token(0)
    assert allowed(careful, VOCABULARY.width) == {0, 1, 9}
    assert GrammarMatcher(grammar).accept_string(b"abxb")
    bold.rollback(steps - 1)
    assert allowed(bold, VOCABULARY.width) == {0, 1, 9}, "the request that failed goes on from where it was"


def test_a_mask_over_ambiguous_tokens_is_an_error_too() -> None:
    """The token by itself would need more entries than a configuration may have."""
    vocabulary = Vocabulary([b"a", b"b", b"a" * 30])
    grammar = compiled(AMBIGUOUS, vocabulary)
    matcher = GrammarMatcher(grammar)
    row = np.zeros(1, dtype=np.int32)
    for _ in range(2):
        with pytest.raises(LimitError) as caught:
            matcher.fill_next_token_bitmask(row)
        assert caught.value.limit == "configuration_entries"
    assert matcher.accept_token(0)
    assert GrammarMatcher(compiled(NESTED, vocabulary)).fill_next_token_bitmask(row)


JSON = Grammar(
    {
        "root": Choice(
            (
                Sequence((Literal(b'"'), Reference("string"), Literal(b'"'))),
                Sequence((Literal(b"["), Repeat(Sequence((Reference("root"), Literal(b","))), 0, None), Literal(b"]"))),
            )
        ),
        "string": Regular(encode_json_string(everything(ANY), Budget())),
    },
    "root",
    frozenset({"string"}),
)


def test_threads_of_one_grammar_do_not_disturb_each_other(
    small_vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight threads begin at once, each with its own way, over a memory that is forgotten again and again."""
    monkeypatch.setattr(arena_module, "REMEMBERED_STEPS_MAX", 20)
    alone = compiled(JSON, small_vocabulary)
    expected = [walk(alone, seed, 25) for seed in range(8)]
    shared = compiled(JSON, small_vocabulary)
    barrier = threading.Barrier(8)
    results: list[object] = [None] * 8

    def run(seed: int) -> None:
        try:
            barrier.wait(5)
            results[seed] = [walk(shared, seed, 25) for _ in range(3)]
        except BaseException as error:
            barrier.abort()
            results[seed] = error

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for seed in range(8):
        assert results[seed] == [expected[seed]] * 3


def test_one_arena_for_all_who_begin_at_once() -> None:
    grammar = compiled(NESTED, VOCABULARY)
    barrier = threading.Barrier(8)
    arenas: list[object] = []

    def run() -> None:
        barrier.wait(5)
        arenas.append(grammar.arena())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(arenas) == 8
    assert len(set(map(id, arenas))) == 1


def test_a_child_forked_while_another_thread_is_at_work_goes_on() -> None:
    grammar = compiled(NESTED, VOCABULARY)
    matcher = GrammarMatcher(grammar)
    with grammar.arena()._lock, compiled_grammar_module._beginning, warm_up_module._in_process:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            signal.alarm(5)
            try:
                fresh = GrammarMatcher(compiled(NESTED, VOCABULARY))
                os._exit(0 if matcher.accept_token(3) and fresh.accept_token(3) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
