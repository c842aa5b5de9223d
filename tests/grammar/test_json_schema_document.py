"""References: pointers, identifiers, anchors and drafts."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.errors import SourceError, UnsupportedError
from shmcache.grammar.json_schema.document import FALSE, TRUE, Document
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import check, grammar_of

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("pointer", "document"),
    [
        ("#/$defs/a~1b", {"$defs": {"a/b": {"type": "null"}}}),
        ("#/$defs/a~0b", {"$defs": {"a~b": {"type": "null"}}}),
        ("#/$defs/a~01b", {"$defs": {"a~1b": {"type": "null"}}}),
        ("#/$defs/a%25b", {"$defs": {"a%b": {"type": "null"}}}),
        ("#/$defs/%C3%A9", {"$defs": {"é": {"type": "null"}}}),
        ("#/$defs/a%20b", {"$defs": {"a b": {"type": "null"}}}),
        ("#/$defs/a%22b", {"$defs": {'a"b': {"type": "null"}}}),
        ("#/$defs/", {"$defs": {"": {"type": "null"}}}),
        ("#/$defs/list/1", {"$defs": {"list": [{}, {"type": "null"}]}}),
        ("#/$defs/x/anyOf/0", {"$defs": {"x": {"anyOf": [{"type": "null"}]}}}),
        ("#/definitions/a", {"definitions": {"a": {"type": "null"}}}),
        ("#/components/schemas/a", {"components": {"schemas": {"a": {"type": "null"}}}}),
        ("#/examples/0", {"examples": [{"type": "null"}]}),
        ("#/properties/title", {"properties": {"title": {"type": "null"}}}),
        ("#name", {"$defs": {"x": {"$anchor": "name", "type": "null"}}}),
        ("http://x.org/a.json#/$defs/b", {"$id": "http://x.org/a.json", "$defs": {"b": {"type": "null"}}}),
        ("a.json#/$defs/b", {"$id": "http://x.org/a.json", "$defs": {"b": {"type": "null"}}}),
        ("b.json", {"$id": "http://x.org/a.json", "$defs": {"b": {"$id": "b.json", "type": "null"}}}),
        ("urn:x:y", {"$defs": {"b": {"$id": "urn:x:y", "type": "null"}}}),
        (
            "b.json#n",
            {"$id": "http://x.org/", "$defs": {"b": {"$id": "b.json", "items": {"$anchor": "n", "type": "null"}}}},
        ),
        (
            "http://x.org/#i",
            {"$schema": DRAFT_4, "id": "http://x.org/", "definitions": {"b": {"id": "#i", "type": "null"}}},
        ),
        ("#i", {"$schema": DRAFT_7, "definitions": {"b": {"$id": "#i", "type": "null"}}}),
    ],
)
def test_where_references_lead(pointer: str, document: dict[str, Any]) -> None:
    check({**document, "items": {"$ref": pointer}, "type": "array"}, [[], [None]], [[1]])


@pytest.mark.parametrize("reference", ["#", ""])
def test_the_whole_document(reference: str) -> None:
    check({"items": {"$ref": reference}, "type": "array"}, [[], [[], [[]]]], [[1], {}])


def test_a_reference_is_relative_to_the_nearest_identifier() -> None:
    schema = {
        "$id": "http://x.org/root.json",
        "$defs": {
            "inner": {
                "$id": "inner.json",
                "$defs": {"t": {"type": "null"}},
                "items": {"$ref": "#/$defs/t"},
                "type": "array",
            },
            "t": {"type": "integer"},
        },
        "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "inner.json"}},
    }
    check(schema, [{"a": 1, "b": [None]}], [{"a": None}, {"b": [1]}])


def test_identifiers_within_data_are_none() -> None:
    schema = {"anyOf": [{"const": {"$id": "x.json", "type": "null"}}, {"$ref": "x.json"}]}
    with pytest.raises(UnsupportedError):
        grammar_of(schema)


def test_equal_schemas_under_different_identifiers_stay_apart() -> None:
    same = {"type": "array", "items": {"$ref": "#/$defs/t"}}
    schema = {
        "type": "object",
        "properties": {
            "a": {"$id": "http://x.org/1", "$defs": {"t": {"type": "null"}}, "allOf": [same]},
            "b": {"$id": "http://x.org/2", "$defs": {"t": {"type": "integer"}}, "allOf": [same]},
        },
    }
    check(schema, [{"a": [None], "b": [1]}], [{"a": [1]}, {"b": [None]}])


def test_siblings_of_references_by_draft() -> None:
    schema = {"properties": {"a": {"$ref": "#/definitions/t", "maximum": 3}}, "definitions": {"t": {"type": "integer"}}}
    check(schema, [{"a": 3}], [{"a": 4}])
    check({"$schema": NEWEST, **schema}, [{"a": 3}], [{"a": 4}])
    for draft in (DRAFT_4, DRAFT_7):
        grammar = check({"$schema": draft, **schema}, [{"a": 3}, {"a": 4}], [{"a": "x"}])
        assert [(warning.feature, warning.pointer) for warning in grammar.warnings] == [("$ref", "/properties/a/$ref")]


@pytest.mark.parametrize(
    "reference", ["x.json", "http://json-schema.org/draft-03/schema#x", "//x", "#/a#b", "http://json-schema.org/x"]
)
def test_other_documents_are_not_retrieved(reference: str) -> None:
    with pytest.raises((UnsupportedError, SourceError)) as caught:
        grammar_of({"$ref": reference})
    assert caught.value.pointer == "/$ref"


def test_equal_schemas_have_one_id() -> None:
    document = Document({"items": {"type": "null"}, "not": {"type": "null"}, "contains": {"type": None}}, Budget())
    root = document.place(document.root).schema
    assert isinstance(root, dict)
    ids = [document.schema_id(root[name], "/" + name, "") for name in ("items", "not", "contains")]
    assert ids[0] == ids[1] != ids[2]
    assert document.schema_id(True, "", "") == document.schema_id({}, "", "") == TRUE
    assert document.schema_id(False, "", "") == FALSE
    numbers = [
        document.constant_id(value, "")
        for value in (1, True, 1.0, "1", [1], [True], {"a": 1, "b": 2}, {"b": 2, "a": 1})
    ]
    assert len(set(numbers)) == len(numbers)
