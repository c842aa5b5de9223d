"""Formats: each against texts that have it and texts that nearly do, and against other implementations."""

from __future__ import annotations

import datetime
import ipaddress
import random
import unicodedata
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.errors import UnsupportedError
from shmcache.grammar.json_schema.formats import SUPPORTED, format_automaton, outer_automaton
from shmcache.grammar.json_schema.regex_format import FLAT
from shmcache.grammar.regex import parse_regex
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.operations import subtract
from tests.grammar.json_schema_cases import admits, check

CASES: dict[str, tuple[list[str], list[str]]] = {
    "date": (
        ["2020-02-29", "2000-02-29", "0400-02-29", "1999-12-31", "2021-04-30"],
        ["2021-02-29", "1900-02-29", "2021-04-31", "2021-13-01", "2021-00-01", "2021-01-00", "21-01-01", "2021-1-01"],
    ),
    "time": (
        ["00:00:00Z", "23:59:59.123z", "12:00:00+23:59", "23:59:60Z", "01:29:60+01:30", "00:29:60.5-23:30"],
        ["24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00:00", "12:00:00+24:00", "22:59:60Z", "23:59:60+01:00", "12:00Z"],
    ),
    "date-time": (
        ["2024-02-29T12:00:00Z", "1998-12-31t23:59:60z", "1999-01-01T01:59:60+02:00", "1990-06-30T15:59:60-08:00"],
        ["2023-02-29T12:00:00Z", "2024-01-01 12:00:00Z", "2024-01-01", "1998-12-30T23:59:60Z", "1998-12-31T22:59:60Z"],
    ),
    "duration": (
        ["P1Y2M3DT4H5M6S", "PT36H", "P2W", "P1M2D", "PT1M2S", "P0D"],
        ["P", "PT", "P1YT", "1D", "P1Y2D", "P1Y2W", "PT1H2S", "PT0.5S", "-P1D", "P1H"],
    ),
    "email": (
        ["a@b", "a.b+c@x-y.org", '"a b@c"@x.org', "x@[127.0.0.1]", "x@[IPv6:::1]", "a" * 64 + "@b.c"],
        ["a", "@b", "a@", ".a@b", "a.@b", "a..b@c", "a b@c", "a@b_c", "a@-b", "é@b.c", "a" * 65 + "@b.c", "x@[1.2.3]"],
    ),
    "idn-email": (["실례@실례.테스트", "a@b.c", "é" * 32 + "@b.c"], ["é@", "é" * 33 + "@b.c", "a＠b.c", "a@b．c"]),
    "hostname": (
        ["a", "1host", "a-b.c", "ab--cd.e", "a" * 63 + ".com", ".".join(["a" * 31] * 7), ".".join(["a" * 15] * 15)],
        ["", ".", "a.", ".a", "-a", "a-", "a_b", "a" * 64, "xn--x", "XN--x.org", ".".join(["a" * 63] * 4), "a\n"],
    ),
    "idn-hostname": (
        ["실례.테스트", "a", "ß-д.例", "Ab-c.de", "ひらカタ", "a" * 63, "xn-x"],
        ["", "é.", "xn--x", "ab--é", "-é", "é-", "É", "a b", "ש", "é" * 10, "\u3002", "a\u30fbb", "\u302eab", "ab--c"],
    ),
    "regex": (
        [
            "([abc])+\\s+$",
            "a|b|",
            "(?:a*?)",
            "[^\\]]",
            "[a-z\\d_-]",
            "a{2,10}",
            "[]",
            "é",
            "",
            "^\\(\\.x{3}$",
            "a{1,2}?",
        ],
        ["^(abc]", "a)", "(a", "[a", "a**", "^*", "{", "a{3,2}", "\\a", "[z-a]", "[\\w-.]", "(?P<n>a)", "(?i)a", "\\"],
    ),
    "ipv4": (["0.0.0.0", "255.249.99.1"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.4 "]),
    "ipv6": (
        ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "a:B::"],
        ["1", ":", ":::", "1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1.2.3", "::1%eth0", "1:"],
    ),
    "uuid": (
        ["2eb8aa08-AA98-11ea-b4aa-73b441d16380"],
        [
            "2eb8aa08aa9811eab4aa73b441d16380",
            "2eb8aa08-aa98-11ea-b4aa-73b441d1638",
            "2gb8aa08-aa98-11ea-b4aa-73b441d16380",
        ],
    ),
    "uri": (
        [
            "http://a.b:80/c?d#e",
            "urn:a:b",
            "mailto:a@b.c",
            "x:",
            "http://[::1]/",
            "http://[v1.a:b]",
            "a:/b",
            "http://a/%41",
        ],
        [
            "/a",
            "a",
            "//a",
            "1a:b",
            "http://a b",
            "http://a:b/",
            "http://[::1",
            "http://a/%4",
            "http://a/é",
            "a:\\b",
            "a:[",
            "x:#a#b",
        ],
    ),
    "uri-reference": (
        ["", "a", "/a", "//a/b", "?q", "#f", "./a:b", "a/b:c", "x:y"],
        ["1:b", "\\a", "#a#b", "%", "/[::1]", "é"],
    ),
    "iri": (["http://é.org/ü?\U000f0000#ñ", "http://[::1]"], ["é", "http://é.org/\ue000", "http://a/\n", "http://é é"]),
    "iri-reference": (["é", "//é/ü", "#é", ""], ["\\é", "#é\\", "é é"]),
    "uri-template": (
        ["", "a/{b}", "{+a,b:3,c*}", "{?a.b}", "{%41}", "a'é"],
        ["{", "}", "{}", "{a", "{a,}", "{a:0}", "{a:10000}", "{a..b}", "{=a}", "a b", "%", "{a b}"],
    ),
    "json-pointer": (["", "/", "/a~0b/~1", "//", "/é\n"], ["a", "#/a", "/~", "/~2"]),
    "relative-json-pointer": (["0", "1/a", "0#", "120/a/b"], ["", "/a", "01", "-1", "0##", "1#/a", "0a"]),
}


def has_format(name: str, text: str) -> bool:
    return format_automaton(name).accepts(map(ord, text))


@pytest.mark.parametrize("name", sorted(SUPPORTED))
def test_every_format(name: str) -> None:
    valid, invalid = CASES[name]
    for text in valid:
        assert has_format(name, text), text
    for text in invalid:
        assert not has_format(name, text), text


def test_the_formats_of_the_standard_are_enforced() -> None:
    assert len(SUPPORTED) == 19


@pytest.mark.parametrize("name", sorted(SUPPORTED))
def test_every_format_is_within_what_surrounds_it(name: str) -> None:
    assert subtract(format_automaton(name), outer_automaton(name), Budget()).is_empty


BEYOND = {
    "hostname": ["xn--nxasmq6b", ".".join(["a"] * 40)],
    "idn-hostname": ["xn--nxasmq6b", "a\u0375\u03b2", "\u05d0\u05f3\u05d1"],
    "email": ["a@xn--nxasmq6b", "a@[tag:x]"],
    "idn-email": ["a@xn--nxasmq6b", "a@" + "é" * 20],
    "time": ["23:29:60-00:30", "22:59:60-01:00"],
    "date-time": ["1998-12-31T23:29:60-00:30"],
    "uri-template": ["{=a}", "{!a}"],
    "regex": ["(?<n>a)\\k<n>", "((a))", "[+-9]"],
}


@pytest.mark.parametrize("name", sorted(BEYOND))
def test_what_has_the_format_and_is_not_admitted_is_not_without_it(name: str) -> None:
    """Where a part of a format is admitted, ``not`` admits no more for that."""
    grammar = check({"anyOf": [{"not": {"format": name}}, {"type": "null"}]}, [None], [1])
    for text in BEYOND[name]:
        assert not admits(grammar, text), text
    without = {"hostname": "a_b", "email": "ab", "idn-email": "ab", "time": "12", "date-time": "12", "idn-hostname": ""}
    if name in without:
        assert admits(grammar, without[name])


def test_branches_of_which_a_part_of_a_format_is_admitted_exclude_all_of_it() -> None:
    schema = {"type": "string", "oneOf": [{"format": "hostname"}, {"pattern": "^xn--"}]}
    check(schema, ["a.b", "xn--_"], ["xn--nxasmq6b"])
    check({"oneOf": [{"format": "ipv4"}, {"format": "hostname"}], "type": "string"}, ["a.b"], ["1.2.3.4", "_"])


def test_automata_stay_small() -> None:
    assert max(format_automaton(name).state_count for name in SUPPORTED) < 2_000
    assert format_automaton("date").state_count < 50


def test_a_format_stands_together_with_its_siblings() -> None:
    schema = {"type": "string", "format": "date", "pattern": "^20", "maxLength": 10, "not-a-keyword": 1}
    check(schema, ["2024-01-31"], ["1999-01-31", "2024-02-30", 1, b'"2024-01\\u002d31"'])
    check({"format": "ipv4"}, ["1.2.3.4", 1, None, ["x"]], ["x"])
    check({"anyOf": [{"format": "ipv4"}, {"maxLength": 2}], "type": "string"}, ["1.2.3.4", "a"], ["abc"])
    check({"enum": ["2024-01-01", "x", 3], "format": "date"}, ["2024-01-01", 3], ["x"])
    check({"allOf": [{"format": "uri"}, {"format": "ipv6"}], "type": "string"}, ["a::"], ["1::", "http://x"])
    check({"format": "iri", "type": "string"}, ["a:é", b'"a:\\u00e9"'], ["é"])


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 9999), st.integers(0, 13), st.integers(0, 32))
def test_dates_are_those_of_the_calendar(year: int, month: int, day: int) -> None:
    try:
        datetime.date(year, month, day)
        is_date = True
    except ValueError:
        is_date = False
    assert has_format("date", f"{year:04}-{month:02}-{day:02}") == is_date


@settings(deadline=None, max_examples=200)
@given(st.text("01fF:.2", max_size=12) | st.ip_addresses().map(str) | st.ip_addresses(v=6).map(lambda a: a.exploded))
def test_addresses_are_those_of_the_library(text: str) -> None:
    for name, kind in (("ipv4", ipaddress.IPv4Address), ("ipv6", ipaddress.IPv6Address)):
        try:
            kind(text)
            is_address = True
        except ValueError:
            is_address = False
        assert has_format(name, text) == is_address, (name, text)


@settings(deadline=None, max_examples=30)
@given(st.uuids())
def test_identifiers(value: uuid.UUID) -> None:
    assert has_format("uuid", str(value))
    assert not has_format("uuid", value.hex)


def words_of(automaton: Dfa, count: int, rng: random.Random) -> list[str]:
    """Random texts of an automaton."""
    found: list[str] = []
    while len(found) < count:
        state, text = 0, ""
        for _ in range(rng.randint(0, 60)):
            if not automaton.edges[state]:
                break
            low, high, state = rng.choice(automaton.edges[state])
            text += chr(rng.randint(low, min(high, low + 500)))
            if automaton.accepting[state] and rng.random() < 0.2:
                break
        if automaton.accepting[state]:
            found.append(text)
    return found


def test_expressions_are_expressions() -> None:
    """What is admitted as ``regex`` is what the parser of patterns reads, or refuses by name."""
    rng = random.Random(1)
    parsed_count = 0
    flat = parse_regex(FLAT, Budget(), flags="u")
    for text in words_of(format_automaton("regex"), 200, rng) + words_of(flat, 200, rng):
        try:
            parse_regex(text, Budget(), flags="u")
            parsed_count += 1
        except UnsupportedError:
            continue
    assert parsed_count > 200


def test_expressions_nest() -> None:
    schema = {"type": "string", "format": "regex"}
    nested = ["((a|b)*(?:c(?=(d))))+?", "(" * 30 + ")" * 30, "", "\\(", "[(]", 'é"']
    nested.append(r"[c-x]\0\cA\x41\u{1F600}\p{Lu}(?<!a{10,30})")
    broken = ["(" * 30 + ")" * 29, "((a)", "(a))", "((?=a)*)", "(?)", "(*)", "[c-b]", r"\01", "a{30,10}"]
    check(schema, nested, [*broken, 1])
    check({"anyOf": [schema, {"enum": ["(", 5]}]}, ["((a))", "(", 5], [")", 6])
    check({**schema, "maxLength": 5}, ["(a)b", "[(]"], ["(", "(a)bcd"])
    check({"type": "object", "propertyNames": {"format": "regex"}}, [{"^a$": 1, "(b)": 2}], [{"(": 1}])


def test_labels_beyond_ascii_are_valid_by_rfc_5892() -> None:
    """Letters that normalisation and case folding leave alone (and two exceptions); A-labels of 63 characters."""
    rng = random.Random(2)
    seen: set[str] = set()
    for name in words_of(format_automaton("idn-hostname"), 2000, rng):
        for label in name.split("."):
            seen.update(label if not label.isascii() else "")
            assert label.isascii() or len(label.encode("punycode")) + len("xn--") <= 63, label
    for letter in seen - set("ßς-0123456789"):
        assert unicodedata.category(letter) in ("Ll", "Lo"), letter
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", letter).casefold())
        assert folded == letter, letter
