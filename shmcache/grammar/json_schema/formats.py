"""The formats of JSON Schema as text automata, from the grammars of the RFCs.

Owns one regular expression for each format, and what the format means where a grammar is not enough. Must never know
where in an instance a string stands.

Where a format is no regular language, what is admitted is a part of it. A ``hostname`` has no A-labels (``xn--…``,
whose validity is that of the Punycode in them), and at most 3 labels of up to 63 characters, 7 of up to 31, or 15 of up
to 15, which keeps within its 253; domains beyond ASCII have 3 labels of up to 15. A leap second stands at the end of
June or December only, and its offset is a multiple of half an hour. Of an ``idn-hostname`` the labels beyond ASCII are
of scripts without contextual rules, written from left to right. Of ``regex`` see ``regex_format``. Which texts surely
have not such a format is told by what surrounds it: :func:`outer_automaton`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from shmcache.grammar.json_schema.regex_format import PLAIN
from shmcache.grammar.regex import parse_regex
from shmcache.limits import Budget
from shmcache.regular.code_points import CODE_POINT_MAX, SURROGATE_HIGH, SURROGATE_LOW
from shmcache.regular.dfa import Dfa, merge_ranges
from shmcache.regular.operations import concatenate, intersect

# RFC 3339, section 5.6, with the days of each month.
_YEAR = "[0-9]{4}"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR, _MINUTE, _FRACTION = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", "(?:\\.[0-9]+)?"
_TIME = f"{_HOUR}:{_MINUTE}:{_MINUTE}{_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"


def _leap_seconds(sign: str) -> str:
    """A leap second by local time and offset; with "-" local time is behind UTC, so both fall on the same day."""
    if not sign:
        return f"23:59:60{_FRACTION}(?:[Zz]|[+-]00:00)"
    choices = []
    for offset in range(30, 24 * 60, 30):
        local = (23 * 60 + 59 + (offset if sign == "+" else -offset)) % (24 * 60)
        choices.append(
            f"{local // 60:02}:{local % 60:02}:60{_FRACTION}{'[+]' if sign == '+' else '-'}"
            f"{offset // 60:02}:{offset % 60:02}"
        )
    return "|".join(choices)


_LEAP_DATE_TIME = (
    f"{_YEAR}-(?:06-30|12-31)[Tt](?:{_leap_seconds('')}|{_leap_seconds('-')})"
    f"|{_YEAR}-(?:07-01|01-01)[Tt](?:{_leap_seconds('+')})"
)

# RFC 3339, appendix A.
_DURATION_TIME = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION = (
    f"P(?:(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:{_DURATION_TIME})?"
    f"|{_DURATION_TIME}|[0-9]+W)"
)

# RFC 2673, section 3.2, and RFC 4291, section 2.2, as RFC 3986 writes them.
_OCTET = "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_IPV4 = f"{_OCTET}(?:\\.{_OCTET}){{3}}"
_H16 = "[0-9A-Fa-f]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"


def _elided(before_max: int, behind: str) -> str:
    """Up to ``before_max`` groups, ``::``, and what stands behind it."""
    before = f"(?:(?:{_H16}:){{0,{before_max - 1}}}{_H16})?" if before_max else ""
    return f"{before}::{behind}"


_IPV6 = (
    "(?:"
    + "|".join(
        (
            f"(?:{_H16}:){{6}}{_LS32}",
            *(_elided(before, f"(?:{_H16}:){{{5 - before}}}{_LS32}") for before in range(6)),
            _elided(6, _H16),
            _elided(7, ""),
        )
    )
    + ")"
)

# RFC 1123, section 2.1, and RFC 5321, section 4.1.2.
_LETTER_DIGIT = "[A-Za-z0-9]"


def _domain(label_up_to: Callable[[int], str]) -> str:
    """Labels by their number and greatest length."""
    choices = []
    for count, longest in ((3, 63), (7, 31), (15, 15)):
        label = label_up_to(longest)
        choices.append(f"{label}(?:\\.{label}){{0,{count - 1}}}")
    return f"(?:{'|'.join(choices)})"


def _ldh_label(longest: int) -> str:
    return f"{_LETTER_DIGIT}(?:[A-Za-z0-9-]{{0,{longest - 2}}}{_LETTER_DIGIT})?"


_HOSTNAME = _domain(lambda longest: f"(?![Xx][Nn]--){_ldh_label(longest)}")

# RFC 5891 and RFC 5892: letters that are valid everywhere in a label, of Latin, Greek, Cyrillic, Armenian and Georgian
# script, kana, ideographs and Hangul. Nine of them have an A-label of 63 characters at most.
_IDN_LETTER = (
    "[a-z0-9\\u00DF-\\u00F6\\u00F8-\\u00FF\\u03AC-\\u03CE\\u0430-\\u045F\\u0561-\\u0586\\u10D0-\\u10FA"
    "\\u3041-\\u3096\\u30A1-\\u30FA\\u3400-\\u4DB5\\u4E00-\\u9FCC\\uAC00-\\uD7A3]"
)
_IDN_LABEL = f"(?:{_IDN_LETTER}-?){{0,8}}{_IDN_LETTER}"
_ASCII_DOMAIN = _domain(lambda longest: f"(?![A-Za-z0-9-]{{2}}--){_ldh_label(longest)}")

_ATEXT = "A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-"
_LITERAL = f"\\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_IPV6})\\]"
_BEYOND_ASCII = "\\u{80}-\\u{10FFFF}"


def _local_part(more: str) -> str:
    atom = f"[{_ATEXT}{more}]+"
    return f'(?:{atom}(?:\\.{atom})*|"(?:[ !#-\\[\\]-~{more}]|\\\\[ -~])*")'


# RFC 3986, and RFC 3987 with its further characters.
_PERCENT = "%[0-9A-Fa-f]{2}"
_UCSCHAR = "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}" + "".join(
    f"\\u{{{plane:X}{'1000' if plane == 0xE else '0000'}}}-\\u{{{plane:X}FFFD}}" for plane in range(1, 0xF)
)
_PRIVATE = "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"


# RFC 6531: labels of a mailbox's domain may have characters beyond ASCII; those that RFC 3987 admits in hosts, less
# the other full stops.
_U_LETTER = f"(?:(?![\\u2000-\\u206F\\u3000-\\u303F\\uFF00-\\uFFEF])[A-Za-z0-9{_UCSCHAR}])"
_U_DOMAIN = f"(?:{_U_LETTER}{{1,15}}\\.){{0,2}}{_U_LETTER}{{1,15}}"


def _identifier(further: str, private: str, *, is_reference: bool) -> str:
    """A URI (reference), ``further`` characters being unreserved and ``private`` ones admitted in queries."""
    plain = f"A-Za-z0-9._~!$&'()*+,;=\\-{further}"
    segment_character = f"(?:[{plain}:@]|{_PERCENT})"
    segments = f"(?:/{segment_character}*)*"
    host = f"(?:\\[(?:{_IPV6}|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|(?:[{plain}]|{_PERCENT})*)"
    authority = f"(?:(?:[{plain}:]|{_PERCENT})*@)?{host}(?::[0-9]*)?"
    behind = f"(?:\\?(?:[{plain}:@/?{private}]|{_PERCENT})*)?(?:#(?:[{plain}:@/?]|{_PERCENT})*)?"
    rooted = f"//{authority}{segments}|/(?:{segment_character}+{segments})?"
    whole = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{rooted}|{segment_character}+{segments}|){behind}"
    if not is_reference:
        return whole
    relative = f"(?:{rooted}|(?:[{plain}@]|{_PERCENT})+{segments}|){behind}"
    return f"{whole}|{relative}"


# RFC 6570, with the erratum that admits the apostrophe; the operators reserved for extensions are not admitted.
_VARIABLE = f"(?:[A-Za-z0-9_]|{_PERCENT})(?:\\.?(?:[A-Za-z0-9_]|{_PERCENT}))*(?::[1-9][0-9]{{0,3}}|\\*)?"
_TEMPLATE = f"(?:[!#$&-;=?-\\[\\]_a-z~{_UCSCHAR}{_PRIVATE}]|{_PERCENT}|\\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\\}})*"

_POINTER = "(?:/(?:[^~/]|~[01])*)*"  # RFC 6901
_HEX = "[0-9A-Fa-f]"

_PATTERNS = {
    "date": _DATE,
    "time": "|".join((_TIME, *map(_leap_seconds, ("", "+", "-")))),
    "date-time": f"{_DATE}[Tt]{_TIME}|{_LEAP_DATE_TIME}",
    "duration": _DURATION,
    "hostname": _HOSTNAME,
    "idn-hostname": f"{_ASCII_DOMAIN}|(?:{_IDN_LABEL}\\.){{0,2}}{_IDN_LABEL}",
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    "uri": _identifier("", "", is_reference=False),
    "uri-reference": _identifier("", "", is_reference=True),
    "iri": _identifier(_UCSCHAR, _PRIVATE, is_reference=False),
    "iri-reference": _identifier(_UCSCHAR, _PRIVATE, is_reference=True),
    "uri-template": _TEMPLATE,
    "json-pointer": _POINTER,
    "regex": PLAIN,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}
_MAILBOXES = {
    "email": (_local_part(""), f"@(?:{_domain(_ldh_label)}|{_LITERAL})"),
    "idn-email": (_local_part(_BEYOND_ASCII), f"@(?:{_domain(_ldh_label)}|{_U_DOMAIN}|{_LITERAL})"),
}
SUPPORTED = frozenset((*_PATTERNS, *_MAILBOXES))
"""The formats that the standard defines. Others constrain nothing."""

_ANYTHING = "[^]*"
_ANY_LABEL = f"{_LETTER_DIGIT}(?:[A-Za-z0-9-]*{_LETTER_DIGIT})?"
_ANY_TIME = f"{_HOUR}:{_MINUTE}:(?:{_MINUTE}|60){_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"
_OUTER_PATTERNS = {
    "hostname": f"{_ANY_LABEL}(?:\\.{_ANY_LABEL})*",
    "idn-hostname": "[^]+",
    "email": "[^]+@[^]+",
    "idn-email": "[^]+@[^]+",
    "time": _ANY_TIME,
    "date-time": f"{_DATE}[Tt]{_ANY_TIME}",
    "uri-template": f"(?:[^{{}}]|\\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\\}})*",
    "regex": _ANYTHING,
}
"""What surrounds the formats of which only a part is admitted."""

_LOCAL_PART_OCTETS_MAX = 64
_OCTETS = ((0x0, 0x7F, 1), (0x80, 0x7FF, 2), (0x800, SURROGATE_LOW - 1, 3), (SURROGATE_HIGH + 1, 0xFFFF, 3))


@cache
def format_automaton(name: str) -> Dfa:
    """The minimal text automaton of a format of :data:`SUPPORTED`."""
    budget = Budget()
    if name not in _MAILBOXES:
        return parse_regex(_PATTERNS[name], budget, flags="u")
    local_part, domain = (parse_regex(pattern, budget, flags="u") for pattern in _MAILBOXES[name])
    return concatenate(intersect(local_part, _few_octets(), budget), domain, budget)


@cache
def outer_automaton(name: str) -> Dfa:
    """Of a format of :data:`SUPPORTED`, an automaton of all the texts that have it, and perhaps of some others."""
    pattern = _OUTER_PATTERNS.get(name)
    return format_automaton(name) if pattern is None else parse_regex(pattern, Budget(), flags="u")


def _few_octets() -> Dfa:
    """Texts that are at most as long in UTF-8 as the local part of a mailbox may be (RFC 5321, section 4.5.3.1.1)."""
    rows = []
    for count in range(_LOCAL_PART_OCTETS_MAX + 1):
        bounds = (*_OCTETS, (0x10000, CODE_POINT_MAX, 4))
        rows.append(
            merge_ranges(
                (low, high, count + octets) for low, high, octets in bounds if count + octets <= _LOCAL_PART_OCTETS_MAX
            )
        )
    return Dfa(edges=tuple(rows), accepting=(True,) * len(rows))
