"""Structural tags as users hand them over, brought to plain data.

Owns the Python objects that are understood: text, parsed documents, pydantic objects, and the pair of tags and triggers
of the legacy interface. Must never know what a format means: the hit path of every client runs through here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shmcache.errors import SourceError
from shmcache.grammar.canonical_json import parse_json


def plain_tag(tag: Any, triggers: Iterable[str] | None) -> dict[str, Any]:
    """The document as plain data. With ``triggers``, ``tag`` is the list of tags that they start.

    Raises :class:`SourceError` for text that is not JSON and for objects that stand for no JSON object.
    """
    if triggers is not None:
        if isinstance(triggers, str) or not isinstance(triggers, Iterable):
            raise SourceError(f"triggers must be a list of texts, not a Python {type(triggers).__name__}")
        return {"type": "structural_tag", "structures": _structures(tag), "triggers": list(triggers)}
    document = parse_json(tag) if isinstance(tag, str) else _plain(tag)
    if not isinstance(document, dict):
        raise SourceError(f"a structural tag cannot be read from a Python {type(tag).__name__}")
    if "structures" in document:
        document = {**document, "structures": _structures(document["structures"])}
    elif not _is_json(document.get("format")):
        document = {**document, "format": _plain(document["format"])}
    return document


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, (dict, list, tuple, str, int, float))


def _plain(value: Any) -> Any:
    """The data of a pydantic object, under the names that its JSON has; anything else as it is."""
    if _is_json(value) or isinstance(value, type):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(by_alias=True)
    dump_json = getattr(value, "model_dump_json", None)
    return value if dump_json is None else parse_json(dump_json())


def _structures(structures: Any) -> Any:
    if isinstance(structures, (str, dict)) or not isinstance(structures, Iterable):
        return structures  # the reader says what is wrong with it
    return [_with_plain_schema(_plain(one)) for one in structures]


def _with_plain_schema(structure: Any) -> Any:
    """A legacy tag, whose schema may also be a text or a pydantic model."""
    if not isinstance(structure, dict):
        return structure
    schema = structure.get("schema")
    if isinstance(schema, str):
        return {**structure, "schema": parse_json(schema)}
    make_schema = getattr(schema, "model_json_schema", None)
    return structure if make_schema is None else {**structure, "schema": make_schema()}
