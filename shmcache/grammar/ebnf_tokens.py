"""The words of an EBNF text: names, strings, character classes, operators.

Owns lexing and the meaning of escapes. Must never know how words combine.

Escapes are those of XGrammar: ``\\n \\r \\t \\a \\b \\f \\v \\e \\0``, quotes, ``\\?``, ``\\/``, the backslash, and by
number ``\\xHH``, ``\\uXXXX`` and ``\\UXXXXXXXX``. All numbers are code points: ``"\\xE9"`` is é, two bytes of UTF-8.
``\\x`` takes exactly two digits. A surrogate pair of two ``\\u`` is one character; half of one is an error, and so is
any other escape. Within a class the marks of regular expressions (``- ] ^`` and so on) may be escaped too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from shmcache.errors import SourceError
from shmcache.grammar.excerpt import Position
from shmcache.limits import Budget
from shmcache.regular.code_points import CODE_POINT_MAX, SURROGATE_HIGH, SURROGATE_LOW, CodePoints

_WORDS = re.compile(
    "|".join(
        (
            r"(?P<blank>[ \t\r\n]+|#[^\r\n]*)",
            r"(?P<name>[A-Za-z0-9_.\-]+)",
            r"(?P<string>\"[^\"\\\r\n]*+(?:\\[^\r\n][^\"\\\r\n]*+)*+\")",
            r"(?P<characters>\[[^\]\\\r\n]*+(?:\\[^\r\n][^\]\\\r\n]*+)*+\])",
            r"(?P<definition>::=)",
            r"(?P<lookahead>\(=)",
            r"(?P<count>\{[ \t\r\n]*[0-9]+[ \t\r\n]*(?:,[ \t\r\n]*(?:-1|[0-9]*)[ \t\r\n]*)?\})",
            r"(?P<operator>[|()*+?])",
            r"(?P<argument>[,=])",
        )
    )
)
_WRONG_STARTS = {
    '"': "a string is not closed on its line",
    "[": "a character class is not closed on its line",
    "{": "malformed repetition: {n}, {n,} or {n,m} is wanted",
    "}": "a closing brace without an opening one",
}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^xuU]))", re.DOTALL)
_SHORT_ESCAPES = {
    "n": 0x0A,
    "r": 0x0D,
    "t": 0x09,
    "a": 0x07,
    "b": 0x08,
    "f": 0x0C,
    "v": 0x0B,
    "e": 0x1B,
    "0": 0x00,
    **{character: ord(character) for character in "\"'\\?/"},
}
_CLASS_ESCAPES = {**_SHORT_ESCAPES, **{character: ord(character) for character in "^$.*+()[]{}|-"}}
_TRAIL_LOW = 0xDC00


class Token(NamedTuple):
    """A word of the text. ``kind`` is the name of a group of the lexer's expression, or ``end``."""

    kind: str
    text: str
    offset: int


def tokenise(text: str, budget: Budget) -> list[Token]:
    """All words of ``text`` but blanks and comments, and an ``end`` behind them.

    Raises :class:`SourceError` where no word begins.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise malformed(text, error.start, "half of a surrogate pair") from None
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        budget.check_time()
        match = _WORDS.match(text, offset)
        if match is None:
            character = text[offset]
            raise malformed(text, offset, _WRONG_STARTS.get(character, f"unexpected character {character!r}"))
        kind = match.lastgroup or ""
        if kind != "blank":
            tokens.append(Token(kind, match[0], offset))
        offset = match.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


def malformed(text: str, offset: int, message: str) -> SourceError:
    """The error for an EBNF text that is malformed at ``offset``."""
    return Position(text, offset).source_error(f"malformed grammar: {message}")


def string_value(text: str, token: Token) -> str:
    """What a ``string`` token of ``text`` stands for."""
    if "\\" not in token.text:
        return token.text[1:-1]
    characters = _characters(text, token.offset + 1, token.offset + len(token.text) - 1, _SHORT_ESCAPES)
    return "".join(chr(code_point) for code_point, _ in characters)


def string_offsets(text: str, token: Token) -> list[int]:
    """Where in ``text`` each character of the value of a ``string`` token is written, and where the string ends."""
    end = token.offset + len(token.text) - 1
    return [offset for _, offset in _characters(text, token.offset + 1, end, _SHORT_ESCAPES)] + [end]


def class_members(text: str, token: Token) -> CodePoints:
    """The set that a ``characters`` token of ``text`` stands for."""
    first = token.offset + 1
    is_negated = text.startswith("^", first)
    characters = list(_characters(text, first + is_negated, token.offset + len(token.text) - 1, _CLASS_ESCAPES))
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(characters):
        low, offset = characters[at]
        # A dash that is written as such, between two characters, makes a range.
        if at + 2 < len(characters) and text[characters[at + 1][1]] == "-":
            high = characters[at + 2][0]
            if high < low:
                raise malformed(text, offset, "a range of characters is out of order")
            ranges.append((low, high))
            at += 3
        else:
            ranges.append((low, low))
            at += 1
    members = CodePoints.from_ranges(ranges)
    return ~members if is_negated else members


def _characters(text: str, start: int, end: int, short_escapes: dict[str, int]) -> Iterator[tuple[int, int]]:
    """(code point, offset) of every character that ``text[start:end]`` spells."""
    offset = start
    while offset < end:
        if text[offset] != "\\":
            yield ord(text[offset]), offset
            offset += 1
            continue
        code_point, after = _escaped(text, offset, short_escapes)
        if SURROGATE_LOW <= code_point <= SURROGATE_HIGH:
            trail, after_trail = _escaped(text, after, short_escapes) if text.startswith("\\u", after) else (0, after)
            if code_point >= _TRAIL_LOW or not _TRAIL_LOW <= trail <= SURROGATE_HIGH:
                raise malformed(text, offset, "half of a surrogate pair")
            code_point = 0x10000 + ((code_point - SURROGATE_LOW) << 10) + (trail - _TRAIL_LOW)
            after = after_trail
        yield code_point, offset
        offset = after


def _escaped(text: str, offset: int, short_escapes: dict[str, int]) -> tuple[int, int]:
    """The code point that the escape at ``offset`` spells, and the offset behind it."""
    match = _ESCAPE.match(text, offset)
    if match is None:
        digits = {"x": "two", "u": "four", "U": "eight"}[text[offset + 1]]
        raise malformed(text, offset, f"\\{text[offset + 1]} wants {digits} hexadecimal digits")
    if (letter := match[4]) is not None:
        if letter not in short_escapes:
            raise malformed(text, offset, f"unknown escape \\{letter}")
        return short_escapes[letter], match.end()
    code_point = int(match[1] or match[2] or match[3], 16)
    if code_point > CODE_POINT_MAX:
        raise malformed(text, offset, "no such code point")
    return code_point, match.end()
