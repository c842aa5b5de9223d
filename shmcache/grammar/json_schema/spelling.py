"""How strings and names are spelt where that is not, or not only, as in JSON.

Owns texts that occur in no string and no name, as they are spelt there, and the mark that a style has around strings in
place of quotes. Must never know where a string stands. Quotes, marks and whatever stands around a string are no part
of it.

Between marks a string is written as it is, and has no mark in it; names then have nothing around them.
"""

from __future__ import annotations

from functools import cached_property

from shmcache.errors import UnsupportedError
from shmcache.grammar.free_text import free_text
from shmcache.grammar.json_schema.string_automata import any_string
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import concatenate, everything, intersect, literal

NAME_CHARACTERS = ANY - CodePoints.of((0x00, 0x20), 0x7F, "<>\"'&=")
"""The characters of names that a schema does not declare, where they are not spelt as in JSON."""

_BARE_CHARACTERS = NAME_CHARACTERS - CodePoints.of(":,{}[]|")
"""Those of names with nothing around them."""


class Spelling:
    """Keeps ``texts``, none of which is empty, out of strings and names; with a ``mark`` strings stand between two.

    Without either it changes nothing.
    """

    def __init__(self, texts: tuple[str, ...] = (), mark: str = "", budget: Budget | None = None) -> None:
        self.texts = texts
        self.mark = mark
        self._budget = budget or Budget()

    @property
    def is_of_json(self) -> bool:
        """Whether everything is spelt as in JSON, in all the ways that JSON has."""
        return not (self.texts or self.mark)

    @cached_property
    def _between_quotes(self) -> Dfa:
        return self._around('"', free_text(self.texts, self._budget))

    def _around(self, mark: str, inside: Dfa) -> Dfa:
        if inside.is_empty:
            return EMPTY_LANGUAGE
        around = encode_utf8(literal(mark), self._budget)
        return concatenate(concatenate(around, inside, self._budget), around, self._budget)

    def any_string(self) -> Dfa:
        """The byte automaton of all strings, with what stands around them."""
        return self.marked(everything(ANY)) if self.mark else self.quoted(any_string())

    def quoted(self, strings: Dfa) -> Dfa:
        """The byte automaton of JSON strings with their quotes, less those in which one of the texts occurs."""
        return intersect(strings, self._between_quotes, self._budget) if self.texts else strings

    def plain(self, strings: Dfa, *more: str) -> Dfa:
        """The same of strings with nothing around them; ``more`` are further texts to keep out."""
        without = (*more, *self.texts)
        return intersect(strings, free_text(without, self._budget), self._budget) if without else strings

    def marked(self, text: Dfa) -> Dfa:
        """The strings of a text automaton between marks, as bytes."""
        return self._around(self.mark, self.plain(encode_utf8(text, self._budget), self.mark))

    def bare_names(self, text: Dfa) -> Dfa:
        """The names of a text automaton that can be written with nothing around them, as bytes."""
        writable = everything(_BARE_CHARACTERS).without_empty_word()
        return self.plain(encode_utf8(intersect(text, writable, self._budget), self._budget))

    def admits(self, spelling: str) -> bool:
        """Whether none of the texts occurs in it."""
        return not any(text in spelling for text in self.texts)

    def check_name(self, name: str) -> None:
        """Raises :class:`UnsupportedError` for a name that cannot be written with nothing around it, if it must be."""
        if self.mark and not (name and all(ord(character) in _BARE_CHARACTERS for character in name)):
            message = f"the name {name!r} cannot be written without quotes"
            raise UnsupportedError(message, feature="name without quotes", pointer="")
