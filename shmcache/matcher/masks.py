"""Masks of configurations of one grammar, put together from the image's rows and walks of the trie.

Owns that sum. Must never know requests, nor what is remembered. Calls happen under the arena's lock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import frozen
from shmcache.errors import LimitError
from shmcache.image.image import Image
from shmcache.limits import CONFIGURATION_ENTRIES_MAX
from shmcache.matcher.bitmask import SparseMask, clear_bits, no_tokens, set_bits
from shmcache.matcher.lazy_rows import LazyRows
from shmcache.matcher.token_table import TokenTable
from shmcache.matcher.whole_tokens import WholeTokens
from shmcache.rows.arrays import ACCEPTED, FRONT_FULL, STACKS_FULL
from shmcache.rows.row_table import ACCEPTED_IDS, BITSET, NO_ROW
from shmcache.rows.stacks import StackTable, front_handles, walk_room, walk_room_handle
from shmcache.vocabulary.vocabulary import Vocabulary

_BITMASKS_MAX = 64
"""Sets of an image kept as bitmasks in this process; 16 KB each for 131,072 tokens."""

_FEW_WORDS_MAX = 256
"""A mask of so few words is remembered as they are."""

_NO_IDS: Int32Array = frozen([], np.int32)
_NO_WORDS: Int32Array = np.zeros(0, dtype=np.int32)
"""Writable, as the words of a walk are: kernels are compiled for one kind."""

_NOTHING_KNOWN = np.zeros(0, dtype=np.uint8)


def too_ambiguous() -> LimitError:
    """The error of a request whose text can be read in too many ways."""
    return LimitError(
        f"the grammar is ambiguous here in more than {CONFIGURATION_ENTRIES_MAX} ways",
        limit="configuration_entries",
        value=CONFIGURATION_ENTRIES_MAX,
    )


class Masks:
    """Tells which tokens go on from a set of (state, stack) entries."""

    def __init__(
        self, image: Image, vocabulary: Vocabulary, tokens: TokenTable, whole: WholeTokens | None, stacks: StackTable
    ) -> None:
        self._rows = image.rows
        self._tokens = tokens
        self._whole = whole
        self._stacks = stacks
        self._lazy = LazyRows(image.automaton, image.rows, vocabulary)
        self.automaton_at = self._lazy.automaton_at
        self._vocabulary = vocabulary
        self._no_tokens = no_tokens(len(tokens.text_bitmask))
        self._bitmasks: dict[int, Int32Array] = {}

    def of(self, states: Int32Array, nodes: Int32Array) -> SparseMask:
        """The mask of the tokens that go on from these entries. Raises :class:`LimitError` where they are too many."""
        rows = self._rows
        many: list[_Part] = []
        few: list[Int32Array] = []
        walked: list[int] = []
        for at, (state, node) in enumerate(zip(states.tolist(), nodes.tolist(), strict=True)):
            accepted = int(rows.state_accepted[state])
            if accepted != NO_ROW:
                uncertain = rows.uncertain_list(int(rows.state_uncertain[state]))
                form, data = rows.accepted_set(accepted)
                if form == ACCEPTED_IDS:
                    few.append(data)
                else:
                    many.append(_Part(self._expanded(accepted), _NO_IDS, _NO_IDS))
            elif (counted := self._lazy.counted(state)) is not None:
                uncertain = counted.uncertain
                many.append(_Part(counted.bitmask, counted.fewer, counted.more))
            elif (difference := self._lazy.difference(state)) is not None:
                uncertain = difference.uncertain
                base = self._expanded(int(rows.state_accepted[difference.base]))
                many.append(_Part(base, difference.rejected, difference.accepted))
            else:
                walked.append(at)
                continue
            if len(uncertain):
                few.append(self._resolve(state, node, uncertain))
        if self._whole is not None:
            many += [_Part(bitmask, _NO_IDS, _NO_IDS) for bitmask in self._whole.bitmasks(states)]
        index, value = self._walk(states, nodes, walked)
        if not many:
            if not few and len(index) <= _FEW_WORDS_MAX:
                return SparseMask.of_words(self._no_tokens, index, value)
            many.append(_Part(self._no_tokens, _NO_IDS, _NO_IDS))
        if len(many) > 1 or not self._is_kept(many[0].base):
            return self._joined(many, few, index, value)
        part = many[0]
        return self._changed(part.base, part.fewer, _together([part.more, *few]), index, value)

    def _walk(self, states: Int32Array, nodes: Int32Array, walked: list[int]) -> tuple[Int32Array, Int32Array]:
        """The words of the tokens that go on from some of the entries."""
        if not walked:
            return _NO_WORDS, _NO_WORDS
        if len(walked) < len(states):
            states, nodes = states[walked], nodes[walked]
        index, value, status = self._lazy.walk(states, nodes, self._stacks)
        if status == FRONT_FULL:
            raise too_ambiguous()
        return index, value

    def _changed(
        self,
        base: Int32Array,
        fewer: Int32Array,
        more: Int32Array,
        index: Int32Array,
        value: Int32Array,
    ) -> SparseMask:
        """``base`` without some tokens, with others, and with the bits of some words."""
        from shmcache.rows.entries import change_words

        room = walk_room(self._vocabulary.trie)
        count = change_words(base, fewer, more, index, value, walk_room_handle(room))
        return SparseMask.of_words(base, room.word_index[:count], room.word_value[:count].copy())

    def _joined(self, many: list[_Part], few: list[Int32Array], index: Int32Array, value: Int32Array) -> SparseMask:
        """The same of several sets together."""
        text = self._tokens.text_bitmask
        mask = np.zeros(len(text), dtype=np.int32)
        bases = [text]
        for part in many:
            row = part.base.copy()
            clear_bits(row, part.fewer)
            set_bits(row, part.more)
            np.bitwise_or(mask, row, out=mask)
            if self._is_kept(part.base):
                bases.append(part.base)
        set_bits(mask, _together(few))
        mask[index] |= value
        return SparseMask.of(mask, bases)

    def _expanded(self, accepted: int) -> Int32Array:
        """An accepted set as a bitmask, in place where it lies as one."""
        form, data = self._rows.accepted_set(accepted)
        if form == BITSET:
            return data
        expanded = self._bitmasks.get(accepted)
        if expanded is None:
            # Not to be written to, as one that lies in place is: kernels are compiled for either, and one is enough.
            expanded = frozen(self._rows.accepted_bitmask(accepted, self._tokens.text_bitmask), np.int32)
            if len(self._bitmasks) < _BITMASKS_MAX:
                self._bitmasks[accepted] = expanded
        return expanded

    def _is_kept(self, bitmask: Int32Array) -> bool:
        """Whether the bitmask is there anyway, so that any number of masks may be remembered against it."""
        return (
            bitmask is self._no_tokens
            or not bitmask.flags.owndata
            or any(bitmask is kept for kept in self._bitmasks.values())
        )

    def _resolve(self, state: int, node: int, tokens: Int32Array) -> Int32Array:
        """Those of ``tokens`` that are accepted with the whole stack known."""
        from shmcache.rows.entries import resolve_tokens

        verdicts = np.zeros(len(tokens), dtype=np.uint8)
        while True:
            status = resolve_tokens(
                self.automaton_at,
                self._stacks.handle,
                self._tokens.flat.offsets,
                self._tokens.flat.blob,
                tokens,
                state,
                node,
                *front_handles(self._tokens.longest_token_bytes),
                _NOTHING_KNOWN,
                verdicts,
            )
            if status != STACKS_FULL:
                break
            self._stacks.grow()
        if status == FRONT_FULL:
            raise too_ambiguous()
        accepted: Int32Array = tokens[verdicts == ACCEPTED]
        return accepted


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Tokens that one entry goes on with: those of a bitmask, less ``fewer``, and ``more``."""

    base: Int32Array
    fewer: Int32Array
    more: Int32Array


def _together(ids: list[Int32Array]) -> Int32Array:
    """One list, read-only as all lists of ids are: one type for kernels."""
    return frozen(np.concatenate(ids) if ids else [], np.int32)
