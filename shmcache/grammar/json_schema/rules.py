"""The rules of the grammar under construction, among them those that every JSON grammar has.

Owns the naming of rules and the generic ones: string, number, integer, value, object, array. Their bodies depend on the
layout only, so that their rows are found again by other grammars. Must never know a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from shmcache.grammar import ir
from shmcache.grammar.ir import NOTHING, Choice, Expression, Grammar, Literal, Reference, Regular
from shmcache.grammar.json_schema.expressions import repeat, sequence
from shmcache.grammar.json_schema.layout import LEVEL_MAX, Layout
from shmcache.grammar.json_schema.number_automata import any_integer, any_number
from shmcache.grammar.json_schema.spelling import Spelling
from shmcache.grammar.json_schema.string_automata import any_name
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.operations import everything

ROOT = "root"
_NAMES = ("names", "other name")


class Rules:
    """Rules by name; the generic ones are added when they are first asked for.

    ``prefix`` begins the names of all rules but those defined by name, where grammars are made of several such sets.
    """

    def __init__(
        self,
        layout: Layout,
        budget: Budget | None = None,
        prefix: str = "",
        spelling: Spelling | None = None,
    ) -> None:
        self.layout = layout
        self.spelling = spelling or Spelling()
        self._prefix = prefix
        self.budget = budget or Budget()
        self._bodies: dict[str, Expression] = {}
        self._shared: set[str] = set()
        self._base: set[str] = set()
        self._names: dict[Hashable, str] = {}

    def define(self, name: str, body: Expression) -> None:
        """Gives a rule its body."""
        self._bodies[name] = body

    def shared(self, what: Hashable, make_body: Callable[[], Expression]) -> Reference:
        """A call of the rule for ``what``, which other grammars may have too; its body is made at the first call."""
        name = self._names.get(what)
        if name is None:
            kind = what[0] if isinstance(what, tuple) else what
            name = self._names[what] = f"{self._prefix}{kind}_{len(self._names)}".replace(" ", "_")
            self._shared.add(name)
            self._bodies[name] = make_body()
            self._add_base(kind)
        return Reference(name)

    def _add_base(self, kind: object) -> None:
        """The rule beside which masks inside rules of this kind are worked out, be it called or not."""
        if kind == "string":
            self._base.add(self.string().rule)
        elif kind in _NAMES and not self.spelling.mark:
            self._base.add(self._generic("json_name", lambda: Regular(self.spelling.quoted(any_name()))).rule)

    def kept(self, expression: Expression) -> Expression:
        """The same expression; a rule that it calls is never made part of its callers."""
        if isinstance(expression, Reference):
            self._shared.add(expression.rule)
        return expression

    def part(self, expression: Expression) -> Reference:
        """A call of a rule that is the expression."""
        return self.shared(("part", expression), lambda: expression)

    def grammar(self, warnings: tuple[ir.Warning, ...]) -> Grammar:
        """The grammar of all rules defined."""
        return Grammar(dict(self._bodies), ROOT, frozenset(self._shared), frozenset(self._base), warnings)

    def string(self) -> Reference:
        """Any JSON string."""
        return self._generic("json_string", lambda: Regular(self.spelling.any_string()))

    def name(self) -> Reference:
        """Any name, with what stands around it."""
        if not self.spelling.mark:
            return self.string()
        return self._generic("bare_name", lambda: Regular(self.spelling.bare_names(everything(ANY))))

    def number(self) -> Reference:
        """Any JSON number."""
        return self._small("json_number", Regular(any_number()))

    def integer(self, *, shortest: bool) -> Reference:
        """Any integer."""
        return self._small("json_integer", Regular(any_integer(shortest)))

    def value(self, level: int) -> Reference:
        """Any JSON value, whose members are at ``level``."""
        return self._generic(self._at("json_value", level), lambda: self._value_body(level))

    def object(self, level: int) -> Reference:
        """Any JSON object, whose members are at ``level``."""
        return self._generic(self._at("json_object", level), lambda: self._object_body(level))

    def array(self, level: int) -> Reference:
        """Any JSON array, whose items are at ``level``."""
        return self._generic(self._at("json_array", level), lambda: self._array_body(level))

    def _at(self, name: str, level: int) -> str:
        return f"{name}_{level}" if self.layout.depends_on_level else name

    def _generic(self, name: str, make_body: Callable[[], Expression]) -> Reference:
        name = self._prefix + name
        if name not in self._names:
            self._names[name] = name  # first: the body may call the rule itself
            self._shared.add(name)
            self._bodies[name] = make_body()
        return Reference(name)

    def _small(self, name: str, body: Expression) -> Reference:
        """Rules of a few narrow states are better made part of their callers than kept as calls."""
        name = self._prefix + name
        self._bodies[name] = body
        return Reference(name)

    def _value_body(self, level: int) -> Expression:
        words = (Literal(b"true"), Literal(b"false"), Literal(b"null"))
        return Choice((self.string(), self.number(), self.object(level), self.array(level), *words))

    def _object_body(self, level: int) -> Expression:
        member: Expression | None = None
        if self._may_nest(level):
            member = sequence(self.name(), self.layout.colon, self.value(self._below(level)))
        return self._container(b"{", b"}", member, level)

    def _array_body(self, level: int) -> Expression:
        return self._container(b"[", b"]", self.value(self._below(level)) if self._may_nest(level) else None, level)

    def _may_nest(self, level: int) -> bool:
        return not self.layout.depends_on_level or level <= LEVEL_MAX

    def _below(self, level: int) -> int:
        return level + 1 if self.layout.depends_on_level else level

    def _container(self, opening: bytes, closing: bytes, member: Expression | None, level: int) -> Expression:
        if member is None:
            return Literal(opening + closing)
        more = repeat(sequence(self.layout.comma(level), member), 0, None)
        return self.brackets(opening, closing, sequence(member, more), level, may_be_empty=True)

    def brackets(
        self, opening: bytes, closing: bytes, members: Expression | None, level: int, *, may_be_empty: bool
    ) -> Expression:
        """A container around ``members`` (at least one); None: around nothing."""
        empty = sequence(self.layout.empty, Literal(closing))
        if members is None:
            return sequence(Literal(opening), empty) if may_be_empty else NOTHING
        full = sequence(self.layout.begin(level), members, self.layout.end(level), Literal(closing))
        return sequence(Literal(opening), Choice((empty, full)) if may_be_empty else full)
