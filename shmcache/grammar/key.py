"""What a user asked to have compiled: the source, its canonical text, and its key.

Owns :class:`Source` and the digest under which everything else finds a grammar. Must never know what a source means,
nor anything of automata: the hit path of every client runs through here, so the imports are light.

Two sources have one key when they are sure to give one grammar; :mod:`shmcache.grammar.canonical_json` says how the
text of a schema is written for that. Where that takes longer than all else of a hit, a text has a digest of its own
beside the key, for which it need not be read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.canonical_json import canonical_json, parse_json, too_large
from shmcache.grammar.schema_keywords import SCHEMA, TAG
from shmcache.grammar.structural_tag.plain import plain_tag
from shmcache.limits import SOURCE_BYTES_MAX, STATES_MAX

if TYPE_CHECKING:
    from shmcache.grammar.ir import Grammar
    from shmcache.limits import Budget

ENGINE_VERSION = 4
"""Part of every key. Raised whenever the same source may compile to another image than before, or have another key."""

KINDS = ("json_schema", "ebnf", "regex", "structural_tag", "builtin_json")

OptionValue = str | int | bool | None | tuple[str, ...]
Options = tuple[tuple[str, OptionValue], ...]

_PYTHON = sys.version_info[:3]

# What may mean other characters with another version of Unicode: properties, and letters regardless of case; in an EBNF
# text the macro Regex, in whose string either may be escaped.
_OF_UNICODE_DATA = re.compile(r"\\[pP]|\(\?[a-z]*i|Regex")


@dataclass(frozen=True, slots=True)
class Source:
    """A source: ``kind`` (one of :data:`KINDS`), its canonical ``text``, and its ``options``, sorted by name.

    ``written`` is the JSON text that the canonical one was made of, empty where it was made of something else. It goes
    with the source to whoever compiles it, who gives the compiled grammar its :meth:`text_digest`.

    Made by the constructors below, which check and canonicalise; they raise :class:`SourceError` for malformed input
    and :class:`LimitError` for input too large or too deep.
    """

    kind: str
    text: str
    options: Options = ()
    written: str = field(default="", compare=False, repr=False)

    @staticmethod
    def json_schema(
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        canonical_numbers: bool = True,
        on_unsupported: str = "error",
        any_order: bool = False,
    ) -> Source:
        """A JSON Schema: its text, the parsed document, or a class with ``model_json_schema`` (a pydantic model)."""
        written = ""
        if isinstance(schema, str):
            written = schema
            schema = parse_json(schema)
        elif not isinstance(schema, (dict, bool)):
            make_schema = getattr(schema, "model_json_schema", None)
            if make_schema is None:
                raise SourceError(f"a JSON Schema cannot be read from a Python {type(schema).__name__}")
            schema = make_schema()
        options: Options = (
            ("any_order", bool(any_order)),
            ("any_whitespace", bool(any_whitespace)),
            ("canonical_numbers", bool(canonical_numbers)),
            ("indent", _optional_count("indent", indent)),
            ("max_whitespace_cnt", _optional_count("max_whitespace_cnt", max_whitespace_cnt)),
            ("on_unsupported", _one_of("on_unsupported", on_unsupported, ("error", "ignore"))),
            ("separators", _checked_separators(separators)),
            ("strict_mode", bool(strict_mode)),
        )
        return Source("json_schema", canonical_json(schema, SCHEMA), options, written)

    @staticmethod
    def ebnf(text: str, root_rule_name: str = "root") -> Source:
        """An EBNF grammar and the rule to begin with."""
        return Source("ebnf", _checked_text(text), (("root_rule_name", _checked_text(root_rule_name)),))

    @staticmethod
    def regex(pattern: str) -> Source:
        """A regular expression that the whole output matches."""
        return Source("regex", _checked_text(pattern))

    @staticmethod
    def structural_tag(tag: Any, triggers: Iterable[str] | None = None) -> Source:
        """A structural tag: its JSON text, the parsed document, or a pydantic object that stands for one.

        With ``triggers``, ``tag`` is the list of tags of the older interface.
        """
        written = tag if isinstance(tag, str) and triggers is None else ""
        return Source("structural_tag", canonical_json(plain_tag(tag, triggers), TAG), (), written)

    @staticmethod
    def builtin_json() -> Source:
        """Any JSON value."""
        return Source("builtin_json", "")

    def key(self, vocabulary_fingerprint: bytes) -> bytes:
        """The 32 bytes under which the compiled grammar is kept. The fingerprint covers the mask's width."""
        digest = blake2b(digest_size=32, person=b"shmcache source")
        versions = (ENGINE_VERSION, self._unicode_version())
        head = repr((versions, self.kind, self.options, vocabulary_fingerprint)).encode()
        digest.update(len(head).to_bytes(8, "little") + head)
        digest.update(_utf8(self.text))
        return digest.digest()

    def text_digest(self, vocabulary_fingerprint: bytes) -> bytes | None:
        """:func:`text_digest` of the text that this source was made of, None where it was made of something else."""
        if not self.written:
            return None
        return text_digest(self.kind, self.written, self.options, vocabulary_fingerprint)

    def canonical(self) -> Source:
        """The same, as if it were made of its canonical text."""
        return Source(self.kind, self.text, self.options)

    def _unicode_version(self) -> str | None:
        """The version of this Python's Unicode data, where the grammar may depend on it; other Pythons have others."""
        if (self.kind == "ebnf" and "Regex" not in self.text) or not _OF_UNICODE_DATA.search(self.text):
            return None
        import unicodedata

        return unicodedata.unidata_version

    def to_bytes(self) -> bytes:
        """The source as msgpack; :meth:`from_bytes` restores it. A text goes as it was written, where it was."""
        import msgpack

        _utf8(self.text)
        name, text = ("written", self.written) if _may_travel(self.written) else ("text", self.text)
        data: bytes = msgpack.packb({"kind": self.kind, name: text, "options": self.options})
        return data

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Source:
        """The source that :meth:`to_bytes` wrote. Raises :class:`SourceError` when the bytes are anything else.

        A text as it was written is read and made canonical here, so that it need not be taken on trust.
        """
        import msgpack

        if len(data) > SOURCE_BYTES_MAX + (1 << 16):
            raise too_large()
        try:
            plain = msgpack.unpackb(data, use_list=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise SourceError(f"not a source: {error}") from None
        if not isinstance(plain, dict) or plain.keys() - {"text", "written"} != {"kind", "options"} or len(plain) != 3:
            raise SourceError("not a source: its fields are not kind, text and options")
        kind, text, options = plain["kind"], plain.get("text"), plain["options"]
        written = plain.get("written", "")
        if kind not in KINDS or not isinstance(text, str | None) or not _are_options(options):
            raise SourceError("not a source: a field has the wrong type")
        if text is not None:
            return Source(kind, text, options)
        return _of_written(kind, written, options)

    def grammar(self, budget: Budget) -> Grammar:
        """The rules this source stands for. Raises the errors of its front end."""
        if self.kind == "json_schema":
            from shmcache.grammar.json_schema import JsonSchemaOptions, json_schema_grammar

            options: dict[str, Any] = dict(self.options)
            return json_schema_grammar(parse_json(self.text), JsonSchemaOptions(**options), budget)
        if self.kind == "builtin_json":
            from shmcache.grammar.json_schema import builtin_json_grammar

            return builtin_json_grammar(budget)
        if self.kind == "ebnf":
            from shmcache.grammar.ebnf import ebnf_grammar

            return ebnf_grammar(self.text, str(dict(self.options)["root_rule_name"]), budget)
        if self.kind == "regex":
            from shmcache.grammar.regex import regex_grammar

            return regex_grammar(self.text, budget)
        from shmcache.grammar.structural_tag.writer import structural_tag_grammar

        return structural_tag_grammar(parse_json(self.text), budget)


def text_digest(kind: str, text: str, options: Options, vocabulary_fingerprint: bytes) -> bytes | None:
    """32 bytes that say which grammar a JSON text stands for as it is written; None for one that has no UTF-8.

    A second, cheaper key: the same text with the same options always has the same key, in the same version of Python.
    ``options`` are those of :class:`Source`; any others than it would have are those of no source.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return None
    digest = _text_digest_begun(ENGINE_VERSION, vocabulary_fingerprint).copy()
    head = repr((kind, options)).encode()
    digest.update(len(head).to_bytes(8, "little") + head)
    digest.update(data)
    return digest.digest()


@lru_cache(maxsize=16)
def _text_digest_begun(engine_version: int, vocabulary_fingerprint: bytes) -> blake2b:
    digest = blake2b(digest_size=32, person=b"shmcache text")
    digest.update(repr((engine_version, _PYTHON, vocabulary_fingerprint)).encode())
    return digest


def _of_written(kind: str, written: Any, options: Any) -> Source:
    if isinstance(written, str) and kind == "structural_tag" and options == ():
        return Source.structural_tag(written)
    if isinstance(written, str) and kind == "json_schema":
        try:
            return Source.json_schema(written, **dict(options))
        except TypeError as error:
            raise SourceError(f"not a source: {error}") from None
    raise SourceError("not a source: it is not made of a JSON text")


def _may_travel(written: str) -> bool:
    """Whether a text as it was written is bytes, and not too many; the canonical one is in any case."""
    try:
        return 0 < len(written.encode()) <= SOURCE_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _utf8(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"the source holds a lone surrogate, {text[error.start]!r}, which has no UTF-8") from None
    if len(data) > SOURCE_BYTES_MAX:
        raise too_large()
    return data


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise SourceError(f"the source must be text, not a Python {type(text).__name__}")
    _utf8(text)
    return text


def _optional_count(name: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise SourceError(f"{name} must be None or an integer >= 0, not {value!r}")
    if value is not None and value > STATES_MAX:  # each of so many characters would take a state
        raise LimitError(f"{name} must be at most {STATES_MAX}", limit="states", value=STATES_MAX)
    return value


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise SourceError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _checked_separators(value: Iterable[str] | None) -> tuple[str, str] | None:
    if value is None:
        return None
    pair = tuple(value)
    if len(pair) == 2 and all(isinstance(one, str) for one in pair):
        item, key = pair
        if item.strip(" \t\r\n") == "," and key.strip(" \t\r\n") == ":":
            return item, key
    raise SourceError(f"separators must be a comma and a colon, each with JSON whitespace at most, not {value!r}")


def _are_options(options: Any) -> bool:
    return isinstance(options, tuple) and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and (
            pair[1] is None
            or isinstance(pair[1], (str, int))
            or (isinstance(pair[1], tuple) and all(isinstance(one, str) for one in pair[1]))
        )
        for pair in options
    )
