"""What ``serialize_json`` writes and ``deserialize_json`` reads.

Owns the envelope: a JSON object with a version and the kind of what it holds. What is read back is a source or a
vocabulary, never compiled data, which would have to be trusted.
"""

from __future__ import annotations

import json
from typing import Any

from shmcache.compat.xgrammar.config import SERIALIZATION_VERSION
from shmcache.compat.xgrammar.exception import DeserializeFormatError, DeserializeVersionError, InvalidJSONError
from shmcache.errors import ShmCacheError
from shmcache.grammar.canonical_json import parse_json

_VERSION = "__VERSION__"


def write(kind: str, content: dict[str, Any]) -> str:
    """The text of ``content``."""
    return json.dumps({_VERSION: SERIALIZATION_VERSION, "kind": kind, **content}, separators=(",", ":"))


def read(kind: str, text: str, fields: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The content that :func:`write` was given, which has these fields."""
    try:
        document = parse_json(text)
    except ShmCacheError as error:
        raise InvalidJSONError(error.message) from error
    if not isinstance(document, dict) or document.get(_VERSION) != SERIALIZATION_VERSION:
        found = document.get(_VERSION) if isinstance(document, dict) else None
        raise DeserializeVersionError(f"the version must be {SERIALIZATION_VERSION!r}, not {found!r}")
    if document.get("kind") != kind or document.keys() != {_VERSION, "kind", *fields}:
        raise DeserializeFormatError(f"this is no {kind}")
    for name, types in fields.items():
        if not isinstance(document[name], types):
            raise DeserializeFormatError(f"the field {name} of a {kind} has the wrong type")
    return document
