"""How the templates of models write the arguments of a tool call: the table of styles.

Owns the texts around names and values. Must never know schemas, nor how an object becomes an expression.

A style writes the members of one object as elements, one after the other: what begins an element, the name, what
stands between name and value, the value, and what closes the element. Strings are written as they are, other values as
JSON. Some styles tell the type of the value between name and value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

TYPES = ("null", "boolean", "number", "string", "array", "object")


@dataclass(frozen=True, slots=True)
class Group:
    """Values of some types: what stands between name and value, free whitespace between its parts.

    ``is_padded``: free whitespace may stand around the value.
    """

    types: tuple[str, ...]
    opening: tuple[str, ...]
    is_padded: bool = True


@dataclass(frozen=True, slots=True)
class Style:
    """``begin`` comes before the name, ``close`` behind the value. No name holds a character of ``never_in_names``."""

    name: str
    begin: str
    groups: tuple[Group, ...]
    close: str
    never_in_names: str


def _untyped(*opening: str) -> tuple[Group, ...]:
    return (Group(TYPES, opening),)


def _marked_strings(opening: str) -> tuple[Group, ...]:
    others = tuple(one for one in TYPES if one != "string")
    return (
        Group(("string",), (f'" string="true"{opening}',), is_padded=False),
        Group(others, (f'" string="false"{opening}',)),
    )


_DSML = "｜DSML｜"

STYLES: Mapping[str, Style | None] = MappingProxyType(
    {
        "json": None,
        "qwen_xml": Style("qwen_xml", "<parameter=", _untyped(">"), "</parameter>", ">"),
        "minimax_xml": Style("minimax_xml", '<parameter name="', _untyped('">'), "</parameter>", '"'),
        "deepseek_xml": Style(
            "deepseek_xml", f'<{_DSML}parameter name="', _marked_strings(">"), f"</{_DSML}parameter>", '"'
        ),
        "deepseek_v4_1_xml": Style(
            "deepseek_v4_1_xml", f'<{_DSML} parameter name="', _marked_strings(">"), f"</{_DSML} parameter>", '"'
        ),
        "glm_xml": Style("glm_xml", "<arg_key>", _untyped("</arg_key>", "<arg_value>"), "</arg_value>", "<"),
        "kimi_k3_xml": Style(
            "kimi_k3_xml",
            '<|open|>argument key="',
            tuple(Group((one,), (f'" type="{one}"<|sep|>',)) for one in TYPES),
            "<|close|>argument<|sep|>",
            '"',
        ),
        "gemma": None,
    }
)
"""Name → style; None: JSON, or nearly."""

UNSUPPORTED_STYLES = ("minimax_m3_xml", "cohere_xml")
"""Styles that write nested values as elements of their own."""

MARKS = {"gemma": '<|"|>'}
"""Styles that are JSON but for names, which have no quotes, and strings, which stand as they are between marks."""
