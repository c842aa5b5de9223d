"""What a user asked to have compiled: the source, its canonical text, and its key.

Owns :class:`Source`, the canonical form of a JSON Schema's text, and the digest under which everything else finds a
grammar. Must never know what a schema means beyond where in it other schemas stand, nor anything of automata: the hit
path of every client runs through here, so the imports are light.

Two sources have one key when they are sure to give one grammar. Spacing, ``\\u`` spellings, the order of keywords and
annotations do not enter the canonical text; the order of ``properties`` does, because it is the order in which the
grammar admits them. Numbers keep every digit, and ``1.0`` stays apart from ``1``, as an ``enum`` may spell it so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NoReturn

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.schema_keywords import (
    ANNOTATION,
    ANNOTATIONS,
    DATA,
    SCHEMA,
    SCHEMAS,
    SORTED_SCHEMAS,
    UNDER_KEYWORD,
)
from shmcache.limits import SCHEMA_DEPTH_MAX, SOURCE_BYTES_MAX, STATES_MAX

if TYPE_CHECKING:
    from shmcache.grammar.ir import Grammar
    from shmcache.limits import Budget

ENGINE_VERSION = 2
"""Part of every key. Raised whenever the same source may compile to another image than before."""

KINDS = ("json_schema", "ebnf", "regex", "structural_tag", "builtin_json")

OptionValue = str | int | bool | None | tuple[str, ...]

# A reference whose pointer leads through an annotation, and not to a property or a definition that has such a name.
_REFERENCE_TO_ANNOTATION = re.compile(
    r'"\$ref":"[^"#]*#[^"]*(?<!/properties)(?<!/\$defs)(?<!/definitions)/(?:'
    + "|".join(sorted(map(re.escape, ANNOTATIONS)))
    + r')[/"]'
)
# What may mean other characters with another version of Unicode: properties, and letters regardless of case.
_OF_UNICODE_DATA = re.compile(r"\\[pP]|\(\?[a-z]*i")
_CONSTANTS = {None: "null", True: "true", False: "false"}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise SourceError(f"the name {json.dumps(name)} occurs twice in one JSON object")
    return members


def _no_constant(name: str) -> NoReturn:
    raise SourceError(f"{name} is not a JSON value")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal, parse_constant=_no_constant).decode


def parse_json(text: str) -> Any:
    """The JSON document, numbers with a fraction or exponent as :class:`Decimal`.

    Raises :class:`SourceError` with line and column when malformed, :class:`LimitError` when too large or too deep.
    """
    if len(text) > SOURCE_BYTES_MAX:
        raise _too_large()
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise _too_deep() from None
    except ArithmeticError:
        raise LimitError("a number has an exponent out of all bounds", limit="integer_digits") from None
    except ValueError as error:  # the interpreter's bound on the digits of an int
        raise _too_many_digits(error) from None


def _too_many_digits(error: ValueError) -> LimitError:
    return LimitError(f"a number has too many digits: {error}", limit="integer_digits")


def _too_large() -> LimitError:
    return LimitError(f"the source is larger than {SOURCE_BYTES_MAX} bytes", limit="bytes", value=SOURCE_BYTES_MAX)


def _too_deep() -> LimitError:
    return LimitError(
        f"the document is nested deeper than {SCHEMA_DEPTH_MAX} levels", limit="depth", value=SCHEMA_DEPTH_MAX
    )


def _scalar_text(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or value is True or value is False:
        return _CONSTANTS[value]
    if isinstance(value, int):
        try:
            return int.__repr__(value)
        except ValueError as error:  # as in parse_json
            raise _too_many_digits(error) from None
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise SourceError(f"{value} is not a JSON value")
        return str(value)
    raise SourceError(f"a JSON document cannot hold a Python {type(value).__name__}")


_Piece = str | tuple[Any, int, int]
"""A finished piece of text, or (value still to be written, what it is, its depth)."""


def canonical_json(document: Any, *, is_schema: bool, keeps_annotations: bool = False) -> str:
    """The canonical text of a JSON document given as plain Python data; with ``is_schema``, of a JSON Schema.

    ``keeps_annotations`` is for the odd schema that refers to a part of its own ``examples`` or the like.

    Written with an explicit stack: the depth of the document never becomes the depth of the interpreter's stack.
    """
    parts: list[str] = []
    stack: list[_Piece] = [(document, SCHEMA if is_schema else DATA, 0)]
    size = 0
    try:
        while stack:
            entry = stack.pop()
            if isinstance(entry, str):
                parts.append(entry)
                continue
            value, role, depth = entry
            if depth > SCHEMA_DEPTH_MAX:
                raise _too_deep()
            if isinstance(value, dict):
                pieces = _object_pieces(value, role, depth + 1, keeps_annotations)
            elif isinstance(value, (list, tuple)):
                pieces = _list_pieces(value, role, depth + 1)
            else:
                pieces = [_scalar_text(value)]
            size += len(pieces[-1])
            if size > SOURCE_BYTES_MAX:  # looked at on the way: plain data may hold one object many times over
                raise _too_large()
            pieces.reverse()
            stack += pieces
    except TypeError:  # from sorting or spelling a name
        raise SourceError("the names of a JSON object's members must be strings") from None
    return "".join(parts)


def _object_pieces(value: dict[str, Any], role: int, depth: int, keeps_annotations: bool) -> list[_Piece]:
    pieces: list[_Piece] = []
    text, separator = "", "{"
    for name in sorted(value) if role in (SCHEMA, SORTED_SCHEMAS) else value:
        if role == SCHEMA:
            under = UNDER_KEYWORD.get(name, DATA)
            if under == ANNOTATION:
                if not keeps_annotations:
                    continue
                under = DATA
        else:
            under = DATA if role == DATA else SCHEMA
        member = value[name]
        kind = type(member)
        text += f"{separator}{encode_basestring(name)}:"
        separator = ","
        if kind is str:
            text += encode_basestring(member)
        elif kind is dict or kind is list or isinstance(member, (dict, list, tuple)):
            pieces.append(text)
            pieces.append((member, under, depth))
            text = ""
        else:
            text += _scalar_text(member)
    pieces.append(text + "}" if separator == "," else "{}")
    return pieces


def _list_pieces(value: list[Any] | tuple[Any, ...], role: int, depth: int) -> list[_Piece]:
    under = SCHEMA if role in (SCHEMA, SCHEMAS) else DATA
    pieces: list[_Piece] = []
    text, separator = "", "["
    for member in value:
        kind = type(member)
        text += separator
        separator = ","
        if kind is str:
            text += encode_basestring(member)
        elif kind is dict or kind is list or isinstance(member, (dict, list, tuple)):
            pieces.append(text)
            pieces.append((member, under, depth))
            text = ""
        else:
            text += _scalar_text(member)
    pieces.append(text + "]" if separator == "," else "[]")
    return pieces


@dataclass(frozen=True, slots=True)
class Source:
    """A source: ``kind`` (one of :data:`KINDS`), its canonical ``text``, and its ``options``, sorted by name.

    Made by the constructors below, which check and canonicalise; they raise :class:`SourceError` for malformed input
    and :class:`LimitError` for input too large or too deep.
    """

    kind: str
    text: str
    options: tuple[tuple[str, OptionValue], ...] = ()

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
    ) -> Source:
        """A JSON Schema: its text, the parsed document, or a class with ``model_json_schema`` (a pydantic model)."""
        if isinstance(schema, str):
            schema = parse_json(schema)
        elif not isinstance(schema, (dict, bool)):
            make_schema = getattr(schema, "model_json_schema", None)
            if make_schema is None:
                raise SourceError(f"a JSON Schema cannot be read from a Python {type(schema).__name__}")
            schema = make_schema()
        options: tuple[tuple[str, OptionValue], ...] = (
            ("any_whitespace", bool(any_whitespace)),
            ("canonical_numbers", bool(canonical_numbers)),
            ("indent", _optional_count("indent", indent)),
            ("max_whitespace_cnt", _optional_count("max_whitespace_cnt", max_whitespace_cnt)),
            ("on_unsupported", _one_of("on_unsupported", on_unsupported, ("error", "ignore"))),
            ("separators", _checked_separators(separators)),
            ("strict_mode", bool(strict_mode)),
        )
        text = canonical_json(schema, is_schema=True)
        if '"$ref"' in text and _REFERENCE_TO_ANNOTATION.search(text):
            text = canonical_json(schema, is_schema=True, keeps_annotations=True)
        return Source("json_schema", text, options)

    @staticmethod
    def ebnf(text: str, root_rule_name: str = "root") -> Source:
        """An EBNF grammar and the rule to begin with."""
        return Source("ebnf", _checked_text(text), (("root_rule_name", _checked_text(root_rule_name)),))

    @staticmethod
    def regex(pattern: str) -> Source:
        """A regular expression that the whole output matches."""
        return Source("regex", _checked_text(pattern))

    @staticmethod
    def structural_tag(tag: Any) -> Source:
        """A structural tag: its JSON text or the parsed document."""
        return Source(
            "structural_tag", canonical_json(parse_json(tag) if isinstance(tag, str) else tag, is_schema=False)
        )

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

    def _unicode_version(self) -> str | None:
        """The version of this Python's Unicode data, where the grammar may depend on it; other Pythons have others."""
        if self.kind not in ("json_schema", "regex") or not _OF_UNICODE_DATA.search(self.text):
            return None
        import unicodedata

        return unicodedata.unidata_version

    def to_bytes(self) -> bytes:
        """The source as msgpack; :meth:`from_bytes` restores it."""
        import msgpack

        _utf8(self.text)
        data: bytes = msgpack.packb({"kind": self.kind, "text": self.text, "options": self.options})
        return data

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Source:
        """The source that :meth:`to_bytes` wrote. Raises :class:`SourceError` when the bytes are anything else."""
        import msgpack

        if len(data) > SOURCE_BYTES_MAX + (1 << 16):
            raise _too_large()
        try:
            plain = msgpack.unpackb(data, use_list=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise SourceError(f"not a source: {error}") from None
        if not isinstance(plain, dict) or plain.keys() != {"kind", "text", "options"}:
            raise SourceError("not a source: its fields are not kind, text and options")
        kind, text, options = plain["kind"], plain["text"], plain["options"]
        if kind not in KINDS or not isinstance(text, str) or not _are_options(options):
            raise SourceError("not a source: a field has the wrong type")
        return Source(kind, text, options)

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
        raise UnsupportedError("structural tags cannot be compiled yet", feature="structural_tag", pointer="")


def _utf8(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"the source holds a lone surrogate, {text[error.start]!r}, which has no UTF-8") from None
    if len(data) > SOURCE_BYTES_MAX:
        raise _too_large()
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
