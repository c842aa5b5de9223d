"""Long strings with a pattern, counted in blocks: the same as with a state for each count, and as Python counts."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from shmcache.automaton.build import build_automaton
from shmcache.errors import SourceError
from shmcache.grammar.ir import NOTHING, Grammar, Literal
from shmcache.grammar.json_schema import counted_texts
from shmcache.grammar.json_schema.counted_texts import CountedTexts
from shmcache.grammar.json_schema.expressions import sequence
from shmcache.grammar.json_schema.layout import Layout
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.grammar.json_schema.rules import ROOT, Rules
from shmcache.grammar.key import Source
from shmcache.grammar.regex import search_automaton
from shmcache.limits import Budget
from shmcache.regular.encode import encode_utf8
from tests.grammar.json_schema_cases import admits, grammar_of
from tests.survey.walker import Walker

PATTERNS = ("^[ab]+$", "^a*b*$", "ab", "^(ab|ba)*$", "^a(bb)*$", "[ab]b$", "^(aab?)*b?$", "^.*$", "^ab$")


def counted(pattern: str, minimum: int, maximum: int | None) -> CountedTexts:
    budget = Budget()
    text = search_automaton(pattern, budget)
    return CountedTexts(text, minimum, maximum, lambda inner: encode_utf8(inner, budget), budget)


def walker(texts: CountedTexts) -> Walker | None:
    """Of the grammar in blocks; None: it has no words."""
    rules = Rules(Layout(JsonSchemaOptions()), Budget())
    rules.define(ROOT, sequence(Literal(b'"'), texts.expression(rules) or NOTHING))
    grammar = rules.grammar(())
    try:
        return Walker(build_automaton(Grammar(grammar.rules, ROOT, grammar.shared_rules), Budget()))
    except SourceError:
        return None


@pytest.fixture(params=[(2,), (3,), (4, 2)])
def short_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_texts, "_BLOCK_LENGTHS", request.param)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_blocks_against_python(pattern: str) -> None:
    rng = random.Random(pattern)
    words = ["".join(word) for length in range(9) for word in itertools.product("ab", repeat=length)]
    words += ["".join(rng.choice("ab") for _ in range(rng.randint(9, 20))) for _ in range(60)]
    words += ["ab" * at for at in range(12)] + ["a" * at + "b" * at for at in range(10)]
    bounds: list[tuple[int, int | None]] = [
        (0, 0),
        (0, 5),
        (0, 17),
        (3, 3),
        (4, 11),
        (7, None),
        (8, 16),
        (19, 19),
        (0, None),
    ]
    for minimum, maximum in bounds:
        texts = counted(pattern, minimum, maximum)
        found = walker(texts)
        expected = [
            word
            for word in words
            if len(word) >= minimum and (maximum is None or len(word) <= maximum) and re.search(pattern, word)
        ]
        assert [word for word in words if found is not None and found.accepts(b'"' + word.encode())] == expected
        assert not (texts.is_empty() and expected)
        assert texts.is_empty() == (found is None)


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"pattern": "^[a-z]+$", "maxLength": 100_000}, ["a", "ab" * 700], ["", "a1", "A"]),
        ({"pattern": "[0-9][a-z]", "minLength": 70_000}, [], ["1a", ""]),
        (
            {"pattern": "^(.{3})*$", "maxLength": 100_000, "minLength": 600},
            ["aé😀" * 200],
            ["abc", "abcd" * 200 + "ee"],
        ),
        ({"format": "date", "maxLength": 100_000}, ["2024-02-29"], ["2023-02-29", "x"]),
    ],
)
def test_long_strings_with_a_pattern(schema: dict[str, object], valid: list[str], invalid: list[str]) -> None:
    grammar = grammar_of({"type": "string", **schema})
    for text in valid:
        assert admits(grammar, text)
    for text in invalid:
        assert not admits(grammar, text)


def test_no_text_has_so_many_characters() -> None:
    schema = {"type": "string", "pattern": "^(.{3})*$", "maxLength": 100_000, "minLength": 100_000}
    with pytest.raises(SourceError, match="nothing satisfies"):
        Source.json_schema(schema).grammar(Budget())
