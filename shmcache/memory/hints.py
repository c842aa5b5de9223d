"""Hints: in which slot the entry of a text may lie, so that a text is found without being understood.

Owns the words behind the index that say so. Must never know what a text means, nor trust a hint: what decides is the
segment in that slot, whose header has the digest of the text it was made of. So a hint need not be right, or there. It
is one word, which changes in one store; nobody takes it back when its entry goes, and it may give way to another.
"""

from __future__ import annotations

from collections.abc import Callable

from shmcache.memory import steps
from shmcache.memory.control import ControlReader
from shmcache.memory.layout import HINT_SLOT_MASK, HINTS_PER_GROUP, hint_group_count, hints_start
from shmcache.memory.words import key_to_words


class Hints:
    """The hints of a control segment. The manager alone places any."""

    def __init__(self, control: ControlReader) -> None:
        self._words = control.words
        self._slot_count = control.slot_count
        self._start = hints_start(control.home_count)
        self._group_count = hint_group_count(control.home_count)

    def slots(self, text_digest: bytes) -> list[int]:
        """Slots in which the entry of that text may lie: hardly ever more than one."""
        words = key_to_words(text_digest)
        tag, start = words[0] & ~HINT_SLOT_MASK, self._group_start(words)
        hints: list[int] = self._words[start : start + HINTS_PER_GROUP].tolist()
        slots = [hint & HINT_SLOT_MASK for hint in hints if hint & ~HINT_SLOT_MASK == tag]
        return [slot for slot in slots if slot < self._slot_count]

    def place(self, text_digest: bytes, slot: int, is_in_use: Callable[[int], bool]) -> None:
        """Says that the entry of that text lies in that slot.

        It takes the place of what was said of the same text, or of nothing, or of a slot that is not in use; where
        there is none of these, of one that the slot's number chooses.
        """
        words = key_to_words(text_digest)
        tag, start = words[0] & ~HINT_SLOT_MASK, self._group_start(words)
        hints: list[int] = self._words[start : start + HINTS_PER_GROUP].tolist()

        def worth(place: int) -> int:
            hint = hints[place]
            if hint and hint & ~HINT_SLOT_MASK == tag:
                return 0
            if hint == 0 or not is_in_use(hint & HINT_SLOT_MASK):
                return 1
            return 2 if place == slot % HINTS_PER_GROUP else 3

        steps.store(self._words, start + min(range(HINTS_PER_GROUP), key=worth), tag | slot)

    def _group_start(self, words: tuple[int, int, int, int]) -> int:
        return self._start + HINTS_PER_GROUP * (words[1] % self._group_count)
