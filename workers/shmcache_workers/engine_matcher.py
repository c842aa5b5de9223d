"""A matcher as engines need it: what is wrong with one request never raises where an engine does not expect it.

Owns what becomes of a request whose grammar turns out too ambiguous. Must never know an engine.

Engines end a request whose token is not accepted, but many of them end themselves for an exception while masks are
written or drafts are followed. So a state that cannot be followed gets a mask with a single token in it, one that no
draft proposes, and it accepts no token, not even that: the request ends with its next token, by the engine's own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.errors import LimitError
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher


class EngineMatcher:
    """One request's way through a grammar. ``failure``, where there is one, says why nothing is accepted any more."""

    __slots__ = ("_dead_end", "_matcher", "_steps_beyond", "failure", "grammar")

    def __init__(self, grammar: CompiledGrammar, stop_token_ids: Sequence[int] | None = None) -> None:
        """``stop_token_ids`` replace the vocabulary's, None or empty do not."""
        self.grammar = grammar
        self.failure: str | None = None
        self._matcher = GrammarMatcher(grammar, override_stop_tokens=stop_token_ids or None)
        self._steps_beyond = 0
        vocabulary, stop = grammar.vocabulary, self._matcher.stop_token_ids
        special = (token for token in vocabulary.special_token_ids if token < vocabulary.width and token not in stop)
        self._dead_end = next(special, stop[0] if stop else 0)

    def accept(self, token: int) -> bool:
        """Moves on by a token; False, and nothing changed, where it is not allowed or the request has failed.

        The step behind which a request cannot be followed is accepted still: a draft may have led there.
        """
        if self.failure is not None:
            return False
        try:
            return self._matcher.accept_token(token)
        except LimitError as error:
            self.failure = error.message
            self._steps_beyond = 1
            return True

    def accepted_prefix(self, tokens: Sequence[int]) -> list[int]:
        """The first of ``tokens`` that would be accepted one after the other, up to termination; nothing changes."""
        probe = self._matcher.fork()
        accepted: list[int] = []
        if self.failure is not None:
            return accepted
        for token in tokens:
            try:
                if not probe.accept_token(token):
                    break
            except LimitError:
                break
            accepted.append(token)
        return accepted

    def write(self, row: Int32Array) -> None:
        """Writes the mask of the next token."""
        if self.failure is None:
            try:
                self._matcher.write_next_token_bitmask(row)
                return
            except LimitError as error:
                self.failure = error.message
        row.fill(0)
        row.view(np.uint32)[self._dead_end >> 5] = np.uint32(1 << (self._dead_end & 31))

    def rollback(self, num_tokens: int) -> None:
        """Takes back the last tokens, termination and failure included."""
        self._matcher.rollback(max(0, num_tokens - self._steps_beyond))
        if num_tokens:
            self.failure = None
            self._steps_beyond = 0

    def reset(self) -> None:
        """Back to the beginning."""
        self._matcher.reset()
        self.failure = None
        self._steps_beyond = 0

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self._matcher.is_terminated()

    def forced_text(self) -> str:
        """The text that must come next, in whole characters."""
        return "" if self.failure is not None else self._matcher.find_jump_forward_string()


def rows_of(bitmask: Any) -> Int32Array:
    """The rows of a tensor in main memory, int32 (batch, words), as an array over the same memory."""
    rows: Int32Array = bitmask.numpy()
    return rows
