"""The line from a parsed JSON Schema to grammar rules.

Owns the order of the steps and the writing of one rule for each place that admits containers of its own. Must never
know keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar import ir
from shmcache.grammar.ir import Expression, Grammar, Literal, Reference
from shmcache.grammar.json_schema.array_expressions import array_expression
from shmcache.grammar.json_schema.arrays import ANY_ARRAY
from shmcache.grammar.json_schema.document import Document
from shmcache.grammar.json_schema.elements import Elements, Typed
from shmcache.grammar.json_schema.exploration import Exploration, Place
from shmcache.grammar.json_schema.expressions import choice
from shmcache.grammar.json_schema.layout import LEVEL_MAX, Layout
from shmcache.grammar.json_schema.nodes import Node, node_of
from shmcache.grammar.json_schema.numbers import Numbers
from shmcache.grammar.json_schema.object_expressions import object_expression
from shmcache.grammar.json_schema.objects import ANY_OBJECT, ObjectSet
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.grammar.json_schema.reader import Reader
from shmcache.grammar.json_schema.refusals import Leniency, Refusals
from shmcache.grammar.json_schema.rules import ROOT, Rules
from shmcache.grammar.json_schema.shapes import EVERYTHING, Shape
from shmcache.grammar.json_schema.strings import Strings
from shmcache.grammar.json_schema.styles import Style
from shmcache.grammar.json_schema.union_finishing import Treatment
from shmcache.grammar.json_schema.unordered_members import TooManySetsError
from shmcache.limits import Budget


def json_schema_grammar(schema: Any, options: JsonSchemaOptions, budget: Budget) -> Grammar:
    """The grammar of the JSON texts of the instances of ``schema``, a parsed JSON document.

    Raises :class:`SourceError` (with a JSON pointer) for a malformed schema and for one that nothing satisfies,
    :class:`UnsupportedError` for a keyword that is not enforced, and :class:`LimitError`.
    """
    rules = Rules(Layout(options), budget)
    return rules.grammar(write_schema(schema, options, rules, ROOT, budget))


def write_schema(
    schema: Any, options: JsonSchemaOptions, rules: Rules, name: str, budget: Budget, style: Style | None = None
) -> tuple[ir.Warning, ...]:
    """Writes the rule ``name`` of a schema, and what it leads to, beside those of other schemas of one layout.

    With a ``style`` instances are objects, and their members written as elements. Returns the warnings; raises as
    :func:`json_schema_grammar`.
    """
    document = Document(schema, budget)
    numbers = Numbers(budget, canonical=options.canonical_numbers)
    strings = Strings(budget, rules.spelling)
    refusals = Refusals(options.on_unsupported)
    layout = rules.layout
    leniency = Leniency()
    lenient = Exploration(
        Reader(document, strings, leniency, budget),
        numbers,
        strings,
        leniency,
        budget,
        is_strict=False,
        treatment=Treatment.LEFT_OUT,
    )

    exploration = Exploration(
        Reader(document, strings, refusals, budget, lambda node: lenient.is_satisfiable(lenient.root(node))),
        numbers,
        strings,
        refusals,
        budget,
        is_strict=options.strict_mode,
        treatment=Treatment.MULTIPLIED if options.any_order else Treatment.FOLLOWED,
        level_max=LEVEL_MAX if layout.depends_on_level else None,
    )
    root = exploration.root(node_of(document.root))
    if not exploration.is_satisfiable(root):
        raise SourceError("nothing satisfies this schema", pointer="")

    def refuse_order(node: Node) -> None:
        message = "the members of an object are too many to come in any order"
        pointer = document.place(node[0]).pointer if node else ""
        refusals.refuse(UnsupportedError(message, feature="any_order", pointer=pointer))

    writer = _Writer(exploration, numbers, strings, rules, name, refuse_order if options.any_order else None)
    if style is None:
        writer.write(root)
    else:
        writer.write_elements(root, style)
    if exploration.was_cut:
        refusals.warn("indent", "", f"with indentation, values nested deeper than {LEVEL_MAX} levels are not admitted")
    return refusals.warnings


def builtin_json_grammar(budget: Budget) -> Grammar:
    """The grammar of all JSON values, with free whitespace between their tokens."""
    return json_schema_grammar(True, JsonSchemaOptions(strict_mode=False), budget)


class _Writer:
    """Writes rules, one for each different shape that has containers of its own."""

    def __init__(
        self,
        exploration: Exploration,
        numbers: Numbers,
        strings: Strings,
        rules: Rules,
        root_name: str,
        refuse_order: Callable[[Node], None] | None,
    ) -> None:
        self._root_name = root_name
        self._value_name = "value" if root_name == ROOT else f"{root_name}_value"
        self._exploration = exploration
        self._numbers = numbers
        self._strings = strings
        self._rules = rules
        self._refuse_order = refuse_order
        self._names: dict[tuple[Shape, int], str] = {}
        self._values: dict[Place, Expression | None] = {}
        self._pending: list[tuple[str, Place]] = []

    def write(self, root: Place) -> None:
        """Writes the root rule and all that it leads to."""
        self._names[self._exploration.shape(root), root[1]] = self._root_name
        if self._exploration.shape(root) == EVERYTHING:
            self._rules.define(self._root_name, self._rules.value(root[1]))
        else:
            self._pending.append((self._root_name, root))
        self._write_pending()

    def write_elements(self, root: Place, style: Style) -> None:
        """Writes the root rule, the objects of the root as elements, and all that it leads to."""
        elements = Elements(style, self._strings, self._exploration.names, self._rules)

        def typed(node: Node) -> dict[str, list[Expression]]:
            place = self._exploration.below(root, node)
            if not self._exploration.is_satisfiable(place):
                return {}
            by_type = self._by_type(place)
            return by_type | elements.texts(self._exploration.shape(place).strings)

        admitted = [one for one in self._exploration.shape(root).objects if self._exploration.admits(root, one)]
        options = [written for one in admitted if (written := self._element_object(elements, root, one, typed))]
        if not options:
            raise SourceError("no object that this style can write satisfies the schema", pointer="")
        self._rules.define(self._root_name, choice(options))
        self._write_pending()

    def _element_object(self, elements: Elements, root: Place, one: ObjectSet, typed: Typed) -> Expression | None:
        if self._refuse_order is not None:
            try:
                return elements.object(one, typed, any_order=True)
            except TooManySetsError:
                self._refuse_order(root[0])
        return elements.object(one, typed, any_order=False)

    def _write_pending(self) -> None:
        while self._pending:
            name, place = self._pending.pop()
            self._rules.define(name, self._body(place))

    def _value(self, place: Place) -> Expression | None:
        """What a member of that place is; None when nothing satisfies it."""
        if place not in self._values:
            self._values[place] = self._make_value(place)
        return self._values[place]

    def _make_value(self, place: Place) -> Expression | None:
        if not self._exploration.is_satisfiable(place):
            return None
        shape, level = self._exploration.shape(place), place[1]
        if shape == EVERYTHING:
            return self._rules.value(level)
        if set(shape.arrays) <= {ANY_ARRAY} and set(shape.objects) <= {ANY_OBJECT}:
            return self._body(place)
        name = self._names.get((shape, level))
        if name is None:
            name = self._names[shape, level] = f"{self._value_name}_{len(self._names)}"
            self._pending.append((name, place))
        return Reference(name)

    def _body(self, place: Place) -> Expression:
        return choice([option for options in self._by_type(place).values() for option in options])

    def _by_type(self, place: Place) -> dict[str, list[Expression]]:
        """What the values of each JSON type are."""
        shape, level = self._exploration.shape(place), place[1]

        def member(node: Node) -> Expression | None:
            return self._value(self._exploration.below(place, node))

        arrays: list[Expression] = []
        for array_set in shape.arrays:
            if array_set == ANY_ARRAY:
                arrays.append(self._rules.array(level))
            elif self._exploration.admits(place, array_set):
                arrays.append(array_expression(array_set, member, level, self._rules))
        objects: list[Expression] = []
        for object_set in shape.objects:
            if object_set == ANY_OBJECT:
                objects.append(self._rules.object(level))
            elif self._exploration.admits(place, object_set):
                objects.append(self._object(place, object_set, member))
        return {
            "null": [Literal(b"null")] if shape.null else [],
            "boolean": [Literal(b"true" if one else b"false") for one in sorted(shape.booleans, reverse=True)],
            "number": [self._numbers.expression(shape.numbers, self._rules)] if shape.numbers else [],
            "string": [self._strings.expression(shape.strings, self._rules)] if shape.strings else [],
            "array": arrays,
            "object": objects,
        }

    def _object(self, place: Place, object_set: ObjectSet, member: Callable[[Node], Expression | None]) -> Expression:
        more = place[1], self._strings, self._exploration.names, self._rules
        if self._refuse_order is not None:
            try:
                return object_expression(object_set, member, *more, any_order=True)
            except TooManySetsError:
                self._refuse_order(place[0])
        return object_expression(object_set, member, *more)
