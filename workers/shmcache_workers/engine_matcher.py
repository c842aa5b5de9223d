"""A matcher as engines need it: what is wrong with one request never raises where an engine does not expect it.

Owns what becomes of a request whose grammar turns out too ambiguous. Must never know an engine.

Engines end a request whose token is not accepted, but many of them end themselves for an exception while masks are
written. So a state without a mask gets one that allows the stop tokens alone, and accepts no token, not even those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcache.errors import LimitError
from shmcache.matcher.bitmask import Int32Array
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher


class EngineMatcher:
    """One request's way through a grammar. ``failure``, where there is one, says why nothing is accepted any more."""

    __slots__ = ("_matcher", "failure", "grammar")

    def __init__(self, grammar: CompiledGrammar, stop_token_ids: Sequence[int] | None = None) -> None:
        """``stop_token_ids`` replace the vocabulary's, None or empty do not."""
        self.grammar = grammar
        self.failure: str | None = None
        self._matcher = GrammarMatcher(grammar, override_stop_tokens=stop_token_ids or None)

    def accept(self, token: int) -> bool:
        """Moves on by a token; False, and nothing changed, where it is not allowed or the request has failed."""
        if self.failure is not None:
            return False
        try:
            return self._matcher.accept_token(token)
        except LimitError as error:
            self.failure = error.message
            return False

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
        try:
            self._matcher.write_next_token_bitmask(row)
        except LimitError as error:
            self.failure = error.message
            row.fill(0)
            words = row.view(np.uint32)
            for token in self._matcher.stop_token_ids:
                words[token >> 5] |= np.uint32(1 << (token & 31))

    def rollback(self, num_tokens: int) -> None:
        """Takes back the last tokens, termination and failure included."""
        self._matcher.rollback(num_tokens)
        if num_tokens:
            self.failure = None

    def reset(self) -> None:
        """Back to the beginning."""
        self._matcher.reset()
        self.failure = None

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
