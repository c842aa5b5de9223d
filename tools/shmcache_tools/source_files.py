"""Sources as users write them into files: one in a file, or one JSON object a line.

Owns that format and the options on a command line. Must never compile, nor know what a source means.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from shmcache.errors import ShmCacheError, SourceError
from shmcache.grammar.canonical_json import parse_json
from shmcache.grammar.key import Source

KIND_OF_SUFFIX = {".json": "json_schema", ".ebnf": "ebnf", ".gbnf": "ebnf", ".regex": "regex", ".tag": "structural_tag"}
KINDS = ("json_schema", "ebnf", "regex", "structural_tag")
SCHEMA_OPTIONS = tuple(name for name in inspect.signature(Source.json_schema).parameters if name != "schema")
_FIELD_OF_KIND = {"json_schema": "schema", "ebnf": "ebnf", "regex": "regex", "structural_tag": "structural_tag"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file of sources; ``error`` says why it holds none. ``name`` is its ``id``, or its place."""

    place: str
    name: str
    source: Source | None
    error: ShmCacheError | None


def read_lines(path: Path, defaults: Mapping[str, Any]) -> Iterator[Line]:
    """The sources in a file, empty lines left out. Raises OSError or UnicodeDecodeError."""
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if text.strip():
                yield _line(f"{path}:{number}", text, defaults)


def _line(place: str, text: str, defaults: Mapping[str, Any]) -> Line:
    name = place
    try:
        document = parse_json(text)
        if not isinstance(document, dict):
            raise SourceError("a line holds a JSON object with a source in it")
        name = str(document.get("id", place))
        return Line(place, name, source_of_document(document, defaults), None)
    except ShmCacheError as error:
        return Line(place, name, None, error)


def source_of_document(document: Mapping[str, Any], defaults: Mapping[str, Any]) -> Source:
    """The source that ``document`` holds under ``schema``, ``regex``, ``ebnf``, ``structural_tag`` or ``builtin_json``.

    ``options`` in it go before ``defaults``, which are for JSON Schemas. Raises what :class:`Source` raises.
    """
    fields = [field for field in (*_FIELD_OF_KIND.values(), "builtin_json") if field in document]
    if len(fields) != 1:
        raise SourceError(
            f"one of schema, ebnf, regex, structural_tag and builtin_json is needed, not {fields or 'none'}"
        )
    value, options = document[fields[0]], document.get("options", {})
    if not isinstance(options, dict):
        raise SourceError("the options are a JSON object")
    if fields[0] == "schema":
        return json_schema({**defaults, **options}, value)
    if options:
        raise SourceError(f"options are for JSON Schemas: {', '.join(options)}")
    if fields[0] == "builtin_json":
        return Source.builtin_json()
    if fields[0] == "structural_tag":
        return Source.structural_tag(value, document.get("triggers"))
    if fields[0] == "regex":
        return Source.regex(value)
    return Source.ebnf(value, document.get("root_rule_name", "root"))


def json_schema(options: Mapping[str, Any], schema: Any) -> Source:
    """A JSON Schema with options as JSON has them. Raises what :meth:`Source.json_schema` raises."""
    unknown = [name for name in options if name not in SCHEMA_OPTIONS]
    if unknown:
        raise SourceError(f"no options of a JSON Schema: {', '.join(unknown)} (there are {', '.join(SCHEMA_OPTIONS)})")
    try:
        return Source.json_schema(schema, **options)
    except (TypeError, AttributeError) as error:
        raise SourceError(f"an option has a value of the wrong type: {error}") from None


def read_source(path: Path, kind: str | None, options: Mapping[str, Any]) -> Source:
    """The one source in a file; ``kind`` is told by the file's suffix where it is None.

    Raises click's errors for a file that cannot be read and a kind that nothing tells, and what :class:`Source` raises.
    """
    kind = kind or KIND_OF_SUFFIX.get(path.suffix)
    if kind is None:
        raise click.UsageError(f"{path}: say with --kind what it is; known by suffix: {', '.join(KIND_OF_SUFFIX)}")
    text = read_text(path)
    if kind == "json_schema":
        return json_schema(options, text)
    if options:
        raise click.UsageError(f"options are for JSON Schemas, and {path} is {kind}")
    # An editor's last line end is no part of an expression.
    return source_of_document({_FIELD_OF_KIND[kind]: text.removesuffix("\n") if kind == "regex" else text}, {})


def read_text(path: Path) -> str:
    """The file's text; ``-`` is standard input. Raises click's error when it cannot be read."""
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error


def parse_options(_ctx: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    """``name=value`` with values as JSON has them, or plain text; for click."""
    options: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or name not in SCHEMA_OPTIONS:
            raise click.BadParameter(f"{text!r} is not one of {', '.join(SCHEMA_OPTIONS)} with =VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
