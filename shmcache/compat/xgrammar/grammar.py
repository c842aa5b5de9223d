"""``Grammar`` of XGrammar: a source, checked, that any compiler compiles.

Owns how sources are put together: a concatenation or union of grammars is a structural tag of them. Must never know a
vocabulary.
"""

from __future__ import annotations

from typing import Any

from shmcache.compat.xgrammar import serialization
from shmcache.compat.xgrammar.exception import (
    DeserializeFormatError,
    InvalidGrammarError,
    InvalidJSONError,
    InvalidStructuralTagError,
    MisuseError,
    not_offered,
    translated,
)
from shmcache.errors import ShmCacheError
from shmcache.grammar.canonical_json import parse_json
from shmcache.grammar.key import Source
from shmcache.limits import COMPILE_SECONDS_MAX, Budget

_PLAIN_SCHEMA_OPTIONS = {
    "any_whitespace": True,
    "canonical_numbers": True,
    "indent": None,
    "on_unsupported": "error",
    "separators": None,
    "strict_mode": True,
}
"""Options of schemas in structural tags; ``any_order`` and ``max_whitespace_cnt`` may be chosen there too."""


_CONTAINER = {"anyOf": [{"type": "object", "additionalProperties": True}, {"type": "array", "items": True}]}


def builtin_json_source() -> Source:
    """What XGrammar takes for JSON as such: an object or an array. :func:`shmcache.connect` knows any JSON value."""
    return Source.json_schema(_CONTAINER)


class Grammar:
    """A grammar that is sure to be well-formed. Immutable; not yet compiled for a vocabulary."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        """Checks the source: raises what a compile would raise for it, before any vocabulary is known."""
        with translated(InvalidStructuralTagError if source.kind == "structural_tag" else InvalidGrammarError):
            source.grammar(Budget(seconds_max=COMPILE_SECONDS_MAX))
        self._source = source

    @property
    def source(self) -> Source:
        """The source itself."""
        return self._source

    @staticmethod
    def from_ebnf(ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """A grammar in the GBNF dialect."""
        with translated():
            return Grammar(Source.ebnf(ebnf_string, root_rule_name))

    @staticmethod
    def from_json_schema(
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        print_converted_ebnf: bool = False,
        any_order: bool = False,
    ) -> Grammar:
        """The instances of a JSON Schema: text, a document, or a pydantic class.

        With ``any_order`` required members are still required, and declared names occur once.
        """
        if print_converted_ebnf:
            raise not_offered("print_converted_ebnf", "schemas are not converted to EBNF")
        return Grammar(
            schema_source(
                schema,
                any_whitespace=any_whitespace,
                indent=indent,
                separators=separators,
                strict_mode=strict_mode,
                max_whitespace_cnt=max_whitespace_cnt,
                any_order=any_order,
            )
        )

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """The texts that a regular expression matches as a whole."""
        if print_converted_ebnf:
            raise not_offered("print_converted_ebnf", "regular expressions are not converted to EBNF")
        with translated():
            return Grammar(Source.regex(regex_string))

    @staticmethod
    def from_lark(
        lark_string: str, *, tokenizer_info: Any = None, named_grammars: dict[str, Any] | None = None
    ) -> Grammar:
        """Not offered."""
        raise not_offered("Grammar.from_lark", "write the grammar in EBNF, or as a structural tag")

    @staticmethod
    def from_structural_tag(*args: Any, **kwargs: Any) -> Grammar:
        """The texts of a structural tag: ``(structural_tag)``, or ``(tags, triggers)`` of the older interface."""
        return Grammar(tag_source(args, kwargs))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """Any JSON object or array."""
        return Grammar(builtin_json_source())

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """A text of each grammar, one after the other."""
        return _combined("sequence", grammars)

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """A text of any of the grammars."""
        return _combined("or", grammars)

    def serialize_json(self) -> str:
        """The source as JSON; :meth:`deserialize_json` restores it."""
        options = [[name, list(value) if isinstance(value, tuple) else value] for name, value in self._source.options]
        content = {"source_kind": self._source.kind, "text": self._source.text, "options": options}
        return serialization.write("grammar", content)

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """The grammar that :meth:`serialize_json` wrote."""
        return read_grammar(json_string)

    def __str__(self) -> str:
        """The source as it was written; schemas and expressions are not converted to EBNF."""
        return self._source.text if self._source.kind == "ebnf" else f"# {self._source.kind}\n{self._source.text}"

    def __repr__(self) -> str:
        return f"<Grammar from {self._source.kind}, {len(self._source.text)} characters>"


def grammar_of(source: Source) -> Grammar:
    """The grammar of a source that was compiled, so is known to be well-formed."""
    grammar = object.__new__(Grammar)
    grammar._source = source
    return grammar


def schema_source(schema: Any, **options: Any) -> Source:
    """The source of a schema, or the errors that XGrammar has for what is none."""
    if isinstance(schema, str):
        with translated(InvalidJSONError):
            schema = parse_json(schema)
    elif not isinstance(schema, (dict, bool)) and not hasattr(schema, "model_json_schema"):
        raise MisuseError(f"a JSON Schema is text, a dictionary or a pydantic class, not {type(schema).__name__}")
    with translated():
        return Source.json_schema(schema, **options)


def tag_source(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Source:
    """The source of a structural tag, out of the arguments of one of the two interfaces."""
    names = ("tags", "triggers") if len(args) == 2 or "tags" in kwargs else ("structural_tag",)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or given.keys() != set(names) or len(args) + len(kwargs) != len(names):
        raise TypeError("the arguments are a structural tag, or tags and triggers")
    if len(names) == 2:
        if not isinstance(given["tags"], list) or not isinstance(given["triggers"], list):
            raise TypeError("tags and triggers are lists")
        with translated(InvalidStructuralTagError):
            return Source.structural_tag(given["tags"], given["triggers"])
    tag = given["structural_tag"]
    if isinstance(tag, str):
        with translated(InvalidJSONError):
            tag = parse_json(tag)
        if not isinstance(tag, dict):
            raise InvalidStructuralTagError("a structural tag is a JSON object", pointer="")
    elif not isinstance(tag, dict) and not hasattr(tag, "model_dump"):
        raise TypeError(f"a structural tag is text, a dictionary or a StructuralTag, not {type(tag).__name__}")
    with translated(InvalidStructuralTagError):
        return Source.structural_tag(tag)


def read_grammar(text: str) -> Grammar:
    """The grammar out of what :meth:`Grammar.serialize_json` wrote."""
    content = serialization.read("grammar", text, {"source_kind": str, "text": str, "options": list})
    try:
        options: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content["options"]
        }
        kind, body = content["source_kind"], content["text"]
        if kind == "json_schema":
            return Grammar(Source.json_schema(body, **options))
        if kind == "ebnf":
            return Grammar(Source.ebnf(body, **options))
        makers: dict[str, Any] = {"regex": Source.regex, "structural_tag": Source.structural_tag}
        if options or kind not in makers:
            raise TypeError(f"there is no source {kind} with {len(options)} options")
        return Grammar(makers[kind](body))
    except (ShmCacheError, TypeError, ValueError) as error:
        raise DeserializeFormatError(f"this is no grammar: {error}") from error


def _combined(kind: str, grammars: tuple[Grammar, ...]) -> Grammar:
    if not grammars:
        raise MisuseError("at least one grammar is needed")
    if not all(isinstance(one, Grammar) for one in grammars):
        raise TypeError("what is put together are grammars")
    if len(grammars) == 1:
        return grammars[0]
    tag = {"type": "structural_tag", "format": {"type": kind, "elements": [_format(one.source) for one in grammars]}}
    with translated(InvalidGrammarError):
        return Grammar(Source.structural_tag(tag))


def _format(source: Source) -> Any:
    """The format of a structural tag that means the same as a source."""
    if source.kind == "structural_tag":
        document = parse_json(source.text)
        if "format" not in document:
            raise not_offered("parts of tags and triggers of the older interface", "use a StructuralTag")
        return document["format"]
    if source.kind == "regex":
        return {"type": "regex", "pattern": source.text}
    options = dict(source.options)
    if source.kind == "ebnf":
        if options["root_rule_name"] != "root":
            raise not_offered("parts whose first rule is not named root", "rename the rule")
        return {"type": "grammar", "grammar": source.text}
    for name, value in _PLAIN_SCHEMA_OPTIONS.items():
        if options[name] != value:
            raise not_offered(f"parts that are schemas with {name}={options[name]!r}")
    chosen = {name: options[name] for name in ("any_order", "max_whitespace_cnt")}
    return {"type": "json_schema", "json_schema": parse_json(source.text), **chosen}
