"""Constrained generation with Hugging Face ``transformers``: a logits processor for ``model.generate``.

Owns which row of a batch goes on from which state. Must never know how a model computes its scores.

A processor is asked with all tokens so far, and rows come and go: beam search continues one row twice and drops
another, drafts are tried and taken back. So nothing is counted; the state of a row is found by its tokens. Of each
call's rows it is kept how far the matcher came, and a row of the next call goes on from the one that it has most tokens
in common with. Matchers that are kept never move again: whoever goes on forks one, which takes constant time.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import transformers

from shmcache.array_types import Int32Array
from shmcache.compat.bitmask import forbid
from shmcache.errors import UnsupportedError
from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher

Ids = npt.NDArray[np.int64]

_FRAMES_MAX = 8
"""Functions between this processor and the list that it stands in: those of processors around it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """One row: its generated tokens, and the matcher behind the first ``accepted_count`` of them.

    Where there are more, the request has ended, or something else led it out of its grammar.
    """

    tokens: Ids
    matcher: GrammarMatcher
    accepted_count: int

    def extended(self, tokens: Ids) -> _Line:
        """The line of ``tokens``, which has its beginning in common with this one."""
        common = _common_length(self.tokens, tokens)
        matcher = self.matcher.fork()
        count = min(self.accepted_count, common)
        matcher.rollback(self.accepted_count - count)
        if self.accepted_count >= common:
            for token in tokens[count:].tolist():
                if not matcher.accept_token(token):
                    break
                count += 1
        return _Line(tokens, matcher, count)

    def write(self, row: Int32Array) -> None:
        """The mask of the next token; of a request that can go on no further, its stop tokens alone.

        What such a row gets is padding, or a draft's end that nobody takes; but scores of nothing are an error.
        """
        if self.accepted_count == len(self.tokens) and not self.matcher.is_terminated():
            self.matcher.write_next_token_bitmask(row)
            return
        row.fill(0)
        words = row.view(np.uint32)
        for token in self.matcher.stop_token_ids:
            words[token >> 5] |= np.uint32(1 << (token & 31))


class _Generation:
    """One call of ``generate``: where the prompts end, and the lines of the last step."""

    __slots__ = ("length", "lines", "prompts")

    def __init__(self, prompts: Ids) -> None:
        self.prompts = prompts
        self.length = prompts.shape[1]
        self.lines: list[_Line | None] = []

    def has_step_before(self, ids: Ids) -> bool:
        """Whether ``ids`` are the last step's rows, or earlier ones on their way, in any order, with a token more."""
        length = self.prompts.shape[1]
        if ids.shape[0] != self.prompts.shape[0] or ids.shape[1] <= length:
            return False
        if not np.array_equal(ids[:, :length], self.prompts):
            return False
        count = ids.shape[1] - length - 1
        known = {line.tokens[:count].tobytes() for line in self.lines if line is not None and len(line.tokens) >= count}
        return all(row.tobytes() in known for row in ids[:, length:-1])


class LogitsProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """Holds each row of ``generate`` to its grammar: sampling, beam search, prompt look-up and assistants.

    ``grammars`` is one grammar for all prompts, or one for each prompt of the batch, None for a prompt that is free;
    the rows that belong to one prompt (beams, several sequences) share its grammar. One processor serves any number of
    calls, one after the other and by several threads. ``stop_token_ids`` replace the vocabulary's, and should be what
    ``generate`` takes for the end (``eos_token_id``).

    Called by hand instead of by ``generate``, it takes a call whose rows are those of the call before with one token
    more for the next step, and any other for the first one of another prompt; :meth:`reset` begins anew.

    Raises :class:`LimitError` in ``generate`` where a grammar is too ambiguous.
    """

    supports_continuous_batching = False
    """Continuous batching shows a processor each row's last token only, and rows change places."""

    def __init__(
        self,
        grammars: CompiledGrammar | Sequence[CompiledGrammar | None],
        *,
        stop_token_ids: int | Sequence[int] | None = None,
    ) -> None:
        listed = [grammars] if isinstance(grammars, CompiledGrammar) else list(grammars)
        if not listed:
            raise ValueError("at least one grammar is needed")
        self._starts = [None if one is None else GrammarMatcher(one, stop_token_ids) for one in listed]
        self._width = max((one.vocabulary.width for one in listed if one is not None), default=1)
        self._generations: dict[int, tuple[weakref.ref[Any], _Generation]] = {}
        self._by_hand: _Generation | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.ndim != 2:
            raise UnsupportedError(
                "this processor needs all tokens of each row, which continuous batching does not show",
                feature="continuous batching",
            )
        ids: Ids = np.ascontiguousarray(input_ids.cpu().numpy(), dtype=np.int64)
        processors = _processors_that_call()
        generation = self._next_by_hand(ids) if processors is None else self._generation_of(processors, ids)
        lines = self._lines(generation, ids)
        generation.length, generation.lines = ids.shape[1], lines
        bitmask = allocate_token_bitmask(len(lines), self._width)
        for line, row in zip(lines, bitmask, strict=True):
            if line is not None:
                line.write(row)
        return self._masked(scores, bitmask, lines)

    def reset(self) -> None:
        """Takes the next call for the first of another prompt. Calls of ``generate`` do not need it."""
        self._by_hand = None

    def _masked(self, scores: Any, bitmask: Int32Array, lines: list[_Line | None]) -> Any:
        masked = forbid(scores, bitmask)
        for place, line in enumerate(lines):
            if line is None:
                masked[place] = scores[place]
        return masked

    def _generation_of(self, processors: Any, ids: Ids) -> _Generation:
        key = id(processors)
        found = self._generations.get(key)
        if found is not None and found[0]() is processors:
            return found[1]
        generation = self._outer_generation(ids) or _Generation(ids)
        generations = self._generations

        def forget(reference: Any) -> None:
            # Its address may have been taken by another list meanwhile.
            if key in generations and generations[key][0] is reference:
                del generations[key]

        generations[key] = (weakref.ref(processors, forget), generation)
        return generation

    def _outer_generation(self, ids: Ids) -> _Generation | None:
        """Where an assistant drafts what comes next in a generation that has begun: that one, as it stands."""
        for reference, outer in list(self._generations.values()):
            processors = reference()
            if processors is not None and outer.has_step_before(ids) and _is_being_run(processors):
                inner = _Generation(outer.prompts)
                inner.lines = outer.lines
                return inner
        return None

    def _next_by_hand(self, ids: Ids) -> _Generation:
        generation = self._by_hand
        if generation is None or ids.shape[1] != generation.length + 1 or not generation.has_step_before(ids):
            generation = self._by_hand = _Generation(ids)
        return generation

    def _lines(self, generation: _Generation, ids: Ids) -> list[_Line | None]:
        group_size, rest = divmod(len(ids), len(self._starts))
        if rest or not group_size:
            raise ValueError(f"{len(ids)} rows cannot be shared out among {len(self._starts)} grammars")
        generated = ids[:, generation.prompts.shape[1] :]
        before = generation.lines if len(generation.lines) == len(ids) else [None] * len(ids)
        lines: list[_Line | None] = []
        for place, start in enumerate(self._starts):
            group = slice(place * group_size, (place + 1) * group_size)
            if start is None:
                lines += [None] * group_size
                continue
            known = [line for line in before[group] if line is not None]
            fresh = _Line(generated[0, :0], start, 0)
            lines += [
                _nearest(known, index, tokens, fresh).extended(tokens) for index, tokens in enumerate(generated[group])
            ]
        return lines


def _processors_that_call() -> Any:
    """The list of processors on whose behalf this one is called, through others or not; None by hand.

    It is made anew by each ``generate``, so it tells one call from the next.
    """
    frame = sys._getframe(2)
    for _ in range(_FRAMES_MAX):
        caller = frame.f_locals.get("self")
        if isinstance(caller, transformers.LogitsProcessorList):
            return caller
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def _is_being_run(processors: Any) -> bool:
    """Whether a function that waits for this call to return decodes with these processors."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_locals.get("logits_processor") is processors:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _nearest(known: list[_Line], index: int, tokens: Ids, fresh: _Line) -> _Line:
    """The line that has most tokens in common with ``tokens``: most often the row's own of the step before."""
    if index < len(known) and _common_length(known[index].tokens, tokens) == len(tokens) - 1:
        return known[index]
    return max(known, key=lambda line: _common_length(line.tokens, tokens), default=fresh)


def _common_length(one: Ids, other: Ids) -> int:
    length = min(len(one), len(other))
    if np.array_equal(one[:length], other[:length]):
        return length
    return int(np.argmin(one[:length] == other[:length]))
