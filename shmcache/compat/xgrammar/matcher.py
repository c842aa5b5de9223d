"""Matchers and bitmasks under the names of XGrammar.

Owns the calls as XGrammar has them, and what they raise. Must never know how a mask is computed. Bitmasks and scores
are tensors of torch or arrays of NumPy; what is allocated here is a tensor where torch is installed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from shmcache.compat.bitmask import expand, expand_tensor, is_tensor
from shmcache.compat.xgrammar.compiler import CompiledGrammar
from shmcache.compat.xgrammar.exception import MisuseError, not_offered, translated
from shmcache.matcher import batch
from shmcache.matcher.bitmask import BITS_PER_WORD
from shmcache.matcher.matcher import GrammarMatcher as OurMatcher

Backend = Literal["auto", "cpu", "cuda", "triton", "torch_compile", "torch_native"]
_BACKENDS = ("auto", "cpu", "cuda", "triton", "torch_compile", "torch_native")


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """The shape of a bitmask: rows, and words of 32 tokens."""
    return batch_size, math.ceil(vocab_size / BITS_PER_WORD)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """A bitmask in which every token is allowed."""
    shape = get_bitmask_shape(batch_size, vocab_size)
    if find_spec("torch") is None:
        return np.full(shape, -1, dtype=np.int32)
    import torch

    return torch.full(shape, -1, dtype=torch.int32)


def reset_token_bitmask(bitmask: Any) -> None:
    """Allows every token again."""
    if is_tensor(bitmask):
        bitmask.fill_(-1)
    else:
        bitmask.fill(-1)


def apply_token_bitmask_inplace(
    logits: Any,
    bitmask: Any,
    *,
    vocab_size: int | None = None,
    indices: list[int] | None = None,
    backend: Backend = "auto",
) -> None:
    """Writes -inf to the logits of every token that is not allowed, in place.

    Both are tensors on one device, or both arrays; of one or two dimensions. Only the first ``vocab_size`` tokens and
    the rows of ``indices`` are looked at, where given. ``backend`` changes nothing: one way serves all devices.
    """
    if backend not in _BACKENDS:
        raise MisuseError(f"the backend must be one of {', '.join(_BACKENDS)}, not {backend!r}")
    if is_tensor(logits) != is_tensor(bitmask):
        raise MisuseError("logits and bitmask must both be tensors or both be arrays")
    if is_tensor(logits) and logits.device != bitmask.device:
        raise MisuseError(f"logits lie on {logits.device}, the bitmask on {bitmask.device}")
    if str(bitmask.dtype).removeprefix("torch.") != "int32":
        raise MisuseError(f"a bitmask must be int32, not {bitmask.dtype}")
    if logits.ndim not in (1, 2) or bitmask.ndim != logits.ndim:
        raise MisuseError("logits and bitmask must have one or two dimensions, and as many of them")
    rows, words = (logits, bitmask) if logits.ndim == 2 else (logits[None], bitmask[None])
    width = _width(rows.shape[1], words.shape[1] * BITS_PER_WORD, vocab_size)
    if indices is None:
        if rows.shape[0] != words.shape[0]:
            raise MisuseError(f"a bitmask of {words.shape[0]} rows does not fit logits of {rows.shape[0]}")
        _forbid(rows[:, :width], words, width)
        return
    for index in indices:
        if not 0 <= index < min(rows.shape[0], words.shape[0]):
            raise MisuseError(f"there is no row {index} in logits of {rows.shape[0]}, bitmask of {words.shape[0]} rows")
        _forbid(rows[index, :width], words[index], width)


def _width(logits: int, bits: int, vocab_size: int | None) -> int:
    if vocab_size is None:
        if bits < logits:
            warnings.warn(f"logits of {logits} tokens stay as they are beyond the {bits} of the bitmask", stacklevel=3)
        return min(logits, bits)
    if vocab_size > min(logits, bits):
        raise MisuseError(f"vocab_size is {vocab_size}, but there are {logits} logits and {bits} bits")
    return vocab_size


def _forbid(logits: Any, bitmask: Any, width: int) -> None:
    if is_tensor(logits):
        logits.masked_fill_(~expand_tensor(bitmask, width), float("-inf"))
    else:
        logits[~expand(bitmask, width)] = -np.inf


class GrammarMatcher:
    """One request's way through a grammar."""

    __slots__ = ("_default_temperature", "_matcher", "_terminates_early")

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: list[int] | int | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        """``max_rollback_tokens`` changes nothing: any number of tokens can be taken back."""
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise MisuseError(f"a matcher needs a compiled grammar, not {type(compiled_grammar).__name__}")
        if max_rollback_tokens != -1:
            warnings.warn("max_rollback_tokens is of no effect", DeprecationWarning, stacklevel=2)
        with translated():
            self._matcher = OurMatcher(compiled_grammar.compiled, override_stop_tokens, terminate_without_stop_token)
        self._terminates_early = terminate_without_stop_token
        self._default_temperature = None if default_temperature is None else float(default_temperature)

    @property
    def matcher(self) -> OurMatcher:
        """The matcher as the rest of this library knows it."""
        return self._matcher

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Moves on by one token; False, and nothing changed, where it is not allowed."""
        with translated():
            return self._matcher.accept_token(token_id)

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Moves on by a text as one step; False, and nothing changed, where it is not allowed."""
        with translated():
            return self._matcher.accept_string(input_str)

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Writes the mask of the next token to a row; True, as some token is always forbidden.

        Raises behind a stop token. A request that terminates without one has a mask of zeros then.
        """
        self.check_next_token()
        with translated():
            return self._matcher.fill_next_token_bitmask(bitmask, index)

    def check_next_token(self) -> None:
        """Raises behind a stop token, where there is no next token. Not a name of XGrammar."""
        if self._matcher.is_terminated() and not self._terminates_early:
            raise MisuseError("the request has ended with a stop token: there is no next one")

    def traverse_draft_tree(
        self,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        draft_tokens: Any,
        token_bitmask: Any,
        time_threshold: float = -1.0,
        temperatures: Any = None,
    ) -> bool:
        """Writes the masks of a tree of draft tokens. No grammar sets a temperature here, so all of those are -1."""
        if temperatures is not None:
            if self._default_temperature is not None:
                raise not_offered("temperatures of draft trees together with a default_temperature")
            temperatures[:] = -1.0
        with translated():
            return self._matcher.traverse_draft_tree(
                retrieve_next_token, retrieve_next_sibling, draft_tokens, token_bitmask, time_threshold
            )

    def find_jump_forward_string(self) -> str:
        """The text that must come next, in whole characters."""
        with translated():
            return self._matcher.find_jump_forward_string()

    def find_jump_forward_tokens(self) -> list[int]:
        """The tokens each of which is the only one allowed in its place; XGrammar picks the longest of several."""
        with translated():
            return self._matcher.find_jump_forward_tokens()

    def rollback(self, num_tokens: int = 1) -> None:
        """Takes back the last steps."""
        with translated():
            self._matcher.rollback(num_tokens)

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """Nothing: captures come from Lark grammars alone, which are not offered."""
        return []

    def is_terminated(self) -> bool:
        """Whether nothing more is accepted."""
        return self._matcher.is_terminated()

    def is_completed(self) -> bool:
        """Whether the text so far is a whole text of the grammar."""
        return self._matcher.is_completed()

    def reset(self) -> None:
        """Back to the beginning."""
        self._matcher.reset()

    def fork(self) -> GrammarMatcher:
        """A matcher in the same state that goes its own way from here."""
        other = object.__new__(GrammarMatcher)
        other._matcher = self._matcher.fork()
        other._terminates_early = self._terminates_early
        other._default_temperature = self._default_temperature
        return other

    @property
    def max_rollback_tokens(self) -> int:
        """-1: without bound."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The ``default_temperature``: no grammar sets another one here."""
        return self._default_temperature

    @property
    def stop_token_ids(self) -> list[int]:
        """The stop tokens of this request."""
        return self._matcher.stop_token_ids


class BatchGrammarMatcher:
    """Many requests in one call."""

    __slots__ = ("_batch",)

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        with translated():
            self._batch = batch.BatchGrammarMatcher(max_threads)

    def batch_fill_next_token_bitmask(
        self, matchers: list[GrammarMatcher], bitmask: Any, indices: list[int] | None = None, debug_print: bool = False
    ) -> None:
        """Writes the mask of each matcher to its row."""
        for one in matchers:
            one.check_next_token()
        with translated():
            self._batch.batch_fill_next_token_bitmask(_inner(matchers), bitmask, indices)

    @staticmethod
    def batch_fill_temperature(
        matchers: list[GrammarMatcher], temperatures: Any, indices: list[int] | None = None
    ) -> None:
        """Writes the temperature of each matcher to its place, -1 for none."""
        places = range(len(matchers)) if indices is None else indices
        if len(places) != len(matchers) or (places and not 0 <= min(places) <= max(places) < len(temperatures)):
            raise MisuseError(f"{len(matchers)} matchers do not fit {len(temperatures)} places")
        for place, one in zip(places, matchers, strict=True):
            temperatures[place] = -1.0 if one.temperature is None else one.temperature

    @staticmethod
    def batch_accept_token(matchers: list[GrammarMatcher], tokens: list[int], debug_print: bool = False) -> list[bool]:
        """Moves each matcher on by its token."""
        with translated():
            return batch.batch_accept_token(_inner(matchers), tokens)

    @staticmethod
    def batch_accept_string(
        matchers: list[GrammarMatcher], strings: list[bytes | str], debug_print: bool = False
    ) -> list[bool]:
        """Moves each matcher on by its string."""
        with translated():
            return batch.batch_accept_string(_inner(matchers), strings)

    @staticmethod
    def batch_rollback(matchers: list[GrammarMatcher], num_tokens: list[int] | int = 1) -> None:
        """Takes back the last steps of each matcher."""
        with translated():
            batch.batch_rollback(_inner(matchers), num_tokens)


def _inner(matchers: Sequence[GrammarMatcher]) -> list[OurMatcher]:
    return [one.matcher for one in matchers]
