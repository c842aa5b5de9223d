"""The whitespace between the tokens of a JSON text.

Owns what may stand behind an opening bracket, before a closing one, and around a comma and a colon. Must never know
schemas.

Around the whole value there is no whitespace: behind it, a model that may go on with blanks could go on for ever.
"""

from __future__ import annotations

from shmcache.grammar.ir import Expression, Literal, Regular
from shmcache.grammar.json_schema.expressions import repeat, sequence
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.regular.dfa import Dfa

_WHITESPACE_EDGES = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))
_RUN = Regular(Dfa(edges=(tuple((low, high, 0) for low, high in _WHITESPACE_EDGES),), accepting=(True,)))
_ONE = Regular(Dfa(edges=(tuple((low, high, 1) for low, high in _WHITESPACE_EDGES), ()), accepting=(False, True)))
_NOTHING = Literal(b"")

LEVEL_MAX = 16
"""Deepest nesting of members in an indented layout. The number of blanks in front of a member depends on its depth, and
no finite set of rules can count them for a value of any depth; deeper containers are admitted empty only."""


class Layout:
    """Free whitespace, or that of ``json.dumps``. A *level* is the depth of members, 1 at the outermost."""

    def __init__(self, options: JsonSchemaOptions) -> None:
        self._indent = None if options.any_whitespace else options.indent
        if options.any_whitespace:
            limit = options.max_whitespace_cnt
            free: Expression = _RUN if limit is None else repeat(_ONE, 0, limit)
            self.empty = free
            self.colon = sequence(free, Literal(b":"), free)
            self._comma = sequence(free, Literal(b","), free)
        else:
            item, key = options.separators or (", " if self._indent is None else ",", ": ")
            self.empty = _NOTHING
            self.colon = Literal(key.encode())
            self._comma = Literal(item.encode())
        self._line_break = self.empty

    @property
    def depends_on_level(self) -> bool:
        """Whether the same value is laid out differently at different levels."""
        return self._indent is not None

    def _new_line(self, level: int) -> Expression:
        if self._indent is None:
            return self._line_break
        return Literal(b"\n" + b" " * (self._indent * level))

    def begin(self, level: int) -> Expression:
        """Between an opening bracket and the first member, which is at ``level``."""
        return self._new_line(level)

    def end(self, level: int) -> Expression:
        """Between the last member, which is at ``level``, and the closing bracket."""
        return self._new_line(level - 1)

    def comma(self, level: int) -> Expression:
        """Between two members at ``level``."""
        if self._indent is None:
            return self._comma
        return sequence(self._comma, self._new_line(level))
