"""``\\p{…}``: sets of characters by Unicode property.

Owns the names of properties and their members, taken from the Unicode data of the running Python. Must never know the
syntax around them. Scripts, and the binary properties that Python's data cannot tell exactly, are refused.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

from shmcache.regular.code_points import ANY, NONE, CodePoints

_CATEGORY_NAMES = {
    "L": ("Letter",),
    "LC": ("Cased_Letter",),
    "Lu": ("Uppercase_Letter",),
    "Ll": ("Lowercase_Letter",),
    "Lt": ("Titlecase_Letter",),
    "Lm": ("Modifier_Letter",),
    "Lo": ("Other_Letter",),
    "M": ("Mark", "Combining_Mark"),
    "Mn": ("Nonspacing_Mark",),
    "Mc": ("Spacing_Mark",),
    "Me": ("Enclosing_Mark",),
    "N": ("Number",),
    "Nd": ("Decimal_Number", "digit"),
    "Nl": ("Letter_Number",),
    "No": ("Other_Number",),
    "P": ("Punctuation", "punct"),
    "Pc": ("Connector_Punctuation",),
    "Pd": ("Dash_Punctuation",),
    "Ps": ("Open_Punctuation",),
    "Pe": ("Close_Punctuation",),
    "Pi": ("Initial_Punctuation",),
    "Pf": ("Final_Punctuation",),
    "Po": ("Other_Punctuation",),
    "S": ("Symbol",),
    "Sm": ("Math_Symbol",),
    "Sc": ("Currency_Symbol",),
    "Sk": ("Modifier_Symbol",),
    "So": ("Other_Symbol",),
    "Z": ("Separator",),
    "Zs": ("Space_Separator",),
    "Zl": ("Line_Separator",),
    "Zp": ("Paragraph_Separator",),
    "C": ("Other",),
    "Cc": ("Control", "cntrl"),
    "Cf": ("Format",),
    "Cs": ("Surrogate",),
    "Co": ("Private_Use",),
    "Cn": ("Unassigned",),
}
_CATEGORY_BY_NAME = {name: short for short, names in _CATEGORY_NAMES.items() for name in (short, *names)}
_CASED_CATEGORIES = ("Lu", "Ll", "Lt")
_WHITE_SPACE = CodePoints.of((0x9, 0xD), "\u0020\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000", (0x2000, 0x200A))
_ASCII_HEX_DIGITS = CodePoints.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_WIDE_HEX_DIGITS = CodePoints.of((0xFF10, 0xFF19), (0xFF21, 0xFF26), (0xFF41, 0xFF46))


def property_members(expression: str) -> CodePoints | None:
    """The set that ``expression`` (the text between the braces of ``\\p{…}``) names, or None when it is not known."""
    name, equals, value = expression.partition("=")
    if equals:
        return _category(value) if name in ("General_Category", "gc") else None
    members = _category(expression)
    return _binary(expression) if members is None else members


def is_script(expression: str) -> bool:
    """Whether ``expression`` asks for a script, for which there is no data."""
    return expression.partition("=")[0] in ("Script", "sc", "Script_Extensions", "scx")


def _category(name: str) -> CodePoints | None:
    short = _CATEGORY_BY_NAME.get(name)
    if short is None:
        return None
    by_category = _members_by_category()
    if short == "LC":
        wanted = [category for category in by_category if category in _CASED_CATEGORIES]
    else:
        wanted = [category for category in by_category if category.startswith(short)]
    members = NONE
    for category in wanted:
        members |= by_category[category]
    return members


def _binary(name: str) -> CodePoints | None:
    match name:
        case "Any":
            return ANY
        case "ASCII":
            return CodePoints.of((0, 0x7F))
        case "Assigned":
            return ANY - _members_by_category()["Cn"]
        case "White_Space" | "space":
            return _WHITE_SPACE
        case "ASCII_Hex_Digit" | "AHex":
            return _ASCII_HEX_DIGITS
        case "Hex_Digit" | "Hex":
            return _ASCII_HEX_DIGITS | _WIDE_HEX_DIGITS
        case "Lowercase" | "Lower" | "Uppercase" | "Upper" | "XID_Start" | "XIDS" | "XID_Continue" | "XIDC":
            return _members_by_test(name)
        case _:
            return None


@cache
def _members_by_category() -> dict[str, CodePoints]:
    """Every general category of two letters: its members. One pass over Unicode, about 0.2 s, made on first use."""
    runs: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code_point in range(1, sys.maxunicode + 2):
        category = unicodedata.category(chr(code_point)) if code_point <= sys.maxunicode else ""
        if category != current:
            runs.setdefault(current, []).append((start, code_point - 1))
            start, current = code_point, category
    return {category: CodePoints.from_ranges(ranges) for category, ranges in runs.items()}


@cache
def _members_by_test(name: str) -> CodePoints:
    """The binary properties that methods of ``str`` decide exactly."""
    match name:
        case "Lowercase" | "Lower":
            members = [code for code in range(sys.maxunicode + 1) if chr(code).islower()]
        case "Uppercase" | "Upper":
            members = [code for code in range(sys.maxunicode + 1) if chr(code).isupper()]
        case "XID_Start" | "XIDS":
            members = [code for code in range(sys.maxunicode + 1) if chr(code).isidentifier() and code != ord("_")]
        case _:
            members = [code for code in range(sys.maxunicode + 1) if ("a" + chr(code)).isidentifier()]
    return CodePoints.of(*members)
