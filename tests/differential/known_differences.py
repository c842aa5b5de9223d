"""Where this package and its peers are known to differ, each with the text that shows it.

Owns the list. ``Whose.THEIRS``: the standard sides with this package, and for JSON Schemas the judge of
:mod:`tests.differential.judge` must say so too. ``Whose.CHOICE``: the standard would admit the text, and
``docs/languages.md`` says why this package does not.

Verdicts stand in the order ours, llguidance, XGrammar: ``T`` accepted to the end, ``F`` not, ``-`` source refused.
They are those of llguidance 1.9 and XGrammar 0.2; a release that changes one fails the test, and then the row goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Whose(Enum):
    """Whose difference it is."""

    THEIRS = "theirs"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Difference:
    """One text of one source (``kind``: schema, regex or ebnf), and what becomes of it."""

    kind: str
    source: Any
    text: str
    verdicts: str
    whose: Whose
    why: str


def _schema(source: Any, text: str, verdicts: str, why: str) -> Difference:
    return Difference("schema", source, text, verdicts, Whose.THEIRS, why)


def _choice(source: Any, text: str, verdicts: str, why: str) -> Difference:
    return Difference("schema", source, text, verdicts, Whose.CHOICE, why)


def _regex(source: str, text: str, verdicts: str, why: str) -> Difference:
    return Difference("regex", source, text, verdicts, Whose.THEIRS, why)


_STRING = {"type": "string"}
_ONE_CHARACTER = {"type": "string", "maxLength": 1}
_INTEGER = {"type": "integer"}
_OBJECT = {"type": "object"}
_A = {"a": {"type": "integer"}}
_NEEDS_A = {"type": "object", "properties": _A, "required": ["a"]}
_NEEDS_B = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}

DIFFERENCES = [
    # strings
    _schema(_STRING, '"\x7f"', "TFT", "RFC 8259 lets DEL stand in a string"),
    _schema(_STRING, '"\\/"', "TFT", "RFC 8259 lets the solidus be escaped"),
    _schema(_STRING, '"\\u00e9"', "TFT", "any character may be escaped"),
    _schema(_STRING, '"\\ud83d\\ude00"', "TFT", "a surrogate pair is one character"),
    _schema(_STRING, '"\\ud800"', "FFT", "a lone surrogate is no character"),
    _schema(_ONE_CHARACTER, '"\\n"', "TTF", "an escaped character is one character"),
    _schema(_ONE_CHARACTER, '"\\u00e9"', "TFF", "an escaped character is one character"),
    _schema(_ONE_CHARACTER, '"\\ud83d\\ude00"', "TFF", "a surrogate pair is one character"),
    _schema({**_STRING, "pattern": "cat|dog"}, '"hotdog"', "TTF", "a pattern is searched for"),
    _schema({**_STRING, "pattern": "^a*$", "maxLength": 2}, '"aaa"', "FFT", "lengths apply beside a pattern"),
    _schema({**_STRING, "pattern": '^"$'}, '"\\""', "TTF", "a pattern speaks of the text, not of its spelling"),
    _schema({**_STRING, "pattern": "^é$"}, '"\\u00e9"', "TFF", "a pattern speaks of the text, not of its spelling"),
    _schema({"const": "é"}, '"\\u00e9"', "TFF", "equality speaks of the text, not of its spelling"),
    # numbers
    _schema({"type": "number", "minimum": 0}, "0e0", "TFF", "bounds do not forbid exponents"),
    _schema({"type": "number", "exclusiveMinimum": 0}, "1e-9", "TFF", "bounds do not forbid exponents"),
    _schema({"type": "number", "maximum": 0.1}, "0.1000", "TFT", "zeros at the end change nothing"),
    _schema({"type": "number", "multipleOf": 0.01}, "0.001", "FFT", "multipleOf is enforced"),
    _schema({"minimum": 3}, "1", "FFT", "a bound needs no type beside it"),
    _schema({"enum": [1.0]}, "1.0", "TFF", "a number may be spelt as the schema spells it"),
    _choice(_INTEGER, "-0", "FTF", "integers have their shortest spelling"),
    _choice(_INTEGER, "1.0", "FFF", "integers have their shortest spelling"),
    # objects
    _schema({**_OBJECT, "properties": _A}, '{"\\u0061":"x"}', "FTT", "a name may be spelt with escapes"),
    _schema({**_OBJECT, "required": ["a"]}, "{}", "FFT", "a required name need not be declared"),
    _schema({"required": ["a"]}, "{}", "FFT", "required needs no type beside it"),
    _schema(
        {**_OBJECT, "patternProperties": {"^a": _INTEGER}, "properties": {"ab": _STRING}},
        '{"ab":"x"}',
        "FFT",
        "patterns apply to declared names too",
    ),
    _schema({**_OBJECT, "patternProperties": {"^a": _INTEGER}}, '{"b":"x"}', "TTF", "other names are not forbidden"),
    _schema({**_OBJECT, "dependentRequired": {"a": ["b"]}}, '{"a":1}', "F-T", "dependentRequired is enforced"),
    _schema({"properties": {'a"b': _INTEGER}}, '{"a"x":1}', "FFT", "a quotation mark ends a name"),
    _choice({**_OBJECT, "properties": {**_A, "b": _INTEGER}}, '{"b":1,"a":1}', "FFF", "members in declared order"),
    _schema({**_OBJECT, "properties": {"a": {}, "b": {}}}, '{"b":1,"a":1}', "TFF", "names of any value have no order"),
    _choice({**_OBJECT, "required": ["a"]}, '{"b":1,"a":1}', "FFT", "required names before others"),
    # arrays
    _schema({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}, "[1,1]", "F-T", "enforced or refused"),
    _schema({"type": "array", "contains": _INTEGER}, '["a"]', "F-T", "contains is enforced"),
    # several schemas at once
    _schema({"not": _INTEGER}, "1", "F-T", "not is enforced"),
    _schema({"oneOf": [_INTEGER, {**_INTEGER, "minimum": 2}]}, "3", "F-T", "of oneOf one branch only"),
    _schema({"anyOf": [_INTEGER, _STRING], "minimum": 5}, "1", "FFT", "siblings of anyOf apply"),
    _schema({"allOf": [_NEEDS_A, _NEEDS_B]}, '{"a":1}', "FFT", "all branches of allOf apply"),
    _schema({"$ref": "#/$defs/n", "minimum": 5, "$defs": {"n": _INTEGER}}, "1", "FFT", "siblings of $ref apply"),
    _schema({"enum": [1, "a"], "type": "string"}, "1", "FFT", "siblings of enum apply"),
    _schema({"if": _INTEGER, "then": {"minimum": 5}}, "1", "F-T", "conditions are enforced"),
    # formats
    _choice({**_STRING, "format": "date"}, '"2020-02-30"', "FFT", "formats are enforced: no such day"),
    _choice({**_STRING, "format": "iri"}, '"x"', "F-T", "formats are enforced"),
    _schema({**_STRING, "format": "email"}, '"a@b.c"', "TTF", "a label of a domain may have one letter"),
    # layout
    _choice(_INTEGER, " 1", "FFF", "no white space around the whole value"),
    _choice({"type": "array"}, " []", "FFF", "no white space around the whole value"),
    # regular expressions: ECMA-262
    _regex("\\d", "٣", "FTF", "digits are those of ASCII"),
    _regex("\\w", "é", "FTF", "word characters are those of ASCII"),
    _regex("\\s", "\ufeff", "TFT", "U+FEFF is white space"),
    _regex(".", "\n", "FFT", "a dot is no end of a line"),
    _regex(".", "\r", "FTT", "a carriage return ends a line"),
    _regex("a^b", "ab", "--T", "an anchor means what it says at any place"),
]
