"""The matcher: one request's way through a grammar.

Owns the request's state: a chain of configurations that rollback shortens and fork shares. Must never change anything
that another request sees.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.matcher.arena import Configuration
from shmcache.matcher.bitmask import BITS_PER_WORD, word_count
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.draft_tree import DraftTree

_UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One accepted token (or string), and the steps before it."""

    before: _Step | None
    configuration: Configuration
    is_stopped: bool


class GrammarMatcher:
    """Tells which tokens may come next, and moves on. Not safe for use by several threads at once.

    ``override_stop_tokens`` replaces the vocabulary's stop tokens for this request; a stop token is never text. Raises
    ValueError for one that has no bit in a mask.
    ``terminate_without_stop_token`` terminates the request as soon as the text may end, without a stop token.
    """

    __slots__ = (
        "_arena",
        "_configuration",
        "_grammar",
        "_is_stopped",
        "_step",
        "_stop_ids",
        "_stop_index",
        "_stop_value",
        "_stops_may_be_set",
        "_terminates_early",
        "_word_count",
    )

    def __init__(
        self,
        grammar: CompiledGrammar,
        override_stop_tokens: int | Sequence[int] | None = None,
        terminate_without_stop_token: bool = False,
    ) -> None:
        vocabulary = grammar.vocabulary
        if override_stop_tokens is None:
            stop_ids = frozenset(vocabulary.stop_token_ids)
        elif isinstance(override_stop_tokens, (int, np.integer)):
            stop_ids = frozenset((int(override_stop_tokens),))
        else:
            stop_ids = frozenset(int(token) for token in override_stop_tokens)
        for token in stop_ids:
            if not 0 <= token < vocabulary.width:
                # A mask has no bit for it, so the request could never end with it.
                raise ValueError(f"stop token {token} is outside 0..{vocabulary.width - 1}")
        self._grammar = grammar
        self._stop_ids = stop_ids
        self._terminates_early = terminate_without_stop_token
        self._word_count = word_count(vocabulary.width)
        stop_words: dict[int, int] = {}
        for token in stop_ids:
            stop_words[token >> 5] = stop_words.get(token >> 5, 0) | 1 << (token & 31)
        self._stop_index = np.array(list(stop_words), dtype=np.intp)
        self._stop_value = np.array(list(stop_words.values()), dtype=np.uint32).view(np.int32)
        self._begin()
        self._stops_may_be_set = self._arena.has_whole_tokens or any(vocabulary.is_text(token) for token in stop_ids)

    def _begin(self) -> None:
        self._arena = self._grammar.arena()
        self._configuration = self._arena.start
        self._is_stopped = False
        self._step: _Step | None = None

    @property
    def stop_token_ids(self) -> list[int]:
        """The stop tokens of this request, ascending."""
        return sorted(self._stop_ids)

    def accept_token(self, token_id: SupportsIndex) -> bool:
        """Moves on by one token; False, and nothing changed, where it is not allowed.

        Ids out of range, special tokens that are no stop tokens, and empty tokens are never allowed; a stop token is
        allowed where the text may end; nothing is allowed after termination. Raises TypeError for what is no integer.
        """
        # NumPy's and torch's integers too: those of torch equal nothing by hash, and would be remembered one by one.
        token = token_id if type(token_id) is int else operator.index(token_id)
        configuration = self._configuration
        if token in self._stop_ids:
            if not configuration.ended or self.is_terminated():
                return False
            self._move(configuration, is_stopped=True)
            return True
        after = configuration.after.get(token, _UNKNOWN)
        if after is _UNKNOWN:
            after = self._arena.after_token(configuration, token)
        if after is None or self._is_stopped or (self._terminates_early and configuration.ended):
            return False
        self._step = _Step(self._step, configuration, False)
        self._configuration = after
        return True

    def accept_string(self, text: str | bytes) -> bool:
        """Moves on by the bytes of ``text`` as one step; False, and nothing changed, where they are not allowed."""
        if self.is_terminated():
            return False
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else memoryview(text).tobytes()
        after = self._arena.after_bytes(self._configuration, data)
        if after is None:
            return False
        self._move(after, is_stopped=False)
        return True

    def _move(self, configuration: Configuration, *, is_stopped: bool) -> None:
        self._step = _Step(self._step, self._configuration, self._is_stopped)
        self._configuration = configuration
        self._is_stopped = is_stopped

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0) -> bool:
        """Writes row ``index`` of ``bitmask``, int32 (batch, words) or (words,), with 1 for every allowed token.

        Rows may have more words than the vocabulary needs; the surplus is 0. Returns whether any token is forbidden,
        which a grammar's mask always says, as special tokens are.
        Raises ValueError for another dtype or shape, IndexError for a row that is not there, and :class:`LimitError`
        where the grammar is too ambiguous.
        """
        self.write_next_token_bitmask(_row(bitmask, index, self._word_count))
        return True

    def write_next_token_bitmask(self, row: Int32Array) -> None:
        """The same for one row that is known to be int32 with words enough."""
        configuration = self._configuration
        if self._is_stopped or (self._terminates_early and configuration.ended):
            row.fill(0)
            return
        mask = configuration.mask
        if mask is None:
            mask = self._arena.mask_of(configuration)
        if len(row) > self._word_count:
            row[self._word_count :] = 0
            row = row[: self._word_count]
        mask.write(row)
        if configuration.ended:
            row[self._stop_index] |= self._stop_value
        elif self._stops_may_be_set:
            row[self._stop_index] &= ~self._stop_value

    def rollback(self, num_tokens: int = 1) -> None:
        """Takes back the last ``num_tokens`` steps, a stop token included. Raises ValueError past the beginning."""
        undone = self._step_to_undo(num_tokens)
        if undone is not None:
            self._step = undone.before
            self._configuration = undone.configuration
            self._is_stopped = undone.is_stopped

    def check_rollback(self, num_tokens: int) -> None:
        """Raises what :meth:`rollback` would, and changes nothing."""
        self._step_to_undo(num_tokens)

    def _step_to_undo(self, num_tokens: int) -> _Step | None:
        """The first of the last ``num_tokens`` steps; None for no step. Raises ValueError past the beginning."""
        if num_tokens < 0:
            raise ValueError(f"cannot roll back {num_tokens} steps")
        step: _Step | None = self._step
        undone: _Step | None = None
        for _ in range(num_tokens):
            if step is None:
                raise ValueError(f"cannot roll back {num_tokens} steps: fewer were taken")
            undone, step = step, step.before
        return undone

    def fork(self) -> GrammarMatcher:
        """A matcher in the same state that goes its own way from here; takes constant time."""
        other = object.__new__(GrammarMatcher)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def reset(self) -> None:
        """Back to the beginning."""
        self._begin()

    def is_completed(self) -> bool:
        """Whether the text so far is a whole text of the grammar; more may be allowed to follow."""
        return self._configuration.ended

    def is_terminated(self) -> bool:
        """Whether nothing more is accepted: a stop token was, or the text is complete and none is needed."""
        return self._is_stopped or (self._terminates_early and self._configuration.ended)

    def find_jump_forward_string(self) -> str:
        """The longest text that must come next, in whole characters; empty where there is a choice."""
        if self.is_terminated():
            return ""
        forced = bytearray()
        configuration = self._configuration
        arena = self._arena
        while len(forced) < _JUMP_BYTES_MAX:
            byte = arena.forced_byte(configuration)
            if byte is None:
                break
            after = arena.after_bytes(configuration, bytes([byte]))
            if after is None:
                break
            forced.append(byte)
            configuration = after
        try:
            return forced.decode("utf-8")
        except UnicodeDecodeError as error:
            return forced[: error.start].decode("utf-8")

    def find_jump_forward_tokens(self) -> list[int]:
        """The longest line of tokens each of which is the only one allowed in its place; empty where there is a choice.

        Whatever a model does, it takes these tokens or none, so that it need not be asked; the tokenizer has no say in
        it. A text that may end has a choice, with a stop token or without. At most 1,024 tokens.
        """
        probe = self.fork()
        row = np.empty(self._word_count, dtype=np.int32)
        forced: list[int] = []
        while len(forced) < _JUMP_TOKENS_MAX and not probe._configuration.ended:
            probe.fill_next_token_bitmask(row)
            words = np.flatnonzero(row)
            if len(words) != 1:
                break
            word = int(row[words[0]]) & 0xFFFFFFFF
            if word & (word - 1):
                break
            token = int(words[0]) * BITS_PER_WORD + word.bit_length() - 1
            if not probe.accept_token(token):
                break
            forced.append(token)
        return forced

    def traverse_draft_tree(
        self,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        draft_tokens: Any,
        token_bitmask: Any,
        time_threshold: float = -1.0,
    ) -> bool:
        """Writes the masks of a tree of draft tokens, for speculative decoding; the matcher stays where it is.

        A tree of n nodes is three arrays of integers (n,): ``retrieve_next_token`` has the first child of each node,
        ``retrieve_next_sibling`` its next sibling, -1 for none, and ``draft_tokens`` its token. Node 0 is the root:
        where the matcher is; its token is not looked at. ``token_bitmask``, int32 (n, words), gets the mask behind
        every node that allowed tokens lead to; 0 where a token is not allowed or terminates the request. Rows of the
        nodes behind such a one stay as they were, as do those of nodes that the root does not lead to.

        Returns False, and leaves the rest as it was, where ``time_threshold`` seconds (0 or less: no limit) have passed
        before the last node. Raises ValueError for what is no tree and for a bitmask of another shape, and
        :class:`LimitError` where the grammar is too ambiguous behind some node.
        """
        tree = DraftTree.of(retrieve_next_token, retrieve_next_sibling, draft_tokens)
        rows = as_array(token_bitmask)
        if rows.ndim != 2 or len(rows) != len(tree):
            raise ValueError(f"a draft tree of {len(tree)} nodes needs as many rows, not shape {rows.shape}")
        return tree.fill(self.fork(), rows, time_threshold)


_JUMP_BYTES_MAX = 65_536
_JUMP_TOKENS_MAX = 1_024


def as_array(bitmask: Any) -> Int32Array:
    """The array that a bitmask is, or that a tensor in main memory shares its memory with."""
    array: Int32Array = bitmask if isinstance(bitmask, np.ndarray) else bitmask.numpy()
    return array


def _row(bitmask: Any, index: int, words: int) -> Int32Array:
    array = as_array(bitmask)
    row = array[index] if array.ndim == 2 else array
    if row.ndim != 1 or row.dtype != np.int32 or len(row) < words:
        raise ValueError(
            f"a bitmask row must be int32 with at least {words} words, not {array.dtype} of shape {array.shape}"
        )
    if array.ndim == 1 and index != 0:
        raise ValueError(f"a bitmask of one row has no row at index {index}")
    return row
