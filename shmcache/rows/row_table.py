"""The rows of an automaton's states in flat arrays, each set of tokens stored once, in its smallest form.

Owns the forms and the table. Must never know how a row was computed, nor where the table lies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import frozen, in_range, is_offset_array
from shmcache.errors import SegmentError
from shmcache.vocabulary.trie import Trie

BITSET = 0
"""The words of a token bitmask."""
ACCEPTED_IDS = 1
"""Ids of the accepted tokens, ascending."""
REJECTED_IDS = 2
"""Ids of the text tokens that are not accepted, ascending."""

NO_ROW = -1
ARRAY_DTYPES = (np.int32, np.int32, np.uint8, np.int64, np.int32, np.int64, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """For ``S`` states: ``A`` different sets of accepted tokens and ``U`` different lists of uncertain ones.

    A token that is in neither is rejected. Many states have no row: a matcher works out theirs where it needs one. All
    arrays are one-dimensional and read-only.
    """

    state_accepted: Int32Array
    """int32 (S): the state's accepted set; :data:`NO_ROW` where there is none."""
    state_uncertain: Int32Array
    """int32 (S): the state's uncertain list; :data:`NO_ROW` where there is none."""
    form: npt.NDArray[np.uint8]
    """uint8 (A)."""
    accepted_offset: npt.NDArray[np.int64]
    """int64 (A + 1): where the set's data begins in ``accepted``."""
    accepted: Int32Array
    uncertain_offset: npt.NDArray[np.int64]
    """int64 (U + 1)."""
    uncertain: Int32Array
    """Token ids in the order of the trie, so that neighbours share beginnings."""

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays, in the order of :data:`ARRAY_DTYPES`."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def accepted_set(self, number: int) -> tuple[int, Int32Array]:
        """Form and data of an accepted set."""
        start, end = int(self.accepted_offset[number]), int(self.accepted_offset[number + 1])
        return int(self.form[number]), self.accepted[start:end]

    def accepted_bitmask(self, number: int, text_bitmask: Int32Array) -> Int32Array:
        """An accepted set as a new token bitmask; ``text_bitmask`` has the bits of all text tokens."""
        form, data = self.accepted_set(number)
        if form == BITSET:
            return data.copy()
        if form == ACCEPTED_IDS:
            return bitmask_of(data, len(text_bitmask))
        return text_bitmask & ~bitmask_of(data, len(text_bitmask))

    def uncertain_list(self, number: int) -> Int32Array:
        """Ids of an uncertain list; empty for :data:`NO_ROW`."""
        if number == NO_ROW:
            return self.uncertain[:0]
        return self.uncertain[int(self.uncertain_offset[number]) : int(self.uncertain_offset[number + 1])]

    def check_bounds(self, has_byte_edges: npt.NDArray[np.bool_], word_count: int, token_count: int) -> None:
        """Raises :class:`SegmentError` unless the table fits that automaton and vocabulary.

        ``has_byte_edges``, bool (S), says which states have byte edges, and may have rows; ``word_count`` is that of a
        mask, and ``token_count`` one past the largest id that may occur.
        """
        sets, lists = len(self.form), len(self.uncertain_offset) - 1
        fits = (
            len(self.state_accepted) == len(self.state_uncertain) == len(has_byte_edges)
            and bool((has_byte_edges | (self.state_accepted == NO_ROW)).all())
            and bool(((self.state_accepted != NO_ROW) | (self.state_uncertain == NO_ROW)).all())
            and len(self.accepted_offset) == sets + 1
            and lists >= 0
            and is_offset_array(self.accepted_offset, len(self.accepted))
            and is_offset_array(self.uncertain_offset, len(self.uncertain))
            and in_range(self.state_accepted, NO_ROW, sets)
            and in_range(self.state_uncertain, NO_ROW, lists)
            and in_range(self.uncertain, 0, token_count)
            and self._sets_fit(word_count, token_count)
        )
        if not fits:
            raise SegmentError("the row table holds an index out of bounds")

    def _sets_fit(self, word_count: int, token_count: int) -> bool:
        is_bitset = self.form == BITSET
        lengths = np.diff(self.accepted_offset)
        if (self.form > REJECTED_IDS).any() or (lengths[is_bitset] != word_count).any():
            return False
        return in_range(self.accepted[np.repeat(~is_bitset, lengths)], 0, token_count)


class RowTableBuilder:
    """Collects sets and lists, each stored once."""

    def __init__(self, state_count: int) -> None:
        self._state_accepted = np.full(state_count, NO_ROW, dtype=np.int32)
        self._state_uncertain = np.full(state_count, NO_ROW, dtype=np.int32)
        self._forms: list[int] = []
        self._sets: list[Int32Array] = []
        self._lists: list[Int32Array] = []
        self._known_sets: dict[tuple[int, bytes], int] = {}
        self._known_lists: dict[bytes, int] = {}

    def add_accepted(self, form: int, data: Int32Array) -> int:
        """The number of that set."""
        key = (form, data.tobytes())
        number = self._known_sets.setdefault(key, len(self._sets))
        if number == len(self._sets):
            self._forms.append(form)
            self._sets.append(data)
        return number

    def add_sets(self, table: RowTable) -> list[int]:
        """Adds all accepted sets of another table; their new numbers."""
        return [self.add_accepted(*table.accepted_set(number)) for number in range(len(table.form))]

    def add_uncertain(self, tokens: Int32Array) -> int:
        """The number of the list with these ids, which all who add the same ids share."""
        if not len(tokens):
            return NO_ROW
        number = self._known_lists.setdefault(tokens.tobytes(), len(self._lists))
        if number == len(self._lists):
            self._lists.append(tokens)
        return number

    def set_row(self, state: int, accepted: int, uncertain: int) -> None:
        """Gives a state its row."""
        self._state_accepted[state] = accepted
        self._state_uncertain[state] = uncertain

    def finish(self) -> RowTable:
        """The table, read-only."""
        return RowTable(
            state_accepted=frozen(self._state_accepted, np.int32),
            state_uncertain=frozen(self._state_uncertain, np.int32),
            form=frozen(self._forms, np.uint8),
            accepted_offset=_offsets(self._sets),
            accepted=_joined(self._sets),
            uncertain_offset=_offsets(self._lists),
            uncertain=_joined(self._lists),
        )


def _offsets(parts: list[Int32Array]) -> npt.NDArray[np.int64]:
    return frozen(np.concatenate(([0], np.cumsum([len(part) for part in parts]))), np.int64)


def _joined(parts: list[Int32Array]) -> Int32Array:
    return frozen(np.concatenate(parts) if parts else [], np.int32)


def bitmask_of(tokens: npt.NDArray[Any], word_count: int) -> Int32Array:
    """A token bitmask of ``word_count`` words with the bits of these tokens."""
    bits = np.zeros(word_count * 32, dtype=np.uint8)
    bits[tokens] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32, copy=False)


def smallest_form(accepted: npt.NDArray[np.bool_], trie: Trie) -> tuple[int, Int32Array]:
    """Form and data, in whichever form takes fewest bytes, of a set of tokens as bool (T) in trie order."""
    word_count = len(trie.text_bitmask)
    accepted_count = int(np.count_nonzero(accepted))
    rejected_count = trie.token_count - accepted_count
    if accepted_count <= min(rejected_count, word_count):
        return ACCEPTED_IDS, np.sort(trie.token_order[accepted])
    if rejected_count <= word_count:
        return REJECTED_IDS, np.sort(trie.token_order[~accepted])
    return BITSET, bitmask_of(trie.token_order[accepted], word_count)
