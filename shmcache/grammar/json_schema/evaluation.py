"""Which members and items other keywords of a schema evaluate, for ``unevaluatedProperties`` and ``unevaluatedItems``.

Owns the reduction of both to additional properties and further items. Must never know how an instance is spelt.

Evaluated is what the schema itself, and those that apply in place together with it, speak of. Where that depends on the
instance (a branch of ``anyOf`` that speaks of members, say, or ``contains``), it is :class:`NotStaticError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcache.errors import UnsupportedError
from shmcache.grammar.json_schema.arrays import ArraySet
from shmcache.grammar.json_schema.document import Document
from shmcache.grammar.json_schema.keywords import Keywords
from shmcache.grammar.json_schema.nodes import ANYTHING, Node, Openness
from shmcache.grammar.json_schema.objects import Layer, ObjectSet
from shmcache.grammar.json_schema.strings import Strings


class NotStaticError(Exception):
    """What is evaluated depends on the instance. The message says why."""


@dataclass(slots=True)
class _Evaluated:
    """What a schema speaks of. ``all_properties``, ``all_items``: of every member, of every item."""

    names: dict[str, None] = field(default_factory=dict)
    patterns: dict[str, str] = field(default_factory=dict)  # with the pointer of the keyword
    item_count: int = 0
    all_properties: bool = False
    all_items: bool = False


_CONDITIONAL = ("anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies")
_ALL_PROPERTIES = ("additionalProperties", "unevaluatedProperties")
_ALL_ITEMS = ("additionalItems", "unevaluatedItems")
_OF_PROPERTIES = (*_ALL_PROPERTIES, "properties", "patternProperties")
_OF_ITEMS = (*_ALL_ITEMS, "items", "prefixItems", "contains")


def unevaluated_objects(document: Document, keywords: Keywords, node: Node, strings: Strings) -> ObjectSet | None:
    """Objects whose unevaluated members satisfy ``node``; None: there are no such members."""
    found = _collect(document, keywords, _OF_PROPERTIES, "unevaluatedProperties")
    if found.all_properties:
        return None
    for pattern, pointer in found.patterns.items():
        strings.learn_pattern(pattern, pointer)
    patterns = tuple((pattern, ANYTHING) for pattern in found.patterns)
    return ObjectSet(openness=Openness.STATED, layers=(Layer(frozenset(found.names), patterns, node),))


def unevaluated_arrays(document: Document, keywords: Keywords, node: Node) -> ArraySet | None:
    """Arrays whose unevaluated items satisfy ``node``; None: there are no such items."""
    found = _collect(document, keywords, _OF_ITEMS, "unevaluatedItems")
    if found.all_items:
        return None
    return ArraySet((ANYTHING,) * found.item_count, node, Openness.STATED)


def _collect(document: Document, root: Keywords, wanted: tuple[str, ...], keyword: str) -> _Evaluated:
    """Walks the schemas that surely apply in place."""
    result = _Evaluated()
    pending = [root]
    seen: set[int] = {id(root.schema)}
    while pending:
        here = pending.pop()
        if "$dynamicRef" in here or "$recursiveRef" in here:
            raise NotStaticError("a dynamic reference decides what is evaluated")
        _add(result, here, wanted, is_root_keyword=keyword if here is root else None)
        for inner in _children(document, here, ("allOf", "$ref")):
            if id(inner.schema) not in seen:
                seen.add(id(inner.schema))
                pending.append(inner)
        for inner in _children(document, here, _CONDITIONAL):
            _check_silent(document, inner, wanted)
    return result


def _add(result: _Evaluated, here: Keywords, wanted: tuple[str, ...], *, is_root_keyword: str | None) -> None:
    schema = here.schema
    if "contains" in wanted and "contains" in schema:
        raise NotStaticError("'contains' decides which items are evaluated")
    result.names.update(dict.fromkeys(here.map("properties")))
    for pattern in here.map("patternProperties"):
        result.patterns[pattern] = here.pointer("patternProperties", pattern)
    result.all_properties |= any(name in schema and name != is_root_keyword for name in _ALL_PROPERTIES)
    result.all_items |= any(name in schema and name != is_root_keyword for name in _ALL_ITEMS)
    for name in ("items", "prefixItems"):
        if isinstance(schema.get(name), (list, tuple)):
            result.item_count = max(result.item_count, len(schema[name]))
        elif name in schema:
            result.all_items = True


def _check_silent(document: Document, start: Keywords, wanted: tuple[str, ...]) -> None:
    """Raises unless a schema that may or may not apply, and what applies with it, evaluates nothing."""
    pending = [start]
    seen: set[int] = set()
    while pending:
        here = pending.pop()
        if id(here.schema) in seen:
            continue
        seen.add(id(here.schema))
        speaking = next((name for name in (*wanted, "$dynamicRef", "$recursiveRef") if name in here), None)
        if speaking is not None:
            raise NotStaticError(f"{here.pointer(speaking)} may or may not apply")
        pending.extend(_children(document, here, (*_CONDITIONAL, "allOf", "$ref")))


def _children(document: Document, here: Keywords, names: tuple[str, ...]) -> list[Keywords]:
    ids: list[int] = []
    for name in names:
        value = here.schema.get(name)
        if name == "$ref" and isinstance(value, str):
            try:
                ids.append(document.resolve(value, here.place, here.pointer(name)))
            except UnsupportedError:
                raise NotStaticError("a reference leads to another document") from None
        elif isinstance(value, (list, tuple)):
            ids.extend(here.children(name))
        elif name in ("dependentSchemas", "dependencies"):
            ids.extend(
                here.inner_child(name, one) for one, inner in here.map(name).items() if isinstance(inner, (dict, bool))
            )
        elif isinstance(value, dict):
            ids.append(here.child(name))
    places = (document.place(one) for one in ids)
    return [Keywords(document, place) for place in places if isinstance(place.schema, dict)]
