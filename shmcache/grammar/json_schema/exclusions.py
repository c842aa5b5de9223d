"""Texts that occur in no string and no name of an instance, as they are spelt there.

Owns the automata that keep them out. Must never know where a string stands. Quotes and whatever stands around a string
are no part of it.
"""

from __future__ import annotations

from functools import cached_property

from shmcache.grammar.free_text import free_text
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.operations import concatenate, intersect, literal


class Exclusions:
    """Keeps ``texts``, none of which is empty, out of the spellings of strings. Without texts it changes nothing."""

    def __init__(self, texts: tuple[str, ...] = (), budget: Budget | None = None) -> None:
        self.texts = texts
        self._budget = budget or Budget()

    @cached_property
    def _quoted(self) -> Dfa:
        quote = literal('"')
        inside = free_text(self.texts, self._budget)
        return concatenate(concatenate(quote, inside, self._budget), quote, self._budget)

    def quoted(self, strings: Dfa) -> Dfa:
        """The byte automaton of strings with their quotes, less those in which one of the texts occurs."""
        return intersect(strings, self._quoted, self._budget) if self.texts else strings

    def plain(self, strings: Dfa, *more: str) -> Dfa:
        """The same of strings without quotes; ``more`` are further texts to keep out."""
        without = (*more, *self.texts)
        return intersect(strings, free_text(without, self._budget), self._budget) if without else strings

    def admits(self, spelling: str) -> bool:
        """Whether none of the texts occurs in it."""
        return not any(text in spelling for text in self.texts)
