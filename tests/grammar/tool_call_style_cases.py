"""Objects in the styles of tool calls: one table of schemas and members, written out in every style.

Owns how each style writes a member, what schemas admit, and where XGrammar 0.2.9 answers otherwise. Must never know how
either of them works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.grammar.structural_tag_cases import Case, schema

Member = tuple[str, str] | tuple[str, str, str]
"""Name, value as written, and the type that styles tell which do; a string where it is left out."""

Members = list[Member]

DSML = "｜DSML｜"


def _qwen(name: str, value: str, _: str) -> str:
    return f"<parameter={name}>{value}</parameter>"


def _minimax(name: str, value: str, _: str) -> str:
    return f'<parameter name="{name}">{value}</parameter>'


def _deepseek(space: str) -> Callable[[str, str, str], str]:
    def write(name: str, value: str, kind: str) -> str:
        is_string = "true" if kind == "string" else "false"
        return f'<{DSML}{space}parameter name="{name}" string="{is_string}">{value}</{DSML}{space}parameter>'

    return write


def _glm(name: str, value: str, _: str) -> str:
    return f"<arg_key>{name}</arg_key>\n<arg_value>{value}</arg_value>"


def _kimi(name: str, value: str, kind: str) -> str:
    return f'<|open|>argument key="{name}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'


WRITERS = {
    "qwen_xml": _qwen,
    "minimax_xml": _minimax,
    "deepseek_xml": _deepseek(""),
    "deepseek_v4_1_xml": _deepseek(" "),
    "glm_xml": _glm,
    "kimi_k3_xml": _kimi,
}
CLOSING = {
    "qwen_xml": "</parameter>",
    "minimax_xml": "</parameter>",
    "deepseek_xml": f"</{DSML}parameter>",
    "deepseek_v4_1_xml": f"</{DSML} parameter>",
    "glm_xml": "</arg_value>",
    "kimi_k3_xml": "<|close|>argument<|sep|>",
}
MARKING = ("deepseek_xml", "deepseek_v4_1_xml")
UNTYPED = ("qwen_xml", "minimax_xml", "glm_xml")


def written(style: str, members: Members, between: str = "") -> str:
    """The members in that style."""
    write = WRITERS[style]
    return between.join(write(one[0], one[1], one[2] if len(one) == 3 else "string") for one in members)


@dataclass(frozen=True, slots=True)
class Row:
    """A schema, and what it admits in every style; ``mistyped`` only styles refuse that tell types.

    ``padded`` are admitted but in styles that mark strings, in which every character of a string counts.
    """

    name: str
    schema: Any
    accepted: tuple[Members, ...]
    rejected: tuple[Members, ...] = ()
    mistyped: tuple[Members, ...] = ()
    padded: tuple[Members, ...] = ()


def obj(required: str = "", /, *, more: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"type": "object", "properties": properties, **(more or {})}
    return {**document, "required": required.split()} if required else document


INTEGER, STRING = {"type": "integer"}, {"type": "string"}

ROWS = [
    Row(
        "string",
        obj("a", a=STRING),
        ([("a", "x")], [("a", "")], [("a", ' <b> & "c"\n é')], [("a", "12")], [("a", "{")]),
        ([], [("b", "x")], [("a", "x"), ("a", "y")]),
        ([("a", "12", "number")],),
    ),
    Row(
        "integer",
        obj("a", a=INTEGER),
        ([("a", "12", "number")], [("a", "\n -1 ", "number")]),
        ([("a", "x", "number")], [("a", '"1"', "number")], [("a", "", "number")], [("a", "1.5", "number")]),
        ([("a", "12")],),
    ),
    Row("number", obj(a={"type": "number"}), ([("a", "1.5e3", "number")], []), ([("a", "1.", "number")],)),
    Row(
        "boolean or null",
        obj(a={"type": ["boolean", "null"]}),
        ([("a", "true", "boolean")], [("a", "\nnull\n", "null")]),
        ([("a", "True", "boolean")],),
        ([("a", "true")],),
    ),
    Row(
        "order and presence",
        obj("b", a=INTEGER, b=INTEGER, c=INTEGER),
        (
            [("b", "1", "number")],
            [("a", "1", "number"), ("b", "1", "number"), ("c", "1", "number")],
            [("b", "1", "number"), ("c", "1", "number")],
        ),
        ([("a", "1", "number")], [("b", "1", "number"), ("a", "1", "number")], []),
    ),
    Row(
        "strings of an enumeration",
        obj("a", a={"type": "string", "enum": ["x", "y z", "é"]}),
        ([("a", "x")], [("a", "y z")], [("a", "é")]),
        ([("a", "z")], [("a", '"x"')], [("a", "")]),
    ),
    Row(
        "values of an enumeration",
        obj("a", a={"enum": ["x", 1, None, [2]]}),
        ([("a", "x")], [("a", "1", "number")], [("a", "null", "null")], [("a", "[2]", "array")]),
        ([("a", "2", "number")], [("a", "y")]),
        ([("a", "1")],),
    ),
    Row("constant", obj("a", a={"const": "x"}), ([("a", "x")],), ([("a", "y")],)),
    Row(
        "anchored pattern",
        obj("a", a={"type": "string", "pattern": "^a+$"}),
        ([("a", "aa")],),
        ([("a", "")], [("a", "ab")], [("a", '"a"')]),
    ),
    Row("pattern", obj("a", a={"type": "string", "pattern": "a+"}), ([("a", "aa")],), ([("a", "b")],)),
    Row(
        "lengths",
        obj("a", a={"type": "string", "minLength": 2, "maxLength": 3}),
        ([("a", "ab")], [("a", "<é>")]),
        ([("a", "a")], [("a", "abcd")], [("a", "\n\nabcd")]),
        (),
        ([("a", "\nabc\n")], [("a", "abc\n")]),
    ),
    Row("format", obj("a", a={"format": "date", "type": "string"}), ([("a", "2024-02-29")],), ([("a", "x")],)),
    Row(
        "string or integer",
        obj("a", a={"anyOf": [STRING, INTEGER]}),
        ([("a", "x")], [("a", "1", "number")]),
        (),
        ([("a", "x", "number")],),
    ),
    Row(
        "any value",
        obj("a", a={}),
        ([("a", "x")], [("a", "1", "number")], [("a", '{"b": [1]}', "object")], [("a", "false", "boolean")]),
        (),
        ([("a", "{", "object")], [("a", "x", "null")]),
    ),
    Row(
        "objects and arrays inside are JSON",
        obj("a", a=obj("b", b=STRING), c={"type": "array", "items": INTEGER}),
        (
            [("a", '{"b": "x"}', "object")],
            [("a", ' {"b":"x"} ', "object"), ("c", "[1, 2]", "array")],
        ),
        ([("a", '{"b": 1}', "object")], [("a", "{}", "object")], [("a", "<b>", "object")]),
    ),
    Row(
        "recursion",
        {"$ref": "#/$defs/t", "$defs": {"t": obj(v=STRING, n={"$ref": "#/$defs/t"})}},
        ([("v", "x"), ("n", '{"v": "y", "n": {}}', "object")], []),
        ([("n", "", "object")], [("n", '{"v": 1}', "object")]),
    ),
    Row(
        "further members",
        obj("a", a=INTEGER, more={"additionalProperties": INTEGER}),
        ([("a", "1", "number")], [("a", "1", "number"), ("b_c", "2", "number"), ("d", "3", "number")]),
        ([("b", "1", "number")], [("a", "1", "number"), ("b", "x", "number")]),
    ),
    Row(
        "no further members",
        obj(a=INTEGER, more={"additionalProperties": False}),
        ([], [("a", "1", "number")]),
        ([("b", "1", "number")],),
    ),
    Row(
        "a choice of objects",
        {"anyOf": [obj("a", a=INTEGER), obj("b", b=INTEGER)]},
        ([("a", "1", "number")], [("b", "1", "number")]),
        ([], [("a", "1", "number"), ("b", "1", "number")]),
    ),
    Row(
        "names with spaces and beyond ASCII",
        obj(**{"a b": INTEGER, "é": INTEGER}),
        ([("a b", "1", "number"), ("é", "2", "number")],),
        ([("é", "2", "number"), ("a b", "1", "number")],),
    ),
    Row("no members", {"type": "object", "properties": {}}, ([],), ([("a", "1", "number")],)),
    Row(
        "as many members as asked for",
        {"type": "object", "minProperties": 2, "additionalProperties": INTEGER},
        ([("a", "1", "number"), ("b", "1", "number")],),
        ([], [("a", "1", "number")]),
    ),
]
"""What holds in every style, XGrammar's too."""

OURS = [
    Row("pattern found anywhere", obj("a", a={"type": "string", "pattern": "a+"}), ([("a", "xax")],), ([("a", "b")],)),
    Row("dates", obj("a", a={"format": "date"}), ([("a", "2024-02-29")],), ([("a", "2023-02-29")],)),
    Row(
        "names by pattern",
        {"type": "object", "patternProperties": {"^x": INTEGER}, "additionalProperties": False},
        ([("xa", "1", "number")], []),
        ([("a", "1", "number")],),
    ),
    Row(
        "names of any letters",
        {"type": "object", "additionalProperties": INTEGER, "properties": {"a": STRING}},
        ([("b-c", "1", "number")], [("é.1", "1", "number")], [("a", "x"), ("b", "1", "number")]),
        ([("a", "1", "number"), ("a", "2", "number")], [("b c", "1", "number")], [("", "1", "number")]),
    ),
    Row(
        "a pattern that goes beyond the element",
        obj("a", a={"type": "string", "pattern": "^.*$"}),
        ([("a", "x")],),
        ([("a", "x\n\ny\x00", "string"), ("b", "")],),
    ),
    Row(
        "dependent members",
        obj(a=INTEGER, b=INTEGER, more={"dependentRequired": {"a": ["b"]}}),
        ([("b", "1", "number")], [("a", "1", "number"), ("b", "1", "number")], []),
        ([("a", "1", "number")],),
    ),
]
"""What XGrammar does not enforce, or refuses."""


def cases_of(rows: list[Row]) -> list[Case]:
    """The rows in every style."""
    return [_case(row, style) for row in rows for style in WRITERS]


def _case(row: Row, style: str) -> Case:
    accepted = [written(style, members) for members in row.accepted]
    accepted += [f"\n{written(style, members, chr(10))}\n" for members in row.accepted]
    rejected = [written(style, members) for members in row.rejected]
    rejected += [f"{written(style, members)}x" for members in row.accepted[:1]]
    mistyped = [written(style, members) for members in row.mistyped]
    padded = [written(style, members) for members in row.padded]
    if style in MARKING:
        rejected += padded
    else:
        accepted += padded
    if style not in UNTYPED:
        rejected += mistyped
    is_lax = style == "kimi_k3_xml" and row.name in LAX
    return Case(
        f"{style}: {row.name}",
        schema(row.schema, style=style),
        tuple(accepted),
        tuple(rejected),
        tuple(mistyped) if is_lax else (),
        "XGrammar lets a value of several types have any type in this style" if is_lax else "",
    )


LAX = ("boolean or null", "values of an enumeration", "string or integer", "any value")

CASES = cases_of(ROWS)
