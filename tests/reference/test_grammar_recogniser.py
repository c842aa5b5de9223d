"""The oracle itself is checked on grammars whose language is plain to see, and against enumeration of all words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.grammar.ir import (
    EMPTY,
    NOTHING,
    Characters,
    Choice,
    Expression,
    Grammar,
    Literal,
    Reference,
    Regular,
    Repeat,
    Sequence,
)
from shmcache.regular.code_points import CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa
from tests.reference.grammar_recogniser import is_viable_prefix, recognises

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")
S = Reference("S")


def grammar(root: Expression, **rules: Expression) -> Grammar:
    return Grammar(rules={"S": root, **rules}, root="S")


def texts(length_max: int, alphabet: str = "ab") -> list[bytes]:
    return ["".join(word).encode() for length in range(length_max + 1) for word in product(alphabet, repeat=length)]


LANGUAGES: dict[str, tuple[Grammar, Callable[[bytes], bool]]] = {
    "left recursion: b a*": (
        grammar(Choice((Sequence((S, A)), B))),
        lambda word: word[:1] == b"b" and set(word[1:]) <= {ord("a")},
    ),
    "hidden left recursion behind an empty rule": (
        grammar(Choice((Sequence((Reference("E"), S, A)), B)), E=Choice((EMPTY, EMPTY))),
        lambda word: word[:1] == b"b" and set(word[1:]) <= {ord("a")},
    ),
    "hidden left recursion behind a nullable rule: a* b a^k": (
        grammar(Choice((Sequence((Reference("E"), S, A)), B)), E=Repeat(A, 0, 1)),
        lambda word: word.count(b"b") == 1 and word.index(b"b") <= len(word) - 1 - word.index(b"b"),
    ),
    "mutual recursion through two rules": (
        grammar(Choice((Sequence((Reference("T"), A)), B)), T=Choice((Sequence((S, B)), A))),
        lambda word: _is_mutual(word),
    ),
    "a cycle of empty rules": (
        grammar(Choice((Reference("T"), A)), T=Choice((S, EMPTY))),
        lambda word: word in {b"", b"a"},
    ),
    "a rule that is only itself": (grammar(S), lambda word: False),
    "balanced: a^n b^n": (
        grammar(Choice((Sequence((A, S, B)), EMPTY))),
        lambda word: word == b"a" * (len(word) // 2) + b"b" * (len(word) // 2),
    ),
    "palindromes, ambiguous centre": (
        grammar(Choice((Sequence((A, S, A)), Sequence((B, S, B)), A, B, EMPTY))),
        lambda word: word == word[::-1],
    ),
    "repeat of a nullable item": (
        grammar(Repeat(Repeat(A, 0, None), 3, None)),
        lambda word: set(word) <= {ord("a")},
    ),
    "repeat with bounds": (
        grammar(Repeat(Choice((A, Literal(b"bb"))), 2, 3)),
        lambda word: 2 <= word.count(b"a") + word.count(b"bb") <= 3 and word.replace(b"bb", b"").count(b"b") == 0,
    ),
    "repeat zero times": (grammar(Repeat(A, 0, 0)), lambda word: word == b""),
    "the empty language": (grammar(NOTHING), lambda word: False),
    "a sequence that cannot be finished": (grammar(Sequence((A, NOTHING))), lambda word: False),
    "an automaton": (
        grammar(Regular(Dfa(edges=(((97, 97, 1),), ((98, 98, 0),)), accepting=(True, False)))),
        lambda word: word == b"ab" * (len(word) // 2),
    ),
}


def _is_mutual(word: bytes) -> bool:
    """S = T a | b; T = S b | a: an S is b or aa, followed by any number of ba."""
    while word.endswith(b"ba") and len(word) > 2:
        word = word[:-2]
    return word in {b"b", b"aa"}


@pytest.mark.parametrize("name", LANGUAGES)
def test_member_iff_definition_says_so(name: str) -> None:
    tested, is_member = LANGUAGES[name]
    for word in texts(7):
        assert recognises(tested, word) == is_member(word), word


@pytest.mark.parametrize("name", LANGUAGES)
def test_viable_iff_a_longer_member_begins_so(name: str) -> None:
    tested, is_member = LANGUAGES[name]
    members = [word for word in texts(10) if is_member(word)]
    for word in texts(4):
        assert is_viable_prefix(tested, word) == any(member.startswith(word) for member in members), word


@pytest.mark.parametrize(
    ("prefix", "viable"),
    [
        (b"", True),
        (b"\xc3", True),
        (b"\xc3\xa9", True),
        (b"\xc3\xa9a", False),
        (b"\xc4", False),
        (b"\xf0\x9f\x98", True),
        (b"\xf0\x9f\x99", False),
        (b"\xe2\x82", False),
        (b"\xff", False),
        (b"a", False),
    ],
)
def test_prefix_may_end_inside_a_character(prefix: bytes, viable: bool) -> None:
    tested = grammar(Characters(CodePoints.of("éê😀")))
    assert is_viable_prefix(tested, prefix) == viable


def test_whole_characters_only_are_members() -> None:
    tested = grammar(Repeat(Characters(~CodePoints.of("a")), 1, 2))
    assert recognises(tested, "é😀".encode())
    assert not recognises(tested, "é".encode()[:1])
    assert not recognises(tested, "éa".encode())
    assert not recognises(tested, b"\xed\xa0\x80"), "a surrogate is not a character"
    assert not is_viable_prefix(tested, b"\xed\xa0"), "no character begins like a surrogate"
    assert not recognises(tested, b"\xc0\x80"), "overlong"


def test_nothing_is_viable_before_an_impossible_item() -> None:
    tested = grammar(Sequence((A, B, Reference("T"))), T=Sequence((A, Reference("T"))))
    assert not is_viable_prefix(tested, b"")
    assert not is_viable_prefix(tested, b"ab")
    assert not is_viable_prefix(grammar(Characters(CodePoints.of())), b"")
    assert not is_viable_prefix(grammar(Regular(EMPTY_LANGUAGE)), b"")
    assert is_viable_prefix(grammar(Choice((Sequence((A, NOTHING)), B))), b"")
    assert not is_viable_prefix(grammar(Choice((Sequence((A, NOTHING)), B))), b"a")


def test_long_input_and_large_bounds_are_quick() -> None:
    balanced = grammar(Repeat(Choice((Sequence((A, Repeat(S, 0, 100_000), B)), C)), 0, 100_000))
    assert recognises(balanced, b"acb" * 10)
    assert is_viable_prefix(balanced, b"aaab" * 8)
    assert not is_viable_prefix(balanced, b"ab" * 10 + b"b")


RULES = ("S", "T", "U")


def expressions() -> st.SearchStrategy[Expression]:
    simple: list[Expression] = [A, B, EMPTY, Literal(b"ab"), Characters(CodePoints.of("ab"))]
    leaves = st.sampled_from([*simple, *(Reference(name) for name in RULES)])

    def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(inner, min_size=0, max_size=3).map(tuple)
        bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 3), (0, 0)])
        return st.one_of(
            several.map(Sequence), several.map(Choice), st.builds(lambda i, b: Repeat(i, *b), inner, bounds)
        )

    return st.recursive(leaves, grow, max_leaves=6)


GRAMMARS = st.builds(
    lambda bodies: Grammar(dict(zip(RULES, bodies, strict=True)), "S"), st.tuples(*[expressions()] * 3)
)


def all_words(tested: Grammar, length_max: int) -> set[bytes]:
    """Every member of at most ``length_max`` bytes: words are added to the rules until none is new."""
    words: dict[str, set[bytes]] = {rule: set() for rule in tested.rules}

    def joined(first: set[bytes], second: set[bytes]) -> set[bytes]:
        return {one + other for one in first for other in second if len(one) + len(other) <= length_max}

    def members(expression: Expression) -> set[bytes]:
        match expression:
            case Literal(data=data):
                return {data} if len(data) <= length_max else set()
            case Characters(code_points=code_points):
                return {chr(code).encode() for low, high in code_points.ranges for code in range(low, high + 1)}
            case Reference(rule=rule):
                return words[rule]
            case Choice(options=options):
                return set().union(*map(members, options))
            case Sequence(items=items):
                result = {b""}
                for item in items:
                    result = joined(result, members(item))
                return result
            case Repeat(item=item, minimum=minimum, maximum=maximum):
                power, result = {b""}, set()
                for count in range((minimum + length_max if maximum is None else maximum) + 1):
                    result |= power if count >= minimum else set()
                    power = joined(power, members(item))
                return result
        raise AssertionError(expression)

    while True:
        fresh = {rule: members(body) for rule, body in tested.rules.items()}
        if fresh == words:
            return words[tested.root]
        words = fresh


@settings(max_examples=150, deadline=None)
@given(GRAMMARS)
def test_agrees_with_enumeration(tested: Grammar) -> None:
    words = all_words(tested, 5)
    for text in texts(4):
        assert recognises(tested, text) == (text in words)
        if any(word.startswith(text) for word in words):
            assert is_viable_prefix(tested, text)
        elif is_viable_prefix(tested, text):
            assert any(is_viable_prefix(tested, text + letter) for letter in (b"a", b"b")), "no way on"
