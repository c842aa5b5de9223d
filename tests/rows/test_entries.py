"""Entries: groups of arrays handed over as addresses are what kernels get when they are called with them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from shmcache.rows.arrays import STACKS_FULL, AutomatonArrays, TrieArrays
from shmcache.rows.stacks import StackTable, front, front_handles, fronts, new_walk_room
from tests.reference.grammars import random_grammar, random_texts, random_vocabulary
from tests.rows.support import automaton_of

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("seed", range(4))
def test_entries_do_what_kernels_do(seed: int) -> None:
    from shmcache.rows import entries, kernels, trie_kernels

    rng = Random(seed)
    walked = 0
    for _ in range(8):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        automaton = automaton_of(tested)
        if automaton is None or not vocabulary.trie.token_count:
            continue
        arrays, trie, stacks = AutomatonArrays.of(automaton), TrieArrays.of(vocabulary.trie), StackTable()
        at, trie_at = entries.handle(arrays), entries.handle(trie)
        start, nodes = automaton.rule_start[:1].copy(), np.zeros(1, dtype=np.int32)
        room = front(vocabulary.trie.longest_token_bytes)
        room_at = front_handles(vocabulary.trie.longest_token_bytes)[0]
        while (opened := entries.open_level(at, stacks.handle, start, nodes, room_at))[0] == STACKS_FULL:
            stacks.grow()
        states, nodes = room.state[: opened[0]].copy(), room.stack[: opened[0]].copy()
        assert kernels.open_level(arrays, stacks.arrays, start, np.zeros(1, dtype=np.int32), room) == opened
        walk = new_walk_room(
            tokens=vocabulary.trie.token_count,
            words=len(vocabulary.trie.text_bitmask),
            depth=vocabulary.trie.longest_token_bytes + 1,
        )
        walk_at = entries.handle(walk)
        found = trie_kernels.walk_trie(arrays, stacks.arrays, trie, states, nodes, walk, False)
        count = trie_kernels.gather_words(trie, found[0], walk)
        words = dict(zip(walk.word_index[:count].tolist(), walk.word_value[:count].tolist(), strict=True))
        assert entries.walk_trie(at, stacks.handle, trie_at, states, nodes, walk_at, False) == found
        assert entries.gather_words(trie_at, found[0], walk_at) == count
        again = dict(zip(walk.word_index[:count].tolist(), walk.word_value[:count].tolist(), strict=True))
        assert again == words
        walked += bool(words)
        for text in random_texts(rng, tested, 4):
            data = np.frombuffer(text, dtype=np.uint8)
            expected = kernels.advance(arrays, stacks.arrays, states, nodes, data, 0, len(data), room)
            if expected[0] == STACKS_FULL:
                continue
            level = room.state[: max(0, expected[0])].tolist()
            assert entries.advance(at, stacks.handle, states, nodes, data, 0, len(data), room_at) == expected
            assert room.state[: max(0, expected[0])].tolist() == level
    assert walked > 2


def test_a_grown_stack_table_has_another_handle() -> None:
    stacks = StackTable()
    before = stacks.handle
    assert stacks.handle is before
    stacks.grow()
    assert stacks.handle is not before


def test_a_larger_room_has_another_handle() -> None:
    before = front_handles(3)
    assert front_handles(3)[0] is before[0]
    larger = len(fronts(3)[0].begin) + 10
    assert front_handles(larger)[0] is not before[0]


@pytest.mark.parametrize("seed", range(20))
def test_change_words(seed: int) -> None:
    """Taking away, then adding, then the bits of words; what comes out are the words that differ, each once."""
    from shmcache.rows import entries, trie_kernels

    rng = np.random.default_rng(seed)
    words = 7
    base = rng.integers(-(1 << 31), 1 << 31, size=words, dtype=np.int32)
    if seed % 5 == 0:
        base[:] = 0
    fewer, more = (rng.integers(0, 32 * words, size=rng.integers(0, 60)).astype(np.int32) for _ in range(2))
    index = rng.permutation(words)[: rng.integers(0, words)].astype(np.int32)
    value = rng.integers(-(1 << 31), 1 << 31, size=len(index), dtype=np.int32)
    members = {32 * word + bit for word in range(words) for bit in range(32) if int(base[word]) >> bit & 1}
    members = (members - set(fewer.tolist())) | set(more.tolist())
    for word, bits in zip(index.tolist(), value.tolist(), strict=True):
        members |= {32 * word + bit for bit in range(32) if bits >> bit & 1}
    room = new_walk_room(tokens=1, words=words, depth=2)
    for call in (
        lambda: trie_kernels.change_words(base, fewer, more, index, value, room),
        lambda: entries.change_words(base, fewer, more, index, value, entries.handle(room)),
    ):
        count = call()
        changed = room.word_index[:count].tolist()
        assert len(set(changed)) == count
        assert not room.words.any()
        result = base.copy()
        result[changed] = room.word_value[:count]
        assert all(result[word] != base[word] for word in changed)
        found = {32 * word + bit for word in range(words) for bit in range(32) if int(result[word]) >> bit & 1}
        assert found == members


@pytest.mark.parametrize(
    "wrong", [np.zeros(4, dtype=np.int64), np.zeros((2, 2), dtype=np.int32), np.zeros(8, np.int32)[::2]]
)
def test_an_array_of_another_kind_is_refused(wrong: npt.NDArray[Any]) -> None:
    from shmcache.rows import entries

    arrays = StackTable().arrays
    entries.handle(arrays)
    with pytest.raises(TypeError, match="i4"):
        entries.handle(arrays._replace(parent=wrong))
