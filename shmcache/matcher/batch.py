"""Batches: many requests filled, moved on or taken back in one call.

Owns what a batch means. Everything is checked before anything is done; then each matcher is served whatever becomes of
the others, and those that met a limit are named in one error at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex, TypeVar

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.errors import BatchLimitError, LimitError
from shmcache.matcher.matcher import GrammarMatcher, as_array

T = TypeVar("T")


def batch_fill_next_token_bitmask(
    matchers: Sequence[GrammarMatcher], bitmask: Any, indices: Sequence[SupportsIndex] | None = None
) -> None:
    """Fills row ``indices[i]`` (row ``i`` by default) of ``bitmask``, int32 (batch, words), for each matcher.

    Other rows stay as they are. Raises ValueError for another dtype or shape, and unless there are as many different
    indices as matchers; IndexError for a row that is not there; in these cases nothing is written. Where matchers are
    too ambiguous their rows are 0, all others are filled, and :class:`BatchLimitError` names them.
    """
    array = _checked_bitmask(matchers, bitmask)
    rows = _checked_rows(len(matchers), indices, len(array))
    failures: dict[int, LimitError] = {}
    lines = array[: len(matchers)] if rows is None else map(array.__getitem__, rows)
    for place, (matcher, row) in enumerate(zip(matchers, lines, strict=True)):
        try:
            matcher.write_next_token_bitmask(row)
        except LimitError as error:
            failures[place] = error
            row.fill(0)
    if failures:
        raise BatchLimitError(failures)


def batch_accept_token(matchers: Sequence[GrammarMatcher], tokens: Sequence[SupportsIndex]) -> list[bool]:
    """Moves each matcher on by its token; whether it was allowed, as :meth:`GrammarMatcher.accept_token` says.

    Raises ValueError unless there are as many tokens as matchers, and TypeError for what is no integer; nothing has
    changed then. Where matchers become too ambiguous they stay where they are, all others move, and
    :class:`BatchLimitError` names them and has the answers of all.
    """
    return _each(GrammarMatcher.accept_token, matchers, [operator.index(token) for token in tokens])


def batch_accept_string(matchers: Sequence[GrammarMatcher], strings: Sequence[str | bytes]) -> list[bool]:
    """Moves each matcher on by its string, as one step; errors as of :func:`batch_accept_token`."""
    if isinstance(strings, (str, bytes)):
        raise TypeError("a batch takes a sequence of strings, not one string")
    data = [
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(memoryview(text)) for text in strings
    ]
    return _each(GrammarMatcher.accept_string, matchers, data)


def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: Sequence[SupportsIndex] | SupportsIndex = 1) -> None:
    """Takes back the last ``num_tokens`` steps of each matcher: one number for all, or one for each.

    Raises ValueError unless there are as many numbers as matchers, and where a matcher took fewer steps; no matcher has
    changed then.
    """
    counts = _counts(num_tokens, len(matchers))
    _check_length(matchers, counts, "numbers")
    total: dict[int, int] = {}
    for matcher, count in zip(matchers, counts, strict=True):
        if count < 0:
            raise ValueError(f"cannot roll back {count} steps")
        total[id(matcher)] = total.get(id(matcher), 0) + count
    for matcher in matchers:
        matcher.check_rollback(total[id(matcher)])
    for matcher, count in zip(matchers, counts, strict=True):
        matcher.rollback(count)


class BatchGrammarMatcher:
    """The functions of this module as methods, for callers of XGrammar's class of this name.

    ``max_threads``, 1 or more, is a bound that always holds: a step takes less time than handing it to another thread,
    so there is one.
    """

    __slots__ = ()

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        if max_threads != "auto" and operator.index(max_threads) < 1:
            raise ValueError(f"at least one thread is needed, not {max_threads}")

    batch_fill_next_token_bitmask = staticmethod(batch_fill_next_token_bitmask)
    batch_accept_token = staticmethod(batch_accept_token)
    batch_accept_string = staticmethod(batch_accept_string)
    batch_rollback = staticmethod(batch_rollback)


def _each(
    accept: Callable[[GrammarMatcher, T], bool], matchers: Sequence[GrammarMatcher], given: Sequence[T]
) -> list[bool]:
    _check_length(matchers, given, "items")
    accepted: list[bool] = []
    failures: dict[int, LimitError] = {}
    for place, matcher in enumerate(matchers):
        try:
            accepted.append(accept(matcher, given[place]))
        except LimitError as error:
            failures[place] = error
            accepted.append(False)
    if failures:
        raise BatchLimitError(failures, accepted)
    return accepted


def _counts(num_tokens: Any, length: int) -> list[int]:
    try:
        # Not by type: an array of many numbers, too, has a method for being an index.
        return [operator.index(num_tokens)] * length
    except TypeError:
        return [operator.index(count) for count in num_tokens]


def _check_length(matchers: Sequence[GrammarMatcher], given: Sequence[Any], what: str) -> None:
    if len(matchers) != len(given):
        raise ValueError(f"a batch of {len(matchers)} matchers takes as many {what}, not {len(given)}")


def _checked_bitmask(matchers: Sequence[GrammarMatcher], bitmask: Any) -> Int32Array:
    array = as_array(bitmask)
    words = max([matcher._word_count for matcher in matchers], default=0)
    if array.ndim != 2 or array.dtype != np.int32 or array.shape[1] < words:
        raise ValueError(
            f"a bitmask must be int32 (batch, {words} words or more), not {array.dtype} of shape {array.shape}"
        )
    return array


def _checked_rows(count: int, indices: Sequence[SupportsIndex] | None, row_count: int) -> list[int] | None:
    """The row of each matcher; None for the first rows in their order."""
    if indices is None:
        if count > row_count:
            raise IndexError(f"a bitmask of {row_count} rows has none for each of {count} matchers")
        return None
    rows = [operator.index(index) for index in indices]
    if len(rows) != count:
        raise ValueError(f"a batch of {count} matchers takes as many indices, not {len(rows)}")
    if rows and (min(rows) < 0 or max(rows) >= row_count):
        raise IndexError(f"the rows of a bitmask of {row_count} are 0..{row_count - 1}, not {min(rows)}..{max(rows)}")
    if len(set(rows)) != count:
        raise ValueError("a row of a bitmask holds the mask of one matcher only")
    return rows
