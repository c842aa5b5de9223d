"""What kernels take and give back: groups of arrays, and numbers that mean something.

Owns the names on both sides of a kernel call. Must never import Numba: whoever prepares a call needs these, not it.

A *front* is a list of (state, stack) entries in two arrays. A *level* is the part of a front after a number of bytes.
Stacks are nodes of a table: node 0 is the empty stack; a node has a return state, a parent, and possibly an alternative
node (a stack of which only a set of callers is known is a chain of alternatives). Returning from the empty stack, or to
return state -1, *ends* the walk.
"""

from __future__ import annotations

from typing import NamedTuple

from shmcache.array_types import Int32Array, Int64Array, UInt8Array
from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.vocabulary.trie import Trie

OK = 0
FRONT_FULL = -1
"""A level would exceed CONFIGURATION_ENTRIES_MAX entries, or the front its arrays."""
STACKS_FULL = -2
"""The stack table has no room: grow it and call again."""
ROOM_FULL = -3
"""The room for walks has no place for one more level: grow it and call again."""

NO_NODE = -1
INSIDE = 0
"""Of a token that does not end the string in which it begins; one that does is ACCEPTED, one beyond it UNCERTAIN."""
ACCEPTED = 1
OVERFLOWED = 2
UNCERTAIN = 3

DEAD = -1
UNKNOWN = -2
OVERFLOW = -3
"""What comes after a level by a byte, where that is no level: nothing, not worked out yet, or too much."""

UNLIKE = -1
"""Two states of which one may end and the other not, or a state without another."""
UNCOUNTED = -1
"""A state behind which characters are not counted."""
ALIKE_FOREVER = 1 << 20
"""Two states that no bytes can tell apart: longer than any token."""


class AutomatonArrays(NamedTuple):
    """The arrays of a GrammarAutomaton that kernels read; all read-only."""

    edge_offset: Int32Array
    edge_low: UInt8Array
    edge_high: UInt8Array
    edge_target: Int32Array
    call_offset: Int32Array
    call_rule: Int32Array
    call_return: Int32Array
    final: UInt8Array
    rule_start: Int32Array
    whole_offset: Int32Array

    @classmethod
    def of(cls, automaton: GrammarAutomaton) -> AutomatonArrays:
        """Those of ``automaton``."""
        return cls(*(getattr(automaton, name) for name in cls._fields))


class StackArrays(NamedTuple):
    """A table of interned stacks; ``used`` is its number of nodes, in an array of one item."""

    parent: Int32Array
    return_state: Int32Array
    alternative: Int32Array
    buckets: Int32Array
    used: Int32Array


class Front(NamedTuple):
    """Room for levels: where each begins, and whether a text may end there (``ended``) or up to there (``left``)."""

    state: Int32Array
    stack: Int32Array
    begin: Int32Array
    ended: UInt8Array
    left: UInt8Array


class TrieArrays(NamedTuple):
    """The arrays of a vocabulary's trie that kernels read; all read-only."""

    node_byte: UInt8Array
    node_depth: Int32Array
    node_end: Int32Array
    node_height: Int32Array
    node_first_token: Int32Array
    token_order: Int32Array
    first_node: Int32Array

    @classmethod
    def of(cls, trie: Trie) -> TrieArrays:
        """Those of ``trie``."""
        return cls(*(getattr(trie, name) for name in cls._fields))


class WalkRoom(NamedTuple):
    """What walks of a trie write: ``T`` tokens, the longest of ``B`` bytes, and ``L`` levels that are told apart."""

    accepted: Int32Array
    """int32 (T): places in the trie's token order."""
    uncertain: Int32Array
    verdicts: UInt8Array
    words: Int32Array
    """int32 (words of a mask): 0 but while a kernel runs."""
    word_index: Int32Array
    """int32 (three times as many): one that is changed and put back stands there again."""
    word_value: Int32Array
    path_level: Int32Array
    """int32 (B + 1): the level, or the state, after each byte of the token; ``path_left``: whether it may have left."""
    path_base: Int32Array
    path_left: UInt8Array
    path_base_left: UInt8Array
    pool_state: Int32Array
    """Entries of all levels, one level after the other; ``level_begin``, int32 (L + 1), says where each begins."""
    pool_stack: Int32Array
    level_begin: Int32Array
    level_after: Int32Array
    """int32 (256 L): the level after a level by a byte."""
    level_digest: Int64Array
    level_bucket: Int32Array
    """int32 (a power of two, 2 L or more): levels by their digest; ``level_place``: the bucket of each."""
    level_place: Int32Array
    level_ended: UInt8Array
