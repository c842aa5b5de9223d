"""Configurations of one grammar in one process, and what has been learnt about each.

Owns the lazy automaton: configurations are interned, and for each the mask and the transitions that were asked for are
remembered, as RE2 does with the states of its lazy automaton. Must never know requests: those are matchers.

A configuration is a set of (state, stack) pairs. Kernels work it out; a step on a known one is a look-up.
"""

from __future__ import annotations

import os
import threading
import weakref

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.image.image import Image
from shmcache.limits import CONFIGURATION_ENTRIES_MAX, REMEMBERED_STEPS_MAX
from shmcache.matcher.bitmask import SparseMask
from shmcache.matcher.masks import Masks, too_ambiguous
from shmcache.matcher.token_table import TokenTable
from shmcache.matcher.whole_tokens import WholeTokens
from shmcache.rows.arrays import STACKS_FULL, Front
from shmcache.rows.stacks import StackTable, front, front_handles
from shmcache.rows.warm_up import warm_up
from shmcache.vocabulary.vocabulary import Vocabulary

_ITEMS_PER_STEP = 32
"""Entries of a configuration, or words of a mask, that are counted as one more remembered step."""


class Configuration:
    """Where a matcher may be. ``ended``: the text so far is a whole text of the grammar."""

    __slots__ = ("after", "ended", "mask", "nodes", "states")

    def __init__(self, states: Int32Array, nodes: Int32Array, ended: bool) -> None:
        self.states = states
        self.nodes = nodes
        self.ended = ended
        self.after: dict[int, Configuration | None] = {}
        self.mask: SparseMask | None = None


class Arena:
    """The configurations that grow from one stack table.

    A table only ever grows; :attr:`is_full` says when matchers that begin anew should begin in a fresh arena. Old ones
    live as long as their matchers. All kernel calls on an arena happen under its lock.

    Configurations refer to each other in circles, and their masks to the image, but none refers to its arena: when the
    last matcher lets go of that, it cuts the circles, and the image is unmapped without waiting for the collector.
    """

    def __init__(self, image: Image, vocabulary: Vocabulary) -> None:
        warm_up()
        self._image = image
        self._tokens = TokenTable.of(vocabulary)
        self._whole = WholeTokens(image.automaton, self._tokens) if image.automaton.has_whole_tokens else None
        self._stacks = StackTable()
        self._masks = Masks(image, vocabulary, self._tokens, self._whole, self._stacks)
        self._lock = threading.Lock()
        self._known: dict[bytes, Configuration] = {}
        self._remembered = 0
        self.start = self._start()
        _arenas.add(self)

    def __del__(self) -> None:
        for known in getattr(self, "_known", {}).values():
            known.after.clear()
            known.mask = None

    @property
    def is_full(self) -> bool:
        """Whether so many stacks are held that new matchers should begin elsewhere."""
        return len(self._stacks) > CONFIGURATION_ENTRIES_MAX * 16

    @property
    def has_whole_tokens(self) -> bool:
        """Whether tokens may be taken whole, whatever their bytes; special and stop tokens may then be in a mask."""
        return self._whole is not None

    def _start(self) -> Configuration:
        return self._opened(
            [(int(self._image.automaton.rule_start[0]), 0)], is_ended=self._image.automaton.root_nullable
        )

    def _opened(self, entries: list[tuple[int, int]], *, is_ended: bool) -> Configuration:
        """The configuration of these entries, which are not closed yet, ended if they or ``is_ended`` say so."""
        from shmcache.rows.entries import open_level

        if len(entries) > CONFIGURATION_ENTRIES_MAX:
            raise too_ambiguous()  # here, as kernels have no room for so many
        states = np.array([state for state, _ in entries], dtype=np.int32)
        nodes = np.array([node for _, node in entries], dtype=np.int32)
        room = front(self._tokens.longest_token_bytes)
        at_room = front_handles(self._tokens.longest_token_bytes)[0]
        length, ended = open_level(self._masks.automaton_at, self._stacks.handle, states, nodes, at_room)
        while length == STACKS_FULL:
            self._stacks.grow()
            length, ended = open_level(self._masks.automaton_at, self._stacks.handle, states, nodes, at_room)
        return self._interned(room, length, bool(ended) or is_ended)

    def _interned(self, room: Front, length: int, ended: bool) -> Configuration:
        """The configuration that a kernel left at the beginning of the front."""
        if length < 0:
            raise too_ambiguous()
        states, nodes = room.state[:length].copy(), room.stack[:length].copy()
        key = states.tobytes() + nodes.tobytes() + bytes([ended])
        known = self._known.get(key)
        if known is None:
            if self._remembered >= REMEMBERED_STEPS_MAX:
                self._forget()
            self._remembered += 1 + length // _ITEMS_PER_STEP
            known = self._known[key] = Configuration(states, nodes, ended)
        return known

    def after_token(self, configuration: Configuration, token_id: int) -> Configuration | None:
        """The configuration behind a token, or None where it is rejected; remembered."""
        if not 0 <= token_id < len(self._tokens.is_text):
            return None
        is_text = bool(self._tokens.is_text[token_id])
        if not is_text and self._whole is None:
            return None
        with self._lock:
            after: Configuration | None = None
            if is_text:
                flat = self._tokens.flat
                start, stop = int(flat.offsets[token_id]), int(flat.offsets[token_id + 1])
                after = self._advance(configuration, flat.blob, start, stop)
            if self._whole is not None:
                after = self._or_whole(after, self._whole.after(configuration.states, configuration.nodes, token_id))
            if self._remembered >= REMEMBERED_STEPS_MAX:
                # Not only new configurations cost memory: each of few can have a transition for every token.
                self._forget()
                configuration.after.clear()
            configuration.after[token_id] = after
            self._remembered += 1
        return after

    def _or_whole(self, after: Configuration | None, entries: list[tuple[int, int]]) -> Configuration | None:
        """What the bytes of a token led to, together with the entries to which the token as a whole leads."""
        if not entries:
            return after
        if after is None:
            return self._opened(entries, is_ended=False)
        known = zip(after.states.tolist(), after.nodes.tolist(), strict=True)
        return self._opened(list(dict.fromkeys([*known, *entries])), is_ended=after.ended)

    def after_bytes(self, configuration: Configuration, data: bytes) -> Configuration | None:
        """The configuration behind ``data``, or None where it is rejected."""
        if not data:
            return configuration
        with self._lock:
            return self._advance(configuration, np.frombuffer(data, dtype=np.uint8), 0, len(data))

    def _advance(
        self, configuration: Configuration, data: npt.NDArray[np.uint8], start: int, stop: int
    ) -> Configuration | None:
        from shmcache.rows.entries import advance

        room = front(self._tokens.longest_token_bytes)
        at_room = front_handles(self._tokens.longest_token_bytes)[0]
        while True:
            length, ended = advance(
                self._masks.automaton_at,
                self._stacks.handle,
                configuration.states,
                configuration.nodes,
                data,
                start,
                stop,
                at_room,
            )
            if length != STACKS_FULL:
                break
            self._stacks.grow()
        if length == 0 and not ended:
            return None
        return self._interned(room, length, bool(ended))

    def _forget(self) -> None:
        """Drops what was learnt; configurations that matchers hold stay valid."""
        for known in self._known.values():
            known.after.clear()
        self._known.clear()
        self._known[self._key_of(self.start)] = self.start
        self._remembered = 0

    @staticmethod
    def _key_of(configuration: Configuration) -> bytes:
        return configuration.states.tobytes() + configuration.nodes.tobytes() + bytes([configuration.ended])

    def mask_of(self, configuration: Configuration) -> SparseMask:
        """The mask of the tokens accepted next; remembered. What it says of stop tokens that are no text is void."""
        with self._lock:
            mask = configuration.mask = self._masks.of(configuration.states, configuration.nodes)
            self._remembered += len(mask.index) // _ITEMS_PER_STEP
        return mask

    def forced_byte(self, configuration: Configuration) -> int | None:
        """The only byte that can come next, or None where there are several or the text may end."""
        if configuration.ended:
            return None
        automaton = self._image.automaton
        forced: int | None = None
        for state in configuration.states.tolist():
            if automaton.whole_edges_of(state):
                return None
            for low, high, _ in automaton.edges_of(state):
                if low != high or (forced is not None and low != forced):
                    return None
                forced = low
        return forced


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The thread that held a lock is not here. It left no table half-written: no thread forks while a kernel runs."""
    for arena in list(_arenas):
        arena._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
