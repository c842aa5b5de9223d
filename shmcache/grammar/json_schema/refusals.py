"""What is not enforced, and what is done about it.

Owns the choice between an error and a recorded warning. Must never know how keywords that are enforced are read.

A keyword is refused only where it has an effect: not when the schema does not admit the type that it concerns, nor when
its value constrains nothing.
"""

from __future__ import annotations

from shmcache.errors import UnsupportedError
from shmcache.grammar import ir
from shmcache.grammar.json_schema import formats
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.shapes import Shape

CONTENT_KEYWORDS = ("contentEncoding", "contentMediaType", "contentSchema")
"""Keywords of strings that drafts up to 7 leave to the implementation, and that are annotations in later ones."""


class Refusals:
    """Raises :class:`UnsupportedError`, or records warnings where the caller asked to ignore what is not enforced."""

    def __init__(self, on_unsupported: str) -> None:
        self._is_error = on_unsupported == "error"
        self._warnings: dict[tuple[str, str], ir.Warning] = {}
        self.refused_count = 0
        """How many times something was refused and ignored."""

    @property
    def warnings(self) -> tuple[ir.Warning, ...]:
        """All warnings so far, in order, each once."""
        return tuple(self._warnings.values())

    def warn(self, feature: str, pointer: str, message: str) -> None:
        """Records that something constrains nothing."""
        self._warnings.setdefault((feature, pointer), ir.Warning(feature, pointer, message))

    def refuse(self, error: UnsupportedError) -> None:
        """Raises ``error``, or records it when unsupported keywords are to be ignored."""
        if self._is_error:
            raise error
        self.refused_count += 1
        self.warn(error.feature, error.pointer or "", error.message)

    def check(self, keywords: Keywords, shape: Shape, draft: int) -> None:
        """Refuses every keyword that would narrow ``shape`` and is not enforced."""
        if shape.strings:
            self._check_format(keywords)
            for name in CONTENT_KEYWORDS:
                if name in keywords:
                    self._check_content(name, keywords, draft)

    def _check_content(self, name: str, keywords: Keywords, draft: int) -> None:
        pointer = keywords.pointer(name)
        if draft <= 7:
            message = f"the keyword {name!r} is not enforced"
            self.refuse(UnsupportedError(message, feature=name, pointer=pointer))
        else:
            self.warn(name, pointer, f"the keyword {name!r} is an annotation by the standard")

    def _check_format(self, keywords: Keywords) -> None:
        name = keywords.text("format")
        if name is None:
            return
        pointer = keywords.pointer("format")
        if name not in formats.SUPPORTED:
            self.warn("format", pointer, f"the format {name!r} is not defined by JSON Schema and constrains nothing")


class Leniency(Refusals):
    """Refuses nothing and records nothing: what is then read admits everything that the schema admits, and more."""

    def __init__(self) -> None:
        super().__init__("ignore")

    def warn(self, feature: str, pointer: str, message: str) -> None:
        """Nothing: the stricter reader has said it."""
