"""Random structural tags against the slow recogniser of formats, and their masks against the grammar."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shmcache.errors import ShmCacheError, SourceError
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.grammar import structural_tag_cases as make
from tests.grammar.structural_tag_cases import CASES, Case, Format
from tests.grammar.tool_call_style_cases import CASES as STYLE_CASES
from tests.matcher.support import allowed, compiled_or_none
from tests.reference.grammar_recogniser import recognises
from tests.reference.structural_tags import admits

VOCABULARY = Vocabulary([b"a", b"b", b"<", b">", b"ab", b"<a", b"><", b"aa>", b"b<ab", b"</s>"], stop_token_ids=[9])

WORDS = ("a", "b", "<", ">", "ab", "aa", "<a", "ba", ">>", "><")


def random_format(rng: random.Random, depth: int) -> Format:
    """Any format of text over a few characters, mostly small."""
    kinds = ["const_string", "any_text", "regex"]
    if depth:
        kinds += ["sequence", "or", "optional", "star", "plus", "repeat", "tag", "tag", "triggered_tags"]
        kinds += ["tags_with_separator", "dispatch"]
    match rng.choice(kinds):
        case "const_string":
            return make.const(rng.choice(("", *WORDS)))
        case "any_text":
            more: dict[str, Any] = {"excludes": rng.sample(WORDS, rng.choice((0, 0, 1, 2)))}
            return make.free(**more, max_chars=rng.choice((None, None, 1, 2)))
        case "regex":
            return make.regex(rng.choice(("a*", "(a|b)+", "<?b", "[^a]{0,2}", "a.b")))
        case "sequence":
            return make.sequence(*_several(rng, depth))
        case "or":
            return make.either(*_several(rng, depth))
        case "repeat":
            minimum = rng.choice((0, 1, 2))
            maximum = rng.choice((-1, minimum, minimum + 1))
            return make.of("repeat", random_format(rng, depth - 1), min=minimum, max=maximum)
        case "tag":
            return random_tag(rng, depth, rng.choice(("", *WORDS)))
        case "triggered_tags":
            return _triggered(rng, depth)
        case "tags_with_separator":
            tags = [random_tag(rng, depth, rng.choice(WORDS)) for _ in range(rng.choice((1, 2)))]
            return make.separated(rng.choice(("", "a", "><")), *tags, **_flags(rng))
        case "dispatch":
            rules = [(rng.choice(WORDS), random_format(rng, depth - 1)) for _ in range(rng.choice((1, 2)))]
            return make.dispatch(*rules, loop=rng.random() < 0.6, excludes=rng.sample(WORDS, rng.choice((0, 0, 1))))
        case kind:
            return make.of(kind, random_format(rng, depth - 1))


def _several(rng: random.Random, depth: int) -> list[Format]:
    return [random_format(rng, depth - 1) for _ in range(rng.choice((1, 2, 2, 3)))]


def _flags(rng: random.Random) -> dict[str, bool]:
    return {"at_least_one": rng.random() < 0.3, "stop_after_first": rng.random() < 0.3}


def random_tag(rng: random.Random, depth: int, begin: str) -> Format:
    end: Any = rng.choice((*WORDS, ""))
    if rng.random() < 0.3:
        end = rng.sample((*WORDS, ""), rng.choice((1, 2)))
    return make.tag(begin, random_format(rng, depth - 1), end)


def _triggered(rng: random.Random, depth: int) -> Format:
    triggers = rng.sample(WORDS, rng.choice((1, 2)))
    tags = [
        random_tag(rng, depth, rng.choice(triggers) + rng.choice(("", "a", "<"))) for _ in range(rng.choice((1, 2)))
    ]
    used = [one for one in triggers if any(tag["begin"].startswith(one) for tag in tags)]
    return make.triggered(used, *tags, **_flags(rng), excludes=rng.sample(WORDS, rng.choice((0, 0, 1))))


def _texts(rng: random.Random, tag_format: Format, count: int) -> list[str]:
    """Texts of pieces that the format speaks of, and some of any."""
    spoken: list[str] = []
    pending: list[Any] = [tag_format]
    while pending:
        match pending.pop():
            case dict() as members:
                pending += [one for name, one in members.items() if name != "type"]
            case list() as listed:
                pending += listed
            case str() as text:
                spoken.append(text)
    pieces = [*spoken, *"ab<>", "", "é"]
    return ["".join(rng.choice(pieces) for _ in range(rng.randint(0, 5)))[:9] for _ in range(count)]


OF_TEXT = [case for case in CASES if not any(kind in str(case.format) for kind in ("json_schema", "'grammar'"))]
"""The reference knows no other languages."""


@pytest.mark.parametrize("case", OF_TEXT, ids=lambda case: case.name)
def test_the_reference_agrees_with_the_table(case: Case) -> None:
    for text in case.accepted:
        assert admits(case.format, text), text
    for text in case.rejected:
        assert not admits(case.format, text), text


@pytest.mark.parametrize("seed", range(60))
def test_random_tags_are_what_they_mean(seed: int) -> None:
    rng = random.Random(seed)
    members = 0
    for _ in range(12):
        tag_format = random_format(rng, 3)
        try:
            grammar = Source.structural_tag({"format": tag_format}).grammar(Budget())
        except SourceError as error:
            assert "must have an end" in error.message or "begins with" in error.message, error  # noqa: PT017
            continue
        for text in _texts(rng, tag_format, 12):
            expected = admits(tag_format, text)
            members += expected
            assert recognises(grammar, text.encode()) is expected, (tag_format, text)
    assert members


@pytest.mark.parametrize("seed", range(20))
def test_masks_of_random_tags_are_those_of_the_reference(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for _ in range(4):
        tag_format = random_format(rng, 2)
        try:
            grammar = Source.structural_tag({"format": tag_format}).grammar(Budget())
        except SourceError:
            continue
        made = compiled_or_none(grammar, VOCABULARY)
        if made is None:
            continue
        matcher, text = GrammarMatcher(made), b""
        for _ in range(6):
            bits = allowed(matcher, VOCABULARY.width)
            assert (9 in bits) is admits(tag_format, text.decode())
            legal = sorted(bits - {9})
            if not legal:
                break
            chosen = rng.choice(legal)
            assert matcher.accept_token(chosen)
            text += VOCABULARY.token_bytes(chosen)


NONSENSE: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "a",
    [],
    [[]],
    ["a"],
    {},
    {"type": "tag"},
    {"type": "token", "token": 1},
]


def _broken(rng: random.Random, value: Any) -> Any:
    """The document with one part, or more, replaced, left out, renamed or put twice."""
    if rng.random() < 0.08:
        return rng.choice(NONSENSE)
    match value:
        case dict():
            members = [(name, _broken(rng, one)) for name, one in value.items() if rng.random() > 0.04]
            return {("x" if rng.random() < 0.02 else name): one for name, one in members}
        case list():
            return [_broken(rng, one) for one in value for _ in range(rng.choice((1,) * 20 + (0, 2)))]
        case _:
            return value


@pytest.mark.parametrize("seed", range(8))
def test_broken_documents_give_typed_errors(seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(60):
        case = rng.choice([*CASES, *STYLE_CASES])
        document = _broken(rng, {"type": "structural_tag", "format": case.format})
        try:
            Source.structural_tag(document).grammar(Budget(states_max=20_000))
        except ShmCacheError:
            refused += 1
    assert 20 < refused < 60
