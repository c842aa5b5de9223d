"""The vocabularies a worker has at hand, and how one is made.

Owns their payload (vocabulary and trie, one after the other) and the few that stay open. Must never know grammars.
"""

from __future__ import annotations

import gc
from collections import OrderedDict

from shmcache.errors import SegmentError
from shmcache.manager.parts import join_parts, split_vocabulary
from shmcache.memory.segments import map_segment
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_workers.grammar_compile import KeyMismatchError

OPEN_MAX = 4


def vocabulary_payload(source: bytes, key: bytes) -> list[bytes | memoryview]:
    """The pieces of a vocabulary segment's payload, from the vocabulary's bytes.

    Raises :class:`KeyMismatchError` when they do not have the fingerprint ``key``.
    """
    try:
        vocabulary = Vocabulary.from_bytes(source)
    except SegmentError as error:
        raise KeyMismatchError(f"no vocabulary at all: {error.message}") from error
    if vocabulary.fingerprint != key:
        raise KeyMismatchError("the vocabulary has another fingerprint")
    return join_parts([vocabulary.to_bytes(), Trie.build(vocabulary).to_bytes()])


class Vocabularies:
    """The vocabularies used last, copied from their segments."""

    def __init__(self) -> None:
        self._open: OrderedDict[bytes, Vocabulary] = OrderedDict()

    def get(self, key: bytes, descriptor: int) -> Vocabulary:
        """The vocabulary in that segment; ``key`` is its fingerprint. Raises :class:`SegmentError` when it is not."""
        vocabulary = self._open.get(key)
        if vocabulary is None:
            # A copy: a mapping kept here would keep a retired vocabulary's bytes in the account.
            payload = bytes(map_segment(descriptor).payload)
            vocabulary_bytes, trie_bytes = split_vocabulary(payload)
            vocabulary = Vocabulary.from_bytes(vocabulary_bytes)
            if vocabulary.fingerprint != key:
                raise SegmentError("a vocabulary's segment holds another vocabulary")
            vocabulary.attach_trie(Trie.from_buffer(trie_bytes))
            self._open[key] = vocabulary
            if len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
            # What lasts is not looked at again by each full collection, which would take a fifth of a compile.
            gc.freeze()
        self._open.move_to_end(key)
        return vocabulary
