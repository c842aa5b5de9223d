"""Each kernel against its slow twin, on random grammars and vocabularies."""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from shmcache.rows.arrays import ACCEPTED
from shmcache.rows.stacks import StackTable, front
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference import configurations
from tests.reference.configurations import TooAmbiguousError, initial
from tests.reference.grammars import random_grammar, random_texts, random_vocabulary
from tests.reference.rows import accepts_from, text_tokens
from tests.rows.support import (
    AMBIGUOUS,
    NESTED,
    advanced,
    automaton_arrays,
    automaton_of,
    entries_of,
    opened,
    resolved,
    stack_of,
)

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("seed", range(6))
def test_open_level_and_advance(seed: int) -> None:
    """Byte by byte and all bytes at once lead to the same entries."""
    rng = Random(seed)
    met = 0
    for _ in range(25):
        tested = random_grammar(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks = StackTable()
        first = initial(automaton)
        start, ended = opened(automaton, stacks)
        assert entries_of(stacks, start) == first.entries
        assert ended == configurations.close(automaton, {(0, ())}).ended
        for text in random_texts(rng, tested, 8):
            level, expected = start, first
            for at in range(len(text)):
                try:
                    expected = configurations.advance(automaton, expected, text[at : at + 1])
                except TooAmbiguousError:
                    text = text[:at]
                    break
                level, ended, _ = advanced(automaton, stacks, level, text, at, at + 1)
                assert entries_of(stacks, level) == expected.entries, (text[: at + 1], tested)
                assert ended == expected.ended, (text[: at + 1], tested)
                met += bool(expected.entries)
            if text:
                level, ended, _ = advanced(automaton, stacks, start, text, 0, len(text))
                assert entries_of(stacks, level) == expected.entries, (text, tested)
                assert ended == expected.ended, (text, tested)
    assert met > 50


@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_resolve_tokens(seed: int, remembers: bool) -> None:
    """From entries with real stacks; tokens in the order of the trie share the levels of their beginnings."""
    rng = Random(seed)
    met: dict[int, int] = {0: 0, ACCEPTED: 0}
    for _ in range(20):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None:
            continue
        stacks = StackTable()
        place = {number: at for at, number in enumerate(vocabulary.trie.token_order.tolist())}
        tokens = text_tokens(vocabulary)
        start, _ = opened(automaton, stacks)
        known: dict[int, npt.NDArray[np.uint8]] = {}
        for text in random_texts(rng, tested, 6):
            level, _, _ = advanced(automaton, stacks, start, text, 0, rng.randint(0, len(text)))
            if not len(level[0]):
                continue
            at = rng.randrange(len(level[0]))
            state, node = int(level[0][at]), int(level[1][at])
            stack = stack_of(stacks, node)
            some = sorted(rng.sample(list(tokens), min(len(tokens), 25)), key=place.__getitem__)
            # What is remembered holds for the stack, whatever the state was.
            memory = known.setdefault(node, np.zeros(len(vocabulary.flat.blob) if remembers else 0, dtype=np.uint8))
            try:
                found = resolved(automaton, stacks, vocabulary, some, state, node, memory)
            except TooAmbiguousError:
                continue
            for number, verdict in found.items():
                try:
                    expected = accepts_from(automaton, state, stack, tokens[number])
                except TooAmbiguousError:
                    continue
                assert verdict == (ACCEPTED if expected else 0), (tokens[number], state, stack, tested)
                met[verdict] += 1
    assert min(met.values()) > 20


def test_a_full_stack_table_is_reported_and_nothing_is_lost_by_growing() -> None:
    from shmcache.rows.kernels import STACKS_FULL, advance

    automaton = automaton_of(NESTED)
    assert automaton is not None
    stacks = StackTable()
    start, _ = opened(automaton, stacks)
    text = b"a" * 300 + b"b" + b"bc" * 150
    array = np.frombuffer(text, dtype=np.uint8)
    before = len(stacks.arrays.parent)
    full = advance(automaton_arrays(automaton), stacks.arrays, *start, array, 0, len(text), front(1))
    assert full[0] == STACKS_FULL
    level, ended, length = advanced(automaton, stacks, start, text, 0, len(text))
    assert len(stacks.arrays.parent) == 2 * before
    assert (length, ended) == (0, True)
    level, _, _ = advanced(automaton, stacks, start, text, 0, 299)
    assert entries_of(stacks, level) == configurations.advance(automaton, initial(automaton), text[:299]).entries
    assert len(stacks) == 301, "each stack is held once"


def test_a_level_that_is_too_wide_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmcache.rows import kernels

    # Compiled kernels have the real limit in them; without compilation a small one keeps this quick.
    monkeypatch.setattr(kernels, "CONFIGURATION_ENTRIES_MAX", 64)
    automaton = automaton_of(AMBIGUOUS)
    assert automaton is not None
    stacks = StackTable()
    start, _ = opened(automaton, stacks)
    assert advanced(automaton, stacks, start, b"a" * 40, 0, 3)[2] > 0
    assert advanced(automaton, stacks, start, b"a" * 40, 0, 40)[2] == kernels.FRONT_FULL

    vocabulary = Vocabulary([b"a", b"b", b"a" * 20, b"a" * 20 + b"b", b"ab", b"c"])
    order = vocabulary.trie.token_order.tolist()
    found = [
        resolved(automaton, stacks, vocabulary, order, state, node, np.zeros(len(vocabulary.flat.blob), dtype=np.uint8))
        for state, node in zip(start[0].tolist(), start[1].tolist(), strict=True)
    ]
    overflowed = {0: kernels.ACCEPTED, 1: 0, 2: kernels.OVERFLOWED, 3: kernels.OVERFLOWED, 4: kernels.ACCEPTED, 5: 0}
    assert overflowed in found
    state, node = (int(array[found.index(overflowed)]) for array in start)
    with pytest.raises(TooAmbiguousError):
        resolved(automaton, stacks, vocabulary, order, state, node, np.zeros(0, dtype=np.uint8))
