"""Reading a pattern from left to right: characters, escapes, code points.

Owns the place in the pattern and what a backslash means. Must never know groups, quantifiers or automata.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.excerpt import Position
from shmcache.grammar.regex.character_classes import DIGITS, SPACES, WORD, close_under_case
from shmcache.grammar.regex.unicode_properties import is_script, property_members
from shmcache.regular.code_points import CODE_POINT_MAX, SURROGATE_HIGH, SURROGATE_LOW, CodePoints

_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B, "f": 0x0C}
_SYNTAX_CHARACTERS = frozenset("^$\\.*+?()[]{}|/")
_TRAIL_LOW = 0xDC00
_CODE_UNIT = re.compile(r"\\u([0-9A-Fa-f]{4})")
_CODE_POINT = re.compile(r"\\u\{([0-9A-Fa-f]+)\}")
_PROPERTY = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags in force at one place of the pattern."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    unicode: bool = False


class Scanner:
    """A pattern and a place in it. Errors point at the place where the offending construct begins."""

    __slots__ = ("offset", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.offset = 0

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.offset >= len(self.pattern)

    def peek(self) -> str:
        """The next character, or the empty string at the end."""
        return self.pattern[self.offset : self.offset + 1]

    def skip(self, text: str) -> bool:
        """Whether the rest begins with ``text``, which is then passed."""
        if self.pattern.startswith(text, self.offset):
            self.offset += len(text)
            return True
        return False

    def match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        """What ``expression`` matches here, which is then passed."""
        match = expression.match(self.pattern, self.offset)
        if match is not None:
            self.offset = match.end()
        return match

    def malformed(self, message: str, offset: int) -> SourceError:
        """The error for a pattern that is malformed at ``offset``."""
        return Position(self.pattern, offset, counts_lines=False).source_error(
            f"malformed regular expression: {message}"
        )

    def unsupported(self, feature: str, offset: int, reason: str) -> UnsupportedError:
        """The error for a ``feature`` at ``offset`` that is no regular language, or for which there is no data."""
        position = Position(self.pattern, offset, counts_lines=False)
        return position.unsupported_error(f"unsupported in regular expressions: {feature} ({reason})", feature)

    def read_code_point(self, flags: Flags) -> int:
        """The next literal character, the halves of a surrogate pair joined."""
        start = self.offset
        code = ord(self.pattern[start])
        self.offset += 1
        if SURROGATE_LOW <= code <= SURROGATE_HIGH:
            return self._join_surrogates(code, start, flags)
        return code

    def read_escape(self, flags: Flags, *, in_class: bool) -> CodePoints | int:
        """What the escape here stands for: one code point, or a set. The offset is at the backslash."""
        start = self.offset
        self.offset += 1
        if self.at_end:
            raise self.malformed("a backslash at the end", start)
        letter = self.pattern[self.offset]
        if letter == "u":
            self.offset = start
            return self._read_unicode_escape(flags)
        self.offset += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "dDwWsS":
            return _class_escape(letter, flags)
        if letter in "pP":
            return self._read_property(start, is_negated=letter == "P")
        if letter == "x":
            return self._read_hexadecimal(start)
        if letter == "c":
            return self._read_control_letter(start)
        if letter in "0123456789k":
            return self._read_digit_escape(letter, start, in_class=in_class)
        if in_class and letter == "b":
            return 0x08
        return self._identity_escape(letter, start, flags, in_class=in_class)

    def _identity_escape(self, letter: str, start: int, flags: Flags, *, in_class: bool) -> int:
        if flags.unicode:
            is_allowed = letter in _SYNTAX_CHARACTERS or (in_class and letter == "-")
        else:
            # Annex B would read a letter as itself, which is never what its author meant (\\A, \\Z, \\h, \\Q…).
            is_allowed = not letter.isalnum()
        if not is_allowed:
            raise self.malformed(f"unknown escape \\{letter}", start)
        self.offset -= 1
        return self.read_code_point(flags)

    def _read_digit_escape(self, letter: str, start: int, *, in_class: bool) -> int:
        if letter == "0" and self.peek() not in tuple("0123456789"):
            return 0
        if letter == "0" or (in_class and letter != "k"):
            raise self.malformed("octal escapes are not part of ECMA-262 (write \\xHH)", start)
        if in_class:
            raise self.malformed("unknown escape \\k", start)
        raise self.unsupported("back-reference", start, "what it matches is no regular language")

    def _read_hexadecimal(self, start: int) -> int:
        digits = self.pattern[self.offset : self.offset + 2]
        if len(digits) != 2 or not _is_hexadecimal(digits):
            raise self.malformed("\\x wants two hexadecimal digits", start)
        self.offset += 2
        return int(digits, 16)

    def _read_control_letter(self, start: int) -> int:
        letter = self.peek()
        if not (letter.isascii() and letter.isalpha()):
            raise self.malformed("\\c wants a letter", start)
        self.offset += 1
        return ord(letter) & 0x1F

    def _read_unicode_escape(self, flags: Flags) -> int:
        start = self.offset
        if match := self.match(_CODE_UNIT):
            code = int(match[1], 16)
            return self._join_surrogates(code, start, flags) if SURROGATE_LOW <= code <= SURROGATE_HIGH else code
        if match := self.match(_CODE_POINT):
            digits = match[1].lstrip("0") or "0"
            code = int(digits, 16) if len(digits) <= 6 else CODE_POINT_MAX + 1
            if code > CODE_POINT_MAX:
                raise self.malformed("no such code point", start)
            return self._lone_surrogate(code, start, flags) if SURROGATE_LOW <= code <= SURROGATE_HIGH else code
        raise self.malformed("\\u wants four hexadecimal digits, or digits in braces", start)

    def _join_surrogates(self, lead: int, start: int, flags: Flags) -> int:
        """The character of which ``lead`` is the first half, when the second half follows."""
        if lead < _TRAIL_LOW and not self.at_end:
            resume = self.offset
            match = self.match(_CODE_UNIT)
            trail = int(match[1], 16) if match else ord(self.pattern[self.offset])
            if _TRAIL_LOW <= trail <= SURROGATE_HIGH:
                self.offset = self.offset if match else self.offset + 1
                return 0x10000 + ((lead - SURROGATE_LOW) << 10) + (trail - _TRAIL_LOW)
            self.offset = resume
        return self._lone_surrogate(lead, start, flags)

    def _lone_surrogate(self, code: int, start: int, flags: Flags) -> int:
        if flags.unicode:
            return code  # a character that is in no text, and in no set
        # Without the u flag it would be half of a character; texts here are made of whole ones.
        raise self.unsupported("lone surrogate", start, "texts consist of whole characters")

    def _read_property(self, start: int, *, is_negated: bool) -> CodePoints:
        match = self.match(_PROPERTY)
        if match is None:
            raise self.malformed("\\p wants a property in braces", start)
        members = property_members(match[1])
        if members is None:
            if is_script(match[1]):
                raise self.unsupported("Unicode script property", start, "no data of scripts")
            raise self.unsupported("Unicode property", start, f"{match[1]!r} is not known")
        return ~members if is_negated else members


def _class_escape(letter: str, flags: Flags) -> CodePoints:
    match letter.lower():
        case "d":
            members = DIGITS
        case "w":
            members = word_characters(flags)
        case _:
            members = SPACES
    return ~members if letter.isupper() else members


def word_characters(flags: Flags) -> CodePoints:
    """What ``\\w`` and ``\\b`` take for a word character: with flags i and u also those that fold to one."""
    return close_under_case(WORD, unicode=True) if flags.ignore_case and flags.unicode else WORD


def _is_hexadecimal(digits: str) -> bool:
    return all(digit in "0123456789abcdefABCDEF" for digit in digits)
