"""Grammars in XGrammar's dialect of EBNF (after llama.cpp's GBNF).

Owns the syntax of rules: ``name ::= body``, alternatives, groups, repetition. Must never know what becomes of rules:
any recursion is a valid grammar here, and removing it where it leads to the left is a later stage's work.

A rule extends to the next ``name ::=``, over line ends. An alternative beside a ``|``, or a group, may be empty; a
whole rule may not. A macro stands wherever the name of a rule may. Lookahead ``(= …)`` is refused by name: it speaks
of what follows a rule, which each of the rule's callers decides. Groups being read lie on a list, not on Python's
stack, so nesting is bounded by a limit alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from shmcache.errors import LimitError, UnsupportedError
from shmcache.grammar.ebnf_macros import MACROS, MacroCall
from shmcache.grammar.ebnf_tokens import Token, class_members, malformed, string_value, tokenise
from shmcache.grammar.excerpt import Position
from shmcache.grammar.ir import (
    EMPTY,
    Characters,
    Choice,
    Expression,
    Grammar,
    Literal,
    Reference,
    Repeat,
    Sequence,
)
from shmcache.limits import EXPRESSION_DEPTH_MAX, STATES_MAX, Budget

_CLASS_ESCAPE = re.compile(r"\\[dDsSwW]")
_COUNT = re.compile(r"\{\s*([0-9]+)\s*(,)?\s*(-1|[0-9]*)\s*\}")
_COUNT_DIGITS_MAX = 9


def ebnf_grammar(text: str, root_rule_name: str, budget: Budget) -> Grammar:
    """The grammar that ``text`` defines, beginning with the rule ``root_rule_name``.

    Raises :class:`SourceError` where the text is malformed, a rule is undefined or defined twice, and
    :class:`UnsupportedError` for lookahead; both say line and column (from 1) and show the place. Raises
    :class:`LimitError` where groups are nested too deeply.
    """
    rules = _Parser(text, tokenise(text, budget), budget).parse()
    if root_rule_name not in rules:
        raise malformed(text, 0, f"the root rule {root_rule_name!r} is not defined")
    return Grammar(rules=rules, root=root_rule_name)


@dataclass(slots=True)
class _Group:
    """A group, or a whole rule, whose end has not been met: what it has so far."""

    offset: int
    options: list[Expression] = field(default_factory=list)
    items: list[Expression] = field(default_factory=list)
    has_content: bool = False

    def add(self, item: Expression) -> None:
        self.has_content = True
        if item != EMPTY:
            self.items.append(item)

    def finish_option(self) -> None:
        self.options.append(self.items[0] if len(self.items) == 1 else Sequence(tuple(self.items)))
        self.items = []

    def expression(self) -> Expression:
        self.finish_option()
        return self.options[0] if len(self.options) == 1 else Choice(tuple(self.options))


class _Parser:
    def __init__(self, text: str, tokens: list[Token], budget: Budget) -> None:
        self.text = text
        self.tokens = tokens
        self.budget = budget
        self.at = 0
        self.defined = frozenset(
            token.text
            for token, following in pairwise(tokens)
            if token.kind == "name" and following.kind == "definition"
        )
        self.rules: dict[str, Expression] = {}
        self.groups: list[_Group] = []

    def parse(self) -> dict[str, Expression]:
        while self.tokens[self.at].kind != "end":
            name, definition = self.tokens[self.at], self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            if name.kind != "name":
                raise malformed(self.text, name.offset, "the name of a rule is wanted")
            if definition.kind != "definition":
                raise malformed(self.text, definition.offset, f"::= is wanted behind the rule name {name.text!r}")
            if name.text in self.rules:
                raise malformed(self.text, name.offset, f"the rule {name.text!r} is defined twice")
            self.at += 2
            self.rules[name.text] = self._read_body(name)
        return self.rules

    def _read_body(self, name: Token) -> Expression:
        self.groups = [_Group(name.offset)]
        while not self._at_end_of_rule():
            token = self.tokens[self.at]
            self.at += 1
            self.budget.check_time()
            match token.kind, token.text:
                case ("operator", "(") | ("lookahead", _):
                    self._open_group(token)
                case "operator", ")":
                    self._close_group(token)
                case "operator", "|":
                    self.groups[-1].has_content = True
                    self.groups[-1].finish_option()
                case _:
                    self._append(self._element(token))
        if len(self.groups) > 1:
            raise malformed(self.text, self.groups[-1].offset, "a group is not closed")
        if not self.groups[0].has_content:
            raise malformed(self.text, name.offset, f'the rule {name.text!r} has no body (write "" for the empty text)')
        return self.groups[0].expression()

    def _at_end_of_rule(self) -> bool:
        token = self.tokens[self.at]
        return token.kind == "end" or (token.kind == "name" and self.tokens[self.at + 1].kind == "definition")

    def _open_group(self, token: Token) -> None:
        if token.kind == "lookahead":
            raise self._unsupported("lookahead", token.offset)
        self.groups.append(_Group(token.offset))
        if len(self.groups) > EXPRESSION_DEPTH_MAX + 1:
            raise LimitError(
                f"the grammar is nested deeper than {EXPRESSION_DEPTH_MAX} groups",
                limit="expression_depth",
                value=EXPRESSION_DEPTH_MAX,
            )

    def _close_group(self, token: Token) -> None:
        if len(self.groups) == 1:
            raise malformed(self.text, token.offset, "a closing parenthesis without an opening one")
        self._append(self.groups.pop().expression())

    def _append(self, item: Expression) -> None:
        """Adds ``item``, under the repetition that follows it, to the innermost group."""
        token = self.tokens[self.at]
        bounds = self._bounds(token)
        if bounds is not None:
            self.at += 1
            item = _repeat(item, *bounds)
        self.groups[-1].add(item)

    def _bounds(self, token: Token) -> tuple[int, int | None] | None:
        match token.kind, token.text:
            case "operator", "*":
                return 0, None
            case "operator", "+":
                return 1, None
            case "operator", "?":
                return 0, 1
            case "count", _:
                match = _COUNT.fullmatch(token.text)
                assert match is not None, "the lexer's expression is narrower"
                minimum = _count(match[1])
                if match[2] is None:
                    return minimum, minimum
                maximum = None if match[3] in ("", "-1") else _count(match[3])
                if maximum is not None and maximum < minimum:
                    raise malformed(self.text, token.offset, "the bounds of a repetition are out of order")
                return minimum, maximum
            case _:
                return None

    def _element(self, token: Token) -> Expression:
        match token.kind:
            case "string":
                value = string_value(self.text, token)
                return Literal(value.encode()) if value else EMPTY
            case "characters":
                if match := _CLASS_ESCAPE.search(token.text.replace("\\\\", "  ")):
                    raise self._unsupported(f"character class escape {match[0]}", token.offset + match.start())
                return Characters(class_members(self.text, token))
            case "name":
                return self._reference(token)
            case "operator" | "count":
                raise malformed(self.text, token.offset, "nothing to repeat")
            case _:
                raise malformed(self.text, token.offset, f"unexpected {token.text!r}")

    def _reference(self, token: Token) -> Expression:
        if token.text in self.defined:
            return Reference(token.text)
        if token.text in MACROS:
            call = MacroCall(self.text, token, self.defined, self.budget)
            self.at = call.read_arguments(self.tokens, self.at)
            return call.expression()
        raise malformed(self.text, token.offset, f"the rule {token.text!r} is not defined")

    def _unsupported(self, feature: str, offset: int) -> UnsupportedError:
        position = Position(self.text, offset)
        return position.unsupported_error(f"unsupported in grammars: {feature}", feature)


def _repeat(item: Expression, minimum: int, maximum: int | None) -> Expression:
    if maximum == 0 or item == EMPTY:
        return EMPTY
    if (minimum, maximum) == (1, 1):
        return item
    return Repeat(item, minimum, maximum)


def _count(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > _COUNT_DIGITS_MAX:
        raise LimitError(f"a repetition asks for {significant[:20]}… states", limit="states", value=STATES_MAX)
    return int(significant)
