"""Structural tags with texts that they admit and texts that they do not: one table for all tests, and for XGrammar.

Owns the cases and, where XGrammar 0.2.9 answers otherwise, why. Must never know how either of them works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Format = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A format, texts it admits, texts it does not, and those of both that XGrammar decides otherwise, with why."""

    name: str
    format: Format
    accepted: tuple[str, ...]
    rejected: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    why: str = ""


def const(value: str) -> Format:
    return {"type": "const_string", "value": value}


def free(**more: Any) -> Format:
    return {"type": "any_text", **more}


def sequence(*elements: Format) -> Format:
    return {"type": "sequence", "elements": list(elements)}


def either(*elements: Format) -> Format:
    return {"type": "or", "elements": list(elements)}


def tag(begin: Any, content: Format, end: Any) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def of(kind: str, content: Format, **more: Any) -> Format:
    return {"type": kind, "content": content, **more}


def schema(document: Any, **more: Any) -> Format:
    return {"type": "json_schema", "json_schema": document, **more}


def triggered(triggers: list[str], *tags: Format, **more: Any) -> Format:
    return {"type": "triggered_tags", "triggers": triggers, "tags": list(tags), **more}


def separated(separator: str, *tags: Format, **more: Any) -> Format:
    return {"type": "tags_with_separator", "separator": separator, "tags": list(tags), **more}


def dispatch(*rules: tuple[str, Format], **more: Any) -> Format:
    return {"type": "dispatch", "rules": [list(rule) for rule in rules], **more}


def ebnf(text: str, **more: Any) -> Format:
    return {"type": "grammar", "grammar": text, **more}


def regex(pattern: str) -> Format:
    return {"type": "regex", "pattern": pattern}


A, B = tag("<f=a>", const("1"), "</f>"), tag("<f=b>", const("2"), "</f>")
ONE, OTHER = "<f=a>1</f>", "<f=b>2</f>"
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}

BASIC = [
    Case("const", const("añ<"), ("añ<",), ("", "a", "añ<<")),
    Case("empty const", const(""), ("",), ("a",)),
    Case("text", free(), ("", "abc", "é\n")),
    Case("text with exclusions", free(excludes=["ab", "c"]), ("", "a", "ba", "aab"[:2], "xx"), ("aab", "c", "xcx")),
    Case("short text", free(max_chars=2), ("", "a", "é日"), ("abc",)),
    Case("no characters", free(max_chars=0), ("",), ("a",)),
    Case("short text with exclusions", free(max_chars=2, excludes=["a"]), ("", "bb"), ("ab", "bbb")),
    Case("schema", schema(POINT), ('{"x":1}', '{"x": 1, "y": 2}'), ("{}", '{"y": 1}', '{"x": 1, "z": 2}', "1")),
    Case("schema true", schema(True), ("1", '[1, {"a": "b"}]', "null"), ("", "[")),
    Case("short whitespace", schema(POINT, max_whitespace_cnt=1), ('{"x":1}', '{ "x": 1}'), ('{  "x": 1}',)),
    Case(
        "schema with exclusions",
        schema({"type": "object", "properties": {"a": {"type": "string"}, "b<": {}}}, excludes=["<"]),
        ('{"a": "x"}', "{}"),
        ('{"a": "<"}', '{"b<": 1}'),
    ),
    Case(
        "a pattern with exclusions",
        schema({"type": "string", "pattern": "^.$"}, excludes=["<"]),
        ('"x"',),
        ('"<"', '"xx"'),
        ('"<"',),
        "documented: XGrammar does not look for excluded texts where there is a pattern",
    ),
    Case("regex", regex("a|b+"), ("a", "bb"), ("", "ab")),
    Case("anchored regex", regex("^a$"), ("a",), ("aa", "")),
    Case("grammar", ebnf('root ::= "a" x | x\nx ::= "b"'), ("ab", "b"), ("a", "")),
    Case("recursive grammar", ebnf('root ::= "(" root ")" | ""'), ("", "(())"), ("(", "())")),
    Case(
        "grammars with the same rule names",
        sequence(ebnf('root ::= "a" x\nx ::= "b"'), ebnf('root ::= "c" x\nx ::= "d"')),
        ("abcd",),
        ("abcb", "adcd"),
    ),
]

COMPOSED = [
    Case("sequence", sequence(const("a"), regex("b*"), const("c")), ("ac", "abbc"), ("a", "abb", "c")),
    Case("text in a sequence", sequence(free(), const("X")), ("X", "aX", "XX", "XbX"), ("", "Xb")),
    Case("or", either(const("a"), const("ab"), regex("c+")), ("a", "ab", "cc"), ("", "b", "ac")),
    Case("optional", of("optional", const("ab")), ("", "ab"), ("a", "abab")),
    Case("star", of("star", const("ab")), ("", "ab", "abab"), ("a", "aba")),
    Case("plus", of("plus", const("ab")), ("ab", "abab"), ("", "aba")),
    Case("repeat", of("repeat", const("a"), min=1, max=2), ("a", "aa"), ("", "aaa")),
    Case("repeat without end", of("repeat", const("a"), min=2, max=-1), ("aa", "aaaaa"), ("", "a")),
    Case("repeat never", of("repeat", const("a"), min=0, max=0), ("",), ("a",)),
]

TAGS = [
    Case("tag", tag("<a>", const("x"), "</a>"), ("<a>x</a>",), ("<a></a>", "<a>x", "x", "<a>x</a>x</a>")),
    Case(
        "text to the end", tag("<a>", free(), "</a>"), ("<a></a>", "<a>x<</</a>"), ("<a>x", "<a></a></a>", "<a>x</a>y")
    ),
    Case("two ends", tag("<", free(), ["aa", "b"]), ("<aa", "<xb", "<ab", "<axaa"), ("<bb", "<aab", "<a")),
    Case("an end that begins another", tag("<", free(), [">", ">\n"]), ("<>", "<x>\n"), ("<>>", "<x>\n\n")),
    Case("an end that may be empty", tag("<", free(), ["", "b"]), ("<", "<aa", "<aab"), ("<b ", "<bb")),
    Case("an empty beginning", tag("", free(), "x"), ("x", "aax"), ("a", "xx")),
    Case("an empty end", tag("<", const("a"), ""), ("<a",), ("<", "<aa")),
    Case("own exclusions", tag("<", free(excludes=["x", "<"]), "</a>"), ("<</a>", "<y</a>"), ("<x</a>", "<<</a>")),
    Case("short text to the end", tag("<", free(max_chars=2), ">"), ("<>", "<ab>"), ("<abc>", "<>>")),
    Case("what is not free is not searched", tag("<", const(">"), ">"), ("<>>",), ("<>",)),
    Case("a pattern is not searched", tag("<", regex(".*"), ">"), ("<>", "<>>")),
    Case("last in a sequence", tag("<", sequence(const("a"), free()), ">"), ("<a>", "<ab>"), ("<>", "<a>b>")),
    Case("first in a sequence", tag("<", sequence(free(), const("a")), ">"), ("<a>", "<xa>"), ("<>", "<>a>")),
    Case("in a choice", tag("<", either(const(">>"), free()), ">"), ("<>", "<a>", "<>>>"), ("<a>>",)),
    Case("optional text", tag("<", of("optional", free()), ">"), ("<>", "<ab>"), ("<a>>",)),
    Case(
        "texts again and again",
        tag("<", of("plus", sequence(const("x"), free())), ">"),
        ("<x>", "<xaxb>"),
        ("<>", "<x>>"),
    ),
    Case("at most two texts", tag("<", of("repeat", free(), min=1, max=2), ">"), ("<>", "<ab>"), ("<a>>",)),
    Case("a tag in a tag", tag("<", tag("[", free(), "]"), ">"), ("<[a]>", "<[>]>"), ("<[a>", "<[a]]>")),
    Case(
        "an end that overlaps itself",
        tag("<", free(), "aa"),
        ("<aa", "<baa"),
        ("<aaa", "<aaaa"),
        ("<aaa",),
        "the tag has ended at the first aa; XGrammar reads an a and then the end",
    ),
]

TRIGGERED = [
    Case(
        "triggered tags",
        triggered(["<f="], A, B),
        ("", "x", "x<f", ONE, f"x{ONE}y{OTHER}", ONE + OTHER + "<"),
        ("<f=", "<f=c", "<f=a>2</f>", f"x{ONE}<f="),
    ),
    Case(
        "at least one tag",
        triggered(["<f="], A, B, at_least_one=True),
        (ONE, ONE + "y", ONE + "y" + OTHER),
        ("", "x", "x" + ONE),
    ),
    Case(
        "no more than one tag",
        triggered(["<f="], A, B, stop_after_first=True),
        ("", "x", "x" + ONE, OTHER),
        (ONE + "y", ONE + OTHER),
    ),
    Case(
        "exactly one tag",
        triggered(["<f="], A, B, stop_after_first=True, at_least_one=True),
        (ONE, OTHER),
        ("", "x", "x" + ONE, ONE + "y"),
    ),
    Case(
        "excluded between tags",
        triggered(["<f="], A, excludes=["x"]),
        ("", ONE, f"y{ONE}y"),
        ("x", f"x{ONE}", f"{ONE}x"),
    ),
    Case("exclusions end at the trigger", triggered(["<f="], A, excludes=["<f=a>"]), (ONE, "<"), ("<f=a>",)),
    Case(
        "several triggers", triggered(["<f=", "<g"], A, tag("<g>", const("3"), "")), ("<g>3" + ONE, "<"), ("<g", "<g>1")
    ),
    Case("the trigger is the beginning", triggered(["<f=a>"], A), (ONE, "<f="), ("<f=a>",)),
    Case("text in tags", triggered(["<t"], tag("<t>", free(), "</t>")), ("<t>a<t>b</t>c", "a"), ("<t>a", "<ta")),
    Case(
        "equal beginnings",
        triggered(["<"], tag("<a", const("1"), ">"), tag("<a", const("2"), ">")),
        ("<a1><a2>",),
        ("<a3>",),
    ),
    Case("in a tag", tag("[", triggered(["<f="], A), "]"), ("[]", f"[x{ONE}y]"), ("[x", f"[{ONE}", "[x]]", "[<f=]")),
    Case(
        "at least one in a tag",
        tag("[", triggered(["<f="], A, at_least_one=True), "]"),
        (f"[{ONE}]", f"[{ONE}y]"),
        ("[]",),
    ),
    Case(
        "one at most in a tag",
        tag("[", triggered(["<f="], A, stop_after_first=True), "]"),
        ("[x]", f"[{ONE}]"),
        (f"[{ONE}y]",),
    ),
    Case("in a sequence", sequence(triggered(["<f="], A), const("END")), ("END", "ENDEND", f"{ONE}END"), ("x", "END.")),
    Case(
        "tags with a separator",
        separated(", ", A, B),
        ("", ONE, f"{ONE}, {OTHER}, {ONE}"),
        (", ", f"{ONE}, ", ONE + OTHER, f"x{ONE}"),
    ),
    Case("at least one, separated", separated(",", A, B, at_least_one=True), (ONE, f"{ONE},{OTHER}"), ("", ",")),
    Case("one at most, separated", separated(",", A, B, stop_after_first=True), ("", ONE), (f"{ONE},{OTHER}",)),
    Case("one exactly", separated(",", A, B, stop_after_first=True, at_least_one=True), (ONE,), ("", f"{ONE},{ONE}")),
    Case("no separator", separated("", A, B), ("", ONE + OTHER), (ONE + ",",)),
    Case(
        "dispatch",
        dispatch(("<f>", const("1")), ("<g", const("2"))),
        ("", "x<f", "<f>1", "<f>1x<g2y", "x<g2<g2"),
        ("<f>", "<f>2", "x<g"),
    ),
    Case(
        "dispatch once",
        dispatch(("<f>", const("1")), ("<g", const("2")), loop=False),
        ("", "x", "<f>1", "x<g2"),
        ("<f>1x", "<g2<g2"),
    ),
    Case("dispatch with exclusions", dispatch(("<f>", const("x1")), excludes=["x"]), ("y", "y<f>x1y"), ("x", "<f>x1x")),
    Case("an exclusion hides a trigger", dispatch(("ab", const("1")), excludes=["b"]), ("a",), ("ab1", "b")),
    Case("the longer of two triggers", dispatch(("ab", const("1")), ("b", const("2"))), ("ab1", "ccb2"), ("ab2", "b1")),
    Case(
        "one trigger begins another",
        dispatch(("<f", const("1")), ("<fa", const("2"))),
        ("<f1", "<fa2"),
        ("<fa1", "<f2"),
    ),
    Case("equal triggers", dispatch(("<", const("1")), ("<", const("2"))), ("<1<2",), ("<3",)),
    Case(
        "dispatch to the end of a tag",
        tag("[", dispatch(("ab", const("1")), excludes=["]"]), "]"),
        ("[]", "[ab1]", "[xab1y]"),
        ("[]]", "[ab]", "[x"),
    ),
    Case("free dispatch in a tag", tag("[", dispatch(("ab", const("1"))), "]"), ("[]", "[]]", "[ab1]"), ("[ab]",)),
    Case(
        "text in a dispatch in a tag",
        tag("[", dispatch(("ab", free()), loop=False), "]"),
        ("[x]", "[ab1ab]"),
        ("[ab]]",),
    ),
]

MARK = '<|"|>'
GEMMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "object", "properties": {"c": {"enum": ["x y", 1]}}, "required": ["c"]},
        "d-e": {"type": "array", "items": {"type": "string", "pattern": "^q+$"}},
    },
}

MARKED = [
    Case(
        "objects without quotes",
        schema(GEMMA, style="gemma"),
        (
            "{}",
            f'{{a:{MARK}x "y" \\n\n<|{MARK}}}',
            f"{{ a : {MARK}{MARK} , b: {{c:1}} }}",
            f"{{b:{{c:{MARK}x y{MARK}}},d-e:[{MARK}q{MARK}, {MARK}qq{MARK}]}}",
        ),
        (
            f"{{a:{MARK}{MARK}{MARK}}}",
            '{a:"x"}',
            f'{{"a":{MARK}x{MARK}}}',
            "{b:{}}",
            f"{{b:{{c:{MARK}x{MARK}}}}}",
            f"{{d-e:[{MARK}{MARK}]}}",
            f"{{z:{MARK}{MARK}}}",
        ),
    ),
    Case(
        "any value without quotes",
        schema(True, style="gemma"),
        ("1", "null", f"{MARK}a{MARK}", f"{{a_1:[{{b:true}}, {MARK}{MARK}]}}"),
        ('"a"', '{"a":1}', "{:1}", f"{MARK}a"),
    ),
    Case(
        "further names without quotes",
        schema({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, style="gemma"),
        ("{b:1}", "{a:1,b:2,c:3}"),
        ("{b:null}", "{b:1,a:1}", "{b b:1}"),
    ),
    Case(
        "exclusions between marks",
        schema({"type": "object", "properties": {"a": {"type": "string"}}}, style="gemma", excludes=["x"]),
        (f"{{a:{MARK}y{MARK}}}",),
        (f"{{a:{MARK}x{MARK}}}",),
    ),
]

CASES = [*MARKED, *BASIC, *COMPOSED, *TAGS, *TRIGGERED]
