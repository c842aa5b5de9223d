"""Patterns that are malformed, unsupported or too large: a typed error that says where, and never a crash."""

from __future__ import annotations

import itertools
import re

import pytest

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.regex import parse_regex, search_automaton
from shmcache.limits import EXPRESSION_DEPTH_MAX, Budget

MALFORMED = [
    # pattern, flags, column
    ("(", "", 1),
    ("ab(c", "", 3),
    ("(a))", "", 4),
    (")", "", 1),
    ("*a", "", 1),
    ("a**", "", 3),
    ("a|*", "", 3),
    ("a+?+", "", 4),
    ("(?=a)**", "", 7),
    ("^*", "", 2),
    ("\\b+", "", 3),
    ("{1}", "", 1),
    ("a{1}{2}", "", 5),
    ("a{2,1}", "", 2),
    ("a{,2}", "", 2),
    ("[a", "", 1),
    ("x[^", "", 2),
    ("[z-a]", "", 2),
    ("[a-c-b\\d-]x[b-a]", "", 13),
    ("a\\", "", 2),
    ("[\\", "", 2),
    ("\\x4", "", 1),
    ("\\xg1", "", 1),
    ("\\u12", "", 1),
    ("\\u{}", "", 1),
    ("a\\u{110000}", "", 2),
    ("\\u{" + "9" * 5000 + "}", "", 1),
    ("\\c1", "", 1),
    ("\\01", "", 1),
    ("[\\1]", "", 2),
    ("\\a", "", 1),
    ("\\Z", "", 1),
    ("\\é", "", 1),
    ("[\\B]", "", 2),
    ("\\p", "", 1),
    ("\\pL", "", 1),
    ("(?#)", "", 1),
    ("(?P<n>a)", "", 1),
    ("(?>a)", "", 1),
    ("(?<1>a)", "", 1),
    ("(?<n>a)(?<n>b)", "", 8),
    ("(?ii:a)", "", 1),
    ("(?-:a)", "", 1),
    ("(?i-i:a)", "", 1),
    # more is malformed under the u flag
    ("a{", "u", 2),
    ("}", "u", 1),
    ("]", "u", 1),
    ("\\-", "u", 1),
    ("[\\d-z]", "u", 2),
    ("(?=a)*", "u", 6),
]


@pytest.mark.parametrize(("pattern", "flags", "column"), MALFORMED, ids=[case[0][:20] for case in MALFORMED])
def test_malformed(pattern: str, flags: str, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        parse_regex(pattern, Budget(), flags=flags)
    assert (caught.value.line, caught.value.column) == (1, column)


UNSUPPORTED = [
    ("(a)\\1", "back-reference", 4),
    ("(?<n>a)\\k<n>", "back-reference", 8),
    ("a(?<=b)", "look-behind", 2),
    ("(?<!b)a", "look-behind", 1),
    ("(?i)a", "inline flags", 1),
    ("x\\p{Script=Latin}", "Unicode script property", 2),
    ("\\p{Emoji}", "Unicode property", 1),
    ("a\\ud83d", "lone surrogate", 2),
    ("[\ud800]", "lone surrogate", 2),
]


@pytest.mark.parametrize(("pattern", "feature", "column"), UNSUPPORTED)
def test_unsupported(pattern: str, feature: str, column: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        search_automaton(pattern, Budget())
    assert (caught.value.feature, caught.value.line, caught.value.column) == (feature, 1, column)


def test_message_points_at_the_place() -> None:
    with pytest.raises(SourceError) as caught:
        parse_regex("line\nfeed(x", Budget())
    assert caught.value.column == 10, "a line feed in a pattern ends no line"
    assert caught.value.message.splitlines()[1:] == ["  line·feed(x", "           ^"]


def test_excerpt_of_a_long_pattern_is_short() -> None:
    with pytest.raises(SourceError) as caught:
        parse_regex("a" * 5000 + "(" + "b" * 5000, Budget())
    excerpt, caret = caught.value.message.splitlines()[1:]
    assert len(excerpt) < 100
    assert excerpt[caret.index("^")] == "("


@pytest.mark.parametrize("flags", ["x", "g", "ii"])
def test_unknown_flags(flags: str) -> None:
    with pytest.raises(SourceError, match="flags"):
        parse_regex("a", Budget(), flags=flags)


DEEP = 60_000


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * DEEP + ")" * DEEP,
        "(" * DEEP,
        "(?:" * (EXPRESSION_DEPTH_MAX + 1) + "a" + ")*" * (EXPRESSION_DEPTH_MAX + 1),
        "(?=a" * 100 + ")" * 100,
        "a{" + "9" * 5000 + "}",
        "a{1000000}",
        "((a{1000}){1000}){1000}",
        "[ab]*a[ab]{30}",
        "(?=(a|b)*a(a|b){30})[ab]*",
        "a|(?=x{1000000})",
    ],
    ids=lambda pattern: pattern[:20],
)
def test_too_large(pattern: str) -> None:
    budget = Budget(states_max=20_000, edges_max=500_000)
    with pytest.raises(LimitError):
        parse_regex(pattern, budget)


def test_nesting_up_to_the_limit_is_fine() -> None:
    depth = EXPRESSION_DEPTH_MAX
    for pattern in ("(" * depth + "a" + ")" * depth, "(?:b|" * depth + "a" + ")*" * depth, "(a" * depth + ")?" * depth):
        assert parse_regex(pattern, Budget()).accepts(map(ord, "a"))


def test_explosion_within_the_budget_is_answered() -> None:
    automaton = parse_regex("[ab]*a[ab]{9}", Budget())
    assert automaton.state_count == 1 << 10
    assert automaton.accepts(map(ord, "bab" + "b" * 8))
    assert not automaton.accepts(map(ord, "bbb" + "b" * 8))


@pytest.mark.parametrize(
    ("pattern", "states"), [("a{1000}", 1001), ("a{0,2000}", 2001), ("^.{1,2000}$", 2001), ("(?:a?){2000}", 2001)]
)
def test_counts_are_linear(pattern: str, states: int) -> None:
    budget = Budget()
    assert parse_regex(pattern, budget).state_count == states
    assert budget.states < 5 * states
    assert budget.edges < 30 * states


def test_search_stops_at_the_first_match() -> None:
    budget = Budget()
    assert search_automaton("[a-z]{3,2000}", budget).state_count == 4
    assert budget.edges < 50_000


def test_deadline() -> None:
    now = iter(range(1_000_000))
    with pytest.raises(LimitError) as caught:
        parse_regex("a" * 5000, Budget(seconds_max=3.0, clock=lambda: float(next(now))))
    assert caught.value.limit == "seconds"


NESTED_COUNTS = (
    "(a{1,3}b?){1,3}",
    "(a?b?){0,4}c",
    "(?:(a|ab){0,2}(?:b{1,2}|c)){1,3}",
    "((a{0,2}b){0,2}c?){0,2}",
    "(?:[ab]{1,3}c?){2,4}",
    "(?:a{0,2}(?=b|$)[ab]{0,2}){0,3}",
    "(?:(?!bb)[abc]{1,2}){1,3}",
    r"(?:\b[ab]{1,2}|c){1,4}",
)


@pytest.mark.parametrize("pattern", NESTED_COUNTS)
def test_counts_within_counts_are_those_of_python(pattern: str) -> None:
    """Copies of a part that can do what an earlier one can are dropped; nothing else may be."""
    automaton, found = parse_regex(pattern, Budget()), search_automaton(f"a{pattern}c", Budget())
    for length in range(8):
        for word in map("".join, itertools.product("abc", repeat=length)):
            codes = list(map(ord, word))
            assert automaton.accepts(codes) == (re.fullmatch(pattern, word) is not None), word
            assert found.accepts(codes) == (re.search(f"a{pattern}c", word) is not None), word
