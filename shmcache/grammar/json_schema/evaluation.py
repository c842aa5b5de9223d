"""Which members and items other keywords of a schema evaluate, for ``unevaluatedProperties`` and ``unevaluatedItems``.

Owns the cases in which more or less is evaluated, and the reduction of each to additional properties and further items.
Must never know how an instance is spelt.

Evaluated is what the schema itself speaks of, and what those that apply in place and hold speak of. Whether those under
``anyOf``, ``oneOf``, ``if`` and ``dependentSchemas`` hold depends on the instance. The more of them hold, the less is
unevaluated: so an instance is valid if, and only if, all of *some* set of conditions are true of it, and what is
unevaluated where just these are true satisfies the keyword. Nothing need be said of the other conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shmcache.errors import UnsupportedError
from shmcache.grammar.json_schema.arrays import ArraySet
from shmcache.grammar.json_schema.document import FALSE, TRUE, Document
from shmcache.grammar.json_schema.keywords import Keywords, references_of
from shmcache.grammar.json_schema.nodes import ANYTHING, Node, Openness
from shmcache.grammar.json_schema.objects import ANY_OBJECT, Layer, ObjectSet
from shmcache.grammar.json_schema.strings import Strings
from shmcache.limits import Budget

CASES_MAX = 256
"""Most cases that are told apart for one keyword."""

_VISITS_MAX = 4096


class NotStaticError(Exception):
    """What is evaluated depends on the instance in too many ways, or on another document. The message says why."""


@dataclass(frozen=True, slots=True)
class Holds:
    """A schema is satisfied. Of those with one ``only_of``, a schema with ``oneOf``, just one is."""

    schema_id: int
    only_of: int | None = None


@dataclass(frozen=True, slots=True)
class Fails:
    """A schema is not satisfied: that under ``if`` in the schema ``holder``."""

    schema_id: int
    holder: int


@dataclass(frozen=True, slots=True)
class Has:
    """There is a member of that name."""

    name: str


Condition = Holds | Fails | Has
Conditions = frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What is evaluated: members by name and pattern, the first items, those that satisfy a schema of ``contains``.

    is_all: all members, or all items.
    """

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    item_count: int = 0
    contains: frozenset[int] = frozenset()
    is_all: bool = False

    def joined(self, other: Evaluated) -> Evaluated:
        """What either evaluates."""
        if self.is_all or other.is_all:
            return Evaluated(is_all=True)
        return Evaluated(
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.item_count, other.item_count),
            self.contains | other.contains,
        )

    def covers(self, other: Evaluated) -> bool:
        """Whether it is plain that all that ``other`` evaluates is evaluated."""
        return self.joined(other) == self


def unevaluated_objects(evaluated: Evaluated, node: Node) -> ObjectSet:
    """Objects whose unevaluated members satisfy ``node``."""
    if evaluated.is_all:
        return ANY_OBJECT
    patterns = tuple((pattern, ANYTHING) for pattern in sorted(evaluated.patterns))
    return ObjectSet(openness=Openness.STATED, layers=(Layer(evaluated.names, patterns, node),))


def unevaluated_arrays(evaluated: Evaluated, node: Node) -> ArraySet:
    """Arrays whose unevaluated items satisfy ``node``, in which the schemas of ``contains`` are provided for."""
    if evaluated.is_all:
        return ArraySet()
    return ArraySet((ANYTHING,) * evaluated.item_count, node, Openness.STATED)


def evaluation_cases(
    document: Document, schema_id: int, keyword: str, strings: Strings, budget: Budget
) -> dict[Conditions, Evaluated]:
    """By sets of conditions, what the other keywords evaluate where these are true.

    Raises :class:`NotStaticError`, and :class:`UnsupportedError` for a pattern.
    """
    found = _Collection(document, keyword, strings, budget).of(schema_id)
    cases: dict[Conditions, Evaluated] = {frozenset(): found.pop(frozenset(), Evaluated())}
    for conditions, evaluated in found.items():
        for known, so_far in tuple(cases.items()):
            together = known | conditions
            if not so_far.covers(evaluated) and _is_possible(together):
                cases[together] = cases.get(together, so_far).joined(evaluated)
            if len(cases) > CASES_MAX:
                raise NotStaticError("what is evaluated depends on the instance in too many ways")
    return {
        conditions: evaluated
        for conditions, evaluated in cases.items()
        if not any(other < conditions and more.covers(evaluated) for other, more in cases.items())
    }


def _is_possible(conditions: Conditions) -> bool:
    failing = {one.schema_id for one in conditions if isinstance(one, Fails)}
    only: dict[int, int] = {}
    for one in conditions:
        if isinstance(one, Holds):
            if one.schema_id in failing:
                return False
            if one.only_of is not None and only.setdefault(one.only_of, one.schema_id) != one.schema_id:
                return False
    return True


class _Collection:
    """What the schemas that may apply in place evaluate, by the conditions on which they do."""

    def __init__(self, document: Document, keyword: str, strings: Strings, budget: Budget) -> None:
        self._document = document
        self._keyword = keyword
        self._is_of_members = keyword == "unevaluatedProperties"
        self._strings = strings
        self._budget = budget

    def of(self, root: int) -> dict[Conditions, Evaluated]:
        found: dict[Conditions, Evaluated] = {}
        pending: list[tuple[int, Conditions]] = [(root, frozenset())]
        seen = set(pending)
        while pending:
            schema_id, conditions = pending.pop()
            schema = self._document.place(schema_id).schema
            if not isinstance(schema, dict):
                continue
            self._budget.spend_edges()
            keywords = Keywords(self._document, self._document.place(schema_id))
            evaluated = self._own(keywords, is_root=schema_id == root)
            if evaluated != Evaluated():
                found[conditions] = found.get(conditions, Evaluated()).joined(evaluated)
            for inner, further in self._in_place(schema_id, keywords):
                entry = (inner, conditions | further)
                if inner not in (TRUE, FALSE) and entry not in seen and _is_possible(entry[1]):
                    seen.add(entry)
                    pending.append(entry)
            if len(seen) > _VISITS_MAX:
                raise NotStaticError("what is evaluated depends on the instance in too many ways")
        return found

    def _own(self, keywords: Keywords, *, is_root: bool) -> Evaluated:
        """What the keywords of one schema evaluate by themselves."""
        draft = self._document.draft_of(keywords.place)
        if draft <= 7 and "$ref" in keywords:
            return Evaluated()
        if self._keyword in keywords and not is_root:
            return Evaluated(is_all=True)
        return self._members(keywords) if self._is_of_members else self._items(keywords, draft)

    def _members(self, keywords: Keywords) -> Evaluated:
        patterns = keywords.map("patternProperties")
        for pattern in patterns:
            self._strings.learn_pattern(pattern, keywords.pointer("patternProperties", pattern))
        names = frozenset(keywords.map("properties"))
        return (
            Evaluated(names, frozenset(patterns)) if "additionalProperties" not in keywords else Evaluated(is_all=True)
        )

    def _items(self, keywords: Keywords, draft: int) -> Evaluated:
        schema = keywords.schema
        is_tuple = isinstance(schema.get("items"), (list, tuple))
        if ("items" in schema and not is_tuple) or (is_tuple and "additionalItems" in schema):
            return Evaluated(is_all=True)
        lists = (schema.get(name) for name in ("items", "prefixItems"))
        count = max((len(one) for one in lists if isinstance(one, (list, tuple))), default=0)
        contains = "contains" in schema and draft >= 2020
        return Evaluated(item_count=count, contains=frozenset((keywords.child("contains"),) if contains else ()))

    def _in_place(self, schema_id: int, keywords: Keywords) -> Iterator[tuple[int, Conditions]]:
        """The schemas that may apply to the same value, and on which conditions."""
        draft = self._document.draft_of(keywords.place)
        for name in references_of(draft):
            try:
                yield from ((one, frozenset()) for one in keywords.referred(name))
            except UnsupportedError:
                raise NotStaticError("a reference leads to another document") from None
        if draft <= 7 and "$ref" in keywords:
            return
        for name in ("allOf", "anyOf", "oneOf"):
            for one in keywords.children(name) if name in keywords else ():
                condition = Holds(one, schema_id if name == "oneOf" else None)
                yield one, frozenset() if name == "allOf" else frozenset((condition,))
        if "if" in keywords:
            tested = keywords.child("if")
            yield tested, frozenset((Holds(tested),))
            if "then" in keywords:
                yield keywords.child("then"), frozenset((Holds(tested),))
            if "else" in keywords:
                yield keywords.child("else"), frozenset((Fails(tested, schema_id),))
        if self._is_of_members:
            for name, one in keywords.dependent_children():
                yield one, frozenset((Has(name),))
