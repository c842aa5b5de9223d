"""Where in a source text something is wrong, said so that a person finds it.

Owns positions (line, column) and the caret excerpt, and the errors made with them. Must never know a language.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcache.errors import SourceError, UnsupportedError

_CONTEXT_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Position:
    """A place in ``text``. ``line`` and ``column`` count from 1; columns are code points.

    A text whose line feeds are not line ends (a regular expression) is one line: ``counts_lines`` is then false.
    """

    text: str
    offset: int
    counts_lines: bool = True

    @property
    def line(self) -> int:
        """The line, 1 for the first."""
        return self.text.count("\n", 0, self.offset) + 1 if self.counts_lines else 1

    @property
    def column(self) -> int:
        """The column within the line, 1 for the first code point."""
        return self.offset - self._line_start + 1

    @property
    def _line_start(self) -> int:
        return self.text.rfind("\n", 0, self.offset) + 1 if self.counts_lines else 0

    def excerpt(self) -> str:
        """Two lines: the text around the place (shortened when long), and a caret below it."""
        line_end = self.text.find("\n", self.offset) if self.counts_lines else -1
        line_end = len(self.text) if line_end < 0 else line_end
        start = max(self._line_start, self.offset - _CONTEXT_CHARACTERS)
        end = min(line_end, self.offset + _CONTEXT_CHARACTERS)
        before = ("…" if start > self._line_start else "") + _printable(self.text[start : self.offset])
        after = _printable(self.text[self.offset : end]) + ("…" if end < line_end else "")
        return f"  {before}{after}\n  {' ' * len(before)}^"

    def source_error(self, message: str) -> SourceError:
        """The error for text that is malformed here."""
        return SourceError(self._explain(message), line=self.line, column=self.column)

    def unsupported_error(self, message: str, feature: str) -> UnsupportedError:
        """The error for well-formed text that asks here for something we do not enforce."""
        return UnsupportedError(self._explain(message), feature=feature, line=self.line, column=self.column)

    def _explain(self, message: str) -> str:
        return f"{message} (line {self.line}, column {self.column})\n{self.excerpt()}"


def _printable(text: str) -> str:
    """One visible character for each of ``text``, so that the caret stays below its place."""
    return "".join(character if character.isprintable() else "·" for character in text)
