"""What patterns mean: stated cases, and agreement with Python's ``re`` on random patterns and texts."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.grammar.ir import Regular
from shmcache.grammar.regex import parse_regex, regex_grammar, search_automaton
from shmcache.limits import Budget
from tests.reference.grammar_recogniser import is_viable_prefix, recognises


def matches(pattern: str, text: str, flags: str = "") -> bool:
    return parse_regex(pattern, Budget(), flags=flags).accepts(map(ord, text))


def found(pattern: str, text: str, flags: str = "") -> bool:
    return search_automaton(pattern, Budget(), flags).accepts(map(ord, text))


WHOLE = [
    # pattern, matched as a whole, not matched
    ("", [""], ["a"]),
    ("cat|dog", ["cat", "dog"], ["hotdog", "catdog", ""]),
    ("a||b", ["a", "", "b"], ["ab"]),
    ("()", [""], ["()"]),
    ("x(ab*)?y", ["xy", "xay", "xabby"], ["xby", "x", "xabab"]),
    ("(a*)*", ["", "a", "aaa"], ["b"]),
    ("(a*)+b{2}", ["bb", "aabb"], ["ab"]),
    ("(?:a|b)??c", ["c", "ac", "bc"], ["abc"]),
    ("a{2}", ["aa"], ["a", "aaa"]),
    ("a{2,}", ["aa", "aaaaa"], ["a"]),
    ("a{0,2}?b", ["b", "ab", "aab"], ["aaab"]),
    ("a{0}b", ["b"], ["ab"]),
    ("(ab){2,3}", ["abab", "ababab"], ["ab", "abababab"]),
    (".", ["a", "é", "😀", "\t"], ["", "\n", "\r", "\u2028", "\u2029", "ab"]),
    ("[a-c]", ["a", "b", "c"], ["d", "-"]),
    ("[^a-c]", ["d", "\n", "😀"], ["a", "", "dd"]),
    ("[a-]", ["a", "-"], ["b"]),
    ("[-a]", ["a", "-"], ["b"]),
    ("[a\\-z]", ["a", "-", "z"], ["b"]),
    ("[\\d-z]", ["1", "-", "z"], ["a"]),
    ("[]", [], ["", "a", "]"]),
    ("[^]", ["a", "\n", "😀"], ["", "ab"]),
    ("[\\]\\\\^]", ["]", "\\", "^"], ["a"]),
    ("[.*+?()|{}$]", [".", "*", "(", "$"], ["a"]),
    ("[\\b]", ["\b"], ["b"]),
    ("\\d", ["0", "9"], ["a", "९", "٣", "𝟗"]),
    ("\\D", ["a", "९"], ["0"]),
    ("\\w", ["a", "Z", "0", "_"], ["é", "-", "ſ"]),
    ("\\W", ["é", "-", " "], ["a", "_"]),
    (
        "\\s",
        [" ", "\t", "\n", "\v", "\f", "\r", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\ufeff"],
        ["a", "\u200b", "\x85"],
    ),
    ("\\S", ["a", "\x85"], [" ", "\ufeff"]),
    ("\\n\\r\\t\\v\\f\\0", ["\n\r\t\v\f\0"], ["nrtvf0"]),
    ("\\x41\\u0042\\u{1F600}\\u{43}", ["AB😀C"], ["A"]),
    ("\\uD83D\\uDE00", ["😀"], ["", "\ufffd"]),
    ("[\\uD83D\\uDE00-\\uD83D\\uDE02]", ["😀", "😁", "😂"], ["😃"]),
    ("\\cA\\cz", ["\x01\x1a"], ["cA"]),
    ('\\.\\*\\/\\-\\_\\ \\"', ['.*/-_ "'], ["a*"]),
    ("\\p{L}+", ["aé漢"], ["1", ""]),
    ("\\p{Lu}\\p{Letter}\\p{gc=Nd}", ["Éa٣"], ["éa1"]),
    ("\\P{L}", ["1", "-"], ["a", "é"]),
    ("[\\p{Nd}x]", ["٣", "x"], ["y"]),
    ("\\p{ASCII}\\p{Any}", ["a😀"], ["éa"]),
    ("(?<year>\\d{4})-(?<month>\\d\\d)", ["2024-01"], ["24-1"]),
    ("a{", ["a{"], ["a"]),
    ("a{x}", ["a{x}"], ["a"]),
    ("}]", ["}]"], [""]),
    ("(?i:a)b", ["ab", "Ab"], ["AB"]),
    ("(?-i:a)b", ["ab"], ["AB"]),
    # anchors
    ("^ab$", ["ab"], ["a", "xab"]),
    ("a^b", [], ["ab", "a^b", "a\nb"]),
    ("a$b", [], ["ab", "a\nb"]),
    ("(^a|b)*", ["", "a", "b", "abb"], ["aa", "ba"]),
    ("(a$|b)*", ["", "a", "b", "bba"], ["ab", "aa"]),
    ("(^|x)a", ["a", "xa"], ["xxa"]),
    ("^^a$$", ["a"], [""]),
    # word boundaries
    ("a\\b.b", ["a b", "a-b"], ["aab", "a1b", "ab"]),
    ("a\\Bb", ["ab"], ["a b"]),
    ("\\b", [], ["", "a"]),
    ("\\B", [""], ["a"]),
    ("\\ba+\\b", ["a", "aa"], [""]),
    ("(\\w\\b\\W?)*", ["", "a", "a b ", "a-b"], ["ab", "a  b"]),
    # lookahead
    ("(?=.*\\d)(?=.*[a-z])\\w{2,3}", ["a1", "1a", "aa1"], ["aa", "11", "a1-", "aa11"]),
    ("(?!.*--)[a-z-]+", ["a-b", "-"], ["a--b", ""]),
    ("(?!foo$).*", ["", "foobar", "fo"], ["foo"]),
    ("(?:(?!ab)[abc])*", ["", "ba", "acb", "aa"], ["ab", "cab"]),
    ("a(?=b)", [], ["a", "ab"]),
    ("(?=a)*b", ["b"], ["ab", "a"]),
    ("(?=(?!aa)a)[ab]+", ["a", "ab"], ["aa", "b", "aab"]),
    ("(?!(?=a)a(?!b))[ab]*", ["", "ab", "b", "abb"], ["a", "aa"]),
    ("(?!)", [], ["", "a"]),
    ("(?=)a", ["a"], [""]),
    ("x(?=\\b)y?", ["x"], ["xy"]),
    ("(?=^)a(?=$)", ["a"], ["aa"]),
]


@pytest.mark.parametrize(("pattern", "members", "others"), WHOLE, ids=[case[0] for case in WHOLE])
def test_whole_match(pattern: str, members: list[str], others: list[str]) -> None:
    automaton = parse_regex(pattern, Budget())
    assert [text for text in members if not automaton.accepts(map(ord, text))] == []
    assert [text for text in others if automaton.accepts(map(ord, text))] == []
    assert members or automaton.is_empty


SEARCHED = [
    # pattern, found in, not found in
    ("cat|dog", ["cat", "hotdog", "catdog", "a cat!"], ["", "ca"]),
    ("^(cat|dog)$|^bird$", ["cat", "dog", "bird"], ["catdog", "birds", "a bird", ""]),
    ("^\\d$", ["1"], ["९", "12", "", "1\n"]),
    ("", ["", "anything\n"], []),
    ("^", ["", "a"], []),
    ("$", ["", "a\n"], []),
    ("^$", [""], ["a", "\n"]),
    ("a^b", [], ["ab", "a\nb"]),
    ("(^a|b)c$", ["ac", "bc", "xbc"], ["xac", "acx"]),
    ("^a|b$", ["ax", "xb", "ab"], ["xa", "bx", "xabx"]),
    ("\\bcat\\b", ["cat", "a cat", "cat.", "é cat"], ["cats", "concat", "cat_"]),
    ("écat\\b", ["écat"], ["écats"]),
    ("\\Bcat", ["concat"], ["cat", "a cat"]),
    ("a(?=b)", ["ab", "xab"], ["a", "ac"]),
    ("a(?!b)", ["a", "ac", "aba"], ["ab", "xab"]),
    ("^(?!.*admin)", ["user"], ["admin", "an admin"]),
    ("(?=b)", ["ab"], ["a"]),
    ("^[^\\s@]+@[^\\s@]+$", ["a@b"], ["a@", "a b@c", "a@b@c"]),
]


@pytest.mark.parametrize(("pattern", "texts", "others"), SEARCHED, ids=[case[0] for case in SEARCHED])
def test_search(pattern: str, texts: list[str], others: list[str]) -> None:
    automaton = search_automaton(pattern, Budget())
    assert [text for text in texts if not automaton.accepts(map(ord, text))] == []
    assert [text for text in others if automaton.accepts(map(ord, text))] == []


FLAGGED = [
    ("a[b-d]É", "i", ["ABé", "acÉ"], ["aeÉ"]),
    ("[^a]", "i", ["b"], ["a", "A"]),
    ("k", "i", ["k", "K"], ["\u212a"]),
    ("k", "iu", ["k", "K", "\u212a"], ["l"]),
    ("ß", "iu", ["ß", "ẞ"], ["ss"]),
    ("σ", "i", ["σ", "ς", "Σ"], ["s"]),
    ("\\w", "iu", ["ſ", "\u212a", "s"], ["é"]),
    ("\\w", "i", ["s"], ["ſ", "\u212a"]),
    ("a.b", "s", ["a\nb", "a\u2028b"], ["ab"]),
    ("a$\\n^b", "m", ["a\nb"], ["ab"]),
    ("(a$|\\n|^b)*", "m", ["a\nb", "b\nb", "a\n\nb"], ["aa", "ab", "bb"]),
    ("(?-m:^)a", "m", ["a"], ["\na"]),
    ("a{2}\\u{41}", "u", ["aaA"], ["aa"]),
    ("\\ud83d", "u", [], ["😀", ""]),
    ("[^\\ud800-\\udfff]", "u", ["a", "😀"], [""]),
]


@pytest.mark.parametrize(("pattern", "flags", "members", "others"), FLAGGED)
def test_flags(pattern: str, flags: str, members: list[str], others: list[str]) -> None:
    assert [text for text in members if not matches(pattern, text, flags)] == []
    assert [text for text in others if matches(pattern, text, flags)] == []


def test_equal_languages_give_equal_automata() -> None:
    for one, other in [("a|b", "[ab]"), ("a+", "aa*"), ("(a?){3}", "a{0,3}"), ("(?=.b)..", ".b"), ("(a*)*", "a*")]:
        assert parse_regex(one, Budget()) == parse_regex(other, Budget())


def test_grammar_is_the_utf8_of_whole_matches() -> None:
    grammar = regex_grammar("é|[^\\x00-\\uFFFF]{2}", Budget())
    assert isinstance(grammar.rules[grammar.root], Regular)
    assert recognises(grammar, "é".encode())
    assert recognises(grammar, "😀😁".encode())
    assert is_viable_prefix(grammar, "😀".encode() + b"\xf0\x9f")
    assert not recognises(grammar, "xé".encode())
    assert not is_viable_prefix(grammar, b"\xc3\xaa")


def quantified(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "*?", "+?", "??", "{0,2}?"])
    return st.builds("(?:{}){}".format, inner, quantifiers)


def patterns(atoms: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(atoms),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map("".join),
            st.lists(inner, min_size=1, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
            quantified(inner),
            st.builds("({})".format, inner),
            st.builds("(?={})".format, inner),
            st.builds("(?!{})".format, inner),
        ),
        max_leaves=10,
    )


def texts(alphabet: str, length_max: int) -> list[str]:
    return ["".join(word) for length in range(length_max + 1) for word in product(alphabet, repeat=length)]


def agrees(pattern: str, oracle: re.Pattern[str], flags: str, samples: list[str]) -> None:
    whole, searched = parse_regex(pattern, Budget(), flags=flags), search_automaton(pattern, Budget(), flags)
    for text in samples:
        assert whole.accepts(map(ord, text)) == bool(oracle.fullmatch(text)), (pattern, text)
        assert searched.accepts(map(ord, text)) == bool(oracle.search(text)), (pattern, text)


@settings(max_examples=300, deadline=None)
@given(patterns(["a", "b", "1", ".", "[ab]", "[^a]", "\\d", "\\w", "\\W", "^", "$", "\\b", "\\B", "\\x61", "[a-b-]"]))
def test_agrees_with_re(pattern: str) -> None:
    # Python's $ also stands before a line feed at the end of the text, and its \\B does not stand in the empty one.
    oracle = re.compile(pattern.replace("$", "\\Z").replace("\\B", "(?!\\b)"), re.ASCII)
    agrees(pattern, oracle, "", [*texts("ab1-", 3), "abab1", "a-b-a", "bbaab"])


@settings(max_examples=150, deadline=None)
@given(patterns(["a", "B", "\n", ".", "[a-b]", "[^A]", "\\s", "^", "$", "\\b"]), st.sampled_from(["im", "ims", "m"]))
def test_agrees_with_re_under_flags(pattern: str, flags: str) -> None:
    chosen = re.ASCII
    for flag in flags:
        chosen |= {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}[flag]
    agrees(pattern, re.compile(pattern, chosen), flags, texts("aAB\n", 3))
