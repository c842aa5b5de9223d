"""What the macros of EBNF texts mean, and how they grow."""

from __future__ import annotations

import random

import pytest

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ebnf import ebnf_grammar
from shmcache.grammar.ir import Graph, Regular, Sequence, Tokens
from shmcache.grammar.substrings import substrings
from shmcache.limits import EXPRESSION_DEPTH_MAX, Budget
from tests.reference.grammar_recogniser import is_viable_prefix, recognises

X = '\nr ::= "x"\ns ::= "y"'

CASES = [
    # text, members, others
    ('root ::= Regex("[a-c]+")', ["a", "cab"], ["", "ad"]),
    ('root ::= Regex("^a$|b")', ["a", "b"], ["ab", "^a$"]),
    ('root ::= Regex("")', [""], ["a"]),
    ('root ::= Regex("\\\\d\\\\u00e9\\\\x41\\n")', ["1éA\n"], ["1\\"]),
    ('root ::= Regex("a\\"é😀")', ['a"é😀'], ["a"]),
    ('root ::= "x" Regex ( "a|b" , ) {2} Regex("c")* "y"', ["xaby", "xbbccy"], ["xay", "xcy"]),
    ('root ::= "x" Regex("a(?=b)") "b"', [], ["xab"]),
    ('root ::= ("q" | Regex("a"))+', ["q", "aqa"], [""]),
    ('root ::= Substring("abc")', ["", "abc"], ["a", "b", "bc", "abcd"]),
    ('root ::= Substring("a", "bc", "d")', ["", "a", "bc", "abc", "abcd", "bcd", "d"], ["b", "ad", "da", "ab"]),
    ('root ::= Substring("a", "", "é",)', ["", "a", "aé", "é"], ["éa"]),
    ('root ::= Substring("a", "a", "b")', ["aa", "aab", "ab"], ["aaa", "ba"]),
    ('root ::= Substring("aa", "a")', ["aa", "aaa", "a"], ["aaaa"]),
    ("root ::= Substring()", [""], ["a"]),
    ('root ::= Substring("") "a"', ["a"], [""]),
    ('root ::= "x" Substring("a", "b")* "y"', ["xy", "xabbay"], ["x", "xcy"]),
    ('root ::= TagDispatch(("<a>", r))' + X, ["", "<a", "q<a>x", "<a>xq<a>x!", "é"], ["<a>", "<a>y", "<<a>"]),
    ('root ::= TagDispatch(("<a>", r), loop_after_dispatch=false)' + X, ["", "q", "q<a>x"], ["<a>xq", "<a>x<a>x"]),
    ('root ::= TagDispatch(("<a>", r), ("<a>", s))' + X, ["<a>x<a>y"], ["<a>z"]),
    ('root ::= TagDispatch(("a", r), ("ab", s))' + X, ["ax", "aby", "zaby"], ["a", "ab", "abx", "ac", "aax"]),
    ('root ::= TagDispatch(("a", r), ("abc", s))' + X, ["ax", "abcy", "axabcy"], ["ab", "abz", "abax", "abx"]),
    ('root ::= TagDispatch(("abc", r), ("b", s))' + X, ["abcx", "by", "aby"], ["ab", "abz", "abcy", "b"]),
    ('root ::= TagDispatch(("abc", r), ("c", s))' + X, ["abcx", "cy", "bcy"], ["abcy", "abc"]),
    ('root ::= TagDispatch(excludes=("end", "no"))', ["", "en", "onn"], ["end", "enden", "no"]),
    ('root ::= TagDispatch(("<a>", r), excludes=("x"))' + X, ["<a>x", "q"], ["x", "<a>xx"]),
    ('root ::= TagDispatch(("abc", r), excludes=("b"))' + X, ["ac", "a"], ["abcx", "b"]),
    ('root ::= TagDispatch(("abc", r), excludes=("zab", "cx"))' + X, ["abcx", "yabcx"], ["zab", "zabcx", "cx"]),
    ('root ::= TagDispatch(("a", r), excludes=("baa"))' + X, ["bax", "bbax"], ["ba", "bab", "baa"]),
    ("root ::= TagDispatch()", ["", "anything"], []),
    ('root ::= TagDispatch(loop_after_dispatch=false, ("a", root),)', ["", "aaa", "bab"], []),
    ('root ::= TagDispatch(("a", r), excludes=("z",)) "z" | "w"' + X, ["z", "qaxz", "w"], ["", "qz z", "az"]),
    ('root ::= "[" TagDispatch(("\\n", true), excludes=("]")) "]"\ntrue ::= "t"', ["[]", "[a\ntb]"], ["[\n]", "[]]"]),
    ('root ::= TagDispatch # here\n ( ("a" , r) # a\n , excludes = () )' + X, ["ax"], ["a"]),
]


@pytest.mark.parametrize(("text", "members", "others"), CASES, ids=[ascii(case[0]) for case in CASES])
def test_language(text: str, members: list[str], others: list[str]) -> None:
    grammar = ebnf_grammar(text, "root", Budget())
    assert [word for word in members if not recognises(grammar, word.encode())] == []
    assert [word for word in others if recognises(grammar, word.encode())] == []
    assert is_viable_prefix(grammar, b"") == bool(members)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ("Token(7)", Tokens((7,))),
        ("Token( 7, 3, 007, )", Tokens((7, 3))),
        ('Token("<|end|>", 3)', Tokens(("<|end|>", 3))),
        ("ExcludeToken(0)", Tokens((0,), is_excluded=True)),
        ('ExcludeToken("\\u00e9", 2)', Tokens(("é", 2), is_excluded=True)),
    ],
)
def test_tokens(body: str, tokens: Tokens) -> None:
    assert ebnf_grammar(f"root ::= {body}", "root", Budget()).rules["root"] == tokens
    repeated = ebnf_grammar(f'root ::= "a" {body}* | {body}', "root", Budget())
    assert str(repeated.rules["root"]).count(str(tokens)) == 2


def test_token_dispatch() -> None:
    text = 'root ::= TokenTagDispatch((7, r), ("<t>", s), loop_after_dispatch=false, excludes=(3, "<e>"))' + X
    dispatched = ebnf_grammar(text, "root", Budget()).rules["root"]
    assert isinstance(dispatched, Graph)
    items = [item for _, item, _ in dispatched.edges if isinstance(item, Tokens)]
    assert items == [Tokens((7, "<t>", 3, "<e>"), is_excluded=True), Tokens((7,)), Tokens(("<t>",))]


def test_regex_errors_point_into_the_pattern() -> None:
    with pytest.raises(SourceError) as caught:
        ebnf_grammar('root ::= "x"\n  Regex("\\u0061\\\\x41(b")', "root", Budget())
    lines = caught.value.message.splitlines()
    assert "(line 2, column 21)" in lines[0]
    assert lines[0].count("(line") == 1
    assert lines[1:] == ['    Regex("\\u0061\\\\x41(b")', "                      ^"]


def test_a_thousand_triggers_are_read_quickly() -> None:
    pairs = ", ".join(f'("<tool_{number}>", r)' for number in range(1000))
    budget = Budget(seconds_max=10.0)
    grammar = ebnf_grammar(f'root ::= TagDispatch({pairs}, excludes=("<end>"))\nr ::= "x"', "root", budget)
    assert recognises(grammar, b"say <tool_77>x and <tool_999>x")
    assert not recognises(grammar, b"say <tool_77>y")
    assert budget.states < 20_000


def test_long_triggers_are_read_quickly() -> None:
    letters = random.Random(1).choices("ab", k=10_000)
    trigger = "".join(letters)
    budget = Budget(seconds_max=10.0)
    grammar = ebnf_grammar(f'root ::= TagDispatch(("{trigger}", r))\nr ::= "x"', "root", budget)
    assert isinstance(grammar.rules["root"], Graph)
    assert grammar.rules["root"].state_count < 10_020
    assert budget.edges < 200_000


def test_substrings_agree_with_slices() -> None:
    rng = random.Random(5)
    for _ in range(100):
        chunks = [rng.choice(["a", "b", "ab", "é", "", "ba"]) for _ in range(rng.randint(0, 7))]
        ends = range(len(chunks) + 1)
        runs = {"".join(chunks[begin:end]) for end in ends for begin in range(end + 1)}
        automaton = substrings(chunks, Budget())
        texts = runs | {"".join(rng.choices("abé", k=rng.randint(0, 6))) for _ in range(100)}
        assert {text for text in texts if automaton.accepts(text.encode())} == runs, chunks


@pytest.mark.parametrize("alphabet", ["a", "ab", "abcdefghijklmnop", "é中"])
def test_substrings_are_linear(alphabet: str) -> None:
    chunks = random.Random(2).choices(alphabet, k=20_000)
    budget = Budget()
    automaton = substrings(chunks, budget)
    bytes_in_all = len("".join(chunks).encode())
    assert automaton.state_count <= 2 * bytes_in_all
    assert budget.edges <= 6 * bytes_in_all
    assert automaton.accepts("".join(chunks[5_000:15_000]).encode())


@pytest.mark.parametrize("count", [1, 100_000])
def test_substrings_of_a_hundred_thousand_characters(count: int) -> None:
    text = "ab" * 50_000
    chunks = [text] if count == 1 else list(text)
    body = ", ".join(f'"{chunk}"' for chunk in chunks)
    expression = ebnf_grammar(f"root ::= Substring({body})", "root", Budget()).rules["root"]
    assert isinstance(expression, Regular)
    assert expression.automaton.accepts(text.encode())
    assert expression.automaton.accepts(b"aba") == (count > 1)


def test_substrings_that_explode_are_a_limit_error() -> None:
    chunks = random.Random(3).choices(["a", "aa"], k=4_000)
    with pytest.raises(LimitError):
        substrings(chunks, Budget())


def test_macros_stand_as_deep_as_groups_do() -> None:
    depth = EXPRESSION_DEPTH_MAX
    text = "root ::= " + "(" * depth + 'TagDispatch(("<", root), excludes=(">")) Regex(">?")' + ")" * depth
    grammar = ebnf_grammar(text, "root", Budget())
    assert recognises(grammar, b"a<b>c<")
    assert isinstance(grammar.rules["root"], Sequence)


def test_many_macros_are_read_in_linear_time() -> None:
    count = 500
    bodies = "\n".join(f'r{n} ::= TagDispatch(("<{n}>", r{n + 1})) | Regex("a{n}")' for n in range(count))
    budget = Budget()
    ebnf_grammar(f'{bodies}\nr{count} ::= ""', "r0", budget)
    assert budget.states < 60 * count
