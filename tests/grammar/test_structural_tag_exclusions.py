"""Texts kept out of the strings and names of embedded schemas, in JSON and in the styles of tool calls."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from shmcache.errors import SourceError
from shmcache.grammar.ir import Grammar
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.grammar.structural_tag_cases import schema
from tests.grammar.tool_call_style_cases import CLOSING, INTEGER, STRING, WRITERS, obj, written
from tests.matcher.support import compiled
from tests.reference.grammar_recogniser import recognises

STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"')

SCHEMA = obj(
    a=STRING,
    b={"enum": ["x<a", "y", 'q"', 1, "aé"]},
    c={"type": "string", "minLength": 1, "maxLength": 3},
    d={"type": ["array", "object"], "items": {}, "additionalProperties": {}},
    e={"type": "string", "pattern": "a"},
    f={"type": "string", "minLength": 2},
    more={"additionalProperties": {"type": ["string", "null"]}},
)


def grammar_of(document: Any, **more: Any) -> Grammar:
    return Source.structural_tag({"format": schema(document, **more)}).grammar(Budget())


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice('aaab<<"\\é\n😀u0') for _ in range(rng.randint(0, 4)))


def random_instance(rng: random.Random) -> dict[str, Any]:
    values: dict[str, Any] = {
        "a": random_text(rng),
        "b": rng.choice(["x<a", "y", 'q"', 1, "aé", "z"]),
        "c": random_text(rng)[:3] or "c",
        "d": rng.choice([[random_text(rng)], {random_text(rng): [random_text(rng)]}, [], [1]]),
        "e": f"a{random_text(rng)}",
        "f": f"ff{random_text(rng)}",
    }
    kept = {name: value for name, value in values.items() if rng.random() < 0.4}
    if rng.random() < 0.3:
        kept[f"z{random_text(rng)}"] = rng.choice([None, random_text(rng)])
    return kept


@pytest.mark.parametrize(
    "excludes", [["<"], ["aa", "<a"], ["\\"], ['"'], ["é", "u00"], ["ud83d"], ["ff", "z"], ["\\u"]]
)
def test_what_is_excluded_is_excluded_and_nothing_else(excludes: list[str]) -> None:
    rng = random.Random(str(excludes))
    free, without = grammar_of(SCHEMA), grammar_of(SCHEMA, excludes=excludes)
    admitted = 0
    for _ in range(150):
        text = json.dumps(random_instance(rng), ensure_ascii=rng.random() < 0.5)
        is_clean = not any(word in spelled for spelled in STRINGS.findall(text) for word in excludes)
        expected = is_clean and recognises(free, text.encode())
        admitted += expected
        assert recognises(without, text.encode()) is expected, text
    assert 0 < admitted < 150


@pytest.mark.parametrize("style", WRITERS)
def test_styles_keep_texts_out_too(style: str) -> None:
    document = obj(
        a=STRING,
        b={"enum": ["x<a", "y"]},
        c={"type": "array", "items": True},
        more={"additionalProperties": INTEGER},
        **{"p<q": INTEGER},
    )
    grammar = grammar_of(document, style=style, excludes=["<", "é"])
    for text in (
        written(style, [("a", "x"), ("b", "y")]),
        written(style, [("c", '["x", {"y": 1}]', "array")]),
        written(style, [("z", "1", "number")]),
    ):
        assert recognises(grammar, text.encode()), text
    for text in (
        written(style, [("a", "x<")]),
        written(style, [("a", "é")]),
        written(style, [("b", "x<a")]),
        written(style, [("c", '["x<"]', "array")]),
        written(style, [("c", '[{"<": 1}]', "array")]),
        written(style, [("p<q", "1", "number")]),
        written(style, [("zé", "1", "number")]),
        written(style, [("a", f"x{CLOSING[style]}")]),
    ):
        assert not recognises(grammar, text.encode()), text


def test_a_member_whose_name_is_excluded_is_absent() -> None:
    grammar = grammar_of(obj("b", ab=INTEGER, b=INTEGER), excludes=["ab"])
    assert recognises(grammar, b'{"b": 1}')
    assert not recognises(grammar, b'{"ab": 1, "b": 1}')
    with pytest.raises(SourceError):
        compiled(grammar_of(obj("ab", ab=INTEGER), excludes=["ab"]), Vocabulary([b"a", b"</s>"], stop_token_ids=[1]))


def test_exclusions_of_one_schema_are_not_those_of_another(small_vocabulary: Vocabulary) -> None:
    parts = [schema(STRING, excludes=["a"]), schema(STRING), schema(STRING, excludes=["b"])]
    document = {"format": {"type": "sequence", "elements": parts}}
    matcher = GrammarMatcher(compiled(Source.structural_tag(document).grammar(Budget()), small_vocabulary))
    assert matcher.accept_string('"b""ab""a"')
    assert matcher.is_completed()
    matcher.reset()
    assert not matcher.accept_string('"a"')
    assert matcher.accept_string('"c""ab"')
    assert not matcher.accept_string('"b"')
