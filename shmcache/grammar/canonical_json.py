"""The canonical text of a JSON document, and the reading of one from text.

Owns parsing with exact numbers and the text in which two documents are compared. Must never know what a schema or a
structural tag means beyond where in it other schemas stand: the hit path of every client runs through here.

Spacing, ``\\u`` spellings, the order of keywords and annotations do not enter the canonical text; the order of
``properties`` does, because it is the order in which the grammar admits them. Numbers keep every digit, and ``1.0``
stays apart from ``1``, as an ``enum`` may spell it so.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.deep_json import decode_deep
from shmcache.grammar.schema_keywords import (
    ANNOTATION,
    ANNOTATIONS,
    DATA,
    SCHEMA,
    SCHEMAS,
    SORTED_SCHEMAS,
    TAG,
    TAG_SCHEMAS,
    UNDER_KEYWORD,
)
from shmcache.limits import SCHEMA_DEPTH_MAX, SOURCE_BYTES_MAX

# A reference whose pointer leads through an annotation, and not to a property or a definition that has such a name.
_REFERENCE_TO_ANNOTATION = re.compile(
    r'"\$(?:r|dynamicR)ef":"[^"#]*#[^"]*(?<!/properties)(?<!/\$defs)(?<!/definitions)/(?:'
    + "|".join(sorted(map(re.escape, ANNOTATIONS)))
    + r')[/"]'
)
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
        raise too_large()
    try:
        try:
            return _decode(text)
        except RecursionError:
            return decode_deep(text, SCHEMA_DEPTH_MAX, _unique, Decimal, _no_constant)
    except json.JSONDecodeError as error:
        raise SourceError(f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except ArithmeticError:
        raise LimitError("a number has an exponent out of all bounds", limit="integer_digits") from None
    except ValueError as error:  # the interpreter's bound on the digits of an int
        raise _too_many_digits(error) from None


def _too_many_digits(error: ValueError) -> LimitError:
    return LimitError(f"a number has too many digits: {error}", limit="integer_digits")


def too_large() -> LimitError:
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


_SORTED = (SCHEMA, SORTED_SCHEMAS, TAG)
_IN_LIST = {SCHEMA: SCHEMA, SCHEMAS: SCHEMA, TAG: TAG}

_Piece = str | tuple[Any, int, int]
"""A finished piece of text, or (value still to be written, what it is, its depth)."""


def canonical_json(document: Any, role: int) -> str:
    """The canonical text of a JSON document given as plain Python data.

    ``role`` says what it is: DATA, SCHEMA or TAG of :mod:`shmcache.grammar.schema_keywords`. Annotations of schemas are
    kept where one of them refers to a part of its own ``examples`` or the like.
    """
    text = _written(document, role, keeps_annotations=False)
    refers = '"$ref"' in text or '"$dynamicRef"' in text
    if role != DATA and refers and _REFERENCE_TO_ANNOTATION.search(text):
        return _written(document, role, keeps_annotations=True)
    return text


def _written(document: Any, role: int, *, keeps_annotations: bool) -> str:
    """The text, annotations of schemas included or not.

    Written with an explicit stack: the depth of the document never becomes the depth of the interpreter's stack.
    """
    parts: list[str] = []
    stack: list[_Piece] = [(document, role, 0)]
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
            for piece in pieces:
                if type(piece) is str:
                    size += len(piece)
            if size > SOURCE_BYTES_MAX:  # looked at on the way: plain data may hold one object many times over
                raise too_large()
            pieces.reverse()
            stack += pieces
    except TypeError:  # from sorting or spelling a name
        raise SourceError("the names of a JSON object's members must be strings") from None
    return "".join(parts)


def _object_pieces(value: dict[str, Any], role: int, depth: int, keeps_annotations: bool) -> list[_Piece]:
    pieces: list[_Piece] = []
    text, separator = "", "{"
    for name in sorted(value) if role in _SORTED else value:
        if role == SCHEMA:
            under = UNDER_KEYWORD.get(name, DATA)
            if under == ANNOTATION:
                if not keeps_annotations:
                    continue
                under = DATA
        elif role == TAG:
            under = SCHEMA if name in TAG_SCHEMAS else TAG
        else:
            under = DATA if role == DATA else SCHEMA
        member = value[name]
        if member is None and role == TAG:
            continue  # a field that is null is as if it were absent
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
    under = _IN_LIST.get(role, DATA)
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
