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

from shmcache.matcher.arena import Configuration
from shmcache.matcher.bitmask import Int32Array, word_count
from shmcache.matcher.compiled_grammar import CompiledGrammar

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
        "_stops_are_text",
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
        self._stops_are_text = any(vocabulary.is_text(token) for token in stop_ids)
        self._begin()

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
        row = self._row(bitmask, index)
        configuration = self._configuration
        if self._is_stopped or (self._terminates_early and configuration.ended):
            row.fill(0)
            return True
        mask = configuration.mask
        if mask is None:
            mask = self._arena.mask_of(configuration)
        if len(row) > self._word_count:
            row[self._word_count :] = 0
            row = row[: self._word_count]
        mask.write(row)
        if configuration.ended:
            row[self._stop_index] |= self._stop_value
        elif self._stops_are_text:
            row[self._stop_index] &= ~self._stop_value
        return True

    def _row(self, bitmask: Any, index: int) -> Int32Array:
        array: Int32Array = bitmask if isinstance(bitmask, np.ndarray) else bitmask.numpy()
        row = array[index] if array.ndim == 2 else array
        if row.ndim != 1 or row.dtype != np.int32 or len(row) < self._word_count:
            raise ValueError(
                f"a bitmask row must be int32 with at least {self._word_count} words, "
                f"not {array.dtype} of shape {array.shape}"
            )
        if array.ndim == 1 and index != 0:
            raise ValueError(f"a bitmask of one row has no row at index {index}")
        return row

    def rollback(self, num_tokens: int = 1) -> None:
        """Takes back the last ``num_tokens`` steps, a stop token included. Raises ValueError past the beginning."""
        if num_tokens < 0:
            raise ValueError(f"cannot roll back {num_tokens} steps")
        step: _Step | None = self._step
        undone: _Step | None = None
        for _ in range(num_tokens):
            if step is None:
                raise ValueError(f"cannot roll back {num_tokens} steps: fewer were taken")
            undone, step = step, step.before
        if undone is not None:
            self._step = step
            self._configuration = undone.configuration
            self._is_stopped = undone.is_stopped

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


_JUMP_BYTES_MAX = 65_536


def batch_fill_next_token_bitmask(
    matchers: Sequence[GrammarMatcher], bitmask: Any, indices: Sequence[int] | None = None
) -> None:
    """Fills row ``indices[i]`` (row ``i`` by default) of ``bitmask``, int32 (batch, words), for each matcher.

    Raises ValueError unless there are as many indices as matchers, and what
    :meth:`GrammarMatcher.fill_next_token_bitmask` raises.
    """
    rows = range(len(matchers)) if indices is None else indices
    for matcher, row in zip(matchers, rows, strict=True):
        matcher.fill_next_token_bitmask(bitmask, row)
