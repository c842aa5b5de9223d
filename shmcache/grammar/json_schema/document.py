"""The schema document: its schemas, and what a reference in it means.

Owns schema ids, JSON pointers and the dynamic scope of schemas. Must never know what a keyword demands of an instance.

Equal schemas under one base URI and in one dynamic scope get one id, so that what is worked out for one is found by the
other. Retrieval is not done: a reference to another document than the standard's own is an :class:`UnsupportedError`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.json_schema.resources import RECURSIVE, Place, Resources, Scope, not_a_schema
from shmcache.limits import Budget

TRUE = 0
"""Id of the schema ``true``."""
FALSE = 1
"""Id of the schema ``false``."""

_INDEX = re.compile(r"0|[1-9][0-9]*")


class Document:
    """All schemas of one parsed document, by id. Raises :class:`SourceError` where it is not a schema at all."""

    def __init__(self, root: Any, budget: Budget) -> None:
        self._budget = budget
        self._structures = _Structures()
        self._places = [Place(True, "", ""), Place(False, "", "")]
        self._ids: dict[tuple[int, str, Scope], int] = {}
        self._complements: dict[tuple[int, ...], int] = {}
        self._complemented: dict[int, tuple[int, ...]] = {}
        self._unions: dict[tuple[int, ...], int] = {}
        self._united: dict[int, tuple[int, ...]] = {}
        self._resources = Resources(root, budget)
        self.has_unevaluated = self._resources.has_unevaluated
        self.root = self.schema_id(root, "", "")

    def place(self, schema_id: int) -> Place:
        """The schema of that id and where it stands (for equal schemas: the first one met)."""
        return self._places[schema_id]

    def draft_of(self, place: Place) -> int:
        """4, 6, 7, or a year: the draft that the schema is written in."""
        return self._resources.draft_of(place.base)

    def schema_id(self, schema: Any, pointer: str, base: str, scope: Scope = ()) -> int:
        """The id of a schema of this document, or of a schema made up on its behalf.

        ``base`` and ``scope`` are those of what it was reached from.
        """
        if schema is True or schema is False:
            return TRUE if schema else FALSE
        if not isinstance(schema, dict):
            raise not_a_schema(schema, pointer)
        if not schema:
            return TRUE
        base = self._resources.base_of(schema, base)
        scope = self._resources.entered(scope, base)
        key = (self._structures.of(schema), base, scope)
        known = self._ids.get(key)
        if known is None:
            self._budget.spend_edges()
            known = self._ids[key] = self._add(Place(schema, pointer, base, scope))
        return known

    def _add(self, place: Place) -> int:
        self._places.append(place)
        return len(self._places) - 1

    def constant_id(self, value: Any, pointer: str) -> int:
        """The id of the schema that admits ``value`` only."""
        return self.schema_id({"const": value}, pointer, "")

    def without_id(self, schema_id: int, keywords: tuple[str, ...]) -> int:
        """The id of the same schema without these keywords."""
        place = self._places[schema_id]
        if not isinstance(place.schema, dict):
            return schema_id
        rest = {name: value for name, value in place.schema.items() if name not in keywords}
        return self.schema_id(rest, place.pointer, place.base, place.scope)

    def complement_id(self, schema_ids: tuple[int, ...]) -> int:
        """The id of a schema, made up here, that admits what does not satisfy all of these schemas."""
        if not schema_ids or FALSE in schema_ids:
            return TRUE if schema_ids else FALSE
        inner = self._complemented.get(schema_ids[0]) if len(schema_ids) == 1 else None
        if inner is not None and len(inner) == 1:
            return inner[0]
        known = self._complements.get(schema_ids)
        if known is None:
            self._budget.spend_edges()
            known = self._complements[schema_ids] = self._add(Place(True, self._places[schema_ids[0]].pointer, ""))
            self._complemented[known] = schema_ids
        return known

    def complemented(self, schema_id: int) -> tuple[int, ...] | None:
        """The schemas of which :meth:`complement_id` made this one; None for one of the document."""
        return self._complemented.get(schema_id)

    def union_id(self, schema_ids: tuple[int, ...]) -> int:
        """The id of a schema, made up here, that admits what satisfies any of these schemas."""
        if TRUE in schema_ids:
            return TRUE
        listed = tuple(dict.fromkeys(one for one in schema_ids if one != FALSE))
        if len(listed) < 2:
            return listed[0] if listed else FALSE
        known = self._unions.get(listed)
        if known is None:
            self._budget.spend_edges()
            known = self._unions[listed] = self._add(Place(True, self._places[listed[0]].pointer, ""))
            self._united[known] = listed
        return known

    def united(self, schema_id: int) -> tuple[int, ...] | None:
        """The schemas of which :meth:`union_id` made this one; None for one of the document."""
        return self._united.get(schema_id)

    def resolve(self, reference: str, place: Place, pointer: str) -> int:
        """The id of the schema that ``reference``, standing at ``place``, means; ``pointer`` is that of the keyword."""
        uri, fragment = _target(reference, place)
        resource = self._resources.find(uri)
        if resource is None:
            message = f"the reference {reference!r} leads to another document"
            raise UnsupportedError(message, feature=pointer.rpartition("/")[2], pointer=pointer)
        if fragment and not fragment.startswith("/"):
            target = self._resources.anchors.get((uri, fragment))
            if target is None:
                raise SourceError(f"the reference {reference!r} leads nowhere: no such anchor", pointer=pointer)
            return self._at(target, place)
        schema: Any = resource.schema
        for token in fragment.split("/")[1:]:
            schema = _step(schema, token.replace("~1", "/").replace("~0", "~"), reference, pointer)
        return self.schema_id(schema, resource.pointer + fragment, uri, place.scope)

    def resolve_dynamic(self, reference: str, place: Place, pointer: str) -> int:
        """The same for ``$dynamicRef``: a dynamic anchor is that of the outermost resource in scope that has it."""
        target = self._resources.dynamic_anchor(*_target(reference, place), place.scope)
        return self.resolve(reference, place, pointer) if target is None else self._at(target, place)

    def resolve_recursive(self, reference: str, place: Place, pointer: str) -> int:
        """The same for ``$recursiveRef``, whose only value is ``#``."""
        if reference != "#":
            raise SourceError("the value of '$recursiveRef' must be '#'", pointer=pointer)
        target = self._resources.dynamic_anchor(place.base, RECURSIVE, place.scope)
        return self.resolve(reference, place, pointer) if target is None else self._at(target, place)

    def _at(self, target: Place, source: Place) -> int:
        return self.schema_id(target.schema, target.pointer, target.base, source.scope)


def _target(reference: str, place: Place) -> tuple[str, str]:
    """The URI of the resource that a reference leads to, and the fragment."""
    if reference.startswith("#"):
        return place.base, unquote(reference[1:])
    uri, fragment = urldefrag(urljoin(place.base, reference))
    return uri, unquote(fragment)


def _step(value: Any, token: str, reference: str, pointer: str) -> Any:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, (list, tuple)) and _INDEX.fullmatch(token) and len(token) < 10 and int(token) < len(value):
        return value[int(token)]
    raise SourceError(f"{reference} leads nowhere: there is no {token!r}", pointer=pointer)


class _Structures:
    """A number for every JSON value, equal for equal values with equal order of members (hash consing)."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []  # objects whose identity is a key above

    def of(self, value: Any) -> int:
        known = self._known.get(id(value))
        if known is not None:
            return known
        containers = [value]
        for here in containers:  # grows while it is walked
            inner = here.values() if isinstance(here, dict) else here
            containers += [one for one in inner if isinstance(one, (dict, list, tuple)) and id(one) not in self._known]
        for here in reversed(containers):  # what is inside comes first
            parts = tuple(map(self._part, here.values() if isinstance(here, dict) else here))
            key = (tuple(here), parts) if isinstance(here, dict) else parts
            self._known[id(here)] = self._numbers.setdefault(key, len(self._numbers))
        self._alive += containers
        return self._known[id(value)]

    def _part(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, (dict, list, tuple)):
            return self._known[id(value)]
        if isinstance(value, (float, Decimal)):
            return Decimal, str(value)
        return type(value), value
