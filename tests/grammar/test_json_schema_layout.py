"""Whitespace: free, bounded, or exactly that of ``json.dumps``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.grammar.json_schema.layout import LEVEL_MAX
from tests.grammar.json_schema_cases import check, grammar_of
from tests.reference.grammar_recogniser import recognises

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"type": "integer"}},
        "c": {"type": "object", "properties": {"d": {"type": "null"}}},
        "e": {},
    },
    "required": ["b"],
}
VALUES: list[Any] = [
    {"b": []},
    {"a": 1, "b": [1]},
    {"b": [1, 2, 3], "c": {}},
    {"a": 1, "b": [], "c": {"d": None}, "e": {"x": [1, {"y": []}], "z": {}}},
]
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"separators": (",", ":")},
    {"separators": (" , ", " :")},
    {"indent": 0},
    {"indent": 2},
    {"indent": 4, "separators": (", ", ":")},
    {"indent": 1, "separators": (",", " : ")},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_is_that_of_json_dumps_and_no_other(layout: dict[str, Any]) -> None:
    grammar = grammar_of(SCHEMA, any_whitespace=False, **layout)
    for value in VALUES:
        expected = json.dumps(value, **layout)
        assert recognises(grammar, expected.encode()), expected
        for other in LAYOUTS:
            text = json.dumps(value, **other)
            assert recognises(grammar, text.encode()) == (text == expected), text
        assert not recognises(grammar, b" " + expected.encode())
        assert not recognises(grammar, expected.encode() + b"\n")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_free_whitespace_covers_every_layout(layout: dict[str, Any]) -> None:
    free = grammar_of(SCHEMA)
    ignoring = grammar_of(SCHEMA, **layout)
    for value in VALUES:
        for grammar in (free, ignoring):
            assert recognises(grammar, json.dumps(value, **layout).encode())


def test_where_free_whitespace_may_stand() -> None:
    check(
        SCHEMA,
        [b'{"b":[]}', b'{\n"b"\t:\r [ 1 , 2 ] }', b'{ "a" : 1 , "b" : [ ] , "c" : { } , "e" : [ { "x" : 1 } ] }'],
        [b' {"b":[]}', b'{"b":[]}\n', b'{"b ":[]}', b'{"b":[1 2]}', b'{"b":[]\xc2\xa0}', b'{"b":[]\x0b}'],
    )


def test_bounded_whitespace_is_bounded_everywhere() -> None:
    free = json.dumps(VALUES[3])
    for limit in (0, 1, 3):
        grammar = grammar_of(SCHEMA, max_whitespace_cnt=limit)
        compact = json.dumps(VALUES[3], separators=(",", ":"))
        assert recognises(grammar, compact.encode())
        assert recognises(grammar, free.encode()) == (limit >= 1)
        marks = [at for at, character in enumerate(compact) if character in "{}[]:,"]
        for at in marks:
            for place in (at, at + 1):
                for count in (limit, limit + 1):
                    text = compact[:place] + " " * count + compact[place:]
                    inside = 0 < place < len(compact)
                    # A mark beside another one has the same gap; an empty container has a single gap.
                    assert recognises(grammar, text.encode()) == (count == 0 or (inside and count <= limit)), text


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else {}


def test_indented_values_nest_up_to_a_limit() -> None:
    for schema in (
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "additionalProperties": True},
        True,
    ):
        grammar = grammar_of(schema, any_whitespace=False, indent=2)
        assert recognises(grammar, json.dumps(nested(LEVEL_MAX), indent=2).encode())
        assert not recognises(grammar, json.dumps(nested(LEVEL_MAX + 1), indent=2).encode())
        assert [warning.feature for warning in grammar.warnings] == ["indent"]
    assert grammar_of(SCHEMA | {"properties": {"b": {}}}, any_whitespace=False).warnings == ()
    flat = {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "integer"}}}}
    assert grammar_of(flat, any_whitespace=False, indent=2).warnings == ()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ANY_BY_LAYOUT = [(layout, grammar_of(True, any_whitespace=False, **layout)) for layout in LAYOUTS]


@settings(deadline=None, max_examples=50)
@given(JSON_VALUES, st.sampled_from(ANY_BY_LAYOUT), st.booleans())
def test_any_value_in_any_layout(value: Any, layout: tuple[dict[str, Any], Any], ensure_ascii: bool) -> None:
    options, grammar = layout
    assert recognises(grammar, json.dumps(value, ensure_ascii=ensure_ascii, **options).encode())
