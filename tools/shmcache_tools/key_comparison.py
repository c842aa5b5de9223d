"""Why two sources have one key or two.

Owns the search for the first difference between canonical sources. Must never compile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shmcache.grammar.key import Source

NO_VOCABULARY = bytes(32)
"""Stands for the vocabulary where none is named: which one it is makes no difference between two sources."""

EXCERPT_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference that matters: ``what`` differs (``kind``, ``option``, ``text``), ``where``, and both sides.

    ``where`` is the option's name, a JSON pointer, or line and column.
    """

    what: str
    where: str
    first: str
    second: str
    note: str = ""


def first_difference(first: Source, second: Source) -> Difference | None:
    """None when the two have one key for every vocabulary."""
    if first.kind != second.kind:
        return Difference("kind", "", first.kind, second.kind)
    options, others = dict(first.options), dict(second.options)
    for name in sorted({*options, *others}):
        if options.get(name) != others.get(name):
            return Difference("option", name, json.dumps(options.get(name)), json.dumps(others.get(name)))
    if first.text == second.text:
        return None
    if first.kind in ("json_schema", "structural_tag"):
        return _json_difference(_parsed(first.text), _parsed(second.text), "")
    return _text_difference(first.text, second.text)


class _Number(str):
    """A number as it is spelt: 1.0 is not 1."""

    __slots__ = ()


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=_Number, parse_int=_Number)


def _json_difference(first: Any, second: Any, pointer: str) -> Difference | None:
    """The first difference in document order. As deep as schemas nest, which is bounded."""
    stack = [(first, second, pointer)]
    while stack:
        one, other, where = stack.pop()
        if type(one) is not type(other) or not isinstance(one, dict | list):
            if type(one) is not type(other) or one != other:
                return Difference("text", where or "/", _excerpt(one), _excerpt(other))
            continue
        if isinstance(one, dict):
            if list(one) != list(other):
                return _members_difference(list(one), list(other), where)
            pairs = [(one[name], other[name], f"{where}/{_escaped(name)}") for name in one]
        else:
            if len(one) != len(other):
                note = "lists of different lengths"
                return Difference("text", where or "/", _excerpt(one), _excerpt(other), note)
            pairs = [(a, b, f"{where}/{place}") for place, (a, b) in enumerate(zip(one, other, strict=True))]
        stack += reversed(pairs)
    return None


def _members_difference(one: list[str], other: list[str], where: str) -> Difference:
    only_one = [name for name in one if name not in other]
    only_other = [name for name in other if name not in one]
    if only_one or only_other:
        note = "members that only one has"
        return Difference("text", where or "/", ", ".join(only_one) or "–", ", ".join(only_other) or "–", note)
    note = "the same names in another order: properties come in the order in which they are listed"
    place = next(place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return Difference("text", where or "/", one[place], other[place], note)


def _text_difference(first: str, second: str) -> Difference:
    shorter = min(len(first), len(second))
    place = next((place for place in range(shorter) if first[place] != second[place]), shorter)
    line = first.count("\n", 0, place) + 1
    column = place - first.rfind("\n", 0, place)
    sides = [side[max(0, place - 10) : place + EXCERPT_CHARACTERS] or "the end" for side in (first, second)]
    return Difference("text", f"line {line}, column {column}", *map(_visible, sides))


def _visible(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text


def _excerpt(value: Any) -> str:
    text = value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= EXCERPT_CHARACTERS else text[: EXCERPT_CHARACTERS - 1] + "…"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
