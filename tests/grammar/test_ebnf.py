"""What EBNF texts mean: stated cases, and agreement with words enumerated straight from random rules."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.grammar.ebnf import ebnf_grammar
from shmcache.grammar.ir import Literal, Reference, Sequence
from shmcache.limits import EXPRESSION_DEPTH_MAX, Budget
from tests.grammar.test_dispatch import is_dispatched
from tests.reference.grammar_recogniser import is_viable_prefix, recognises

CASES = [
    # text, members, others
    ('root ::= "ab" "c"', ["abc"], ["ab", "ab c", ""]),
    ('root ::= "a" | "b" |', ["a", "b", ""], ["ab"]),
    ('root ::= | "a"', ["", "a"], ["aa"]),
    ("root ::= ()", [""], ["a"]),
    ('root ::= ""', [""], ["a"]),
    ('root ::= "a" ( | "b") "c"', ["ac", "abc"], ["ab"]),
    ('root ::= ("a"*)*', ["", "a", "aaa"], ["b"]),
    ('root ::= ("")* "a"', ["a"], ["", "aa"]),
    ('root ::= "a"? "b"+ "c"*', ["b", "abbcc"], ["a", "aab"]),
    ('root ::= "a"{2}', ["aa"], ["a", "aaa"]),
    ('root ::= "a"{1,2}', ["a", "aa"], ["", "aaa"]),
    ('root ::= "a"{ 2 , }', ["aa", "aaaa"], ["a"]),
    ('root ::= "a"{1, -1}', ["a", "aaa"], [""]),
    ('root ::= "a"{0}"b"{0,0}"c"{0,1}', ["", "c"], ["a", "b"]),
    ("root ::= [a-c]", ["a", "c"], ["d", "-", ""]),
    ("root ::= [^a-c\\n]", ["d", "é", "😀"], ["a", "\n", ""]),
    ("root ::= [-a] [a-] [a\\-z]", ["-a-", "a-z"], ["bbb", "aab"]),
    ("root ::= [\\]\\[\\\\^\\^]", ["]", "[", "\\", "^"], ["a"]),
    ("root ::= [a^]", ["a", "^"], ["b"]),
    ("root ::= [+--]", ["+", ",", "-"], ["."]),
    ("root ::= []", [], ["", "a"]),
    ("root ::= [^]", ["a", "\n"], ["", "aa"]),
    ("root ::= [α-ω😀]", ["β", "😀"], ["b"]),
    ("root ::= [\\u03b1-\\U000003C9]", ["β"], ["b"]),
    ("root ::= [\"'#]", ['"', "'", "#"], ["a"]),
    ('root ::= "\\n\\r\\t\\\\\\"\\\'\\a\\b\\f\\v\\e\\0\\?\\/"', ["\n\r\t\\\"'\a\b\f\v\x1b\0?/"], ["n"]),
    ('root ::= "\\x41\\xe9\\u00e9\\U0001F600\\ud83d\\uDE00"', ["Aéé😀😀"], ["A"]),
    ('root ::= "\\x41B"', ["AB"], ["\u041b"]),
    ('root ::= "# no comment" # a comment "x"', ["# no comment"], ["x"]),
    ('# first\nroot ::= # here "a"\n  "b" # and\n\n  | "c"#', ["b", "c"], ["a", "bc"]),
    ('root ::= (\n"a"\n|\n"b"\n)\n+\n', ["a", "ba"], [""]),
    ('root ::= a-1 b.c_D 9\na-1 ::= "a" b.c_D ::= "b"\r\n9::="9"', ["ab9"], ["a"]),
    ('root ::= root "a" | "b"', ["b", "baa"], ["a", "ab"]),
    ('root ::= maybe root "a" | "b"\nmaybe ::= "x"?', ["b", "ba", "xba", "xxbaa"], ["xb", "xxba"]),
    ('root ::= other "a" | ""\nother ::= root "b" | "c"', ["", "ca", "ba", "baba"], ["a", "cb"]),
    ('root ::= "(" root ")" root | ""', ["", "()", "(())()"], ["(", ")("]),
    ('root ::= "a" (Token)\nToken ::= "t"', ["at"], ["a"]),
    ('root ::= Regex ("a")\nRegex ::= "x"', ["xa"], ["a"]),
    ('root ::= true\ntrue ::= "t"', ["t"], [""]),
]


@pytest.mark.parametrize(("text", "members", "others"), CASES, ids=[case[0] for case in CASES])
def test_language(text: str, members: list[str], others: list[str]) -> None:
    grammar = ebnf_grammar(text, "root", Budget())
    assert [word for word in members if not recognises(grammar, word.encode())] == []
    assert [word for word in others if recognises(grammar, word.encode())] == []
    assert is_viable_prefix(grammar, b"") == bool(members)


def test_rules_keep_names_and_order() -> None:
    grammar = ebnf_grammar('start ::= "a" x\nx ::= "b" y\ny ::= "c"', "start", Budget())
    assert list(grammar.rules) == ["start", "x", "y"]
    assert grammar.root == "start"
    assert grammar.rules["x"] == Sequence((Literal(b"b"), Reference("y")))


def test_large_texts_are_read_in_linear_time() -> None:
    # A look at the clock or two per word: a quadratic reader would need thousands.
    count = 4_000
    rules = (f'r{n} ::= "x{n}" r{n + 1}? | [a-z]{{1,9}} ("\\n" | "y")* # {n}' for n in range(count))
    text = "\n".join(rules) + f'\nr{count} ::= ""'
    reads = iter(range(1_000_000))
    budget = Budget(seconds_max=1e9, clock=lambda: float(next(reads)))
    grammar = ebnf_grammar(text, "r0", budget)
    assert len(grammar.rules) == count + 1
    assert next(reads) < 50 * count
    assert recognises(grammar, b"x0x1x2abc\ny\n")


def test_nesting_up_to_the_limit_is_fine() -> None:
    depth = EXPRESSION_DEPTH_MAX
    text = "root ::= " + '"a" ( "b" | ' * depth + '"c"' + ")?" * depth
    assert len(ebnf_grammar(text, "root", Budget()).rules) == 1


# A random rule body is a tree of tuples; it is spelled as a text, and its words are enumerated without that text.
Tree = tuple[Any, ...]
NAMES = ("root", "r-1", "b.c")


def trees() -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.sampled_from(["", "a", "b", "ab"]).map(lambda word: ("text", word)),
        st.sampled_from(["a", "b", "ab"]).map(lambda members: ("class", members)),
        st.sampled_from(NAMES).map(lambda name: ("rule", name)),
        st.sampled_from(["a|bb", "(?:ab)*", "^b+$", "a?", "[^a]|a(?!b)."]).map(lambda pattern: ("regex", pattern)),
        st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=4).map(lambda chunks: ("substring", tuple(chunks))),
        st.tuples(
            st.dictionaries(st.sampled_from(["a", "b", "ab", "aba"]), st.sampled_from(NAMES), max_size=2),
            st.sampled_from([(), (), ("bb",), ("b", "aa")]),
            st.booleans(),
        )
        .filter(_is_fit)
        .map(lambda parts: ("dispatch", *parts)),
    )

    def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        several = st.lists(inner, max_size=3).map(tuple)
        bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (0, 0)])
        return st.one_of(
            several.map(lambda items: ("sequence", items)),
            several.filter(len).map(lambda items: ("choice", items)),
            st.tuples(inner, bounds).map(lambda pair: ("repeat", *pair)),
        )

    return st.recursive(leaves, grow, max_leaves=7)


def _is_fit(parts: tuple[dict[str, str], tuple[str, ...], bool]) -> bool:
    """No excluded string begins a trigger."""
    triggers, excludes, _ = parts
    return not any(trigger.startswith(excludes) for trigger in triggers)


def spell(tree: Tree, style: random.Random) -> str:
    def blank() -> str:
        return style.choice([" ", "  ", "\n", "\t", " # | ) comment\n"])

    def quoted(string: str) -> str:
        return f'"{string}"'

    match tree:
        case ("text", str(word)):
            escaped = (style.choice([letter, f"\\x{ord(letter):02x}", f"\\u{ord(letter):04X}"]) for letter in word)
            return f'"{"".join(escaped)}"'
        case ("class", str(members)):
            return style.choice(
                [f"[{members}]", f"[{members[0]}-{members[-1]}]", f"[^\\U00000000-`{_but(members)}c-\\U0010ffff]"]
            )
        case ("rule", str(name)):
            return name
        case ("regex", str(pattern)):
            return f"Regex{blank()}({quoted(pattern)})"
        case ("substring", tuple(chunks)):
            return f"Substring({','.join(blank() + quoted(chunk) for chunk in chunks)})"
        case ("dispatch", dict(triggers), tuple(excludes), is_loop):
            arguments = [f"({quoted(trigger)},{blank()}{rule})" for trigger, rule in triggers.items()]
            if excludes or style.random() < 0.5:
                arguments.append(f"excludes=({', '.join(map(quoted, excludes))})")
            if not is_loop or style.random() < 0.5:
                arguments.append(f"loop_after_dispatch={str(is_loop).lower()}")
            return f"TagDispatch({(',' + blank()).join(arguments)})"
        case ("sequence", tuple(items)):
            return f"({blank()}{blank().join(spell(item, style) for item in items)}{blank()})"
        case ("choice", tuple(options)):
            return f"({blank()}{(blank() + '|' + blank()).join(spell(option, style) for option in options)})"
        case ("repeat", item, (minimum, maximum)):
            spellings = [f"{{{minimum},{'' if maximum is None else maximum}}}"]
            spellings += {(0, None): ["*"], (1, None): ["+"], (0, 1): ["?"], (2, 2): ["{2}"]}.get(
                (minimum, maximum), []
            )
            return f"({spell(item, style)}){style.choice(['', blank()])}{style.choice(spellings)}"
    raise AssertionError(tree)


def _but(members: str) -> str:
    return "".join(letter for letter in "ab" if letter not in members)


def words_of(rules: dict[str, Tree], length_max: int) -> set[str]:
    known: dict[str, set[str]] = {name: set() for name in rules}
    texts = ["".join(letters) for length in range(length_max + 1) for letters in product("ab", repeat=length)]

    def joined(first: set[str], second: set[str]) -> set[str]:
        return {one + other for one in first for other in second if len(one) + len(other) <= length_max}

    def words(tree: Tree) -> set[str]:
        match tree:
            case ("text", str(word)):
                return {word}
            case ("class", str(members)):
                return set(members)
            case ("rule", str(name)):
                return known[name]
            case ("regex", str(pattern)):
                return {text for text in texts if re.fullmatch(pattern, text)}
            case ("substring", tuple(chunks)):
                ends = range(len(chunks) + 1)
                return {run for end in ends for at in ends if len(run := "".join(chunks[at:end])) <= length_max}
            case ("dispatch", dict(triggers), tuple(excludes), is_loop):
                allowed = {trigger: frozenset(known[rule]) for trigger, rule in triggers.items()}
                return {text for text in texts if is_dispatched(text, allowed, excludes, is_loop)}
            case ("sequence", tuple(items)):
                result = {""}
                for item in items:
                    result = joined(result, words(item))
                return result
            case ("choice", tuple(options)):
                return set().union(*map(words, options))
            case ("repeat", item, (minimum, maximum)):
                power, result = {""}, set()
                for count in range((minimum + length_max if maximum is None else maximum) + 1):
                    result |= power if count >= minimum else set()
                    power = joined(power, words(item))
                return result
        raise AssertionError(tree)

    while True:
        fresh = {name: words(tree) for name, tree in rules.items()}
        if fresh == known:
            return known["root"]
        known = fresh


@settings(max_examples=150, deadline=None)
@given(st.tuples(trees(), trees(), trees()), st.randoms(use_true_random=False))
def test_agrees_with_enumeration(bodies: tuple[Tree, ...], style: random.Random) -> None:
    rules = dict(zip(NAMES, bodies, strict=True))
    text = "\n".join(f"{name} ::= {spell(tree, style)}" for name, tree in rules.items())
    grammar = ebnf_grammar(text, "root", Budget())
    words = words_of(rules, 4)
    for length in range(5):
        for letters in product("ab", repeat=length):
            word = "".join(letters)
            assert recognises(grammar, word.encode()) == (word in words), (text, word)
