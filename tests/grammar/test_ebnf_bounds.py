"""EBNF texts that are malformed, unsupported or too large: a typed error that says where, and never a crash."""

from __future__ import annotations

import pytest

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.ebnf import ebnf_grammar
from shmcache.limits import EXPRESSION_DEPTH_MAX, Budget

MALFORMED = [
    # text, line, column
    ("", 1, 1),
    ("# nothing\n", 1, 1),
    ('other ::= "a"', 1, 1),
    ('"a"', 1, 1),
    ("root", 1, 5),
    ('root "a"', 1, 6),
    ('root = "a"', 1, 6),
    ('root := "a"', 1, 6),
    ("root ::=", 1, 1),
    ('x ::= "a"\nroot ::= # nothing\n', 2, 1),
    ('root ::= "a" ::= "b"', 1, 14),
    ('root ::= "a"\nroot ::= "b"', 2, 1),
    ('root ::= "a"\n  | missing', 2, 5),
    ("root ::= Regex", 1, 15),
    ('root ::= ("a"', 1, 10),
    ('root ::= ("a" ("b")', 1, 10),
    ('root ::= ("a"\nx ::= "b")', 1, 10),
    ('root ::= "a")', 1, 13),
    ('root ::= * "a"', 1, 10),
    ('root ::= "a" | +', 1, 16),
    ('root ::= "a"**', 1, 14),
    ('root ::= "a"{1}?', 1, 16),
    ("root ::= {2}", 1, 10),
    ('root ::= "a"{2,1}', 1, 13),
    ('root ::= "a"{,1}', 1, 13),
    ('root ::= "a"{x}', 1, 13),
    ('root ::= "a"{1', 1, 13),
    ('root ::= "a"}', 1, 13),
    ('root ::= "a', 1, 10),
    ('root ::= "a\n"', 1, 10),
    ('root ::= "a\\"', 1, 10),
    ('root ::=\n\t"ab\\q"', 2, 5),
    ('root ::= "\\x4"', 1, 11),
    ('root ::= "\\u12"', 1, 11),
    ('root ::= "\\U0001F60"', 1, 11),
    ('root ::= "\\U00110000"', 1, 11),
    ('root ::= "a\\ud83d"', 1, 12),
    ('root ::= "\\ude00\\ud83d"', 1, 11),
    ('root ::= "\\ud83d\\n"', 1, 11),
    ("root ::= [a", 1, 10),
    ("root ::= [a\n]", 1, 10),
    ("root ::= [xz-a]", 1, 12),
    ("root ::= [\\q]", 1, 11),
    ("root ::= [\\ud800-\\udfff]", 1, 11),
    ("root ::= <a>", 1, 10),
    ('root ::= "a", "b"', 1, 13),
    ("root ::= 'a'", 1, 10),
    ("root ::= /a/", 1, 10),
    ('root ::= "\ud800"', 1, 11),
    ("root ::= Regex * ", 1, 16),
    ("root ::= Regex()", 1, 10),
    ('root ::= Regex("a", "b")', 1, 10),
    ("root ::= Regex(1)", 1, 16),
    ('root ::= Regex(("a"))', 1, 16),
    ('root ::= Regex(pattern="a")', 1, 16),
    ('root ::= Regex(="a")', 1, 15),
    ('root ::= Regex("a"', 1, 10),
    ('root ::= Regex("a"\nx ::= "b"', 2, 1),
    ('root ::= Regex("a" "b")', 1, 20),
    ('root ::= Regex("a",, "b")', 1, 20),
    ("root ::= Regex(,)", 1, 16),
    ("root ::= Regex([a])", 1, 16),
    ('root ::=\n  Regex("ab(c")', 2, 12),
    ('root ::= Regex("\\x41\\u00e9[b-a]")', 1, 28),
    ('root ::= Regex("\\d")', 1, 17),
    ("root ::= Substring(a)", 1, 20),
    ('root ::= Substring(("a", "b"))', 1, 20),
    ("root ::= Substring(loop_after_dispatch=true)", 1, 20),
    ("root ::= Token()", 1, 10),
    ("root ::= ExcludeToken()", 1, 10),
    ("root ::= Token(-1)", 1, 16),
    ("root ::= Token(1.5)", 1, 16),
    ('root ::= Token(1, "")', 1, 19),
    ("root ::= Token((1, 2))", 1, 16),
    ("root ::= Token(1" + "0" * 5000 + ")", 1, 16),
    ('root ::= TagDispatch("a", root)', 1, 22),
    ('root ::= TagDispatch(("a"))', 1, 22),
    ('root ::= TagDispatch(("a", root, root))', 1, 22),
    ('root ::= TagDispatch(("a", ("b")))', 1, 28),
    ('root ::= TagDispatch(("a", "b"))', 1, 28),
    ('root ::= TagDispatch(("a", missing))', 1, 28),
    ('root ::= TagDispatch(("", root))', 1, 23),
    ("root ::= TagDispatch((1, root))", 1, 23),
    ('root ::= TagDispatch(excludes="a")', 1, 31),
    ('root ::= TagDispatch(excludes=("a", ""))', 1, 37),
    ("root ::= TagDispatch(excludes=(1))", 1, 32),
    ('root ::= TagDispatch(excludes=("a"), excludes=("b"))', 1, 38),
    ('root ::= TagDispatch(("abc", root), excludes=("ab"))', 1, 23),
    ('root ::= TagDispatch(("abc", root), excludes=("abc"))', 1, 23),
    ("root ::= TagDispatch(loop_after_dispatch=1)", 1, 42),
    ("root ::= TagDispatch(loop_after_dispatch=(true))", 1, 42),
    ("root ::= TagDispatch(loop=true)", 1, 22),
    ('root ::= TagDispatch(("a", root', 1, 10),
    ('root ::= TagDispatch(("a", root)', 1, 10),
    ("root ::= TagDispatch(excludes=", 1, 10),
    ("root ::= TokenTagDispatch((1, root), exclude_tokens=(2))", 1, 38),
    ("root ::= TokenTagDispatch((1, root), stop_eos=true)", 1, 38),
    ("root ::= TokenTagDispatch((1, root), excludes=(2, 1))", 1, 28),
    ("root ::= TokenTagDispatch((root, root))", 1, 28),
    ("root ::= TokenTagDispatch(" + "(" * 10_000 + "1", 1, 28),
]


@pytest.mark.parametrize(("text", "line", "column"), MALFORMED, ids=[ascii(case[0]) for case in MALFORMED])
def test_malformed(text: str, line: int, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        ebnf_grammar(text, "root", Budget())
    assert (caught.value.line, caught.value.column) == (line, column)


UNSUPPORTED = [
    ('root ::= "a" (= "b")', "lookahead", 1, 14),
    ("root ::= [a\\d]", "character class escape \\d", 1, 12),
    ('root ::= TagDispatch(("a", x), stop_eos=true)\nx ::= ""', "argument stop_eos of TagDispatch", 1, 32),
    ('root ::= TagDispatch(stop_str=("a",))', "argument stop_str of TagDispatch", 1, 22),
    ('root ::= Regex("(?<=é)")', "look-behind", 1, 17),
    ('root ::= Regex("\\x41\\n(a)\\\\1")', "back-reference", 1, 26),
]


@pytest.mark.parametrize(("text", "feature", "line", "column"), UNSUPPORTED, ids=[case[1] for case in UNSUPPORTED])
def test_unsupported(text: str, feature: str, line: int, column: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        ebnf_grammar(text, "root", Budget())
    assert (caught.value.feature, caught.value.line, caught.value.column) == (feature, line, column)


def test_message_points_at_the_place() -> None:
    with pytest.raises(SourceError) as caught:
        ebnf_grammar('root ::= "a"\nx ::= é\n', "root", Budget())
    assert caught.value.message.splitlines()[1:] == ["  x ::= é", "        ^"]


@pytest.mark.parametrize(
    "body",
    ["(" * 60_000 + ")" * 60_000, "(" * 60_000, '("a"' * (EXPRESSION_DEPTH_MAX + 1) + ")" * (EXPRESSION_DEPTH_MAX + 1)],
    ids=["balanced", "open", "one too many"],
)
def test_nested_too_deeply(body: str) -> None:
    with pytest.raises(LimitError) as caught:
        ebnf_grammar("root ::= " + body, "root", Budget())
    assert (caught.value.limit, caught.value.value) == ("expression_depth", EXPRESSION_DEPTH_MAX)


def test_absurd_count() -> None:
    with pytest.raises(LimitError):
        ebnf_grammar('root ::= "a"{' + "9" * 5000 + "}", "root", Budget())


def test_deadline() -> None:
    now = iter(range(1_000_000))
    with pytest.raises(LimitError) as caught:
        ebnf_grammar('root ::= "a"' * 5000, "root", Budget(seconds_max=3.0, clock=lambda: float(next(now))))
    assert caught.value.limit == "seconds"
