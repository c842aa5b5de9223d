"""The resources of a schema document: base URIs, anchors and drafts, from one walk over all places of schemas.

Owns where each schema stands and what the identifiers in a document name. Must never know ids of schemas, nor what a
keyword demands of an instance.

The metaschemas of the standard, and the parts they are made of, are resources of every document, read when a reference
leads there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag, urljoin

from shmcache.errors import SourceError
from shmcache.grammar.schema_keywords import DATA, SCHEMA, SCHEMAS, UNDER_KEYWORD
from shmcache.limits import Budget

Scope = tuple[tuple[str, str], ...]
"""A dynamic scope: for each name of a dynamic anchor, the outermost resource with it that evaluation has entered."""

RECURSIVE = "#"
"""The name that stands for ``$recursiveAnchor`` among dynamic anchors; no anchor can be called so."""

_DRAFT = re.compile(r"^https?://json-schema\.org/draft(?:-0?(\d+)|/(20(?:19|20))-(?:09|12))/schema#?$")
_UNKNOWN_DRAFT = 2020
_OF_THE_STANDARD = re.compile(r"https?://json-schema\.org/draft[-/]")


@dataclass(frozen=True, slots=True)
class Place:
    """A schema (an object or a boolean), its JSON pointer in the document, and the base URI of its references.

    In a resource of the standard the pointer follows its URI. ``scope``: the dynamic scope, the resource's own anchors
    included.
    """

    schema: dict[str, Any] | bool
    pointer: str
    base: str
    scope: Scope = ()


class Resources:
    """What the identifiers in a document name. Raises :class:`SourceError` where it is not a schema at all."""

    def __init__(self, root: Any, budget: Budget) -> None:
        self.anchors: dict[tuple[str, str], Place] = {}
        """By the URI of the resource and the name."""
        self.has_unevaluated = False
        """Whether ``unevaluatedProperties`` or ``unevaluatedItems`` occur."""
        self._budget = budget
        self._resources: dict[str, Place] = {}
        self._dynamic: dict[str, dict[str, Place]] = {}  # by resource and name
        self._bases: dict[int, str] = {}  # of the schemas whose base is not that of the document
        self._drafts = {"": _draft_of(root, _UNKNOWN_DRAFT)}
        if isinstance(root, bool):
            return
        if not isinstance(root, dict):
            raise not_a_schema(root, "")
        self._resources[""] = Place(root, "", "")
        self._walk(self._resources[""])

    def find(self, uri: str) -> Place | None:
        """The resource of that URI; None where it is not in the document, nor part of the standard."""
        if uri not in self._resources and _OF_THE_STANDARD.match(uri):
            schema = _of_the_standard(uri)
            if schema is not None:
                self._drafts[uri] = _draft_of(schema, _UNKNOWN_DRAFT)
                self._resources[uri] = Place(schema, f"{uri}#", uri)
                self._walk(self._resources[uri])
        return self._resources.get(uri)

    def base_of(self, schema: dict[str, Any], outer: str) -> str:
        """The base URI of a schema's references; ``outer`` is that of what it was reached from."""
        return self._bases.get(id(schema), outer)

    def draft_of(self, base: str) -> int:
        """The draft that a resource declares, or else the one around it."""
        return self._drafts.get(base, self._drafts[""])

    def entered(self, scope: Scope, uri: str) -> Scope:
        """The dynamic scope where evaluation has also entered that resource."""
        anchors = self._dynamic.get(uri)
        if anchors is None:
            return scope
        known = {name for name, _ in scope}
        return tuple(sorted((*scope, *((name, uri) for name in anchors if name not in known))))

    def dynamic_anchor(self, uri: str, name: str, scope: Scope) -> Place | None:
        """The schema that a dynamic reference to an anchor of that resource means; None where it is not dynamic."""
        self.find(uri)
        if name not in self._dynamic.get(uri, {}):
            return None
        return self._dynamic[dict(scope).get(name, uri)][name]

    def _walk(self, start: Place) -> None:
        pending = [start]
        while pending:
            place = pending.pop()
            self._budget.spend_edges()
            if isinstance(place.schema, dict):
                self._add(place, pending)

    def _add(self, place: Place, pending: list[Place]) -> None:
        schema, base = place.schema, place.base
        assert isinstance(schema, dict)
        draft = _draft_of(schema, self.draft_of(base))
        ignores_siblings = draft <= 7 and "$ref" in schema
        identifier = schema.get("id" if draft <= 4 else "$id")
        if isinstance(identifier, str) and not ignores_siblings:
            uri, fragment = urldefrag(urljoin(base, identifier))
            if uri != base and not identifier.startswith("#"):
                base = uri
                self._resources.setdefault(base, Place(schema, place.pointer, base))
                self._drafts.setdefault(base, draft)
            if fragment and draft <= 7:
                self.anchors.setdefault((base, fragment), Place(schema, place.pointer, base))
        self._add_anchors(Place(schema, place.pointer, base), draft)
        self.has_unevaluated |= "unevaluatedProperties" in schema or "unevaluatedItems" in schema
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

    def _add_anchors(self, place: Place, draft: int) -> None:
        schema, base = place.schema, place.base
        assert isinstance(schema, dict)
        if draft <= 7:
            return
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self.anchors.setdefault((base, anchor), place)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(base, {}).setdefault(anchor, place)
        resource = self._resources.get(base)
        if schema.get("$recursiveAnchor") is True and resource is not None and resource.schema is schema:
            self._dynamic.setdefault(base, {})[RECURSIVE] = place


def pointer_token(name: str) -> str:
    """``name`` as one token of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def not_a_schema(value: Any, pointer: str) -> SourceError:
    """The error for what stands where a schema must."""
    return SourceError(f"a schema is an object or a boolean, not {_kind(value)}", pointer=pointer)


def _kind(value: Any) -> str:
    for kind, name in ((str, "a string"), (bool, "a boolean"), (dict, "an object"), (type(None), "null")):
        if isinstance(value, kind):
            return name
    return "an array" if isinstance(value, (list, tuple)) else "a number"


def _draft_of(schema: Any, otherwise: int) -> int:
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    match = _DRAFT.match(declared) if isinstance(declared, str) else None
    return int(match[1] or match[2]) if match else otherwise


def _of_the_standard(uri: str) -> dict[str, Any] | None:
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import NoSuchResource

    try:
        contents = REGISTRY.contents(uri)
    except NoSuchResource:
        return None
    return contents if isinstance(contents, dict) else None
