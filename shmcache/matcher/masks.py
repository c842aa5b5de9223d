"""Masks of configurations of one grammar, put together from the image's rows and walks of the trie.

Owns that sum. Must never know requests, nor what is remembered. Calls happen under the arena's lock.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shmcache.errors import LimitError
from shmcache.image.image import Image
from shmcache.limits import CONFIGURATION_ENTRIES_MAX
from shmcache.matcher.bitmask import Int32Array, SparseMask, clear_bits, set_bits
from shmcache.matcher.lazy_rows import LazyRows
from shmcache.matcher.token_table import TokenTable
from shmcache.matcher.whole_tokens import WholeTokens
from shmcache.rows.arrays import ACCEPTED, FRONT_FULL, STACKS_FULL, AutomatonArrays
from shmcache.rows.row_table import ACCEPTED_IDS, BITSET, NO_ROW
from shmcache.rows.stacks import StackTable, fronts
from shmcache.vocabulary.vocabulary import Vocabulary

_BITMASKS_MAX = 64
"""Sets of an image kept as bitmasks in this process; 16 KB each for 131,072 tokens."""

_FEW_WORDS_MAX = 256
"""A mask of so few words is remembered as they are."""

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
        self._arrays = AutomatonArrays.of(image.automaton)
        self._lazy = LazyRows(image.automaton, image.rows, vocabulary)
        self._bitmasks: dict[int, Int32Array] = {}

    def of(self, states: Int32Array, nodes: Int32Array) -> SparseMask:
        """The mask of the tokens that go on from these entries. Raises :class:`LimitError` where they are too many."""
        rows = self._rows
        many: list[SparseMask] = []
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
                    many.append(SparseMask.equal_to(self._expanded(accepted)))
            elif (difference := self._lazy.difference(state)) is not None:
                uncertain = difference.uncertain
                base = self._expanded(int(rows.state_accepted[difference.base]))
                many.append(_changed(base, difference.accepted, difference.rejected))
            else:
                walked.append(at)
                continue
            if len(uncertain):
                few.append(self._resolve(state, node, uncertain))
        if self._whole is not None:
            many += [SparseMask.equal_to(bitmask) for bitmask in self._whole.bitmasks(states)]
        words = self._walk(states, nodes, walked)
        if words is not None and not many and not few and len(words[0]) <= _FEW_WORDS_MAX:
            return SparseMask.of_words(*words, len(self._tokens.text_bitmask))
        return self._joined(many, few, words)

    def _walk(
        self, states: Int32Array, nodes: Int32Array, walked: list[int]
    ) -> tuple[npt.NDArray[np.intp], Int32Array] | None:
        """The words of the tokens that go on from some of the entries; None where there are no such entries."""
        if not walked:
            return None
        if len(walked) < len(states):
            states, nodes = states[walked], nodes[walked]
        index, value, status = self._lazy.walk(states, nodes, self._stacks)
        if status == FRONT_FULL:
            raise too_ambiguous()
        return index, value

    def _joined(
        self,
        many: list[SparseMask],
        few: list[Int32Array],
        words: tuple[npt.NDArray[np.intp], Int32Array] | None,
    ) -> SparseMask:
        text = self._tokens.text_bitmask
        mask = np.zeros(len(text), dtype=np.int32)
        bases = [text]
        for part in many:
            row = np.empty_like(mask)
            part.write(row)
            np.bitwise_or(mask, row, out=mask)
            if self._is_kept(part.base):
                bases.append(part.base)
        if few:
            set_bits(mask, np.concatenate(few))
        if words is not None:
            mask[words[0]] |= words[1]
        return SparseMask.of(mask, bases)

    def _expanded(self, accepted: int) -> Int32Array:
        """An accepted set as a bitmask, in place where it lies as one."""
        form, data = self._rows.accepted_set(accepted)
        if form == BITSET:
            return data
        expanded = self._bitmasks.get(accepted)
        if expanded is None:
            expanded = self._rows.accepted_bitmask(accepted, self._tokens.text_bitmask)
            if len(self._bitmasks) < _BITMASKS_MAX:
                self._bitmasks[accepted] = expanded
        return expanded

    def _is_kept(self, bitmask: Int32Array) -> bool:
        """Whether the bitmask is there anyway, so that any number of masks may be remembered against it."""
        return not bitmask.flags.owndata or any(bitmask is kept for kept in self._bitmasks.values())

    def _resolve(self, state: int, node: int, tokens: Int32Array) -> Int32Array:
        """Those of ``tokens`` that are accepted with the whole stack known."""
        from shmcache.rows.kernels import resolve_tokens

        verdicts = np.zeros(len(tokens), dtype=np.uint8)
        while True:
            status = resolve_tokens(
                self._arrays,
                self._stacks.arrays,
                self._tokens.flat.offsets,
                self._tokens.flat.blob,
                tokens,
                state,
                node,
                *fronts(self._tokens.longest_token_bytes),
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


def _changed(base: Int32Array, accepted: Int32Array, rejected: Int32Array) -> SparseMask:
    """``base`` with some more tokens and without some of its own."""
    if not len(accepted) and not len(rejected):
        return SparseMask.equal_to(base)
    index: npt.NDArray[np.intp] = np.unique(np.concatenate([accepted, rejected]) >> 5).astype(np.intp)
    mask = base.copy()
    set_bits(mask, accepted)
    clear_bits(mask, rejected)
    return SparseMask(base, index, mask[index])
