"""The character classes of ECMA-262 and its case-insensitive matching.

Owns ``\\d \\w \\s .`` and the closure of a set under case. Must never know the syntax around them.

Texts are sequences of code points, with or without the ``u`` flag, since a JSON text has no halves of characters.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cache

from shmcache.regular.code_points import ANY, CodePoints

DIGITS = CodePoints.of((0x30, 0x39))
WORD = CodePoints.of((0x30, 0x39), (0x41, 0x5A), "_", (0x61, 0x7A))
LINE_TERMINATORS = CodePoints.of("\n\r\u2028\u2029")
SPACES = LINE_TERMINATORS | CodePoints.of("\t\v\f\u0020\u00a0\u1680\u202f\u205f\u3000\ufeff", (0x2000, 0x200A))
NOT_LINE_TERMINATORS = ANY - LINE_TERMINATORS

_CASED_MAX = 0x1FFFF
"""No character beyond has an upper or lower case (Unicode 17)."""


def close_under_case(code_points: CodePoints, *, unicode: bool) -> CodePoints:
    """Every character that ECMA-262 takes to be the same as some member, ignoring case.

    With ``unicode`` (the ``u`` flag) characters are the same when their simple case foldings are, else when their upper
    cases are and not just one of them is ASCII (22.2.2.7.3 Canonicalize).
    """
    cased, equals = _case_table(unicode)
    extra: set[int] = set()
    for low, high in code_points.ranges:
        for code_point in cased[bisect_left(cased, low) : bisect_right(cased, high)]:
            extra.update(equals[code_point])
    return code_points | CodePoints.of(*extra) if extra else code_points


@cache
def _case_table(unicode: bool) -> tuple[list[int], dict[int, list[int]]]:
    """The characters that have another of the same case folding, sorted; and for each, all of its kind."""
    kinds: dict[int, list[int]] = {}
    canonical = _folded if unicode else _upper
    for low, high in ANY.ranges:
        for code_point in range(low, min(high, _CASED_MAX) + 1):
            kinds.setdefault(canonical(code_point), []).append(code_point)
    equals = {member: kind for kind in kinds.values() if len(kind) > 1 for member in kind}
    return sorted(equals), equals


def _upper(code_point: int) -> int:
    upper = chr(code_point).upper()
    if len(upper) != 1 or (code_point >= 0x80 and ord(upper) < 0x80):
        return code_point
    return ord(upper)


def _folded(code_point: int) -> int:
    """Simple case folding: where the full one is several characters, Unicode's simple one is the lower case, if any."""
    character = chr(code_point)
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return code_point
