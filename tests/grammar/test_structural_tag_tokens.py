"""Formats of whole tokens, through the whole compiler: ids and names, special tokens, and text beside them."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.compiler import compile_image
from shmcache.errors import SourceError
from shmcache.grammar.key import Source
from shmcache.image.image import open_image
from shmcache.limits import Budget
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.grammar import structural_tag_cases as make
from tests.grammar.structural_tag_cases import Format
from tests.matcher.support import allowed

CALL, END, AB, SAME, STOP = 256, 257, 258, 259, 260
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), b"<call>", b"<end>", b"ab", b"ab", b"</s>"],
    special_token_ids=[CALL, END, STOP],
    stop_token_ids=[STOP],
)


def token(name: int | str) -> Format:
    return {"type": "token", "token": name}


def tokens(**more: Any) -> Format:
    return {"type": "any_tokens", **more}


def matcher_of(tag_format: Format) -> GrammarMatcher:
    source = Source.structural_tag({"type": "structural_tag", "format": tag_format})
    data = compile_image(source, VOCABULARY, budget=Budget())
    return GrammarMatcher(CompiledGrammar(open_image(data), VOCABULARY, generation=0, memory_size_bytes=len(data)))


def takes(matcher: GrammarMatcher, ids: list[int]) -> bool:
    """Whether the tokens are taken and the text may then end; every answer is that of the mask."""
    matcher.reset()
    for one in ids:
        is_allowed = one in allowed(matcher, VOCABULARY.width)
        assert matcher.accept_token(one) is is_allowed
        if not is_allowed:
            return False
    return STOP in allowed(matcher, VOCABULARY.width)


def spelled(text: str) -> list[int]:
    return list(text.encode())


CALLS = {
    "type": "token_triggered_tags",
    "trigger_tokens": [CALL, AB],
    "tags": [make.tag(token(CALL), make.const("x"), token(END)), make.tag(token(AB), make.const("y"), "!")],
}

CASES: list[tuple[str, Format, list[list[int]], list[list[int]]]] = [
    ("id", token(AB), [[AB]], [[], [SAME], spelled("ab"), [AB, AB]]),
    ("name", token("ab"), [[AB], [SAME]], [[], spelled("ab")]),
    ("special", make.sequence(token("<call>"), make.const("a")), [[CALL, 97]], [[97], spelled("<call>a")]),
    ("one but", {"type": "exclude_token", "exclude_tokens": ["ab", END]}, [[97], [CALL]], [[], [AB], [SAME], [END]]),
    ("any one", {"type": "exclude_token"}, [[97], [CALL], [AB]], [[], [STOP]]),
    ("any tokens", tokens(), [[], [CALL, 255, AB]], [[STOP]]),
    ("any but", tokens(exclude_tokens=[CALL]), [[], [END, 97, AB]], [[97, CALL]]),
    ("two at most", tokens(max_tokens=2), [[], [97], [AB, END]], [[97, 97, 97]]),
    ("none", tokens(max_tokens=0), [[]], [[97]]),
    (
        "text to a token",
        make.tag("<", make.free(), token(END)),
        [[60, END], [60, AB, 97, END]],
        [[60], [60, CALL, END]],
    ),
    (
        "tokens to a token",
        make.tag(token(CALL), tokens(), token(END)),
        [[CALL, END], [CALL, CALL, AB, END]],
        [[CALL, END, END]],
    ),
    ("tokens to a text", make.tag("<", tokens(), ">"), [[60, 62], [60, CALL, 62, 62]], [[60, CALL]]),
    (
        "one to a token",
        make.tag("<", make.of("star", {"type": "exclude_token"}), token(END)),
        [[60, END], [60, AB, END]],
        [[60, END, END]],
    ),
    ("short text", make.free(max_tokens=2), [[], [97, AB], [AB]], [[97, 97, 97], [CALL]]),
    (
        "short text to an end",
        make.tag("<", make.free(max_tokens=2), ">"),
        [[60, 62], [60, AB, 97, 62]],
        [[60, 97, 97, 97, 62], [60, 62, 62]],
    ),
    (
        "triggered",
        CALLS,
        [[], [97, CALL, 120, END, AB, 121, 33, 98], [SAME, END]],
        [[CALL], [AB, 120], [CALL, 120, 97]],
    ),
    (
        "at least one",
        {**CALLS, "at_least_one": True},
        [[CALL, 120, END], [AB, 121, 33, 97]],
        [[], [97, CALL, 120, END]],
    ),
    ("one at most", {**CALLS, "stop_after_first": True}, [[97], [97, CALL, 120, END]], [[CALL, 120, END, 97]]),
    (
        "exactly one",
        {**CALLS, "stop_after_first": True, "at_least_one": True},
        [[CALL, 120, END]],
        [[], [97], [CALL, 120, END, 97]],
    ),
    ("excluded", {**CALLS, "exclude_tokens": ["<end>"]}, [[97, CALL, 120, END, 97]], [[97, END]]),
    (
        "triggered in a tag",
        make.tag(token(END), CALLS, token(END)),
        [[END, 97, CALL, 120, END, END]],
        [[END, END, 97, END]],
    ),
    (
        "dispatch",
        {"type": "token_dispatch", "rules": [["ab", make.const("x")], [CALL, make.const("")]]},
        [[], [97, SAME, 120, AB, 120, CALL, 98], [END]],
        [[AB], [AB, 97]],
    ),
    (
        "dispatch once",
        {"type": "token_dispatch", "rules": [["ab", make.const("x")]], "loop": False, "exclude_tokens": [97]},
        [[98], [98, AB, 120]],
        [[97], [AB, 120, 98]],
    ),
]


@pytest.mark.parametrize(
    ("tag_format", "accepted", "rejected"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_whole_tokens(tag_format: Format, accepted: list[list[int]], rejected: list[list[int]]) -> None:
    matcher = matcher_of(tag_format)
    for ids in accepted:
        assert takes(matcher, ids), ids
    for ids in rejected:
        assert not takes(matcher, ids), ids


@pytest.mark.parametrize(
    "tag_format",
    [
        token(5_000),
        token("no such token"),
        make.tag(token("nothing"), make.const("a"), "b"),
        {"type": "any_tokens", "exclude_tokens": ["nothing"]},
    ],
)
def test_tokens_that_the_vocabulary_does_not_have(tag_format: Format) -> None:
    with pytest.raises(SourceError):
        matcher_of(tag_format)


def test_excluded_ids_that_the_vocabulary_does_not_have_exclude_nothing() -> None:
    assert takes(matcher_of(tokens(exclude_tokens=[5_000])), [97, CALL])


def test_a_text_of_few_tokens_ends_at_the_end_of_a_token() -> None:
    """A token that holds both text and end is taken where text need not be made of whole tokens only."""
    vocabulary_end = make.tag("<", make.free(), "b")
    assert takes(matcher_of(vocabulary_end), [60, AB])
    assert not takes(matcher_of(make.tag("<", make.free(max_tokens=1), "b")), [60, AB])
    assert takes(matcher_of(make.tag("<", make.free(max_tokens=1), "b")), [60, 97, 98])
