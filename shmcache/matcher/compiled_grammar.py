"""A compiled grammar as its users hold it.

Owns the image, whatever keeps its bytes in memory, and the arena that new matchers begin in.
"""

from __future__ import annotations

import os
import threading

from shmcache.errors import SegmentError
from shmcache.grammar.ir import Warning as GrammarWarning
from shmcache.image.first_mask import FirstMask
from shmcache.image.image import ClosedImage, Image
from shmcache.matcher.arena import Arena
from shmcache.matcher.beginning import Beginning
from shmcache.vocabulary.vocabulary import Vocabulary

_beginning = threading.Lock()
"""Held while an arena is made; one for all grammars, so that a forked child has one to make anew."""


def _after_fork_in_child() -> None:
    global _beginning
    _beginning = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


class CompiledGrammar:
    """Immutable and shared by any number of matchers and threads; its bytes may lie in shared memory.

    ``generation`` is that of the cache in which it was compiled, 0 for a private compile.
    """

    __slots__ = ("_arena", "_first_mask", "_image", "_memory_size_bytes", "_vocabulary", "generation")

    def __init__(
        self,
        image: Image | ClosedImage,
        vocabulary: Vocabulary,
        *,
        generation: int,
        memory_size_bytes: int,
        first_mask: FirstMask | None = None,
    ) -> None:
        """``generation`` is 0 for a private compile. A closed image is opened when it is needed: with ``first_mask``
        behind the first token. Raises :class:`SegmentError` for another vocabulary's image.
        """
        found = (image.vocabulary_fingerprint, image.vocabulary_size, image.width)
        if found != (vocabulary.fingerprint, vocabulary.size, vocabulary.width):
            raise SegmentError("the grammar was compiled for another vocabulary")
        self._image = image
        self._vocabulary = vocabulary
        self._memory_size_bytes = memory_size_bytes
        self._first_mask = first_mask
        self._arena: Arena | Beginning | None = None
        self.generation = generation

    @property
    def key(self) -> bytes:
        """32 bytes: the digest of the source, its options and the vocabulary."""
        return self._image.key

    @property
    def memory_size_bytes(self) -> int:
        """Bytes the compiled grammar takes where it lies; in shared memory, what it is charged."""
        return self._memory_size_bytes

    @property
    def image(self) -> Image:
        """The image itself."""
        return self._image.open() if isinstance(self._image, ClosedImage) else self._image

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary it was compiled for."""
        return self._vocabulary

    @property
    def warnings(self) -> tuple[GrammarWarning, ...]:
        """What was ignored because the caller asked for that, or because the standard says so."""
        return self.image.warnings

    def arena(self) -> Arena | Beginning:
        """The arena for a matcher that begins now."""
        arena = self._arena
        if arena is None or arena.is_full:
            with _beginning:
                arena = self._arena
                if arena is None or arena.is_full:
                    arena = self._arena = self._begun()
        return arena

    def _begun(self) -> Arena | Beginning:
        if self._first_mask is not None and isinstance(self._image, ClosedImage):
            return Beginning(self._first_mask, self._image, self._vocabulary)
        return Arena(self.image, self._vocabulary)

    def __repr__(self) -> str:
        return f"<CompiledGrammar {self.key.hex()[:12]}, {self._memory_size_bytes} bytes>"
