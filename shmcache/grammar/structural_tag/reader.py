"""Structural tags read: a parsed document becomes the list of its formats.

Owns the checks of every field against the table of formats, with the place of what is wrong as a JSON pointer. Must
never know what a format means. Formats being read lie on a list, not on Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Tokens
from shmcache.grammar.structural_tag.formats import FORMATS, Field, Format, Holds
from shmcache.limits import FORMAT_DEPTH_MAX, Budget

COUNT_MAX = (1 << 31) - 1

_LEGACY_FIELDS = {"type", "structures", "triggers"}
_LEGACY_TAG_FIELDS = {"begin", "schema", "end"}


def read_tag(document: Any, budget: Budget) -> list[Format]:
    """All formats of a document, the outermost one first and each behind the one it stands in.

    The legacy form, ``structures`` and ``triggers``, is read as the triggered tags that it means. Raises
    :class:`SourceError` with the pointer of the first thing that is wrong, :class:`LimitError` for formats that are
    nested too deeply.
    """
    if not isinstance(document, dict):
        _wrong("", "a structural tag is a JSON object")
    kind = document.get("type", "structural_tag")
    if kind != "structural_tag":
        _wrong("/type", 'the type of a structural tag is "structural_tag"')
    reader = _Reader(budget)
    if "structures" in document:
        reader.read_legacy(document)
    else:
        _check_members(document, {"type", "format"}, ("format",), "")
        reader.expect(document["format"], "/format")
    return reader.read_all()


@dataclass(slots=True)
class _Expected:
    """A format that is still to be read."""

    value: Any
    pointer: str
    depth: int
    is_tag: bool = False
    schema_pointer: str = ""


class _Reader:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._expected: list[_Expected] = []
        self._read: list[Format] = []
        self._depth = 0

    def expect(self, value: Any, pointer: str, *, is_tag: bool = False, schema_pointer: str = "") -> int:
        """The place that the format will have."""
        self._budget.spend_states()
        if self._depth >= FORMAT_DEPTH_MAX:
            message = f"formats are nested deeper than {FORMAT_DEPTH_MAX} levels"
            raise LimitError(message, limit="depth", value=FORMAT_DEPTH_MAX)
        self._expected.append(_Expected(value, pointer, self._depth + 1, is_tag, schema_pointer))
        return len(self._expected) - 1

    def read_all(self) -> list[Format]:
        """Reads what is expected, and what that leads to."""
        while len(self._read) < len(self._expected):
            self._read.append(self._format(self._expected[len(self._read)]))
        return self._read

    def read_legacy(self, document: dict[str, Any]) -> None:
        """The legacy form; pointers are those of the document as it stands."""
        _check_members(document, _LEGACY_FIELDS, ("structures", "triggers"), "")
        structures = document["structures"]
        if not isinstance(structures, list) or not structures:
            _wrong("/structures", "must be a list of tags, at least one")
        triggers = _CHECKS[Holds.TRIGGERS](document["triggers"], "/triggers")
        self._expected.append(_Expected(None, "", 1))
        children = []
        for at, one in enumerate(structures):
            pointer = f"/structures/{at}"
            if not isinstance(one, dict):
                _wrong(pointer, "must be a JSON object")
            _check_members(one, _LEGACY_TAG_FIELDS, ("begin", "schema", "end"), pointer)
            content = {"type": "json_schema", "json_schema": one["schema"]}
            tag = {"type": "tag", "begin": one["begin"], "content": content, "end": one["end"]}
            children.append(self.expect(tag, pointer, is_tag=True, schema_pointer=f"{pointer}/schema"))
        defaults = {name: field.default for name, field in FORMATS["triggered_tags"].items() if not field.is_required}
        fields = MappingProxyType({**defaults, "triggers": triggers})
        self._read.append(Format("triggered_tags", "", fields, tuple(children)))

    def _format(self, expected: _Expected) -> Format:
        value, pointer = expected.value, expected.pointer
        self._depth = expected.depth
        if not isinstance(value, dict):
            _wrong(pointer, "a format is a JSON object")
        kind = value.get("type", "tag" if expected.is_tag else None)
        if expected.is_tag and kind != "tag":
            _wrong(f"{pointer}/type", 'only formats of type "tag" may stand here')
        if not isinstance(kind, str) or kind not in FORMATS:
            where = f"{pointer}/type" if "type" in value else pointer
            _wrong(where, f"the type of a format must be one of {', '.join(FORMATS)}")
        table = FORMATS[kind]
        _check_members(value, {"type", *table}, [name for name, one in table.items() if one.is_required], pointer)
        schema_pointer = expected.schema_pointer or f"{pointer}/json_schema"
        fields: dict[str, Any] = {}
        children: tuple[int, ...] = ()
        for name, field in table.items():
            if field.holds in _OF_FORMATS:
                children = self._children(value[name], field, f"{pointer}/{name}", fields, expected.schema_pointer)
            elif value.get(name) is None and not field.is_required:
                fields[name] = field.default
            else:
                where = schema_pointer if field.holds == Holds.SCHEMA else f"{pointer}/{name}"
                fields[name] = _CHECKS[field.holds](value[name], where)
        return Format(kind, pointer, MappingProxyType(fields), children, schema_pointer)

    def _children(
        self, value: Any, field: Field, pointer: str, fields: dict[str, Any], schema_pointer: str
    ) -> tuple[int, ...]:
        if field.holds == Holds.FORMAT:
            return (self.expect(value, pointer, schema_pointer=schema_pointer),)
        if not isinstance(value, list) or not value:
            _wrong(pointer, f"must be {field.holds.value}")
        if field.holds not in (Holds.RULES, Holds.TOKEN_RULES):
            is_tag = field.holds == Holds.TAGS
            return tuple(self.expect(one, f"{pointer}/{at}", is_tag=is_tag) for at, one in enumerate(value))
        check = _filled_text if field.holds == Holds.RULES else _token
        triggers: list[int | str] = []
        children: list[int] = []
        for at, rule in enumerate(value):
            if not isinstance(rule, list) or len(rule) != 2:
                _wrong(f"{pointer}/{at}", "must be a pair")
            triggers.append(check(rule[0], f"{pointer}/{at}/0"))
            children.append(self.expect(rule[1], f"{pointer}/{at}/1"))
        fields["rules"] = tuple(triggers)
        return tuple(children)


_OF_FORMATS = (Holds.FORMAT, Holds.FORMATS, Holds.TAGS, Holds.RULES, Holds.TOKEN_RULES)


def _wrong(pointer: str, message: str) -> NoReturn:
    raise SourceError(f"{message} (at {pointer!r})" if pointer else message, pointer=pointer)


def _check_members(value: dict[str, Any], known: set[str], required: Any, pointer: str) -> None:
    for name in value:
        if name not in known:
            escaped = name.replace("~", "~0").replace("/", "~1")
            _wrong(f"{pointer}/{escaped}", f"unknown; known here are {', '.join(sorted(known))}")
    for name in required:
        if name not in value:
            _wrong(pointer, f"the member {name!r} is missing")


def _text(value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        _wrong(pointer, "must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        _wrong(pointer, "holds a lone surrogate, which has no UTF-8")
    return value


def _filled_text(value: Any, pointer: str) -> str:
    if not _text(value, pointer):
        _wrong(pointer, "must not be empty")
    return str(value)


def _listed(check: Callable[[Any, str], Any], *, may_be_empty: bool) -> Callable[[Any, str], Any]:
    def checked(value: Any, pointer: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            _wrong(pointer, "must be a list")
        if not value and not may_be_empty:
            _wrong(pointer, "must not be empty")
        return tuple(check(one, f"{pointer}/{at}") for at, one in enumerate(value))

    return checked


def _integer_from(minimum: int) -> Callable[[Any, str], Any]:
    def checked(value: Any, pointer: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= COUNT_MAX:
            _wrong(pointer, f"must be an integer from {minimum} to {COUNT_MAX}")
        return value

    return checked


def _flag(value: Any, pointer: str) -> bool:
    if not isinstance(value, bool):
        _wrong(pointer, "must be true or false")
    return value


def _token(value: Any, pointer: str) -> int | str:
    if isinstance(value, str):
        return _filled_text(value, pointer)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_MAX:
        _wrong(pointer, "a token is named by its id, an integer from 0, or by its text")
    return value


def _token_format(value: dict[str, Any], pointer: str) -> Tokens:
    if value.get("type", "token") != "token":
        _wrong(f"{pointer}/type", 'only a format of type "token" may stand here')
    _check_members(value, {"type", "token"}, ("token",), pointer)
    return Tokens((_token(value["token"], f"{pointer}/token"),))


def _begin(value: Any, pointer: str) -> str | Tokens:
    return _token_format(value, pointer) if isinstance(value, dict) else _text(value, pointer)


def _end(value: Any, pointer: str) -> tuple[str, ...] | Tokens:
    if isinstance(value, dict):
        return _token_format(value, pointer)
    if isinstance(value, list):
        return tuple(dict.fromkeys(_listed(_text, may_be_empty=False)(value, pointer)))
    return (_text(value, pointer),)


def _schema(value: Any, pointer: str) -> Any:
    if not isinstance(value, (dict, bool)):
        _wrong(pointer, "a JSON Schema is an object, true or false")
    return value


_CHECKS: Mapping[Holds, Callable[[Any, str], Any]] = MappingProxyType(
    {
        Holds.TEXT: _text,
        Holds.TEXTS: _listed(_filled_text, may_be_empty=True),
        Holds.TRIGGERS: _listed(_filled_text, may_be_empty=False),
        Holds.COUNT: _integer_from(0),
        Holds.MINIMUM: _integer_from(0),
        Holds.MAXIMUM: _integer_from(-1),
        Holds.FLAG: _flag,
        Holds.TOKEN: _token,
        Holds.TOKENS: _listed(_token, may_be_empty=True),
        Holds.TRIGGER_TOKENS: _listed(_token, may_be_empty=False),
        Holds.BEGIN: _begin,
        Holds.END: _end,
        Holds.SCHEMA: _schema,
        Holds.STYLE: _text,
        Holds.SYNTAX: _text,
    }
)
