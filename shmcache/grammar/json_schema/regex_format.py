"""The format ``regex``: regular expressions by the grammar of ECMA-262 with the flag ``u``.

Owns the grammar of expressions as text, and the rules that write it. Must never know where in an instance a string
stands.

What is admitted is a part of the format: no back-references, no named groups, whose names would have to be different
from one another, and no modifiers; of ranges in classes, those between digits and between letters of one case, and a
few others; of general categories, the short names and a few long ones; in ``{n,m}`` numbers of up to four digits.
Groups nest as deep as they like where the format alone constrains a string. An automaton cannot count them: where other
keywords constrain the same string, or it is a name, expressions are :data:`PLAIN`, and their automaton is small, as it
is multiplied with others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from shmcache.grammar.ir import Expression, Regular
from shmcache.grammar.json_schema.expressions import choice, repeat, sequence
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.regex import parse_regex
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa

_HEX = "[0-9A-Fa-f]"
_CATEGORY = (
    "L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?|C[cfn]?|Letter|Number|Punctuation|Alphabetic|Uppercase"
    "|Lowercase"
)
_SYNTAX_CHARACTER = "[\\^$\\\\.*+?()[\\]{}|/]"
_ESCAPED = (
    f"(?:[fnrtvdDsSwW]|c[A-Za-z]|x{_HEX}{{2}}|u{_HEX}{{4}}|u\\{{0*(?:10{_HEX}{{4}}|{_HEX}{{1,5}})\\}}"
    f"|[pP]\\{{(?:{_CATEGORY})\\}}|{_SYNTAX_CHARACTER}|0(?![0-9]))"
)


def _ranges(characters: str) -> str:
    """Each of these characters to one that is not before it."""
    return "|".join(f"{one}-[{one}-{characters[-1]}]" for one in characters)


_RANGE = "|".join(
    (
        _ranges("0123456789"),
        _ranges("abcdefghijklmnopqrstuvwxyz"),
        _ranges("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        " -~",
        "\\\\x[01]0-\\\\x7[Ff]",
        "\\\\x20-\\\\x7[Ee]",
        "\\\\u0000-\\\\u[Ff]{4}",
        "\\\\u4[Ee]00-\\\\u9[Ff][A-Fa-f][0-9A-Fa-f]",
    )
)
_MEMBER = f"(?:{_RANGE}|(?:[^\\]\\\\\\-]|\\\\(?:{_ESCAPED}|[b\\-]))(?!-[^\\]]))"
_CLASS = f"\\[\\^?-?{_MEMBER}*-?\\]"


def _counts() -> str:
    """``n,m`` with numbers of up to four digits, none above the other."""
    pairs = [f"{one},[{one}-9]" for one in range(10)]
    pairs += [f"{one}{two},{one}[{two}-9]" for one in range(1, 10) for two in range(10)]
    for length in (2, 3, 4):
        rest = f"[0-9]{{{length - 1}}}"
        pairs += [f"{one}{rest},[{one + 1}-9]{rest}" for one in range(1, 9)]
    for length in (1, 2, 3):
        pairs.append(f"[0-9]{{{length}}},[1-9][0-9]{{{length},3}}")
    return "|".join(pairs)


_QUANTIFIER = f"(?:[*+?]|\\{{(?:[0-9]{{1,4}},?|{_counts()})\\}})\\??"
_ATOM = f"[^\\^$\\\\.*+?()[\\]{{}}|]|\\.|\\\\{_ESCAPED}|{_CLASS}"
_ASSERTION = "\\^|\\$|\\\\[bB]"
_GROUP_BEGIN, _GROUP_END = "\\((?:\\?:)?", f"\\)(?:{_QUANTIFIER})?"
_LOOK_BEGIN, _LOOK_END = "\\(\\?<?[=!]", "\\)"
FLAT = f"(?:(?:{_ATOM})(?:{_QUANTIFIER})?|{_ASSERTION}|\\|)*"
"""The regular expression of expressions without groups."""

_PLAIN_ESCAPE = f"\\\\(?:[fnrtvdDsSwW]|{_SYNTAX_CHARACTER})"
_PLAIN_MEMBER = f"(?:0-9|a-z|A-Z|(?:[^\\]\\\\\\-]|{_PLAIN_ESCAPE})(?!-[^\\]]))"
_PLAIN_QUANTIFIER = "(?:[*+?]|\\{(?:[0-9]{1,2},?|[01],[1-9][0-9]?|[2-9],[1-9][0-9])\\})\\??"
_PLAIN_ATOM = f"[^\\^$\\\\.*+?()[\\]{{}}|]|\\.|{_PLAIN_ESCAPE}|\\[\\^?{_PLAIN_MEMBER}*-?\\]"
_PLAIN_FLAT = f"(?:(?:{_PLAIN_ATOM})(?:{_PLAIN_QUANTIFIER})?|{_ASSERTION}|\\|)*"
PLAIN = f"{_PLAIN_FLAT}(?:{_GROUP_BEGIN}{_PLAIN_FLAT}\\)(?:{_PLAIN_QUANTIFIER})?{_PLAIN_FLAT})*"
"""The regular expression of plain expressions: no group within another, no look-around, no code points by number."""


def regex_expression(spelled: Callable[[Dfa], Dfa], rules: Rules) -> Expression:
    """All such expressions, without quotes. ``spelled`` gives the bytes of a text automaton within a JSON string."""

    def piece(pattern: str) -> Expression:
        return rules.shared(("regex piece", pattern), lambda: Regular(spelled(_automaton(pattern))))

    def body() -> Expression:
        inner = rules.shared("regex", body)  # it calls itself
        group = sequence(piece(_GROUP_BEGIN), inner, piece(_GROUP_END))
        look = sequence(piece(_LOOK_BEGIN), inner, piece(_LOOK_END))
        return sequence(piece(FLAT), repeat(sequence(choice((group, look)), piece(FLAT)), 0, None))

    return rules.shared("regex", body)


@cache
def _automaton(pattern: str) -> Dfa:
    return parse_regex(pattern, Budget(), flags="u")
