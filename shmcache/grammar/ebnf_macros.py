"""The macros of an EBNF text: ``Regex("…")``, ``TagDispatch(("<tag>", rule), excludes=("end",))`` and their kin.

Owns the syntax of arguments and what each macro makes of them. Must never know the syntax of rules.

Arguments are strings, numbers, names and flat tuples of these, separated by commas; a comma may stand behind the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.dispatch import dispatch, token_dispatch
from shmcache.grammar.ebnf_tokens import Token, malformed, string_offsets, string_value
from shmcache.grammar.excerpt import Position
from shmcache.grammar.ir import Expression, Reference, Regular, Tokens
from shmcache.grammar.regex import parse_regex
from shmcache.grammar.substrings import substrings
from shmcache.limits import Budget
from shmcache.regular.encode import encode_utf8

_DISPATCHES = frozenset({"TagDispatch", "TokenTagDispatch"})
_DISPATCH_ARGUMENTS = frozenset({"loop_after_dispatch", "excludes"})
_OLD_ARGUMENTS = frozenset({"stop_eos", "stop_str"})
"""Of the TagDispatch of XGrammar's earlier versions."""

_TOKEN_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. ``words`` are its parts, one unless it is a tuple; ``offset`` is where it begins."""

    offset: int
    words: tuple[Token, ...]
    is_tuple: bool


@dataclass(slots=True)
class MacroCall:
    """A macro with its arguments, as written in ``text``. ``rules`` are the names of all rules of that text."""

    text: str
    name: Token
    rules: frozenset[str]
    budget: Budget
    positional: list[Argument] = field(default_factory=list)
    named: dict[str, Argument] = field(default_factory=dict)

    def expression(self) -> Expression:
        """What the call stands for."""
        return _MACROS[self.name.text](self)

    def read_arguments(self, tokens: list[Token], at: int) -> int:
        """Reads the arguments in parentheses that begin at ``tokens[at]``; returns the place behind them."""
        if tokens[at].text != "(":
            raise self.malformed(tokens[at].offset, f"( is wanted behind the macro {self.name.text}")
        at += 1
        while tokens[at].text != ")":
            self.budget.check_time()
            label = tokens[at]
            if label.kind == "name" and tokens[at + 1].text == "=":
                self._check_label(label)
                self.named[label.text], at = self._argument(tokens, at + 2)
            else:
                argument, at = self._argument(tokens, at)
                self.positional.append(argument)
            at = self._behind_comma(tokens, at)
        return at + 1

    def _check_label(self, label: Token) -> None:
        macro = self.name.text
        if label.text in self.named:
            raise self.malformed(label.offset, f"the argument {label.text!r} is given twice")
        if macro == "TagDispatch" and label.text in _OLD_ARGUMENTS:
            feature = f"argument {label.text} of {macro}"
            position = Position(self.text, label.offset)
            raise position.unsupported_error(f"unsupported in grammars: {feature}", feature)
        if macro not in _DISPATCHES or label.text not in _DISPATCH_ARGUMENTS:
            raise self.malformed(label.offset, f"{macro} has no argument {label.text!r}")

    def _argument(self, tokens: list[Token], at: int) -> tuple[Argument, int]:
        first = tokens[at]
        if first.text != "(":
            return Argument(first.offset, (self._word(first),), is_tuple=False), at + 1
        words: list[Token] = []
        at += 1
        while tokens[at].text != ")":
            self.budget.check_time()
            words.append(self._word(tokens[at]))
            at = self._behind_comma(tokens, at + 1)
        return Argument(first.offset, tuple(words), is_tuple=True), at + 1

    def _behind_comma(self, tokens: list[Token], at: int) -> int:
        """The place of the next argument, or of the parenthesis that closes them."""
        if tokens[at].text == ",":
            return at + 1
        if tokens[at].text == ")":
            return at
        if tokens[at].kind == "end":
            raise self.malformed(self.name.offset, f"the macro {self.name.text} is not closed")
        raise self.malformed(tokens[at].offset, ", or ) is wanted between the arguments of a macro")

    def _word(self, word: Token) -> Token:
        if word.kind in ("string", "name"):
            return word
        if word.kind == "end":
            raise self.malformed(self.name.offset, f"the macro {self.name.text} is not closed")
        raise self.malformed(word.offset, "a string, a number, a name or a tuple of these is wanted")

    def malformed(self, offset: int, message: str) -> SourceError:
        """The error for a call that is malformed at ``offset``."""
        return malformed(self.text, offset, message)

    def singles(self) -> Iterator[Token]:
        """The positional arguments where none may be a tuple."""
        for argument in self.positional:
            if argument.is_tuple:
                raise self.malformed(argument.offset, f"{self.name.text} takes no tuples")
            yield argument.words[0]

    def pairs(self) -> Iterator[tuple[Token, Expression]]:
        """The positional arguments where each is a pair of something and a rule."""
        for argument in self.positional:
            if not argument.is_tuple or len(argument.words) != 2:
                raise self.malformed(argument.offset, f"{self.name.text} takes pairs of a trigger and a rule")
            trigger, rule = argument.words
            if rule.kind != "name":
                raise self.malformed(rule.offset, "the name of a rule is wanted")
            if rule.text not in self.rules:
                raise self.malformed(rule.offset, f"the rule {rule.text!r} is not defined")
            yield trigger, Reference(rule.text)

    def excludes(self) -> tuple[Token, ...]:
        """The argument ``excludes``, a tuple; an empty one without it."""
        argument = self.named.get("excludes")
        if argument is None:
            return ()
        if not argument.is_tuple:
            raise self.malformed(argument.offset, "excludes is a tuple: excludes=(…)")
        return argument.words

    def is_loop(self) -> bool:
        """The argument ``loop_after_dispatch``; true without it."""
        argument = self.named.get("loop_after_dispatch")
        if argument is None:
            return True
        if argument.is_tuple or argument.words[0].text not in ("true", "false"):
            raise self.malformed(argument.offset, "loop_after_dispatch is true or false")
        return argument.words[0].text == "true"

    def string(self, word: Token, *, may_be_empty: bool) -> str:
        """What a word that must be a string stands for."""
        if word.kind != "string":
            raise self.malformed(word.offset, "a string is wanted")
        value = string_value(self.text, word)
        if not value and not may_be_empty:
            raise self.malformed(word.offset, "the string must not be empty")
        return value

    def token(self, word: Token) -> int | str:
        """The token that a word stands for: an id, or a string that spells it."""
        if word.kind == "string":
            return self.string(word, may_be_empty=False)
        if not (word.text.isascii() and word.text.isdigit()):
            raise self.malformed(word.offset, "a token id or a string is wanted")
        significant = word.text.lstrip("0") or "0"
        if len(significant) > _TOKEN_DIGITS_MAX:
            raise self.malformed(word.offset, "no such token id")
        return int(significant)


def _regex(call: MacroCall) -> Expression:
    words = list(call.singles())
    if len(words) != 1:
        raise call.malformed(call.name.offset, "Regex takes exactly one string")
    pattern = call.string(words[0], may_be_empty=True)
    try:
        automaton = parse_regex(pattern, call.budget)
    except (SourceError, UnsupportedError) as error:
        # The place is one of the pattern; the escapes of the string stand between it and the text.
        offsets = string_offsets(call.text, words[0])
        position = Position(call.text, offsets[(error.column or 1) - 1])
        message = error.message.partition("\n")[0].rpartition(" (line ")[0]
        if isinstance(error, UnsupportedError):
            raise position.unsupported_error(message, error.feature) from None
        raise position.source_error(message) from None
    return Regular(encode_utf8(automaton, call.budget))


def _substring(call: MacroCall) -> Expression:
    chunks = [call.string(word, may_be_empty=True) for word in call.singles()]
    return Regular(substrings(chunks, call.budget))


def _tokens(call: MacroCall) -> Expression:
    names = tuple(dict.fromkeys(call.token(word) for word in call.singles()))
    if not names:
        raise call.malformed(call.name.offset, f"{call.name.text} takes at least one token")
    return Tokens(names, is_excluded=call.name.text == "ExcludeToken")


def _tag_dispatch(call: MacroCall) -> Expression:
    excludes = {call.string(word, may_be_empty=False) for word in call.excludes()}
    lengths = sorted({len(excluded) for excluded in excludes})
    rules: list[tuple[str, Expression]] = []
    for word, rule in call.pairs():
        trigger = call.string(word, may_be_empty=False)
        call.budget.spend_edges(len(lengths))
        for length in lengths:
            if trigger[:length] in excludes:
                raise call.malformed(word.offset, f"the trigger begins with the excluded {trigger[:length]!r}")
        rules.append((trigger, rule))
    return dispatch(rules, is_loop=call.is_loop(), excludes=sorted(excludes), budget=call.budget)


def _token_tag_dispatch(call: MacroCall) -> Expression:
    excludes = dict.fromkeys(call.token(word) for word in call.excludes())
    rules: list[tuple[int | str, Expression]] = []
    for word, rule in call.pairs():
        trigger = call.token(word)
        if trigger in excludes:
            raise call.malformed(word.offset, f"the trigger {trigger!r} is excluded")
        rules.append((trigger, rule))
    return token_dispatch(rules, is_loop=call.is_loop(), exclude_tokens=tuple(excludes))


_MACROS: dict[str, Callable[[MacroCall], Expression]] = {
    "Regex": _regex,
    "Substring": _substring,
    "TagDispatch": _tag_dispatch,
    "Token": _tokens,
    "ExcludeToken": _tokens,
    "TokenTagDispatch": _token_tag_dispatch,
}

MACROS = frozenset(_MACROS)
"""The names of all macros."""
