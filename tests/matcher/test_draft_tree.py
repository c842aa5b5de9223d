"""Masks of draft trees, against a fresh matcher that is walked to every node by itself."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from shmcache.errors import LimitError
from shmcache.grammar.ir import Choice, Grammar, Literal, Repeat, Sequence
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.draft_tree import DraftTree
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.matcher.test_arena import AMBIGUOUS
from tests.matcher.test_matcher import Tensor
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.masks import mask_bits

pytestmark = pytest.mark.reference

GRAMMAR = Grammar({"root": Sequence((Literal(b"a"), Choice((Literal(b"bc"), Literal(b"c")))))}, "root")
TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"</s>", b"[", b"]", b"", b"<pad>"]
A, B, C, AB, BC, STOP, PAD = 0, 1, 2, 3, 4, 5, 9
VOCABULARY = Vocabulary(TOKENS, special_token_ids=[PAD], stop_token_ids=[STOP], width=40)
UNTOUCHED = 0x55
LEFT = mask_bits(np.array([UNTOUCHED, UNTOUCHED], dtype=np.int32))
AT_START, BEHIND_A, BEHIND_AB, AT_END = {A, AB}, {B, C, BC}, {C}, {STOP}


def matcher(*tokens: int, **options: Any) -> GrammarMatcher:
    made = GrammarMatcher(compiled(GRAMMAR, VOCABULARY), **options)
    for token in tokens:
        assert made.accept_token(token)
    return made


def traverse(
    made: GrammarMatcher, children: list[int], siblings: list[int], tokens: list[int], **options: Any
) -> list[set[int]]:
    """The masks of a tree; the matcher must be what it was."""
    before = allowed(made, 40)
    bitmask = np.full((len(tokens), 2), UNTOUCHED, dtype=np.int32)
    assert made.traverse_draft_tree(np.array(children), np.array(siblings), np.array(tokens), bitmask, **options)
    assert allowed(made, 40) == before
    return [mask_bits(row) for row in bitmask]


def chain(made: GrammarMatcher, *tokens: int) -> list[set[int]]:
    """A tree without branches: the root, and then each token behind the one before."""
    count = len(tokens)
    return traverse(made, [*range(1, count + 1), -1], [-1] * (count + 1), [77, *tokens])


def test_a_chain() -> None:
    assert chain(matcher()) == [AT_START]
    assert chain(matcher(), A, B, C) == [AT_START, BEHIND_A, BEHIND_AB, AT_END]
    assert chain(matcher(A), BC) == [BEHIND_A, AT_END]


def test_branches() -> None:
    assert traverse(matcher(), [1, 3, -1, -1], [-1, 2, -1, -1], [0, A, AB, B]) == [
        AT_START,
        BEHIND_A,
        BEHIND_AB,
        BEHIND_AB,
    ]


def test_behind_a_rejected_token_rows_stay_as_they_were() -> None:
    assert chain(matcher(), B, B, C) == [AT_START, set(), LEFT, LEFT]
    assert traverse(matcher(), [1, 3, -1, -1], [-1, 2, -1, -1], [0, B, A, A]) == [AT_START, set(), BEHIND_A, LEFT]


@pytest.mark.parametrize("token", [-1, 40, 99, 1 << 40, PAD, 8, STOP])
def test_tokens_that_are_never_allowed(token: int) -> None:
    assert chain(matcher(), token, A) == [AT_START, set(), LEFT]


def test_termination_within_a_tree() -> None:
    assert chain(matcher(), A, C, STOP, A) == [AT_START, BEHIND_A, AT_END, set(), LEFT]
    early = matcher(terminate_without_stop_token=True)
    assert chain(early, A, C, A) == [AT_START, BEHIND_A, set(), LEFT]
    assert chain(matcher(A, C, STOP), A) == [set(), LEFT]
    other = matcher(override_stop_tokens=[7])
    assert chain(other, A, C, 7) == [AT_START, BEHIND_A, {7}, set()]


def test_nodes_that_the_root_does_not_lead_to() -> None:
    assert traverse(matcher(), [1, -1, -1, 4, 3], [-1] * 5, [0, A, A, A, A]) == [AT_START, BEHIND_A, LEFT, LEFT, LEFT]


@pytest.mark.parametrize(
    ("children", "siblings", "tokens", "complaint"),
    [
        ([], [], [], "at least one"),
        ([-1], [-1, -1], [0], "as many"),
        ([-1], [-1], [0, 0], "as many"),
        ([2, -1], [-1, -1], [0, 0], r"retrieve_next_token\[0\] is 2"),
        ([-2, -1], [-1, -1], [0, 0], r"retrieve_next_token\[0\] is -2"),
        ([1, -1], [-1, 7], [0, 0], r"retrieve_next_sibling\[1\] is 7"),
        ([1, 0], [-1, -1], [0, 0], "node 0"),
        ([0], [-1], [0], "node 0"),
        ([1, -1, -1], [2, -1, -1], [0, 0, 0], "siblings"),
        ([1, -1, -1], [-1, 2, 1], [0, 0, 0], "node 1"),
        ([1, 2, -1, 2], [-1, 3, -1, -1], [0, 0, 0, 0], "node 2"),
        ([[-1]], [-1], [0], "one dimension"),
        ([-1.0], [-1], [0], "integers"),
        ([-1], [-1], ["a"], "integers"),
    ],
)
def test_what_is_no_tree_is_refused(children: Any, siblings: Any, tokens: Any, complaint: str) -> None:
    bitmask = np.full((len(children), 2), UNTOUCHED, dtype=np.int32)
    with pytest.raises(ValueError, match=complaint):
        matcher().traverse_draft_tree(np.array(children), np.array(siblings), np.array(tokens), bitmask)
    assert (bitmask == UNTOUCHED).all()


@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (2, 1), (2,), (2, 2, 2)])
def test_bitmasks_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    bitmask = np.full(shape, UNTOUCHED, dtype=np.int32)
    with pytest.raises(ValueError, match=r"rows|words"):
        matcher().traverse_draft_tree(np.array([1, -1]), np.array([-1, -1]), np.array([0, A]), bitmask)
    with pytest.raises(ValueError, match="int32"):
        matcher().traverse_draft_tree([1, -1], [-1, -1], [0, A], np.zeros((2, 2), dtype=np.int64))


def test_tensors_and_wide_bitmasks() -> None:
    tensor = Tensor(np.full((2, 5), UNTOUCHED, dtype=np.int32))
    assert matcher().traverse_draft_tree([1, -1], np.array([-1, -1], dtype=np.int32), (0, A), tensor)
    assert [mask_bits(row) for row in tensor.array] == [AT_START, BEHIND_A]


def test_the_time_allowed() -> None:
    """The root's row is always written; what has no time left is left as it was."""
    clock = iter(range(100))
    bitmask = np.full((4, 2), UNTOUCHED, dtype=np.int32)
    tree = DraftTree.of([1, 2, 3, -1], [-1] * 4, [0, A, B, C])
    made = matcher()
    assert not tree.fill(made.fork(), bitmask, 1.5, now=lambda: float(next(clock)))
    assert [mask_bits(row) for row in bitmask] == [AT_START, BEHIND_A, LEFT, LEFT]
    assert tree.fill(made.fork(), bitmask, 3.5, now=lambda: float(next(clock)))
    assert not made.traverse_draft_tree([1, -1], [-1, -1], [0, A], bitmask[:2], 1e-12)
    assert made.traverse_draft_tree([1, -1], [-1, -1], [0, A], bitmask[:2], time_threshold=60.0)
    assert made.traverse_draft_tree([-1], [-1], [0], bitmask[:1], 1e-12), "the root alone needs no time"


def test_ambiguity_within_a_tree_is_an_error_that_changes_nothing() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"a" * 30, b"</s>"], stop_token_ids=[3], width=4)
    made = GrammarMatcher(compiled(AMBIGUOUS, Vocabulary([b"a", b"b"])))
    bitmask = np.zeros((41, 1), dtype=np.int32)
    with pytest.raises(LimitError):
        made.traverse_draft_tree([*range(1, 41), -1], [-1] * 41, [0] * 41, bitmask)
    assert allowed(made, 2) == {0, 1}
    with pytest.raises(ValueError, match="roll back"):
        made.rollback(1)
    with pytest.raises(LimitError):
        GrammarMatcher(compiled(AMBIGUOUS, vocabulary)).traverse_draft_tree([-1], [-1], [0], bitmask[:1])


def test_every_node_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand nodes deep, or wide: no recursion, and as many steps as nodes."""
    vocabulary = Vocabulary([b"a", b"b"])
    made = GrammarMatcher(compiled(Grammar({"root": Repeat(Literal(b"a"), 0, None)}, "root"), vocabulary))
    count = 10_000
    asked = 0
    accept_token = GrammarMatcher.accept_token

    def counted(self: GrammarMatcher, token: int) -> bool:
        nonlocal asked
        asked += 1
        return accept_token(self, token)

    monkeypatch.setattr(GrammarMatcher, "accept_token", counted)
    line, none = [*range(1, count), -1], [-1] * count
    bitmask = np.zeros((count, 1), dtype=np.int32)
    assert made.traverse_draft_tree(line, none, [0] * count, bitmask)
    assert asked == count - 1
    assert (bitmask == 1).all()
    assert made.traverse_draft_tree([1] + [-1] * (count - 1), [-1, *range(2, count), -1], [0] * count, bitmask)
    assert asked == 2 * (count - 1)


def random_tree(rng: Random, tokens: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Any tree of that many nodes, numbered in any order but for the root."""
    count = len(tokens)
    numbers = [0, *rng.sample(range(1, count), count - 1)]
    children: dict[int, list[int]] = {}
    for at in range(1, count):
        children.setdefault(numbers[rng.randrange(at)], []).append(numbers[at])
    first, sibling = [-1] * count, [-1] * count
    for node, listed in children.items():
        first[node] = listed[0]
        for before, behind in pairwise(listed):
            sibling[before] = behind
    return first, sibling, tokens


def expected_rows(
    grammar: CompiledGrammar, taken: list[int], tree: tuple[list[int], list[int], list[int]], options: dict[str, Any]
) -> list[set[int] | None]:
    """The mask of every node, by walking a new matcher to it; None for a row that must not be written."""
    first, sibling, tokens = tree
    found: list[set[int] | None] = [None] * len(tokens)
    pending: list[tuple[int, list[int]]] = [(0, [])]
    while pending:
        node, path = pending.pop()
        fresh = GrammarMatcher(grammar, **options)
        for token in taken + path[:-1]:
            assert fresh.accept_token(token)
        if path and not fresh.accept_token(path[-1]):
            found[node] = set()
            continue
        found[node] = allowed(fresh, grammar.vocabulary.width)
        child = -1 if fresh.is_terminated() else first[node]
        while child != -1:
            pending.append((child, [*path, tokens[child]]))
            child = sibling[child]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_random_trees(seed: int) -> None:
    rng = Random(seed)
    written = rejected = 0
    for _ in range(10):
        vocabulary = random_vocabulary(rng)
        grammar = compiled_or_none(random_grammar(rng), vocabulary)
        if grammar is None:
            continue
        options = {"terminate_without_stop_token": rng.random() < 0.3}
        made, taken = GrammarMatcher(grammar, **options), []
        words = -(-vocabulary.width // 32) + rng.randint(0, 1)
        try:
            for _ in range(rng.randint(0, 2)):
                if ways := sorted(allowed(made, vocabulary.width)):
                    taken.append(rng.choice(ways))
                    assert made.accept_token(taken[-1])
            likely = [*sorted(allowed(made, vocabulary.width)), 0, -1]
            tokens = [rng.choice(likely) if rng.random() < 0.7 else rng.randrange(vocabulary.size) for _ in range(12)]
            tree = random_tree(rng, tokens)
            expected = expected_rows(grammar, taken, tree, options)
            bitmask = np.full((12, words), UNTOUCHED, dtype=np.int32)
            assert made.traverse_draft_tree(*tree, bitmask)
        except LimitError:
            continue
        for node, row in enumerate(bitmask):
            mask = expected[node]
            assert (row == UNTOUCHED).all() if mask is None else mask_bits(row) == mask, (tree, node)
            written += bool(mask)
            rejected += mask == set()
    assert written > 10
    assert rejected > 5
