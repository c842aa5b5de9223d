"""The stack table: growth, chains of possible callers, and the room for fronts."""

from __future__ import annotations

import threading
import weakref

import pytest

from shmcache.errors import LimitError
from shmcache.limits import CONFIGURATION_ENTRIES_MAX
from shmcache.rows import stacks as stacks_module
from shmcache.rows.stacks import StackTable, front, walk_room, walk_room_handle
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.rows.support import push

pytestmark = pytest.mark.reference


def test_each_stack_is_held_once_and_keeps_its_number() -> None:
    stacks = StackTable()
    numbers: dict[tuple[int, int], int] = {}
    parents = [0]
    for round_number in range(3):
        for at in range(400):
            parent, return_state = parents[at * 7 % len(parents)], at % 23
            node = push(stacks, parent, return_state)
            assert numbers.setdefault((parent, return_state), node) == node, round_number
            if node not in parents:
                parents.append(node)
    assert len(stacks) == len(numbers) + 1
    assert len(set(numbers.values())) == len(numbers)
    assert len(stacks.arrays.parent) >= len(stacks)
    for (parent, return_state), node in numbers.items():
        assert stacks.arrays.parent[node] == parent
        assert stacks.arrays.return_state[node] == return_state
        assert stacks.arrays.alternative[node] == -1


def test_chains_survive_growing() -> None:
    stacks = StackTable()
    chains = [[(-1, 0)], [(at, at % 3) for at in range(500)], [(7, 1)]]
    heads = stacks.add_chains(chains)
    above = push(stacks, heads[1], 5)
    stacks.grow()
    assert push(stacks, heads[1], 5) == above
    for head, chain in zip(heads, chains, strict=True):
        node = head
        for return_state, parent in chain:
            assert stacks.arrays.return_state[node] == return_state
            assert stacks.arrays.parent[node] == heads[parent]
            node = int(stacks.arrays.alternative[node])
        assert node == -1


def test_growth_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks_module, "STACK_NODES_MAX", 1024)
    stacks = StackTable()
    stacks.grow()
    stacks.grow()
    with pytest.raises(LimitError) as caught:
        stacks.grow()
    assert caught.value.limit == "stack_nodes"


def test_the_front_grows_with_tokens_and_belongs_to_the_thread() -> None:
    small = front(3)
    assert front(2) is small
    large = front(50_000)
    assert len(large.begin) >= 50_002
    assert len(large.state) >= CONFIGURATION_ENTRIES_MAX
    assert len(large.state) >= 50_002, "a walk of two states keeps one entry for each byte"
    assert front(3) is large
    others: list[object] = []
    thread = threading.Thread(target=lambda: others.append(front(3)))
    thread.start()
    thread.join(5)
    assert others
    assert others[0] is not large


def test_the_room_of_a_very_large_walk_is_given_back(small_vocabulary: Vocabulary) -> None:
    """Levels of walks are as many as a grammar likes: what one grammar needed once is no thread's for ever."""
    trie = small_vocabulary.trie

    def walk() -> None:
        room = walk_room(trie)
        assert walk_room(trie) is room
        while len(room.level_ended) <= stacks_module._LEVELS_KEPT_MAX:
            kept = room
            room = walk_room(trie, grows=True)
            assert len(room.level_ended) == 4 * len(kept.level_ended)
        walk_room_handle(room)
        large = weakref.ref(room.level_after)
        del room
        later = walk_room(trie)
        walk_room_handle(later)
        assert len(later.level_ended) < len(kept.level_ended)
        assert large() is None
        assert walk_room(trie) is later
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=walk)
    thread.start()
    thread.join()
    assert done
