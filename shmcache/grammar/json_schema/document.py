"""The schema document: its schemas, where each stands, and what a reference in it means.

Owns schema ids, base URIs, anchors and JSON pointers. Must never know what a keyword demands of an instance.

Equal schemas under one base URI get one id, so that what is worked out for one is found by the other. Retrieval is not
done: a reference to another document is an :class:`UnsupportedError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.schema_keywords import DATA, SCHEMA, SCHEMAS, UNDER_KEYWORD
from shmcache.limits import Budget

TRUE = 0
"""Id of the schema ``true``."""
FALSE = 1
"""Id of the schema ``false``."""

_DRAFT = re.compile(r"^https?://json-schema\.org/draft(?:-0?(\d+)|/20(?:19-09|20-12))/schema#?$")
_INDEX = re.compile(r"0|[1-9][0-9]*")
_UNKNOWN_DRAFT = 2020


@dataclass(frozen=True, slots=True)
class Place:
    """A schema (an object or a boolean), its JSON pointer in the document, and the base URI of its references."""

    schema: dict[str, Any] | bool
    pointer: str
    base: str


class Document:
    """All schemas of one parsed document, by id. Raises :class:`SourceError` where it is not a schema at all."""

    def __init__(self, root: Any, budget: Budget) -> None:
        self._budget = budget
        self._structures = _Structures()
        self._places = [Place(True, "", ""), Place(False, "", "")]
        self._ids: dict[tuple[int, str], int] = {}
        self._complements: dict[tuple[int, ...], int] = {}
        self._complemented: dict[int, tuple[int, ...]] = {}
        self._index = _Index(root, budget)
        self.draft = self._index.draft
        self.root = self.schema_id(root, "", "")

    def place(self, schema_id: int) -> Place:
        """The schema of that id and where it stands (for equal schemas: the first one met)."""
        return self._places[schema_id]

    def schema_id(self, schema: Any, pointer: str, base: str) -> int:
        """The id of a schema of this document, or of a schema made up on its behalf."""
        if schema is True or schema is False:
            return TRUE if schema else FALSE
        if not isinstance(schema, dict):
            raise SourceError(f"a schema is an object or a boolean, not {_kind(schema)}", pointer=pointer)
        if not schema:
            return TRUE
        base = self._index.base_of(schema, base)
        key = (self._structures.of(schema), base)
        known = self._ids.get(key)
        if known is None:
            self._budget.spend_edges()
            known = self._ids[key] = len(self._places)
            self._places.append(Place(schema, pointer, base))
        return known

    def constant_id(self, value: Any, pointer: str) -> int:
        """The id of the schema that admits ``value`` only."""
        return self.schema_id({"const": value}, pointer, "")

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
            known = self._complements[schema_ids] = len(self._places)
            self._complemented[known] = schema_ids
            self._places.append(Place(True, self._places[schema_ids[0]].pointer, ""))
        return known

    def complemented(self, schema_id: int) -> tuple[int, ...] | None:
        """The schemas of which :meth:`complement_id` made this one; None for one of the document."""
        return self._complemented.get(schema_id)

    def resolve(self, reference: str, place: Place, pointer: str) -> int:
        """The id of the schema that ``reference``, standing at ``place``, means; ``pointer`` is that of the keyword."""
        uri, fragment = place.base, reference[1:]
        if not reference.startswith("#"):
            uri, fragment = urldefrag(urljoin(place.base, reference))
        resource = self._index.resources.get(uri)
        if resource is None:
            raise UnsupportedError(
                f"the reference {reference!r} leads to another document", feature="$ref", pointer=pointer
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            target = self._index.anchors.get((uri, fragment))
            if target is None:
                raise SourceError(f"the reference {reference!r} leads nowhere: no such anchor", pointer=pointer)
            return self.schema_id(target.schema, target.pointer, target.base)
        schema: Any = resource.schema
        for token in fragment.split("/")[1:]:
            schema = _step(schema, token.replace("~1", "/").replace("~0", "~"), reference, pointer)
        return self.schema_id(schema, resource.pointer + fragment, uri)


def _step(value: Any, token: str, reference: str, pointer: str) -> Any:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, (list, tuple)) and _INDEX.fullmatch(token) and len(token) < 10 and int(token) < len(value):
        return value[int(token)]
    raise SourceError(f"the reference {reference!r} leads nowhere: there is no {token!r}", pointer=pointer)


def _kind(value: Any) -> str:
    for kind, name in ((str, "a string"), (bool, "a boolean"), (dict, "an object"), (type(None), "null")):
        if isinstance(value, kind):
            return name
    return "an array" if isinstance(value, (list, tuple)) else "a number"


class _Index:
    """Base URIs, resources and anchors, from one walk over all places where schemas stand."""

    def __init__(self, root: Any, budget: Budget) -> None:
        self.resources: dict[str, Place] = {}
        self.anchors: dict[tuple[str, str], Place] = {}
        self._bases: dict[int, str] = {}  # of the schemas whose base is not that of the document
        self.draft = _draft_of(root)
        if isinstance(root, bool):
            return
        if not isinstance(root, dict):
            raise SourceError(f"a schema is an object or a boolean, not {_kind(root)}", pointer="")
        self.resources[""] = Place(root, "", "")
        pending = [Place(root, "", "")]
        while pending:
            place = pending.pop()
            budget.spend_edges()
            if isinstance(place.schema, dict):
                self._add(place, pending)

    def base_of(self, schema: dict[str, Any], outer: str) -> str:
        """The base URI of a schema's references; ``outer`` is that of what it was reached from."""
        return self._bases.get(id(schema), outer)

    def _add(self, place: Place, pending: list[Place]) -> None:
        schema, base = place.schema, place.base
        assert isinstance(schema, dict)
        ignores_siblings = self.draft <= 7 and "$ref" in schema
        identifier = schema.get("id" if self.draft <= 4 else "$id")
        if isinstance(identifier, str) and not ignores_siblings:
            uri, fragment = urldefrag(urljoin(base, identifier))
            if uri != base and not identifier.startswith("#"):
                base = uri
                self.resources.setdefault(base, Place(schema, place.pointer, base))
            if fragment and self.draft <= 7:
                self.anchors.setdefault((base, fragment), Place(schema, place.pointer, base))
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str) and self.draft > 7:
                self.anchors.setdefault((base, anchor), Place(schema, place.pointer, base))
        if base:
            self._bases[id(schema)] = base
        for keyword, value in schema.items():
            role = UNDER_KEYWORD.get(keyword, DATA)
            pointer = f"{place.pointer}/{pointer_token(keyword)}"
            if role == DATA:
                continue
            if isinstance(value, dict) and role != SCHEMA:
                pending.extend(Place(inner, f"{pointer}/{pointer_token(name)}", base) for name, inner in value.items())
            elif isinstance(value, (list, tuple)) and role in (SCHEMA, SCHEMAS):
                pending.extend(Place(inner, f"{pointer}/{at}", base) for at, inner in enumerate(value))
            elif isinstance(value, dict):
                pending.append(Place(value, pointer, base))


def pointer_token(name: str) -> str:
    """``name`` as one token of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _draft_of(root: Any) -> int:
    """4, 6, 7, or a year; the newest when the document does not say."""
    declared = root.get("$schema") if isinstance(root, dict) else None
    match = _DRAFT.match(declared) if isinstance(declared, str) else None
    return int(match[1]) if match and match[1] else _UNKNOWN_DRAFT


class _Structures:
    """A number for every JSON value, equal for equal values with equal order of members (hash consing)."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []  # objects whose identity is a key above

    def of(self, value: Any) -> int:
        stack = [value]
        while stack:
            here = stack[-1]
            if id(here) in self._known:
                stack.pop()
                continue
            inner = here.values() if isinstance(here, dict) else here
            missing = [one for one in inner if isinstance(one, (dict, list, tuple)) and id(one) not in self._known]
            if missing:
                stack.extend(missing)
                continue
            parts = tuple(map(self._part, inner))
            key = (tuple(here), parts) if isinstance(here, dict) else parts
            self._known[id(here)] = self._numbers.setdefault(key, len(self._numbers))
            self._alive.append(here)
            stack.pop()
        return self._known[id(value)]

    def _part(self, value: Any) -> Any:
        if isinstance(value, (dict, list, tuple)):
            return self._known[id(value)]
        if isinstance(value, (float, Decimal)):
            return Decimal, str(value)
        return type(value), value
