"""Is a decoded sample what its source asks for? Told without anything that compiled or decoded it.

Owns a plain validator of the JSON Schema keywords that the packaged schemas use, and a check of regular expressions
by the standard library. Must never import the compiler: it is the second opinion.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from shmcache_tools.sources import DemoSource

_ANNOTATIONS = {"title", "description", "$defs", "$schema", "$comment"}


def complaint(source: DemoSource, text: str) -> str | None:
    """Why ``text`` is not in the language of ``source``, or None.

    For EBNF, which only we read, nothing but the brackets is looked at.
    """
    if source.kind == "json_schema":
        try:
            value = json.loads(text, parse_float=Decimal)
        except ValueError as error:
            return f"not JSON: {error}"
        schema = json.loads(source.text, parse_float=Decimal)
        return _complaint(value, schema, schema, "")
    if source.kind == "regex":
        return None if re.fullmatch(source.text, text) else "the pattern does not match"
    plain = re.sub(r"'[^']*'", "", text)
    return None if plain.count("(") == plain.count(")") else "the brackets are not balanced"


def _complaint(value: Any, schema: dict[str, Any], root: dict[str, Any], where: str) -> str | None:
    for keyword, wanted in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        problem = _check(keyword, wanted, value, schema, root, where)
        if problem is not None:
            return problem
    return None


def _check(
    keyword: str, wanted: Any, value: Any, schema: dict[str, Any], root: dict[str, Any], where: str
) -> str | None:
    if keyword in _SCALAR_CHECKS:
        kind, holds = _SCALAR_CHECKS[keyword]
        return f"{keyword} at {where or '/'}" if _is_a(value, kind) and not holds(value, wanted) else None
    if keyword == "$ref":
        target: Any = root
        for part in wanted.removeprefix("#/").split("/"):
            target = target[part]
        return _complaint(value, target, root, where)
    if keyword == "anyOf":
        problems = [_complaint(value, branch, root, where) for branch in wanted]
        return None if None in problems else f"anyOf at {where or '/'}: {problems}"
    children: list[tuple[str, Any, Any]] = []
    if isinstance(value, dict):
        if keyword == "properties":
            children = [(name, value[name], wanted[name]) for name in wanted if name in value]
        elif keyword == "additionalProperties":
            children = [(name, value[name], wanted) for name in value if name not in schema.get("properties", {})]
    elif isinstance(value, list):
        first = len(schema.get("prefixItems", []))
        if keyword == "prefixItems":
            children = [
                (str(place), item, under) for place, (item, under) in enumerate(zip(value, wanted, strict=False))
            ]
        elif keyword == "items":
            children = [(str(place), item, wanted) for place, item in enumerate(value[first:], first)]
    if keyword not in {"properties", "additionalProperties", "prefixItems", "items"}:
        raise ValueError(f"this check does not know the keyword {keyword}")
    for name, child, under in children:
        problem = f"{where}/{name} must not be there" if under is False else None
        if isinstance(under, dict):
            problem = _complaint(child, under, root, f"{where}/{name}")
        if problem is not None:
            return problem
    return None


def _is_a(value: Any, kind: str) -> bool:
    is_number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    return {
        "any": True,
        "null": value is None,
        "boolean": isinstance(value, bool),
        "number": is_number,
        # Not int(value), which writes out an exponent of a million as a million digits.
        "integer": is_number and value == Decimal(value).to_integral_value(),
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }[kind]


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


_SCALAR_CHECKS: dict[str, tuple[str, Any]] = {
    "type": ("any", lambda value, kinds: any(_is_a(value, k) for k in ([kinds] if isinstance(kinds, str) else kinds))),
    "enum": ("any", lambda value, options: any(_same(value, option) for option in options)),
    "const": ("any", _same),
    "minimum": ("number", lambda value, bound: value >= bound),
    "maximum": ("number", lambda value, bound: value <= bound),
    "exclusiveMinimum": ("number", lambda value, bound: value > bound),
    "exclusiveMaximum": ("number", lambda value, bound: value < bound),
    "minLength": ("string", lambda value, bound: len(value) >= bound),
    "maxLength": ("string", lambda value, bound: len(value) <= bound),
    "pattern": ("string", lambda value, pattern: re.search(pattern, value) is not None),
    "minItems": ("array", lambda value, bound: len(value) >= bound),
    "maxItems": ("array", lambda value, bound: len(value) <= bound),
    "required": ("object", lambda value, names: all(name in value for name in names)),
}
"""For each keyword the kind of value it constrains, and whether a value of that kind satisfies it."""
