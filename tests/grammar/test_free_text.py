"""Free text against plain string search, on every short text."""

from __future__ import annotations

import itertools
import random

import pytest

from shmcache.errors import LimitError
from shmcache.grammar.free_text import free_text, text_to_trigger
from shmcache.limits import Budget

LETTERS = "aé中"
TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product(LETTERS, repeat=length)]


def occurrences(text: str, strings: tuple[str, ...]) -> list[tuple[int, str]]:
    """(begin, string) wherever one of the strings stands in the text."""
    return [(at, string) for string in strings for at in range(len(text)) if text.startswith(string, at)]


def trigger_led_to(text: str, triggers: tuple[str, ...]) -> str | None:
    """The trigger that the text ends with, if no trigger begins before it: the definition, looked up by search."""
    begins = occurrences(text, triggers)
    first = min((at for at, _ in begins), default=0)
    led_to = [trigger for at, trigger in begins if at == first and at + len(trigger) == len(text)]
    assert len(led_to) < 2
    return led_to[0] if led_to else None


def random_strings(rng: random.Random, count_max: int) -> tuple[str, ...]:
    strings = {"".join(rng.choices(LETTERS, k=rng.randint(1, 4))) for _ in range(rng.randint(0, count_max))}
    return tuple(sorted(strings))


@pytest.mark.parametrize("seed", range(60))
def test_free_text_is_what_search_says(seed: int) -> None:
    rng = random.Random(seed)
    excludes = random_strings(rng, 3)
    characters_max = rng.choice([None, None, 0, 1, 2, 4])
    automaton = free_text(excludes, Budget(), characters_max=characters_max)
    for text in TEXTS:
        is_short = characters_max is None or len(text) <= characters_max
        assert automaton.accepts(text.encode()) == (is_short and not occurrences(text, excludes)), (text, excludes)


@pytest.mark.parametrize("seed", range(60))
def test_texts_lead_to_the_triggers_that_search_says(seed: int) -> None:
    rng = random.Random(seed)
    triggers, excludes = random_strings(rng, 4), random_strings(rng, 2)
    automaton = text_to_trigger(triggers, excludes, Budget())
    for text in TEXTS:
        expected = trigger_led_to(text, triggers) is not None and not occurrences(text, excludes)
        assert automaton.accepts(text.encode()) == expected, (text, triggers, excludes)


@pytest.mark.parametrize(
    ("triggers", "led_to", "not_led_to"),
    [
        (("ab",), ["ab", "aab", "xyab"], ["", "a", "abab", "abx"]),
        (("a", "abc"), ["a", "abc", "xabc"], ["ab", "abx", "aba", "aa", "abcabc"]),
        (("abc", "b"), ["b", "ab", "abc", "xb"], ["abcb", "abx", "bb"]),
        (("abc", "c"), ["abc", "c", "bc"], ["abcc"]),
        (("abc", "b", "bd"), ["abc", "ab", "abd", "b", "bd"], ["bc", "abcd"]),
    ],
)
def test_triggers_inside_each_other(triggers: tuple[str, ...], led_to: list[str], not_led_to: list[str]) -> None:
    automaton = text_to_trigger(triggers, (), Budget())
    assert [text for text in led_to if not automaton.accepts(text.encode())] == []
    assert [text for text in not_led_to if automaton.accepts(text.encode())] == []


def test_only_utf8_is_text() -> None:
    automaton = free_text(("é",), Budget())
    for text in ("", "a", "ê", "e\u0301", "\0", "\ud7ff\ue000", "\U00010000\U0010ffff"):
        assert automaton.accepts(text.encode()), text
    for data in (b"\xc3", b"\xc3\xa9", b"\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"):
        assert not automaton.accepts(data), data


def test_characters_are_counted_and_not_bytes() -> None:
    automaton = free_text((), Budget(), characters_max=3)
    assert automaton.accepts("😀😀😀".encode())
    assert not automaton.accepts(b"abcd")


def test_an_empty_excluded_string_leaves_no_text() -> None:
    assert free_text(("",), Budget()).is_empty


@pytest.mark.parametrize(
    "strings",
    [
        tuple(f"<tool_call name={number}>" for number in range(1000)),
        ("a" * 10_000, "ab" * 5_000, "é" * 10_000),
        tuple("a" * number + "b" for number in range(1, 300)),
    ],
    ids=["a thousand", "long", "each in the next"],
)
def test_states_are_linear_in_the_length_of_the_strings(strings: tuple[str, ...]) -> None:
    budget = Budget()
    bytes_in_all = sum(len(string.encode()) for string in strings)
    assert not text_to_trigger(strings, ("no such text",), budget).is_empty
    assert budget.states <= 2 * bytes_in_all + 20
    assert budget.edges <= 40 * bytes_in_all + 400


def test_too_many_strings_are_a_limit_error() -> None:
    letters = [chr(0x100 + number) for number in range(200)]
    strings = tuple(first + second + 30 * third for first, second, third in itertools.product(letters[:50], repeat=3))
    with pytest.raises(LimitError):
        text_to_trigger(strings, (), Budget())
    with pytest.raises(LimitError):
        free_text(("ab",), Budget(), characters_max=1_000_000)
