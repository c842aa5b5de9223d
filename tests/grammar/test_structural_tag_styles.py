"""The styles of tool calls: what each admits, and what none can write."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.ir import Grammar
from shmcache.grammar.json_schema.styles import MARKS, STYLES, UNSUPPORTED_STYLES
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.grammar.structural_tag_cases import Case, schema, tag
from tests.grammar.tool_call_style_cases import (
    CASES,
    CLOSING,
    INTEGER,
    OURS,
    STRING,
    UNTYPED,
    WRITERS,
    Member,
    Members,
    cases_of,
    obj,
    written,
)
from tests.matcher.support import compiled
from tests.reference.grammar_recogniser import recognises

ALL = [*CASES, *cases_of(OURS)]


def grammar_of(document: Any, **more: Any) -> Grammar:
    return Source.structural_tag({"format": schema(document, **more)}).grammar(Budget())


def test_every_style_is_tested_or_refused() -> None:
    assert STYLES.keys() == {"json", *MARKS, *WRITERS}
    for style in UNSUPPORTED_STYLES:
        with pytest.raises(UnsupportedError) as caught:
            grammar_of({}, style=style)
        assert caught.value.feature == f"style {style}"


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_members_are_admitted_as_the_style_writes_them(case: Case) -> None:
    grammar = Source.structural_tag({"format": case.format}).grammar(Budget())
    for text in case.accepted:
        assert recognises(grammar, text.encode()), text
    for text in case.rejected:
        assert not recognises(grammar, text.encode()), text


@pytest.mark.parametrize("case", ALL[::7], ids=lambda case: case.name)
def test_masks_follow_the_style(case: Case, small_vocabulary: Vocabulary) -> None:
    grammar = Source.structural_tag({"format": tag("<", case.format, ">")}).grammar(Budget())
    matcher = GrammarMatcher(compiled(grammar, small_vocabulary))
    for text in case.accepted:
        assert matcher.accept_string(f"<{text}>")
        assert matcher.is_completed()
        matcher.reset()
    for text in case.rejected:
        assert not (matcher.accept_string(f"<{text}>") and matcher.is_completed())
        matcher.reset()


@pytest.mark.parametrize("style", WRITERS)
def test_no_string_closes_its_element(style: str) -> None:
    for value in (STRING, {"type": "string", "pattern": "^.*$"}, {"type": "string", "minLength": 1}, {}):
        grammar = grammar_of(obj("a", a=value), style=style)
        for text in ("<", CLOSING[style][:-1], CLOSING[style][1:]):
            assert recognises(grammar, written(style, [("a", text)]).encode())
        assert not recognises(grammar, written(style, [("a", f"x{CLOSING[style]}y")]).encode())
    with_constant = obj(a={"enum": [f"x{CLOSING[style]}", "y"]})
    assert not recognises(
        grammar_of(with_constant, style=style), written(style, [("a", f"x{CLOSING[style]}")]).encode()
    )


@pytest.mark.parametrize("style", WRITERS)
def test_members_in_any_order(style: str) -> None:
    grammar = grammar_of(obj("a", a=INTEGER, b=STRING), style=style, any_order=True)
    first: Member = ("a", "1", "number")
    second: Member = ("b", "x")
    accepted: list[Members] = [[first], [first, second], [second, first]]
    rejected: list[Members] = [[], [second], [first, first]]
    for members in accepted:
        assert recognises(grammar, written(style, members, "\n").encode())
    for members in rejected:
        assert not recognises(grammar, written(style, members).encode())


@pytest.mark.parametrize("style", WRITERS)
@pytest.mark.parametrize("document", [STRING, {"type": "array"}, {"enum": [1, "x"]}, {"type": ["integer", "null"]}])
def test_only_objects_have_members(style: str, document: Any) -> None:
    with pytest.raises(SourceError) as caught:
        grammar_of(document, style=style)
    assert caught.value.pointer == "/format/json_schema"


@pytest.mark.parametrize("style", WRITERS)
def test_names_that_a_style_cannot_write_are_refused(style: str) -> None:
    character = {"qwen_xml": ">", "glm_xml": "<"}.get(style, '"')
    with pytest.raises(UnsupportedError) as caught:
        grammar_of(obj(**{f"a{character}b": INTEGER}), style=style)
    assert caught.value.feature == f"name in {style}"
    never: dict[str, Any] = {f"a{character}b": False}
    assert recognises(grammar_of(obj(**never), style=style), b""), "it is absent anyway"


@pytest.mark.parametrize("style", WRITERS)
def test_a_member_that_cannot_be_written_is_not_required_in_vain(style: str) -> None:
    with pytest.raises(SourceError):
        grammar_of(obj("a", a=False), style=style)


@pytest.mark.parametrize("style", WRITERS)
def test_whitespace_between_elements_is_bounded(style: str) -> None:
    grammar = grammar_of(obj(a=INTEGER, b=INTEGER), style=style, max_whitespace_cnt=1)
    members = [("a", "1", "number"), ("b", " 2 ", "number")]
    assert recognises(grammar, f" {written(style, list(members), ' ')}\n".encode())
    assert not recognises(grammar, written(style, list(members), "  ").encode())
    assert not recognises(grammar, f"  {written(style, [members[0]])}".encode())


def test_the_deprecated_format_is_the_style_of_qwen() -> None:
    document = obj("a", a=INTEGER)
    old = {"type": "qwen_xml_parameter", "json_schema": document}
    assert Source.structural_tag({"format": old}).grammar(Budget()) == grammar_of(document, style="qwen_xml")


@pytest.mark.parametrize("style", ["qwen_xml", "deepseek_xml"])
def test_two_thousand_members_are_no_limit(style: str) -> None:
    document = obj("p0", **{f"p{at}": STRING if at % 2 else INTEGER for at in range(2000)})
    grammar = grammar_of(document, style=style)
    assert recognises(grammar, written(style, [("p0", "1", "number"), ("p1999", "x")]).encode())
    assert style in UNTYPED or not recognises(grammar, written(style, [("p0", "1")]).encode())


def test_objects_inside_are_json_in_every_style() -> None:
    document = {"type": "object", "properties": {"v": INTEGER, "next": {"$ref": "#"}}}
    for style in WRITERS:
        grammar = grammar_of(document, style=style)
        assert recognises(grammar, written(style, [("next", '{"v": 1, "next": {}}', "object")]).encode())
        assert not recognises(grammar, written(style, [("next", written(style, [("v", "1")]), "object")]).encode())


def test_names_that_need_quotes_are_refused_where_there_are_none() -> None:
    for name in ("a b", "a:b", "", "a,b", "a}"):
        with pytest.raises(UnsupportedError) as caught:
            grammar_of(obj(b=obj(**{name: INTEGER})), style="gemma")
        assert caught.value.feature == "name without quotes"
