"""Kernels called on whole values: automata and vocabularies in, Python sets out."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.automaton.build import build_automaton
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Sequence
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.nfa import determinise
from shmcache.regular.operations import repeat
from shmcache.rows.arrays import ROOM_FULL, STACKS_FULL, WalkRoom
from shmcache.rows.stacks import StackTable, front, fronts, new_walk_room
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.configurations import Stack, TooAmbiguousError
from tests.reference.dfa import as_builder, random_nfa

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")

NESTED = Grammar(
    {"root": Choice((Sequence((A, Reference("root"), B)), Sequence((A, Reference("root"), C)), B))}, "root"
)
"""Every ``a`` pushes; ``a`` 300 times needs more stacks than a table has at first."""

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

Level = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""States and nodes, entry by entry."""


def automaton_of(tested: Grammar) -> GrammarAutomaton | None:
    """The automaton of a random grammar; None where it accepts nothing or is too large for the slow twins."""
    try:
        automaton = build_automaton(tested, Budget(states_max=5_000))
    except (SourceError, LimitError):
        return None
    return automaton if automaton.state_count <= 150 else None


def random_automaton(rng: Random) -> Dfa:
    """A minimal automaton over the bytes of random vocabularies; half of them count, so that many bytes are alike."""
    while True:
        nfa = random_nfa(rng, b"ab\xff\xc3\xa9", rng.choice((2, 7)))
        dfa = determinise(as_builder(nfa, Budget()), 0, nfa.accepting, Budget())
        if rng.random() < 0.5:
            dfa = repeat(dfa, rng.randint(0, 5), rng.randint(5, 9), Budget())
        if not dfa.without_empty_word().is_empty and dfa.state_count < 60:
            return dfa


def automaton_arrays(automaton: GrammarAutomaton) -> Any:
    """As kernels read them."""
    from shmcache.rows.arrays import AutomatonArrays

    return AutomatonArrays(*(getattr(automaton, name) for name in AutomatonArrays._fields))


def trie_arrays(vocabulary: Vocabulary) -> Any:
    """As kernels read them."""
    from shmcache.rows.arrays import TrieArrays

    return TrieArrays(*(getattr(vocabulary.trie, name) for name in TrieArrays._fields))


def push(stacks: StackTable, parent: int, return_state: int) -> int:
    """The node of that stack."""
    from shmcache.rows.kernels import _push

    while (node := _push(stacks.arrays, parent, return_state)) == STACKS_FULL:
        stacks.grow()
    return int(node)


def stack_of(stacks: StackTable, node: int) -> Stack:
    """The stack that a node stands for."""
    items: list[int] = []
    while node:
        assert stacks.arrays.alternative[node] == -1
        items.append(int(stacks.arrays.return_state[node]))
        node = int(stacks.arrays.parent[node])
    return tuple(reversed(items))


def entries_of(stacks: StackTable, level: Level) -> frozenset[tuple[int, Stack]]:
    """The entries of a level; checks that they are sorted and differ."""
    entries = list(zip(level[0].tolist(), level[1].tolist(), strict=True))
    assert entries == sorted(set(entries))
    return frozenset((state, stack_of(stacks, node)) for state, node in entries)


def opened(automaton: GrammarAutomaton, stacks: StackTable) -> tuple[Level, bool]:
    """States and nodes before any byte, and ended."""
    from shmcache.rows.kernels import STACKS_FULL, open_level

    room = front(1)
    start, empty = automaton.rule_start[:1].copy(), np.zeros(1, dtype=np.int32)
    while (result := open_level(automaton_arrays(automaton), stacks.arrays, start, empty, room))[0] == STACKS_FULL:
        stacks.grow()
    length, ended = result
    return (room.state[:length].copy(), room.stack[:length].copy()), bool(ended)


def advanced(
    automaton: GrammarAutomaton, stacks: StackTable, before: Level, data: bytes, start: int, stop: int
) -> tuple[Level, bool, int]:
    """States and nodes after ``data[start:stop]``, ended, and the length that the kernel gave."""
    from shmcache.rows.kernels import STACKS_FULL, advance

    room = front(1)
    array = np.frombuffer(data, dtype=np.uint8)
    arrays = automaton_arrays(automaton)
    while (result := advance(arrays, stacks.arrays, *before, array, start, stop, room))[0] == STACKS_FULL:
        stacks.grow()
    length, ended = result
    kept = max(0, length)
    return (room.state[:kept].copy(), room.stack[:kept].copy()), bool(ended), int(length)


def resolved(
    automaton: GrammarAutomaton,
    stacks: StackTable,
    vocabulary: Vocabulary,
    tokens: list[int],
    state: int,
    node: int,
    known: npt.NDArray[np.uint8],
) -> dict[int, int]:
    """The verdict on each of the tokens, which must be in the order of the trie.

    Without a memory a token that overflows raises; with one it has a verdict of its own.
    """
    from shmcache.rows.kernels import FRONT_FULL, OK, STACKS_FULL, resolve_tokens

    verdicts = np.full(len(tokens), 9, dtype=np.uint8)
    flat = vocabulary.flat
    ids = np.array(tokens, dtype=np.int32)
    rooms = fronts(vocabulary.trie.longest_token_bytes)
    while True:
        status = resolve_tokens(
            automaton_arrays(automaton),
            stacks.arrays,
            flat.offsets,
            flat.blob,
            ids,
            state,
            node,
            *rooms,
            known,
            verdicts,
        )
        if status == FRONT_FULL:
            assert not len(known)
            raise TooAmbiguousError
        if status != STACKS_FULL:
            assert status == OK
            return dict(zip(tokens, verdicts.tolist(), strict=True))
        stacks.grow()


def room_for(vocabulary: Vocabulary, levels: int = 256) -> WalkRoom:
    """A room for walks of a vocabulary's trie, as large as that, and for so many levels at first."""
    trie = vocabulary.trie
    tokens, words, depth = trie.token_count, len(trie.text_bitmask), trie.longest_token_bytes + 1
    return new_walk_room(tokens=tokens, words=words, depth=depth, levels=levels)


def walked(
    automaton: GrammarAutomaton,
    stacks: StackTable,
    vocabulary: Vocabulary,
    level: Level,
    *,
    room: WalkRoom | None = None,
    overflows: bool = True,
    met: list[int] | None = None,
) -> tuple[list[int], list[int], int]:
    """Ids that ``walk_trie`` accepts and leaves uncertain, in the order of the trie, and its status.

    Where it asks for more stacks or more room it gets twice as much; ``met`` receives these requests.
    """
    from shmcache.rows.trie_kernels import walk_trie

    levels = 256 if room is None else len(room.level_ended)
    room = room or room_for(vocabulary)
    while True:
        arrays = automaton_arrays(automaton), stacks.arrays, trie_arrays(vocabulary)
        accepted, uncertain, status = walk_trie(*arrays, *level, room, overflows)
        if status == STACKS_FULL:
            stacks.grow()
        elif status == ROOM_FULL:
            levels *= 2
            room = room_for(vocabulary, levels)
        else:
            break
        assert (accepted, uncertain) == (0, 0)
        if met is not None:
            met.append(int(status))
    places = room.accepted[:accepted].tolist(), room.uncertain[:uncertain].tolist()
    assert all(part == sorted(set(part)) for part in places), "in the order of the trie"
    order = vocabulary.trie.token_order
    return order[places[0]].tolist(), order[places[1]].tolist(), int(status)
