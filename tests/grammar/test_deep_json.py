"""The reader of deeply nested JSON against the interpreter's own, and documents that only it can read."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcache.errors import LimitError, SourceError
from shmcache.grammar.canonical_json import parse_json
from shmcache.grammar.deep_json import decode_deep
from shmcache.grammar.key import Source
from shmcache.limits import SCHEMA_DEPTH_MAX, Budget


def refuse(name: str) -> Any:
    raise ValueError(name)


def own(text: str) -> Any:
    return json.JSONDecoder(object_pairs_hook=list, parse_float=Decimal, parse_constant=refuse).decode(text)


def deep(text: str) -> Any:
    return decode_deep(text, 50, list, Decimal, refuse)


def outcome(read: Any, text: str) -> Any:
    """What was read, with types told apart, or the error and its place."""
    try:
        return repr(read(text))
    except json.JSONDecodeError as error:
        return error.msg, error.pos
    except ValueError as error:
        return str(error)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)
TEXTS = st.builds(json.dumps, DOCUMENTS, indent=st.sampled_from([None, 1]), ensure_ascii=st.booleans())


@given(TEXTS)
def test_documents_are_read_as_by_the_interpreter(text: str) -> None:
    assert outcome(deep, text) == outcome(own, text)


@given(
    TEXTS, st.integers(0, 200), st.sampled_from(["", "]", "}", ",", ":", '"', "-", "0", ".", "nul", "NaN", " ", "\n"])
)
def test_damaged_documents_are_refused_at_the_same_place(text: str, at: int, piece: str) -> None:
    damaged = text[: at % (len(text) + 1)] + piece + text[at % (len(text) + 1) + 1 :]
    found, expected = outcome(deep, damaged), outcome(own, damaged)
    if isinstance(expected, tuple) and isinstance(found, tuple):
        return  # both refuse it; a later interpreter words and places some of these otherwise
    assert found == expected, damaged


@pytest.mark.parametrize("text", ["[1,]", '{"a":1,}', '{"a" 1}', "[1 2]", "[", '{"a":', "01", "1.", '"\x01"', "[] x"])
def test_what_is_no_json_is_a_source_error_with_its_place(text: str) -> None:
    nested = "[" * 2_000 + text + "]" * 2_000
    with pytest.raises(SourceError) as caught:
        parse_json(nested)
    assert caught.value.line == 1
    assert caught.value.column is not None
    assert caught.value.column > 2_000


def test_a_name_that_occurs_twice_is_refused_at_any_depth() -> None:
    with pytest.raises(SourceError, match="twice"):
        parse_json("[" * 2_000 + '{"a":1,"a":2}' + "]" * 2_000)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"items":', "}"), ('{"properties":{"a":', "}}")])
def test_documents_beyond_the_interpreters_stack_are_read_and_those_beyond_the_limit_refused(
    opening: str, closing: str
) -> None:
    levels = (SCHEMA_DEPTH_MAX - 2) // opening.count("{" if "{" in opening else "[")
    document = parse_json(opening * levels + "{}" + closing * levels)
    depth = 0
    while document:
        document = document[0] if isinstance(document, list) else next(iter(document.values()))
        depth += 1
    assert depth == levels * opening.count("{" if "{" in opening else "[")
    with pytest.raises(LimitError) as caught:
        parse_json(opening * 100_000 + "{}" + closing * 100_000)
    assert (caught.value.limit, caught.value.value) == ("depth", SCHEMA_DEPTH_MAX)


@pytest.mark.parametrize(
    ("keyword", "rule_count_min"), [("items", 1_000), ("properties", 1_000), ("not", 1), ("allOf", 1), ("anyOf", 1)]
)
def test_schemas_a_thousand_levels_deep_have_a_grammar(keyword: str, rule_count_min: int) -> None:
    schema: Any = {"type": "integer"}
    for _ in range(1_000):
        schema = {keyword: [schema] if keyword in ("allOf", "anyOf") else schema}
        if keyword == "properties":
            schema = {"type": "object", "properties": {"a": schema["properties"]}}
    assert len(Source.json_schema(schema).grammar(Budget()).rules) >= rule_count_min
