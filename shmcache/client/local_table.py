"""What this process holds already: grammars by name, so that asking again costs a dictionary look-up.

Owns the bounded table and what makes an entry of it valid. Must never know how a grammar was come by.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from shmcache.client.attachment import Attachment
from shmcache.matcher.compiled_grammar import CompiledGrammar

GRAMMARS_MAX = 1_024
NAMES_PER_GRAMMAR = 2
"""The request as it was made, and the key."""


@dataclass(frozen=True, slots=True)
class Held:
    """A grammar, and the attachment and generation in which it may be given out again.

    ``slot`` is its place in the index, None when it is in none.
    """

    grammar: CompiledGrammar
    attachment: Attachment
    generation: int
    slot: int | None


class LocalTable:
    """Grammars by name, the least recently used dropped first; valid while their generation is."""

    def __init__(self, names_max: int | None = None) -> None:
        self._names_max = NAMES_PER_GRAMMAR * GRAMMARS_MAX if names_max is None else names_max
        self._held: OrderedDict[Hashable, Held] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, name: Hashable, attachment: Attachment) -> Held | None:
        """What is held under that name, if it is still valid; the hit is counted and noted as a use."""
        held = self._held.get(name)
        if held is None:
            return None
        if held.generation != attachment.generation or held.attachment is not attachment:
            # A clear, of whatever process: everything here is of the past.
            self.clear()
            return None
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
        attachment.note_local_hit(held.slot)
        return held

    def put(self, name: Hashable, held: Held, attachment: Attachment) -> None:
        """Keeps a grammar, unless its generation is over."""
        if held.generation != attachment.generation or held.attachment is not attachment:
            return
        with self._lock:
            self._held[name] = held
            self._held.move_to_end(name)
            while len(self._held) > self._names_max:
                self._held.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._held.clear()

    def after_fork(self) -> None:
        """In a child: the lock may have been held by a thread that does not exist here."""
        self._lock = threading.Lock()
