"""Structural tags: what each format admits, by its grammar and by the masks of the whole compiler."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.ir import Grammar, Reference
from shmcache.grammar.key import Source
from shmcache.limits import FORMAT_DEPTH_MAX, SCHEMA_DEPTH_MAX, Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.grammar import structural_tag_cases as make
from tests.grammar.structural_tag_cases import CASES, POINT, Case, Format
from tests.matcher.support import allowed, compiled
from tests.reference.grammar_recogniser import recognises

FINGERPRINT = bytes(32)


def grammar_of(tag_format: Format) -> Grammar:
    return Source.structural_tag({"type": "structural_tag", "format": tag_format}).grammar(Budget())


def name_of(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_grammar_admits_what_the_format_means(case: Case) -> None:
    grammar = grammar_of(case.format)
    for text in case.accepted:
        assert recognises(grammar, text.encode()), text
    for text in case.rejected:
        assert not recognises(grammar, text.encode()), text


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_masks_admit_what_the_format_means(case: Case, small_vocabulary: Vocabulary) -> None:
    matcher = GrammarMatcher(compiled(grammar_of(case.format), small_vocabulary))
    for text, is_member in [(one, True) for one in case.accepted] + [(one, False) for one in case.rejected]:
        matcher.reset()
        assert _reads(matcher, text.encode(), small_vocabulary) is is_member, text


def _reads(matcher: GrammarMatcher, data: bytes, vocabulary: Vocabulary) -> bool:
    """Whether every byte is allowed by the mask before it, and the stop token behind the last."""
    (stop,) = vocabulary.stop_token_ids
    for byte in data:
        is_allowed = byte in allowed(matcher, vocabulary.width)
        assert matcher.accept_token(byte) is is_allowed
        if not is_allowed:
            return False
    return stop in allowed(matcher, vocabulary.width)


ERRORS: list[tuple[Any, type[Exception], str]] = [
    ([], SourceError, ""),
    ({}, SourceError, ""),
    ({"type": "structural"}, SourceError, "/type"),
    ({"format": make.const("a"), "more": 1}, SourceError, "/more"),
    ({"format": []}, SourceError, "/format"),
    ({"format": {}}, SourceError, "/format"),
    ({"format": {"type": "nothing"}}, SourceError, "/format/type"),
    ({"format": {"type": ["tag"]}}, SourceError, "/format/type"),
    ({"format": {"type": "const_string"}}, SourceError, "/format"),
    ({"format": {"type": "const_string", "value": 1}}, SourceError, "/format/value"),
    ({"format": {"type": "const_string", "value": "a", "a/b": 1}}, SourceError, "/format/a~1b"),
    ({"format": make.schema([])}, SourceError, "/format/json_schema"),
    ({"format": make.schema({}, style="xml")}, SourceError, "/format/style"),
    ({"format": make.schema({}, any_order=1)}, SourceError, "/format/any_order"),
    ({"format": make.schema({}, max_whitespace_cnt=-1)}, SourceError, "/format/max_whitespace_cnt"),
    ({"format": make.schema({}, max_whitespace_cnt=True)}, SourceError, "/format/max_whitespace_cnt"),
    ({"format": make.schema({}, excludes=[""])}, SourceError, "/format/excludes/0"),
    ({"format": make.schema(False)}, SourceError, "/format/json_schema"),
    (
        {"format": make.schema({"properties": {"a": {"type": "x"}}})},
        SourceError,
        "/format/json_schema/properties/a/type",
    ),
    ({"format": make.schema({"$ref": "#/a"})}, SourceError, "/format/json_schema/$ref"),
    ({"format": make.free(excludes="a")}, SourceError, "/format/excludes"),
    ({"format": make.free(excludes=["a", ""])}, SourceError, "/format/excludes/1"),
    ({"format": make.free(max_chars=1.5)}, SourceError, "/format/max_chars"),
    ({"format": make.free(max_tokens=1 << 31)}, SourceError, "/format/max_tokens"),
    ({"format": make.ebnf('other ::= "a"')}, SourceError, "/format/grammar"),
    ({"format": make.ebnf('root ::= "a', syntax="ebnf")}, SourceError, "/format/grammar"),
    ({"format": make.ebnf("a", syntax="abnf")}, SourceError, "/format/syntax"),
    ({"format": make.regex("(a")}, SourceError, "/format/pattern"),
    ({"format": {"type": "token", "token": -1}}, SourceError, "/format/token"),
    ({"format": {"type": "token", "token": True}}, SourceError, "/format/token"),
    ({"format": {"type": "token", "token": ""}}, SourceError, "/format/token"),
    ({"format": {"type": "any_tokens", "exclude_tokens": [1, 1.5]}}, SourceError, "/format/exclude_tokens/1"),
    ({"format": make.sequence()}, SourceError, "/format/elements"),
    ({"format": make.sequence(make.const("a"), make.sequence())}, SourceError, "/format/elements/1/elements"),
    ({"format": make.either()}, SourceError, "/format/elements"),
    ({"format": make.tag(1, make.const("a"), "b")}, SourceError, "/format/begin"),
    (
        {"format": make.tag({"type": "token", "token": "x", "y": 1}, make.const("a"), "b")},
        SourceError,
        "/format/begin/y",
    ),
    ({"format": make.tag({"type": "tag", "token": "x"}, make.const("a"), "b")}, SourceError, "/format/begin/type"),
    ({"format": make.tag("a", make.const("a"), [])}, SourceError, "/format/end"),
    ({"format": make.tag("a", make.const("a"), ["b", 1])}, SourceError, "/format/end/1"),
    ({"format": make.tag("a", make.free(), "")}, SourceError, "/format/content"),
    (
        {"format": make.tag("a", make.sequence(make.const("a"), make.free()), [""])},
        SourceError,
        "/format/content/elements/1",
    ),
    ({"format": make.triggered([], make.A)}, SourceError, "/format/triggers"),
    ({"format": make.triggered(["<", ""], make.A)}, SourceError, "/format/triggers/1"),
    ({"format": make.triggered(["<"])}, SourceError, "/format/tags"),
    ({"format": make.triggered(["<"], make.const("a"))}, SourceError, "/format/tags/0/type"),
    ({"format": make.triggered(["<", "<f"], make.A)}, SourceError, "/format/tags/0/begin"),
    ({"format": make.triggered(["<f=a>x", "<g"], make.A)}, SourceError, "/format/tags/0/begin"),
    (
        {"format": make.triggered(["<"], make.tag({"token": 1}, make.const("a"), ""))},
        SourceError,
        "/format/tags/0/begin",
    ),
    (
        {"format": {"type": "token_triggered_tags", "trigger_tokens": [1], "tags": [make.A]}},
        SourceError,
        "/format/tags/0/begin",
    ),
    (
        {
            "format": {
                "type": "token_triggered_tags",
                "trigger_tokens": [1],
                "tags": [make.tag({"token": 2}, make.A, "")],
            }
        },
        SourceError,
        "/format/tags/0/begin/token",
    ),
    ({"format": make.of("repeat", make.const("a"), min=2, max=1)}, SourceError, "/format/max"),
    ({"format": make.of("repeat", make.const("a"), min=-1, max=1)}, SourceError, "/format/min"),
    ({"format": make.of("repeat", make.const("a"), min=0, max=-2)}, SourceError, "/format/max"),
    ({"format": make.of("repeat", make.const("a"), min=0)}, SourceError, "/format"),
    ({"format": {"type": "dispatch", "rules": []}}, SourceError, "/format/rules"),
    ({"format": {"type": "dispatch", "rules": [["a"]]}}, SourceError, "/format/rules/0"),
    ({"format": {"type": "dispatch", "rules": [["", make.A]]}}, SourceError, "/format/rules/0/0"),
    ({"format": {"type": "dispatch", "rules": [["a", {}]]}}, SourceError, "/format/rules/0/1"),
    ({"format": {"type": "token_dispatch", "rules": [[None, make.A]]}}, SourceError, "/format/rules/0/0"),
    ({"structures": [], "triggers": ["<"]}, SourceError, "/structures"),
    ({"structures": [{"begin": "<", "schema": {}}], "triggers": ["<"]}, SourceError, "/structures/0"),
    ({"structures": [{"begin": "<", "schema": 1, "end": ">"}], "triggers": ["<"]}, SourceError, "/structures/0/schema"),
    (
        {"structures": [{"begin": "<", "schema": {"type": 1}, "end": ""}], "triggers": ["<"]},
        SourceError,
        "/structures/0/schema/type",
    ),
    ({"structures": [{"begin": "a", "schema": {}, "end": ""}], "triggers": ["<"]}, SourceError, "/structures/0/begin"),
    ({"structures": [{"begin": "<", "schema": {}, "end": ""}], "triggers": []}, SourceError, "/triggers"),
    ({"structures": [{"begin": "<", "schema": {}, "end": ""}]}, SourceError, ""),
    ({"structures": {}, "triggers": ["<"], "format": {}}, SourceError, "/format"),
    ({"format": make.schema({}, style="cohere_xml")}, UnsupportedError, "/format/style"),
    ({"format": make.ebnf("start: a", syntax="lark")}, UnsupportedError, "/format/syntax"),
    ({"format": make.regex(r"(a)\1")}, UnsupportedError, "/format/pattern"),
    ({"format": make.schema({"$dynamicRef": "x#a"})}, UnsupportedError, "/format/json_schema/$dynamicRef"),
]


@pytest.mark.parametrize(("document", "error", "pointer"), ERRORS, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_said_with_its_place(document: Any, error: type[Exception], pointer: str) -> None:
    with pytest.raises(error) as caught:
        Source.structural_tag(json.dumps(document)).grammar(Budget())
    assert getattr(caught.value, "pointer", None) in (pointer, pointer or None)


def nested(depth: int, kind: str) -> Format:
    inner = make.const("a")
    for _ in range(depth):
        bounds = {"min": 0, "max": 2} if kind == "repeat" else {}
        inner = make.tag("<", inner, ">") if kind == "tag" else make.of(kind, inner, **bounds)
    return inner


@pytest.mark.parametrize("kind", ["optional", "star", "plus", "repeat", "tag"])
def test_formats_nest_to_a_limit(kind: str, small_vocabulary: Vocabulary) -> None:
    assert compiled(grammar_of(nested(FORMAT_DEPTH_MAX - 1, kind)), small_vocabulary)
    for depth in (FORMAT_DEPTH_MAX, SCHEMA_DEPTH_MAX - 2, 100_000):
        with pytest.raises(LimitError) as caught:
            grammar_of(nested(depth, kind))
        assert caught.value.limit == "depth"


def test_two_hundred_tags_and_a_thousand_triggers_are_no_limit() -> None:
    tools = [make.tag(f"<function=f{at}>", make.schema(POINT), "</function>") for at in range(200)]
    grammar = grammar_of(make.triggered(["<function="], *tools))
    assert recognises(grammar, b'ab<function=f7>{"x": 1}</function>c')
    assert not recognises(grammar, b'<function=f200>{"x": 1}</function>')
    many = [make.tag(f"<f{at}>!", make.const("1"), "") for at in range(1000)]
    grammar = grammar_of(make.triggered([f"<f{at}>" for at in range(1000)], *many))
    assert recognises(grammar, b"<f999>!1 <f17>!1")
    assert not recognises(grammar, b"<f999>1")
    assert recognises(grammar, b"<f1000>")


def test_tags_do_not_search_all_trigger_tokens() -> None:
    """Each looks its own up: one that compares it with a hundred thousand others takes most of a millisecond."""
    count = 100_000
    tags = [make.tag({"type": "token", "token": count - 1 - at}, make.const("x"), "y") for at in range(6_000)]
    document = {"type": "token_triggered_tags", "trigger_tokens": list(range(count)), "tags": tags}
    started = time.process_time()
    assert grammar_of(document).rules
    assert time.process_time() - started < 2.5


def test_a_repetition_or_a_text_without_bounds_is_a_limit() -> None:
    for tag_format in (
        make.of("repeat", make.const("a"), min=0, max=1 << 30),
        make.free(max_chars=(1 << 31) - 1),
        make.schema(POINT, max_whitespace_cnt=1 << 30),
    ):
        with pytest.raises(LimitError):
            grammar_of(tag_format)


def test_schemas_share_the_rules_that_all_have() -> None:
    grammar = grammar_of(make.sequence(make.schema({"type": "string"}), make.schema({"items": {"type": "string"}})))
    strings = [name for name in grammar.rules if "json_string" in name]
    assert strings == ["json_string"]
    one = grammar_of(make.sequence(make.schema(True), make.schema(True, max_whitespace_cnt=1), make.schema(True)))
    assert one.rules["schema_1"] == one.rules["schema_3"] == Reference("json_value")
    assert one.rules["schema_2"] != one.rules["schema_1"]


def test_warnings_lead_into_the_tag() -> None:
    grammar = grammar_of(make.sequence(make.const("a"), make.schema({"properties": {"a": {"format": "odd"}}})))
    assert [one.pointer for one in grammar.warnings] == ["/format/elements/1/json_schema/properties/a/format"]
