"""The table of formats: which there are, and what each one's fields hold.

Owns the table and the value a format is read into. Must never know how a document is read, nor what a format means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any


class Holds(Enum):
    """What a field holds."""

    TEXT = "a text"
    TEXTS = "a list of texts that are not empty"
    TRIGGERS = "a list of texts that are not empty, at least one"
    COUNT = "null or an integer from 0 to 2147483647"
    MINIMUM = "an integer from 0 to 2147483647"
    MAXIMUM = "an integer from 0 to 2147483647, or -1"
    FLAG = "true or false"
    TOKEN = "a token: its id, or its text, which is not empty"
    TOKENS = "a list of tokens: ids, or texts that are not empty"
    TRIGGER_TOKENS = "a list of tokens, at least one"
    BEGIN = "a text or a token format"
    END = "a text, a list of texts that is not empty, or a token format"
    SCHEMA = "a JSON Schema"
    STYLE = "the name of a style"
    SYNTAX = "the name of a syntax"
    FORMAT = "a format"
    FORMATS = "a list of formats, at least one"
    TAGS = "a list of tag formats, at least one"
    RULES = "a list of pairs of a text and a format, at least one"
    TOKEN_RULES = "a list of pairs of a token and a format, at least one"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a format; one without ``default`` must be present."""

    holds: Holds
    default: Any = None
    is_required: bool = False


def _needed(holds: Holds) -> Field:
    return Field(holds, is_required=True)


_NO = Field(Holds.FLAG, default=False)
_NONE = Field(Holds.TEXTS, default=())
_NO_TOKENS = Field(Holds.TOKENS, default=())
_FREELY = Field(Holds.COUNT)

FORMATS: Mapping[str, Mapping[str, Field]] = MappingProxyType(
    {
        "const_string": {"value": _needed(Holds.TEXT)},
        "json_schema": {
            "json_schema": _needed(Holds.SCHEMA),
            "style": Field(Holds.STYLE, default="json"),
            "any_order": _NO,
            "max_whitespace_cnt": _FREELY,
            "excludes": _NONE,
        },
        "qwen_xml_parameter": {"json_schema": _needed(Holds.SCHEMA)},
        "any_text": {"excludes": _NONE, "max_tokens": _FREELY, "max_chars": _FREELY},
        "grammar": {"grammar": _needed(Holds.TEXT), "syntax": Field(Holds.SYNTAX, default="ebnf")},
        "regex": {"pattern": _needed(Holds.TEXT)},
        "token": {"token": _needed(Holds.TOKEN)},
        "exclude_token": {"exclude_tokens": _NO_TOKENS},
        "any_tokens": {"exclude_tokens": _NO_TOKENS, "max_tokens": _FREELY},
        "sequence": {"elements": _needed(Holds.FORMATS)},
        "or": {"elements": _needed(Holds.FORMATS)},
        "tag": {"begin": _needed(Holds.BEGIN), "content": _needed(Holds.FORMAT), "end": _needed(Holds.END)},
        "triggered_tags": {
            "triggers": _needed(Holds.TRIGGERS),
            "tags": _needed(Holds.TAGS),
            "at_least_one": _NO,
            "stop_after_first": _NO,
            "excludes": _NONE,
        },
        "token_triggered_tags": {
            "trigger_tokens": _needed(Holds.TRIGGER_TOKENS),
            "tags": _needed(Holds.TAGS),
            "exclude_tokens": _NO_TOKENS,
            "at_least_one": _NO,
            "stop_after_first": _NO,
        },
        "tags_with_separator": {
            "tags": _needed(Holds.TAGS),
            "separator": _needed(Holds.TEXT),
            "at_least_one": _NO,
            "stop_after_first": _NO,
        },
        "optional": {"content": _needed(Holds.FORMAT)},
        "plus": {"content": _needed(Holds.FORMAT)},
        "star": {"content": _needed(Holds.FORMAT)},
        "repeat": {
            "min": _needed(Holds.MINIMUM),
            "max": _needed(Holds.MAXIMUM),
            "content": _needed(Holds.FORMAT),
        },
        "dispatch": {
            "rules": _needed(Holds.RULES),
            "loop": Field(Holds.FLAG, default=True),
            "excludes": _NONE,
        },
        "token_dispatch": {
            "rules": _needed(Holds.TOKEN_RULES),
            "loop": Field(Holds.FLAG, default=True),
            "exclude_tokens": _NO_TOKENS,
        },
    }
)
"""Type → its fields. All members of a format but ``type`` are in it."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format that was read: its type, where it stands, its checked fields, and the formats in it.

    ``fields`` has every field but those that hold formats. Lists are tuples; of a field with rules it has the tuple of
    what begins them. A token is an id or a text; ``begin`` and ``end`` are ir.Tokens, or a text and a tuple of texts.
    ``children`` are places in the list of all formats, in the order of the document, each behind its parent.
    """

    type: str
    pointer: str
    fields: Mapping[str, Any]
    children: tuple[int, ...] = ()
    schema_pointer: str = ""
