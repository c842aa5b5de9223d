"""A grammar's beginning, of which the mask is known: an arena that is made when more than that is asked for.

Owns the waiting. Must never know how anything is worked out: that is the arena's. A request whose first mask lies in
shared memory needs neither kernels nor the image's arrays to get it.
"""

from __future__ import annotations

import os
import threading

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.image.first_mask import FirstMask
from shmcache.image.image import ClosedImage, Image
from shmcache.matcher.arena import Arena, Configuration
from shmcache.matcher.bitmask import SparseMask, no_tokens, word_count
from shmcache.vocabulary.vocabulary import Vocabulary

_opening = threading.Lock()
"""Held while an arena is made; one for all, so that a forked child has one to make anew."""

_NOTHING: Int32Array = np.zeros(0, dtype=np.int32)


def _after_fork_in_child() -> None:
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Beginning:
    """What matchers need of an arena, and its first configuration with its mask. Safe for several threads."""

    __slots__ = ("_arena", "_image", "_vocabulary", "has_whole_tokens", "start")

    def __init__(self, mask: FirstMask, image: ClosedImage, vocabulary: Vocabulary) -> None:
        self.start = Configuration(_NOTHING, _NOTHING, mask.may_end)
        self.start.mask = SparseMask.of_words(no_tokens(word_count(vocabulary.width)), mask.index, mask.value)
        self.has_whole_tokens = mask.has_whole_tokens
        self._image = image
        self._vocabulary = vocabulary
        self._arena: Arena | None = None

    @property
    def is_full(self) -> bool:
        """As of an arena."""
        return self._arena is not None and self._arena.is_full

    def after_token(self, configuration: Configuration, token_id: int) -> Configuration | None:
        """As of an arena."""
        return self._opened().after_token(configuration, token_id)

    def after_bytes(self, configuration: Configuration, data: bytes) -> Configuration | None:
        """As of an arena."""
        return self._opened().after_bytes(configuration, data)

    def mask_of(self, configuration: Configuration) -> SparseMask:
        """As of an arena."""
        return self._opened().mask_of(configuration)

    def forced_byte(self, configuration: Configuration) -> int | None:
        """As of an arena."""
        return self._opened().forced_byte(configuration)

    def _opened(self) -> Arena:
        arena = self._arena
        if arena is None:
            with _opening:
                arena = self._arena
                if arena is None:
                    arena = Arena(self._image.open(), self._vocabulary)
                    self._take_over(arena.start)
                    self._arena = arena
        return arena

    def _take_over(self, start: Configuration) -> None:
        """Makes the beginning that matchers have the arena's: what is learnt about either is about both."""
        start.mask = self.start.mask
        self.start.states, self.start.nodes, self.start.after = start.states, start.nodes, start.after


def first_mask_of(image: Image, vocabulary: Vocabulary) -> FirstMask:
    """The mask of a grammar's beginning. Raises :class:`LimitError` where it is too ambiguous."""
    arena = Arena(image, vocabulary)
    row = np.empty(word_count(vocabulary.width), dtype=np.int32)
    arena.mask_of(arena.start).write(row)
    index = np.flatnonzero(row)
    return FirstMask(index.astype(np.int32), row[index], arena.start.ended, arena.has_whole_tokens)
