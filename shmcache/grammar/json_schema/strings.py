"""Sets of strings: what the string keywords of a schema leave.

Owns the constraint record of strings, its intersection, and the automata and expressions it stands for. Must never know
where in an instance a string stands.

Spellings: a constrained string is admitted in every spelling that JSON has for it, escapes included. The names of
properties and the strings of ``enum`` and ``const`` are admitted in one spelling, but that control characters and
everything beyond ASCII may also be escaped (``\\u00e9``): with ``\\u0061`` for every ``a`` the automaton of a name
would have six times the states, and the matcher could never tell that only one continuation is left. Strings with a
``format`` are spelt like those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.ir import EMPTY, Expression, Literal, Regular
from shmcache.grammar.json_schema import formats
from shmcache.grammar.json_schema.counted_texts import CountedTexts
from shmcache.grammar.json_schema.counting import counted_string
from shmcache.grammar.json_schema.expressions import choice, sequence
from shmcache.grammar.json_schema.formats import format_automaton, outer_automaton
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.regex_format import regex_expression
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.spelling import Spelling
from shmcache.grammar.json_schema.string_automata import (
    NAME_ESCAPABLE,
    counted,
    is_plain,
    is_plain_only,
    names_but,
    quoted,
)
from shmcache.grammar.regex import search_automaton
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import (
    everything,
    intersect,
    length_between,
    subtract,
    unite,
    words,
)


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """That the regular expression ``text`` is found in a string, or that the string has the format ``text``; or not.

    Of some formats only a part is admitted. Of a "loose format" all, and perhaps more.
    """

    kind: str  # "pattern", "format" or "loose format"
    text: str
    holds: bool = True


@dataclass(frozen=True, slots=True)
class StringSet:
    """All strings that satisfy every field.

    minimum, maximum: length in code points; None: no bound.
    conditions: all of which are met. constants: the strings that are admitted at all; None: all.
    excluded: strings that are not admitted.
    """

    minimum: int = 0
    maximum: int | None = None
    conditions: frozenset[Condition] = frozenset()
    constants: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()

    def loosened(self) -> StringSet:
        """A record that surely admits all strings that satisfy the fields."""
        if not any(one.kind == "format" for one in self.conditions):
            return self
        loose = (replace(one, kind="loose format") if one.kind == "format" else one for one in self.conditions)
        return replace(self, conditions=frozenset(loose))

    @property
    def is_mere_length(self) -> bool:
        """Whether only the length is constrained."""
        return not self.conditions and self.constants is None and not self.excluded

    @property
    def has_name_spelling(self) -> bool:
        """Whether the strings are spelt like names."""
        return self.constants is not None or any(
            condition.kind == "format" and condition.holds for condition in self.conditions
        )


ANY_STRING = StringSet()
REGULAR_EXPRESSION = StringSet(conditions=frozenset((Condition("format", "regex"),)))
"""Of which the format alone is asked: its rules admit more than an automaton can."""

_KEYWORDS = frozenset(("minLength", "maxLength", "pattern", "format"))

_LONG_MIN = 512
"""Strings of fewer characters are not looked at as long ones."""


def intersect_strings(first: StringSet, second: StringSet) -> StringSet:
    """Strings of both."""
    if first.constants is None or second.constants is None:
        constants = second.constants if first.constants is None else first.constants
    else:
        constants = first.constants & second.constants
    bounds = [one.maximum for one in (first, second) if one.maximum is not None]
    return StringSet(
        max(first.minimum, second.minimum),
        min(bounds, default=None),
        first.conditions | second.conditions,
        constants,
        first.excluded | second.excluded,
    )


def complement_strings(strings: StringSet) -> tuple[StringSet, ...]:
    """The strings that fail a field, one record for each field."""
    failing = [StringSet(conditions=frozenset((replace(one, holds=not one.holds),))) for one in strings.conditions]
    if strings.minimum:
        failing.append(StringSet(maximum=strings.minimum - 1))
    if strings.maximum is not None:
        failing.append(StringSet(minimum=strings.maximum + 1))
    if strings.constants is not None:
        failing.append(StringSet(excluded=strings.constants))
    if strings.excluded:
        failing.append(StringSet(constants=strings.excluded))
    return tuple(failing)


def unite_constant_strings(sets: Iterable[StringSet]) -> list[StringSet]:
    """The same union with all sets of mere constants made one."""
    constants: set[str] = set()
    others: list[StringSet] = []
    for one in sets:
        if one.constants is not None and one == StringSet(constants=one.constants):
            constants |= one.constants
        else:
            others.append(one)
    return [*others, StringSet(constants=frozenset(constants))] if constants else others


class Strings:
    """Reads string keywords and makes the automata of string sets, each once per compile."""

    def __init__(self, budget: Budget, spelling: Spelling | None = None) -> None:
        self.budget = budget
        self.spelling = spelling or Spelling()
        self._patterns: dict[str, Dfa] = {}
        self._texts: dict[StringSet, Dfa] = {}
        self._name_characters: dict[str, Expression] = {}

    def read(self, keywords: Keywords, refuse: Callable[[UnsupportedError], None] | None) -> StringSet:
        """What ``minLength``, ``maxLength``, ``pattern`` and ``format`` say.

        ``refuse`` is told of a pattern that is not supported; None: pattern and format are not looked at.
        """
        if not keywords.has_any(_KEYWORDS):
            return ANY_STRING
        conditions: list[Condition] = []
        pattern, name = keywords.text("pattern"), keywords.text("format")
        if refuse is not None and pattern is not None:
            try:
                self.learn_pattern(pattern, keywords.pointer("pattern"))
                conditions.append(Condition("pattern", pattern))
            except UnsupportedError as error:
                refuse(error)
        if refuse is not None and name is not None and name in formats.SUPPORTED:
            conditions.append(Condition("format", name))
        return StringSet(keywords.count("minLength") or 0, keywords.count("maxLength"), frozenset(conditions))

    def learn_pattern(self, pattern: str, pointer: str) -> None:
        """Makes the automaton of a pattern, so that conditions may name it; ``pointer`` is that of the keyword."""
        if pattern in self._patterns:
            return
        try:
            self._patterns[pattern] = search_automaton(pattern, self.budget)
        except SourceError as error:
            raise SourceError(error.message, pointer=pointer, line=error.line, column=error.column) from None
        except UnsupportedError as error:
            raise UnsupportedError(
                error.message, feature=error.feature, pointer=pointer, line=error.line, column=error.column
            ) from None

    def pattern(self, pattern: str) -> Dfa:
        """The texts in which a pattern that was learnt is found."""
        return self._patterns[pattern]

    def spelled_as_name(self, text: Dfa) -> Dfa:
        """The names of a text automaton as bytes, quotes included."""
        if self.spelling.mark:
            return self.spelling.bare_names(text)
        if not is_plain_only(text):
            text = encode_json_string(text, self.budget, escapable=NAME_ESCAPABLE)
        return self.spelling.quoted(quoted(text))

    def _condition(self, condition: Condition) -> Dfa:
        if condition.kind == "pattern":
            return self._patterns[condition.text]
        is_within = condition.holds == (condition.kind == "format")
        return format_automaton(condition.text) if is_within else outer_automaton(condition.text)

    def is_empty(self, strings: StringSet) -> bool:
        """Whether no string satisfies the record."""
        if strings.maximum is not None and strings.maximum < strings.minimum:
            return True
        if strings.is_mere_length or strings == REGULAR_EXPRESSION:
            return False
        counted = self._long_texts(strings)
        return self.text_automaton(strings).is_empty if counted is None else counted.is_empty()

    def _long_texts(self, strings: StringSet) -> CountedTexts | None:
        """The strings, where their characters are too many for an automaton of all counts; None: they are not."""
        if strings.constants is not None or max(strings.minimum, strings.maximum or 0) < _LONG_MIN:
            return None
        unbounded = replace(strings, minimum=0, maximum=None)
        spell = self._spell_as_name if strings.has_name_spelling else self._spell
        counted = CountedTexts(self.text_automaton(unbounded), strings.minimum, strings.maximum, spell, self.budget)
        return None if counted.is_short() else counted

    def _spell(self, text: Dfa) -> Dfa:
        return encode_json_string(text, self.budget)

    def _spell_as_name(self, text: Dfa) -> Dfa:
        return encode_json_string(text, self.budget, escapable=NAME_ESCAPABLE)

    def text_automaton(self, strings: StringSet) -> Dfa:
        """The strings, over code points."""
        known = self._texts.get(strings)
        if known is None:
            known = self._texts[strings] = self._make_text_automaton(strings)
        return known

    def _make_text_automaton(self, strings: StringSet) -> Dfa:
        budget = self.budget
        conditions = [(self._condition(one), one.holds) for one in sorted(strings.conditions)]
        if strings.constants is not None:
            return words([text for text in sorted(strings.constants) if _satisfies(text, strings, conditions)], budget)
        result: Dfa | None = None
        if strings.minimum or strings.maximum is not None:
            result = length_between(strings.minimum, strings.maximum, budget)
        for condition, holds in conditions:
            if holds:
                result = condition if result is None else intersect(result, condition, budget)
            else:
                result = subtract(everything(ANY) if result is None else result, condition, budget)
        if strings.excluded:
            excluded = words(sorted(strings.excluded), budget)
            result = subtract(everything(ANY) if result is None else result, excluded, budget)
        return everything(ANY) if result is None else result

    def expression(self, sets: tuple[StringSet, ...], rules: Rules) -> Expression:
        """The JSON strings of any of the sets, quotes included; each set has at least one."""
        if ANY_STRING in sets:
            return rules.string()
        return rules.shared(("string", sets), lambda: self._body(sets, rules))

    def _body(self, sets: tuple[StringSet, ...], rules: Rules) -> Expression:
        if self.spelling.mark:
            marked = [self.spelling.marked(self.text_automaton(one)) for one in sets]
            return Regular(reduce(lambda one, other: unite(one, other, self.budget), marked))
        if REGULAR_EXPRESSION in sets and self.spelling.is_of_json:
            others = tuple(one for one in sets if one != REGULAR_EXPRESSION)
            expression = regex_expression(self._spell_as_name, rules)
            whole = sequence(Literal(b'"'), expression, Literal(b'"'))
            return choice((whole, self._body(others, rules))) if others else whole
        if len(sets) == 1 and sets[0].is_mere_length:
            minimum, maximum = sets[0].minimum, sets[0].maximum
            if self.spelling.texts:
                return Regular(self.spelling.quoted(counted(minimum, maximum, self.budget, has_quotes=True)))
            return counted_string(minimum, maximum, rules, self.budget)
        long_texts = {one: self._long_texts(one) for one in sets} if not self.spelling.texts else {}
        if any(long_texts.values()):
            return choice(self._long_or_short(one, counted, rules) for one, counted in long_texts.items())
        automata = [self.text_automaton(one) for one in sets]
        text = reduce(lambda one, other: unite(one, other, self.budget), automata)
        if all(one.has_name_spelling for one in sets):
            return Regular(self.spelled_as_name(text))
        return Regular(self.spelling.quoted(quoted(encode_json_string(text, self.budget))))

    def _long_or_short(self, strings: StringSet, counted: CountedTexts | None, rules: Rules) -> Expression:
        if counted is not None and (blocks := counted.expression(rules)) is not None:
            return sequence(Literal(b'"'), blocks, Literal(b'"'))
        text = self.text_automaton(strings)
        return Regular(self.spelled_as_name(text) if strings.has_name_spelling else quoted(self._spell(text)))

    def name_text(self, text: str) -> Expression:
        """A part of the name of a property; in its shortest spelling only where texts are excluded."""
        if is_plain(text) or self.spelling.mark:
            return Literal(text.encode())
        if self.spelling.texts:
            return Literal(_shortest(text).encode())
        return sequence(*map(self._name_character, text))

    def _name_character(self, character: str) -> Expression:
        if is_plain(character):
            return Literal(character.encode())
        known = self._name_characters.get(character)
        if known is None:
            spelled = encode_json_string(words([character], self.budget), self.budget, escapable=NAME_ESCAPABLE)
            known = self._name_characters[character] = Regular(spelled)
        return known

    def admits_name(self, name: str) -> bool:
        """Whether a property of that name can be written without an excluded text."""
        return not self.spelling.texts or self.spelling.admits(name if self.spelling.mark else _shortest(name))

    @property
    def name_quote(self) -> Expression:
        """What stands before and behind a name."""
        return EMPTY if self.spelling.mark else Literal(b'"')

    def other_name(self, names: frozenset[str], rules: Rules) -> Expression:
        """Any name but these, quotes included.

        None of these is admitted in any spelling: names have the spellings of names only.
        """
        if not names:
            return rules.name()
        return rules.shared(("other name", names), lambda: self._other_name(names))

    def _other_name(self, names: frozenset[str]) -> Expression:
        if all(map(is_plain, names)) and not self.spelling.mark:
            return Regular(self.spelling.quoted(names_but(names, self.budget)))
        text = subtract(everything(ANY), words(sorted(names), self.budget), self.budget)
        return Regular(self.spelled_as_name(text))


def _shortest(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _satisfies(text: str, strings: StringSet, conditions: list[tuple[Dfa, bool]]) -> bool:
    if (
        text in strings.excluded
        or len(text) < strings.minimum
        or (strings.maximum is not None and len(text) > strings.maximum)
    ):
        return False
    if any("\ud800" <= character <= "\udfff" for character in text):
        return False  # a lone surrogate has no UTF-8
    return all(condition.accepts(map(ord, text)) == holds for condition, holds in conditions)
