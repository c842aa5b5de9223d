"""Structural tags as objects, under the names of XGrammar.

Owns one class a format, whose fields are those of its JSON. Must never know what a format means, nor check what is in a
field: the reader of structural tags does, and says where. XGrammar's own objects, and any other pydantic objects with
the same fields, may be used in their place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Self

from shmcache.compat.xgrammar.exception import InvalidJSONError, InvalidStructuralTagError
from shmcache.errors import ShmCacheError
from shmcache.grammar.canonical_json import parse_json

Format = Any
"""One of the classes below, or data of the same shape."""


class _Model:
    """What XGrammar's classes offer of pydantic, as far as users of structural tags need it."""

    @classmethod
    def model_validate(cls, obj: dict[str, Any]) -> Self:
        """The object with these fields, whose values stay plain data."""
        try:
            return cls(**obj)
        except TypeError as error:
            raise InvalidStructuralTagError(f"this is no {cls.__name__}: {error}") from error

    @classmethod
    def model_validate_json(cls, json_data: str) -> Self:
        """The object that a text stands for."""
        return cls.model_validate(_parsed(json_data))

    def model_dump(self, *, by_alias: bool = False) -> dict[str, Any]:
        """The plain data of this object and of all in it."""
        return {_name(one.name, by_alias): _plain(getattr(self, one.name), by_alias) for one in fields(self)}  # type: ignore[arg-type]

    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = False) -> str:
        """The JSON of this object and of all in it."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self.model_dump(by_alias=by_alias), indent=indent, separators=separators, ensure_ascii=False)


def _name(name: str, by_alias: bool) -> str:
    return name.removesuffix("_") if by_alias else name


def _plain(value: Any, by_alias: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one, by_alias) for one in value]
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    return value if dump is None else dump(by_alias=by_alias)


@dataclass(kw_only=True)
class ConstStringFormat(_Model):
    """Exactly this text."""

    type: str = "const_string"
    value: str


@dataclass(kw_only=True)
class JSONSchemaFormat(_Model):
    """An instance of a schema, in a style."""

    type: str = "json_schema"
    json_schema: bool | dict[str, Any]
    style: str = "json"
    any_order: bool = False
    max_whitespace_cnt: int | None = None
    excludes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class QwenXMLParameterFormat(_Model):
    """The style ``qwen_xml`` under an older name."""

    type: str = "qwen_xml_parameter"
    json_schema: bool | dict[str, Any]


@dataclass(kw_only=True)
class AnyTextFormat(_Model):
    """Any text."""

    type: str = "any_text"
    excludes: list[str] = field(default_factory=list)
    max_tokens: int | None = None
    max_chars: int | None = None


@dataclass(kw_only=True)
class GrammarFormat(_Model):
    """A text of a grammar."""

    type: str = "grammar"
    grammar: str
    syntax: str = "ebnf"


@dataclass(kw_only=True)
class RegexFormat(_Model):
    """A text that a pattern matches as a whole."""

    type: str = "regex"
    pattern: str


@dataclass(kw_only=True)
class TokenFormat(_Model):
    """One token, taken whole."""

    type: str = "token"
    token: int | str


@dataclass(kw_only=True)
class ExcludeTokenFormat(_Model):
    """One token that is not among these."""

    type: str = "exclude_token"
    exclude_tokens: list[int | str] = field(default_factory=list)


@dataclass(kw_only=True)
class AnyTokensFormat(_Model):
    """Any number of tokens that are not among these."""

    type: str = "any_tokens"
    exclude_tokens: list[int | str] = field(default_factory=list)
    max_tokens: int | None = None


@dataclass(kw_only=True)
class SequenceFormat(_Model):
    """One after the other."""

    type: str = "sequence"
    elements: list[Format]


@dataclass(kw_only=True)
class OrFormat(_Model):
    """Any one of them."""

    type: str = "or"
    elements: list[Format]


@dataclass(kw_only=True)
class TagFormat(_Model):
    """The content between a beginning and an end."""

    type: str = "tag"
    begin: str | TokenFormat
    content: Format
    end: str | list[str] | TokenFormat


@dataclass(kw_only=True)
class TriggeredTagsFormat(_Model):
    """Free text in which a trigger demands a tag."""

    type: str = "triggered_tags"
    triggers: list[str]
    tags: list[TagFormat]
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class TokenTriggeredTagsFormat(_Model):
    """The same, of tokens."""

    type: str = "token_triggered_tags"
    trigger_tokens: list[int | str]
    tags: list[TagFormat]
    exclude_tokens: list[int | str] = field(default_factory=list)
    at_least_one: bool = False
    stop_after_first: bool = False


@dataclass(kw_only=True)
class TagsWithSeparatorFormat(_Model):
    """Tags and nothing but a separator between them."""

    type: str = "tags_with_separator"
    tags: list[TagFormat]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


@dataclass(kw_only=True)
class OptionalFormat(_Model):
    """At most once."""

    type: str = "optional"
    content: Format


@dataclass(kw_only=True)
class PlusFormat(_Model):
    """At least once."""

    type: str = "plus"
    content: Format


@dataclass(kw_only=True)
class StarFormat(_Model):
    """Any number of times."""

    type: str = "star"
    content: Format


@dataclass(kw_only=True)
class RepeatFormat(_Model):
    """So many times; a ``max`` of -1 is without end."""

    type: str = "repeat"
    min: int
    max: int
    content: Format


@dataclass(kw_only=True)
class DispatchFormat(_Model):
    """Free text in which a format must follow a pattern."""

    type: str = "dispatch"
    rules: list[tuple[str, Format]]
    loop: bool = True
    excludes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class TokenDispatchFormat(_Model):
    """The same, of tokens."""

    type: str = "token_dispatch"
    rules: list[tuple[int | str, Format]]
    loop: bool = True
    exclude_tokens: list[int | str] = field(default_factory=list)


class StructuralTagItem:
    """A tag of the older interface; ``schema`` is text, a document or a pydantic class."""

    def __init__(self, *, begin: str, schema: Any, end: str) -> None:
        self.begin = begin
        self.schema_ = schema
        self.end = end

    def model_dump(self, *, by_alias: bool = False) -> dict[str, Any]:
        """The plain data of this object."""
        return {"begin": self.begin, "schema" if by_alias else "schema_": self.schema_, "end": self.end}


@dataclass(kw_only=True)
class StructuralTag(_Model):
    """A whole structural tag."""

    type: str = "structural_tag"
    format: Format

    @staticmethod
    def from_legacy_structural_tag(tags: list[StructuralTagItem], triggers: list[str]) -> StructuralTag:
        """The tag that tags and triggers of the older interface mean."""
        listed = [
            TagFormat(begin=tag.begin, content=JSONSchemaFormat(json_schema=_schema(tag.schema_)), end=tag.end)
            for tag in tags
        ]
        return StructuralTag(format=TriggeredTagsFormat(triggers=list(triggers), tags=listed))

    @staticmethod
    def from_json(json_str: str | dict[str, Any]) -> StructuralTag:
        """The tag that a text or a document stands for; its format stays plain data until it is compiled."""
        if isinstance(json_str, str):
            json_str = _parsed(json_str)
        if not isinstance(json_str, dict) or json_str.keys() - {"type"} != {"format"}:
            raise InvalidStructuralTagError("a structural tag is a JSON object with a format")
        if json_str.get("type", "structural_tag") != "structural_tag":
            raise InvalidStructuralTagError('the type of a structural tag is "structural_tag"', pointer="/type")
        return StructuralTag(format=json_str["format"])


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except ShmCacheError as error:
        raise InvalidJSONError(error.message) from error


def _schema(schema: Any) -> Any:
    if isinstance(schema, str):
        return _parsed(schema)
    make_schema = getattr(schema, "model_json_schema", None)
    return schema if make_schema is None else make_schema()
