"""The reading of JSON documents that are nested deeper than the interpreter's own reader goes.

Owns the grammar of RFC 8259, with the containers that are open on a list. Must never know what a document means. It is
slower than the interpreter's reader and takes over where that gives up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from shmcache.errors import LimitError

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {"null": None, "true": True, "false": False}
_CONSTANTS = ("NaN", "Infinity", "-Infinity")

Pairs = list[tuple[str, Any]]


def decode_deep(
    text: str,
    depth_max: int,
    make_object: Callable[[Pairs], Any],
    make_fraction: Callable[[str], Any],
    refuse_constant: Callable[[str], Any],
) -> Any:
    """The document, as :class:`json.JSONDecoder` with these hooks reads it. The outermost container is at depth 0.

    Raises :class:`json.JSONDecodeError`, and :class:`LimitError` where one is deeper than ``depth_max``.
    """
    return _Reader(text, depth_max, make_object, make_fraction, refuse_constant).document()


class _Reader:
    def __init__(
        self,
        text: str,
        depth_max: int,
        make_object: Callable[[Pairs], Any],
        make_fraction: Callable[[str], Any],
        refuse_constant: Callable[[str], Any],
    ) -> None:
        self._text = text
        self._at = 0
        self._depth_max = depth_max
        self._make_object = make_object
        self._make_fraction = make_fraction
        self._refuse_constant = refuse_constant
        # The containers that are open, from the outermost: the items of an array, or the pairs of an object; and for
        # each, the name whose value is awaited.
        self._open: list[list[Any]] = []
        self._names: list[str | None] = []

    def document(self) -> Any:
        self._skip_space()
        while True:
            value = self._opened_or_scalar()
            if value is _OPENED:
                continue
            while self._open:
                if not self._placed(value):
                    break
                value = self._closed()
            else:
                self._skip_space()
                if self._at < len(self._text):
                    raise self._error("Extra data", self._at)
                return value

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _error(self, message: str, at: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self._text, at)

    def _here(self) -> str:
        return self._text[self._at : self._at + 1]

    def _opened_or_scalar(self) -> Any:
        """A scalar or an empty container, or _OPENED where a container has been begun and its first value comes."""
        character = self._here()
        if character == '"':
            value, self._at = scanstring(self._text, self._at + 1, True)
            return value
        if character not in ("{", "["):
            return self._word_or_number()
        if len(self._open) > self._depth_max:
            raise LimitError(
                f"the document is nested deeper than {self._depth_max} levels", limit="depth", value=self._depth_max
            )
        self._at += 1
        self._skip_space()
        if self._here() == ("}" if character == "{" else "]"):
            self._at += 1
            return self._make_object([]) if character == "{" else []
        self._open.append([])
        self._names.append(self._name() if character == "{" else None)
        return _OPENED

    def _name(self) -> str:
        """The name of a member and the colon behind it."""
        if self._here() != '"':
            raise self._error("Expecting property name enclosed in double quotes", self._at)
        name, self._at = scanstring(self._text, self._at + 1, True)
        self._skip_space()
        if self._here() != ":":
            raise self._error("Expecting ':' delimiter", self._at)
        self._at += 1
        self._skip_space()
        return str(name)

    def _word_or_number(self) -> Any:
        for word in _CONSTANTS:
            if self._text.startswith(word, self._at):
                return self._refuse_constant(word)
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            raise self._error("Expecting value", self._at)
        self._at = match.end()
        return int(match[0]) if match[2] is match[3] is None else self._make_fraction(match[0])

    def _placed(self, value: Any) -> bool:
        """Puts the value where it belongs; whether its container ends behind it."""
        items, name = self._open[-1], self._names[-1]
        items.append(value if name is None else (name, value))
        self._skip_space()
        end = "]" if name is None else "}"
        if self._here() == end:
            self._at += 1
            return True
        if self._here() != ",":
            raise self._error("Expecting ',' delimiter", self._at)
        self._at += 1
        self._skip_space()
        if name is not None:
            self._names[-1] = self._name()
        return False

    def _closed(self) -> Any:
        """The innermost open container, which has ended."""
        items, name = self._open.pop(), self._names.pop()
        return items if name is None else self._make_object(items)


_OPENED = object()
