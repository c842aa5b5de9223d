"""The parts of a structural tag in which anything may stand, and where they end.

Owns texts and tokens that are free but for what is excluded, and the end of the tag they stand in. Must never know
formats, nor what stands around a tag.

Free content of a tag has none of the tag's end strings in it, wherever in the content it stands. Text that comes last
does not end in a beginning of the end string either, if that would move the first place where the end is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from shmcache.grammar.free_text import free_text, scan_text
from shmcache.grammar.ir import Expression, Metered, Regular, Repeat, Tokens
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa, minimise, trim
from shmcache.regular.operations import intersect, unite


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends the tag around free content: texts, or one token; neither where there is no tag.

    ``is_last``: the content comes last in the tag, so that the end follows.
    """

    texts: tuple[str, ...] = ()
    tokens: tuple[int | str, ...] = ()
    is_last: bool = True

    @property
    def filled_texts(self) -> tuple[str, ...]:
        """The texts but for the empty one."""
        return tuple(text for text in self.texts if text)


NO_ENDS = Ends()


def any_text(
    excludes: tuple[str, ...], characters_max: int | None, tokens_max: int | None, ends: Ends, budget: Budget
) -> Expression:
    """Any text without the excluded ones and the ends, of so many characters and whole tokens at most."""
    without = tuple(dict.fromkeys((*excludes, *ends.filled_texts)))
    text = free_text(without, budget, characters_max=characters_max)
    if ends.is_last and ends.texts and "" not in ends.texts and _may_overlap(ends.texts):
        before = [_text_before(end, ends.texts, budget) for end in ends.texts]
        text = intersect(text, reduce(lambda one, other: unite(one, other, budget), before), budget)
    return Regular(text) if tokens_max is None else Metered(text, tokens_max)


def _may_overlap(texts: tuple[str, ...]) -> bool:
    """Whether an occurrence of one of the texts may begin before another and end inside it."""
    beginnings = {text[:length] for text in texts for length in range(1, len(text))}
    return any(text[at:] in beginnings for text in texts for at in range(1, len(text)))


def _text_before(end: str, ends: tuple[str, ...], budget: Budget) -> Dfa:
    """The texts that no end occurs in, nor is begun in such that ``end`` behind it would complete it."""
    scan = scan_text(ends, (), budget)
    number = ends.index(end)
    rows = scan.rows

    def leads_to_end(state: int) -> bool:
        for byte in end.encode():
            state = next((target for low, high, target in rows[state] if low <= byte <= high), -1)
            if state < 0:
                return False
        return scan.met[state] == number

    accepting = [scan.is_free[state] and leads_to_end(state) for state in range(len(rows))]
    return minimise(trim(rows, accepting), budget)


def one_token(exclude_tokens: tuple[int | str, ...], ends: Ends) -> Expression:
    """Any token but these."""
    return Tokens(tuple(dict.fromkeys((*exclude_tokens, *ends.tokens))), is_excluded=True)


def any_tokens(exclude_tokens: tuple[int | str, ...], tokens_max: int | None, ends: Ends) -> Expression:
    """Any tokens but these, so many at most."""
    return Repeat(one_token(exclude_tokens, ends), 0, tokens_max)
