"""The resources of a schema document: base URIs, anchors and drafts, from one walk over all places of schemas.

Owns where each schema stands and what the identifiers in a document name. Must never know ids of schemas, nor what a
keyword demands of an instance.

The metaschemas of the standard, and the parts they are made of, are resources of every document, read when a reference
leads there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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

_EVALUATING = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_SOUGHT = _EVALUATING | {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
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
        if _has_sought(root):
            self._walk(self._resources[""])
        else:
            self._identify(root, "", "")

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
                base = self._identify(place.schema, place.pointer, place.base)
                pending.extend(_schemas_in(place.schema, place.pointer, base))

    def _identify(self, schema: dict[str, Any], pointer: str, base: str) -> str:
        """Notes what a schema is called; returns its base URI, given that around it."""
        draft = _draft_of(schema, self.draft_of(base))
        ignores_siblings = draft <= 7 and "$ref" in schema
        identifier = schema.get("id" if draft <= 4 else "$id")
        if isinstance(identifier, str) and not ignores_siblings:
            uri, fragment = urldefrag(urljoin(base, identifier))
            if uri != base and not identifier.startswith("#"):
                base = uri
                self._resources.setdefault(base, Place(schema, pointer, base))
                self._drafts.setdefault(base, draft)
            if fragment and draft <= 7:
                self.anchors.setdefault((base, fragment), Place(schema, pointer, base))
        if draft > 7:
            self._add_anchors(Place(schema, pointer, base))
        self.has_unevaluated |= not _EVALUATING.isdisjoint(schema)
        if base:
            self._bases[id(schema)] = base
        return base

    def _add_anchors(self, place: Place) -> None:
        schema, base = place.schema, place.base
        assert isinstance(schema, dict)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self.anchors.setdefault((base, anchor), place)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(base, {}).setdefault(anchor, place)
        resource = self._resources.get(base)
        if schema.get("$recursiveAnchor") is True and resource is not None and resource.schema is schema:
            self._dynamic.setdefault(base, {})[RECURSIVE] = place


def _has_sought(root: dict[str, Any]) -> bool:
    """Whether anything below the root has, or looks as if it had, one of the keywords that a walk looks for.

    Most documents have none, and a look at all that is in them takes a fifth of the time.
    """
    pending: list[Any] = list(root.values())
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            if not _SOUGHT.isdisjoint(here) and any(map(_is_sought, here.items())):
                return True
            pending += here.values()
        elif isinstance(here, (list, tuple)):
            pending += here
    return False


def _is_sought(item: tuple[str, Any]) -> bool:
    keyword, value = item
    # Under the name of a property that is called like an identifier there is a schema.
    return keyword in _EVALUATING or (keyword in _SOUGHT and not isinstance(value, dict))


def _schemas_in(schema: dict[str, Any], outer: str, base: str) -> Iterator[Place]:
    """The places of the schemas directly under the keywords of one at the pointer ``outer``."""
    for keyword, value in schema.items():
        role = UNDER_KEYWORD.get(keyword, DATA)
        if role == DATA:
            continue
        pointer = f"{outer}/{pointer_token(keyword)}"
        if isinstance(value, dict) and role != SCHEMA:
            for name, inner in value.items():
                yield Place(inner, f"{pointer}/{pointer_token(name)}", base)
        elif isinstance(value, (list, tuple)) and role in (SCHEMA, SCHEMAS):
            for at, inner in enumerate(value):
                yield Place(inner, f"{pointer}/{at}", base)
        elif isinstance(value, dict):
            yield Place(value, pointer, base)


def pointer_token(name: str) -> str:
    """``name`` as one token of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name


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
