"""From a pattern to its syntax tree.

Owns the grammar of ECMA-262 patterns: alternatives, groups, quantifiers, classes, assertions. Must never know automata.

Groups being read lie on a list, not on Python's stack, so nesting is bounded by a limit and by nothing else. Where the
standard's Annex B (what browsers accept) reads an ill-formed quantifier or a stray bracket as itself, so do we, unless
the ``u`` flag is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.regex.character_classes import LINE_TERMINATORS, NOT_LINE_TERMINATORS, close_under_case
from shmcache.grammar.regex.scanner import Flags, Scanner, word_characters
from shmcache.grammar.regex.syntax import (
    BEGIN_OF_TEXT,
    EMPTY,
    END_OF_TEXT,
    Ahead,
    Alternation,
    Behind,
    Characters,
    Concatenation,
    Lookahead,
    Node,
    no_word_boundary,
    repetition,
    word_boundary,
)
from shmcache.limits import EXPRESSION_DEPTH_MAX, STATES_MAX, Budget
from shmcache.regular.code_points import ANY, CodePoints

_COUNTS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_COUNTS_WITHOUT_MINIMUM = re.compile(r"\{,[0-9]+\}")
_NAME = re.compile(r"\?<([^>]*)>")
_MODIFIERS = re.compile(r"\?([ims]*)(?:-([ims]*))?:")
_INLINE_FLAGS = re.compile(r"\?[a-zA-Z]+(-[a-zA-Z]+)?\)")
_LOOKAHEAD_DEPTH_MAX = 16
_COUNT_DIGITS_MAX = 9


@dataclass(slots=True)
class _Group:
    """A group whose closing parenthesis has not been met: what it has so far."""

    offset: int
    flags: Flags
    lookahead: str = ""
    lookahead_depth: int = 0
    options: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def finish_option(self) -> None:
        self.options.append(self.items[0] if len(self.items) == 1 else Concatenation(tuple(self.items)))
        self.items = []

    def node(self) -> Node:
        self.finish_option()
        body = self.options[0] if len(self.options) == 1 else Alternation(tuple(self.options))
        if isinstance(body, Concatenation) and not body.items:
            body = EMPTY
        return Lookahead(body, is_negative=self.lookahead == "!") if self.lookahead else body


def parse(pattern: str, budget: Budget, flags: str = "") -> Node:
    """The syntax tree of ``pattern`` under the ``flags`` (letters of ``imsu``).

    Raises :class:`SourceError` where the pattern is malformed, :class:`UnsupportedError` where it is more than a
    regular language, :class:`LimitError` where it is nested too deeply.
    """
    return _Parser(Scanner(pattern), budget, _read_flags(flags)).parse()


def _read_flags(flags: str) -> Flags:
    unknown = set(flags) - set("imsu")
    if unknown or len(set(flags)) != len(flags):
        raise SourceError(f"malformed flags of a regular expression: {flags!r}")
    return Flags(ignore_case="i" in flags, multiline="m" in flags, dot_all="s" in flags, unicode="u" in flags)


class _Parser:
    __slots__ = ("budget", "groups", "names", "scanner")

    def __init__(self, scanner: Scanner, budget: Budget, flags: Flags) -> None:
        self.scanner = scanner
        self.budget = budget
        self.groups = [_Group(0, flags)]
        self.names: set[str] = set()

    def parse(self) -> Node:
        scanner = self.scanner
        while not scanner.at_end:
            self.budget.check_time()
            character = scanner.peek()
            if character == "(":
                self._open_group()
            elif character == ")":
                self._close_group()
            elif character == "|":
                scanner.offset += 1
                self.groups[-1].finish_option()
            else:
                self._read_term(character)
        if len(self.groups) > 1:
            raise scanner.malformed("a group is not closed", self.groups[-1].offset)
        return self.groups[0].node()

    def _open_group(self) -> None:
        scanner, outer = self.scanner, self.groups[-1]
        start = scanner.offset
        scanner.offset += 1
        group = _Group(start, outer.flags, lookahead_depth=outer.lookahead_depth)
        if scanner.peek() == "?":
            self._read_group_kind(group)
        self.groups.append(group)
        if len(self.groups) > EXPRESSION_DEPTH_MAX + 1 or group.lookahead_depth > _LOOKAHEAD_DEPTH_MAX:
            limit = _LOOKAHEAD_DEPTH_MAX if group.lookahead_depth > _LOOKAHEAD_DEPTH_MAX else EXPRESSION_DEPTH_MAX
            raise LimitError(
                f"the regular expression is nested deeper than {limit} groups", limit="expression_depth", value=limit
            )

    def _read_group_kind(self, group: _Group) -> None:
        scanner, start = self.scanner, group.offset
        if scanner.skip("?=") or scanner.skip("?!"):
            group.lookahead = scanner.pattern[scanner.offset - 1]
            group.lookahead_depth += 1
        elif scanner.skip("?<=") or scanner.skip("?<!"):
            raise scanner.unsupported("look-behind", start, "only the character before is looked at, by \\b and ^")
        elif match := scanner.match(_NAME):
            name = match[1]
            if not name.replace("$", "_").isidentifier() or name in self.names:
                raise scanner.malformed(f"not a new name of a group: {name!r}", start)
            self.names.add(name)
        elif match := scanner.match(_MODIFIERS):
            group.flags = self._modified(group.flags, match[1], match[2], start)
        elif scanner.match(_INLINE_FLAGS):
            raise scanner.unsupported("inline flags", start, "ECMA-262 wants a group around what they apply to")
        else:
            raise scanner.malformed("unknown kind of group", start)

    def _modified(self, flags: Flags, on: str, off: str | None, start: int) -> Flags:
        letters = on + (off or "")
        if len(set(letters)) != len(letters) or (off is not None and not letters):
            raise self.scanner.malformed("malformed modifiers of a group", start)
        names = {"i": "ignore_case", "m": "multiline", "s": "dot_all"}
        changes = {names[letter]: letter in on for letter in letters}
        return replace(flags, **changes) if changes else flags

    def _close_group(self) -> None:
        scanner = self.scanner
        if len(self.groups) == 1:
            raise scanner.malformed("a closing parenthesis without an opening one", scanner.offset)
        scanner.offset += 1
        group = self.groups.pop()
        node = group.node()
        may_repeat = not (group.lookahead and group.flags.unicode)
        self._append(node, may_repeat=may_repeat)

    def _append(self, node: Node, *, may_repeat: bool) -> None:
        """Adds ``node``, under the quantifier that follows it, to the innermost group."""
        start = self.scanner.offset
        bounds = self._read_quantifier()
        if bounds is not None:
            if not may_repeat:
                raise self.scanner.malformed("an assertion cannot be repeated", start)
            node = repetition(node, *bounds)
        self.budget.spend_edges()
        self.groups[-1].items.append(node)

    def _read_quantifier(self) -> tuple[int, int | None] | None:
        scanner = self.scanner
        start = scanner.offset
        bounds: tuple[int, int | None]
        match scanner.peek():
            case "*":
                bounds = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                match = scanner.match(_COUNTS)
                if match is None:
                    return None
                minimum = _count(match[1])
                maximum = minimum if match[2] is None else _count(match[3]) if match[3] else None
                if maximum is not None and maximum < minimum:
                    raise scanner.malformed("the numbers of a quantifier are out of order", start)
                bounds = (minimum, maximum)
                scanner.offset -= 1
            case _:
                return None
        scanner.offset += 1
        scanner.skip("?")  # a lazy quantifier prefers another match, but has the same language
        return bounds

    def _read_term(self, character: str) -> None:
        scanner, flags = self.scanner, self.groups[-1].flags
        start = scanner.offset
        match character:
            case "^":
                scanner.offset += 1
                line = Behind(LINE_TERMINATORS, at_begin=True)
                self._append(line if flags.multiline else BEGIN_OF_TEXT, may_repeat=False)
            case "$":
                scanner.offset += 1
                line_end = Ahead(LINE_TERMINATORS, at_end=True)
                self._append(line_end if flags.multiline else END_OF_TEXT, may_repeat=False)
            case "." | "[":
                scanner.offset += 1
                if character == "[":
                    members = self._read_class(start, flags)
                else:
                    members = ANY if flags.dot_all else NOT_LINE_TERMINATORS
                self._append(Characters(members), may_repeat=True)
            case "\\":
                self._read_escaped_term(flags)
            case "*" | "+" | "?":
                raise scanner.malformed("nothing to repeat", start)
            case "{" | "}" | "]":
                self._read_stray_bracket(character, flags)
            case _:
                self._append(_literal(scanner.read_code_point(flags), flags), may_repeat=True)

    def _read_stray_bracket(self, character: str, flags: Flags) -> None:
        scanner, start = self.scanner, self.scanner.offset
        if character == "{" and scanner.match(_COUNTS):
            raise scanner.malformed("nothing to repeat", start)
        if character == "{" and scanner.match(_COUNTS_WITHOUT_MINIMUM):
            # Annex B would take it literally; whoever writes it means a quantifier.
            raise scanner.malformed("a quantifier without a minimum (write {0,n}, or \\{ for a brace)", start)
        if flags.unicode:
            raise scanner.malformed(f"a lone {character}", start)
        scanner.offset += 1
        self._append(_literal(ord(character), flags), may_repeat=True)

    def _read_escaped_term(self, flags: Flags) -> None:
        scanner = self.scanner
        if scanner.skip("\\b"):
            self._append(word_boundary(word_characters(flags)), may_repeat=False)
        elif scanner.skip("\\B"):
            self._append(no_word_boundary(word_characters(flags)), may_repeat=False)
        else:
            self._append(_literal(scanner.read_escape(flags, in_class=False), flags), may_repeat=True)

    def _read_class(self, start: int, flags: Flags) -> CodePoints:
        """The members of the class whose opening bracket is at ``start`` and has been passed."""
        scanner = self.scanner
        is_negated = scanner.skip("^")
        sets: list[CodePoints] = []
        ranges: list[tuple[int, int]] = []
        while not scanner.skip("]"):
            low_at = scanner.offset
            low = self._read_member(start, flags)
            is_range = scanner.peek() == "-" and scanner.pattern[scanner.offset + 1 : scanner.offset + 2] not in (
                "",
                "]",
            )
            if not is_range:
                _collect(low, sets, ranges)
                continue
            scanner.offset += 1
            high = self._read_member(start, flags)
            if isinstance(low, int) and isinstance(high, int):
                if high < low:
                    raise scanner.malformed("a range of characters is out of order", low_at)
                ranges.append((low, high))
            elif flags.unicode:
                raise scanner.malformed("a range between sets of characters", low_at)
            else:
                for part in (low, ord("-"), high):
                    _collect(part, sets, ranges)
        members = CodePoints.from_ranges(ranges)
        for one in sets:
            members |= one
        members = close_under_case(members, unicode=flags.unicode) if flags.ignore_case else members
        return ~members if is_negated else members

    def _read_member(self, start: int, flags: Flags) -> CodePoints | int:
        self.budget.spend_edges()
        if self.scanner.at_end:
            raise self.scanner.malformed("a character class is not closed", start)
        if self.scanner.peek() == "\\":
            return self.scanner.read_escape(flags, in_class=True)
        return self.scanner.read_code_point(flags)


def _collect(member: CodePoints | int, sets: list[CodePoints], ranges: list[tuple[int, int]]) -> None:
    if isinstance(member, int):
        ranges.append((member, member))
    else:
        sets.append(member)


def _literal(members: CodePoints | int, flags: Flags) -> Characters:
    code_points = _single(members) if isinstance(members, int) else members
    return Characters(close_under_case(code_points, unicode=flags.unicode) if flags.ignore_case else code_points)


@lru_cache(maxsize=1024)
def _single(code_point: int) -> CodePoints:
    return CodePoints.of(code_point)


def _count(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > _COUNT_DIGITS_MAX:
        raise LimitError(f"a repetition asks for {significant[:20]}… states", limit="states", value=STATES_MAX)
    return int(significant)
