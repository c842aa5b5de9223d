"""Objects whose members are written as elements, in one of the styles of tool calls.

Owns the expression of such an object and of the strings in it. Must never know what a member's node stands for: that is
asked of the caller.

A string is written as it is, and has no text in it that would close the element. Free whitespace may stand around
values, but for strings whose every character counts: whitespace belongs to a free string anyway, and around one whose
length alone is constrained one line feed may stand on each side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from shmcache.errors import UnsupportedError
from shmcache.grammar.free_text import free_text
from shmcache.grammar.ir import EMPTY, Expression, Literal, Regular, Repeat
from shmcache.grammar.json_schema.expressions import choice, sequence
from shmcache.grammar.json_schema.members import Levels, Member, NameSpelling, Other, Unions, Way, member_graph
from shmcache.grammar.json_schema.names import Names
from shmcache.grammar.json_schema.nodes import Node
from shmcache.grammar.json_schema.object_expressions import union_states
from shmcache.grammar.json_schema.objects import NameSet, ObjectSet
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.spelling import NAME_CHARACTERS
from shmcache.grammar.json_schema.strings import ANY_STRING, Strings, StringSet
from shmcache.grammar.json_schema.styles import Group, Style
from shmcache.grammar.json_schema.unordered_members import unordered_graph
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.dfa import Dfa, Edge, trim
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import everything, intersect, subtract, unite, words

Typed = Callable[[Node], dict[str, list[Expression]]]
"""For a node, what its values of each JSON type are, strings without what stands around them."""

_CONTINUATION_LOW, _CONTINUATION_HIGH = 0x80, 0xBF  # bytes inside a character

_COUNTED = "string of some length"

_LINE_FEED = Repeat(Literal(b"\n"), 0, 1)


class Elements:
    """Writes objects in one style."""

    def __init__(self, style: Style, strings: Strings, names: Names, rules: Rules) -> None:
        self._style = style
        self._strings = strings
        self._names = names
        self._rules = rules
        self._space = rules.layout.empty

    def object(self, objects: ObjectSet, typed: Typed, *, any_order: bool) -> Expression | None:
        """The objects of a finished record; None where a member that must be present can be written in no way.

        Raises :class:`UnsupportedError` for a declared name that the style cannot write, and
        :class:`TooManySetsError` where there are too many members for ``any_order``.
        """
        required = set(objects.required)
        satisfying: dict[str | NameSet, list[tuple[int, Node]]] = {}
        for one, needs, node in objects.satisfying:
            satisfying.setdefault(one, []).append((needs, node))

        def ways(one: str | NameSet, node: Node) -> tuple[Way, ...]:
            candidates = [(0, node), *satisfying.get(one, ())]
            return tuple(Way(written, needs) for needs, inner in candidates if (written := self._value(typed(inner))))

        members: list[Member] = []
        others: list[Other] = []
        if objects.maximum != 0:
            for at, (name, node) in enumerate(objects.properties):
                listed = ways(name, node)
                if listed and self._strings.spelling.admits(name):
                    self._check_name(name)
                    members.append(Member(name, listed, name in required, at))
            for at, (one, node) in enumerate(objects.others, len(objects.properties)):
                listed = ways(one, node)
                if listed:
                    others.append(Other(self._other_names(self._names.automaton(one), frozenset()), listed, at))
            extra = self._value(typed(objects.extra))
            if extra is not None:
                declared = frozenset(name for name, _ in objects.properties)
                spelled = self._other_names(everything(ANY), declared)
                others.append(Other(spelled, (Way(extra, 0),), len(objects.properties)))
        if not required <= {member.name for member in members}:
            return None
        states = union_states(objects, lambda node: bool(typed(node)), self._strings.budget)
        unions = None if states is None else Unions(states, lambda node: self._value(typed(node)))
        levels = Levels(objects.minimum, objects.maximum, len(objects.needs), unions)
        may_be_empty = levels.accepts(levels.start) and not any(member.is_required for member in members)
        options: list[Expression] = [self._space] if may_be_empty else []
        if members or others:
            spelling = NameSpelling(self._begin(), EMPTY, _literal)
            common = members, others, EMPTY, self._strings, levels
            graph = (
                unordered_graph(*common, self._rules, spelling)
                if any_order
                else member_graph(*common, spelling, self._rules.part)
            )
            options.append(sequence(self._space, graph))
        return choice(options) if options else None

    def texts(self, sets: tuple[StringSet, ...]) -> dict[str, list[Expression]]:
        """The strings of the sets, written as they are; those whose length alone is constrained apart."""
        if ANY_STRING in sets:
            return {"string": [self._free_text()]}
        counted = tuple(one for one in sets if one.is_mere_length)
        others = tuple(one for one in sets if not one.is_mere_length)
        return {
            "string": [self._text(others)] if others else [],
            _COUNTED: [self._text(counted)] if counted else [],
        }

    def _begin(self) -> Expression:
        """What comes before a name; a call, for the same reason."""
        begin = self._style.begin
        return self._rules.shared(("begin", begin), lambda: _literal(begin))

    def _free_text(self) -> Expression:
        without = (self._style.close, *self._strings.spelling.texts)
        return self._rules.shared(("free text", without), lambda: Regular(free_text(without, self._strings.budget)))

    def _text(self, sets: tuple[StringSet, ...]) -> Expression:
        return self._rules.shared(("text", self._style.close, sets), lambda: Regular(self._text_automaton(sets)))

    def _text_automaton(self, sets: tuple[StringSet, ...]) -> Dfa:
        budget = self._strings.budget
        if len(sets) == 1 and sets[0].is_mere_length:
            free = free_text((self._style.close, *self._strings.spelling.texts), budget)
            return _of_length(free, sets[0].minimum, sets[0].maximum, budget)
        text = reduce(lambda one, other: unite(one, other, budget), [self._strings.text_automaton(one) for one in sets])
        return self._strings.spelling.plain(encode_utf8(text, budget), self._style.close)

    def _value(self, by_type: dict[str, list[Expression]]) -> Expression | None:
        """What may stand behind a name, to the end of the element and the whitespace behind it; None: nothing."""
        options = [written for group in self._style.groups if (written := self._group(group, by_type)) is not None]
        if not options:
            return None
        # A call: values of one kind are written alike in all elements, of other schemas and grammars too. Whitespace
        # behind an element belongs to it, as thousands of places in an object may go on with it.
        whole = sequence(choice(options), self._space)
        return self._rules.shared(("element", whole), lambda: whole)

    def _group(self, group: Group, by_type: dict[str, list[Expression]]) -> Expression | None:
        opening: list[Expression] = []
        for part in group.opening:
            opening += [self._space, _literal(part)] if opening else [_literal(part)]
        texts = by_type.get("string", []) if "string" in group.types else []
        close = _literal(self._style.close)
        if texts == [self._free_text()]:
            # What is JSON besides is such a text as well.
            return sequence(*opening, texts[0], close)
        values = [*texts]
        values += [option for one in group.types if one != "string" for option in by_type.get(one, [])]
        counted = by_type.get(_COUNTED, []) if "string" in group.types else []
        options: list[Expression] = []
        if values:
            space = self._space if group.is_padded else EMPTY
            options.append(sequence(space, choice(values), space))
        if counted:
            line_feed = _LINE_FEED if group.is_padded else EMPTY
            options.append(sequence(line_feed, choice(counted), line_feed))
        return sequence(*opening, choice(options), close) if options else None

    def _check_name(self, name: str) -> None:
        if not name or any(character in name for character in self._style.never_in_names):
            message = f"the style {self._style.name} cannot write the name {name!r}"
            raise UnsupportedError(message, feature=f"name in {self._style.name}", pointer="")

    def _other_names(self, names: Dfa, declared: frozenset[str]) -> Expression:
        """What begins an element and the names that the style can write, less the declared ones."""
        what = ("element names", self._style.begin, names, declared)
        return self._rules.shared(what, lambda: self._other_names_body(names, declared))

    def _other_names_body(self, names: Dfa, declared: frozenset[str]) -> Expression:
        budget = self._strings.budget
        writable = everything(NAME_CHARACTERS).without_empty_word()
        result = intersect(names, writable, budget)
        if declared:
            result = subtract(result, words(sorted(declared), budget), budget)
        return sequence(self._begin(), Regular(self._strings.spelling.plain(encode_utf8(result, budget))))


def _of_length(text: Dfa, minimum: int, maximum: int | None, budget: Budget) -> Dfa:
    """The UTF-8 words of ``text`` of so many characters: a copy of its states for each count that matters.

    Not made minimal, which takes ten times as long and finds next to nothing.
    """
    last = minimum if maximum is None else maximum
    numbers = {(0, 0): 0}
    order = [(0, 0)]
    rows: list[list[Edge]] = []
    for state, count in order:  # grows while it is walked
        row: list[Edge] = []
        for low, high, target in text.edges[state]:
            following = count + (not _CONTINUATION_LOW <= low <= _CONTINUATION_HIGH)
            if following > last and maximum is not None:
                continue
            pair = (target, min(following, last))
            number = numbers.get(pair)
            if number is None:
                budget.spend_states()
                number = numbers[pair] = len(order)
                order.append(pair)
            row.append((low, high, number))
        budget.spend_edges(len(row))
        rows.append(row)
    return trim(rows, [text.accepting[state] and count >= minimum for state, count in order])


def _literal(text: str) -> Expression:
    return Literal(text.encode())
