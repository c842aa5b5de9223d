"""The key of a source: what enters it, what does not, and what input too large, too deep or malformed gives."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcache.errors import LimitError, SourceError
from shmcache.grammar import key as key_module
from shmcache.grammar import schema_keywords as roles
from shmcache.grammar.canonical_json import canonical_json, parse_json
from shmcache.grammar.key import Source
from shmcache.grammar.schema_keywords import ANNOTATIONS
from shmcache.limits import SCHEMA_DEPTH_MAX, SOURCE_BYTES_MAX, STATES_MAX, Budget

FINGERPRINT = bytes(32)
PROPERTIES: dict[str, Any] = {
    "naïve": {"type": "string", "maxLength": 9},
    "b": {"enum": ["x", 1.5, None, {"title": "kept"}]},
}
SCHEMA: dict[str, Any] = {"type": "object", "properties": PROPERTIES, "required": ["b"]}


def key_of(schema: Any, **options: Any) -> bytes:
    return Source.json_schema(schema, **options).key(FINGERPRINT)


@pytest.mark.parametrize(
    "same",
    [
        json.dumps(SCHEMA),
        json.dumps(SCHEMA, indent=7, ensure_ascii=False),
        json.dumps(SCHEMA, ensure_ascii=False).replace("b", "\\u0062"),
        json.dumps(dict(reversed(SCHEMA.items()))),
        json.dumps({"title": "t", "description": "d", "examples": [1], "$comment": "c", "default": {}, **SCHEMA}),
        {**SCHEMA, "properties": {**PROPERTIES, "naïve": {"maxLength": 9, "readOnly": True, "type": "string"}}},
    ],
)
def test_same_key(same: Any) -> None:
    assert key_of(same) == key_of(SCHEMA)


@pytest.mark.parametrize(
    "other",
    [
        {**SCHEMA, "properties": dict(reversed(PROPERTIES.items()))},
        {**SCHEMA, "required": ["naïve"]},
        {**SCHEMA, "properties": {**PROPERTIES, "title": {}}},
        json.dumps(SCHEMA).replace("kept", "other"),
        json.dumps(SCHEMA).replace('"title": "kept"', ""),
        json.dumps(SCHEMA).replace("1.5", "1.50000000000000000001"),
        True,
    ],
)
def test_other_key(other: Any) -> None:
    assert key_of(other) != key_of(SCHEMA)


@pytest.mark.parametrize(
    "option",
    [
        {"any_whitespace": False},
        {"indent": 2},
        {"indent": 0},
        {"separators": (",", ":")},
        {"strict_mode": False},
        {"max_whitespace_cnt": 1},
        {"canonical_numbers": False},
        {"any_order": True},
        {"on_unsupported": "ignore"},
    ],
)
def test_every_option_enters_the_key(option: dict[str, Any]) -> None:
    assert key_of(SCHEMA, **option) != key_of(SCHEMA)


def test_kind_text_root_and_fingerprint_enter_the_key() -> None:
    sources = [
        Source.regex("a"),
        Source.regex("b"),
        Source.ebnf("a"),
        Source.ebnf("a", "other"),
        Source.builtin_json(),
        Source.structural_tag({"a": 1}),
        Source.json_schema(True),
    ]
    keys = {source.key(fingerprint) for source in sources for fingerprint in (bytes(32), bytes(31) + b"\1")}
    assert len(keys) == 2 * len(sources)
    assert all(len(key) == 32 for key in keys)


def test_the_order_of_definitions_does_not_enter_but_that_of_data_does() -> None:
    one, other = {"$defs": {"a": {}, "b": True}}, {"$defs": {"b": True, "a": {}}}
    assert key_of(one) == key_of(other)
    assert key_of({"const": one}) != key_of({"const": other})


def test_annotations_are_kept_where_they_are_names_or_data() -> None:
    for name in ANNOTATIONS:
        assert name in canonical_json({"properties": {name: {"type": "string"}}}, roles.SCHEMA)
        assert name in canonical_json({"enum": [{name: 1}]}, roles.SCHEMA)
        assert name not in canonical_json({"items": {"anyOf": [{name: "x", "type": "string"}]}}, roles.SCHEMA)


def test_plain_data_and_text_are_one_source() -> None:
    text = '{"enum": [1, 1.0, 1e3, 12345678901234567890123, "\\u20ac", [], {}, {"a": [null, true]}]}'
    plain: dict[str, Any] = {"enum": (1, 1.0, 1000.0, 12345678901234567890123, "€", [], {}, {"a": [None, True]})}
    assert Source.json_schema(text.replace("1e3", "1000.0")) == Source.json_schema(plain)
    assert Source.json_schema(text).text.startswith('{"enum":[1,1.0,1E+3,12345678901234567890123,"€"')


def test_a_pydantic_model_is_its_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Point", x=(int, ...), y=(int, ...))
    assert key_of(model) == key_of(model.model_json_schema())


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("", 1, 1), ('{"a": 1,\n "b" 2}', 2, 6), ("{} {}", 1, 4), ("{'a': 1}", 1, 2), ('"\x01"', 1, 2)],
)
def test_malformed_text_has_a_position(text: str, line: int, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        Source.json_schema(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "schema",
    [
        '{"a": 1, "b": 2, "a": 3}',
        '{"enum": [NaN]}',
        '{"enum": [-Infinity]}',
        {"enum": [float("nan")]},
        {"enum": [float("inf")]},
        {"enum": [object()]},
        {1: {}},
        {"a": 1, 2: {}},
        {"properties": {None: {}}},
        '{"const": "\\ud800"}',
        {"const": "\udc00"},
        object(),
        None,
    ],
)
def test_what_is_not_json_is_refused(schema: Any) -> None:
    with pytest.raises(SourceError):
        Source.json_schema(schema).key(FINGERPRINT)


@pytest.mark.parametrize(
    "options",
    [
        {"indent": -1},
        {"indent": True},
        {"indent": "\t"},
        {"max_whitespace_cnt": -1},
        {"separators": (";", ":")},
        {"separators": (", ", ":", "")},
        {"separators": (",,", ":")},
        {"separators": ("\xa0,", ":")},
        {"on_unsupported": "warn"},
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(SourceError):
        Source.json_schema(True, **options)


def test_too_deep_is_a_limit() -> None:
    depth = 10_000
    nested: dict[str, Any] = {}
    for _ in range(depth):
        nested = {"items": nested}
    for schema in (nested, '{"items":' * depth + "{}" + "}" * depth, "[" * depth + "]" * depth):
        with pytest.raises(LimitError) as caught:
            Source.json_schema(schema)
        assert caught.value.limit == "depth"
    cyclic: dict[str, Any] = {}
    cyclic["not"] = cyclic
    with pytest.raises(LimitError):
        Source.json_schema(cyclic)


def test_just_deep_enough_is_no_limit() -> None:
    nested: dict[str, Any] = {}
    for _ in range(SCHEMA_DEPTH_MAX):
        nested = {"items": nested}
    assert Source.json_schema(nested).text.count("items") == SCHEMA_DEPTH_MAX


def test_too_large_is_a_limit() -> None:
    shared: Any = {"enum": ["x" * 1000]}
    for _ in range(40):
        shared = {"anyOf": [shared, shared]}  # 2**40 copies when written out
    for schema in (json.dumps("x" * SOURCE_BYTES_MAX), shared, {"const": "é" * (SOURCE_BYTES_MAX // 2 + 1)}):
        with pytest.raises(LimitError) as caught:
            Source.json_schema(schema).key(FINGERPRINT)
        assert caught.value.limit == "bytes"
    for number in ("9" * 5000, "1e9999999999999999999"):
        with pytest.raises(LimitError):
            Source.json_schema(f'{{"const": {number}}}')


def test_too_large_is_seen_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before a part counts as much as what stands behind it."""
    monkeypatch.setattr("shmcache.grammar.canonical_json.SOURCE_BYTES_MAX", 1 << 20)
    text = "x" * (1 << 19)
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            canonical_json([{"a": text, "b": {}}] * 200, roles.DATA)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_two_megabytes_are_not_too_large() -> None:
    schema = json.dumps({"enum": [f"value {number}" for number in range(140_000)]})
    assert len(schema) > 2 << 20
    assert len(key_of(schema)) == 32


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_canonical_text_of_data_is_that_data(value: Any) -> None:
    assert json.loads(canonical_json(value, roles.DATA)) == value
    assert canonical_json(value, roles.DATA) == canonical_json(parse_json(json.dumps(value)), roles.DATA)


@given(
    st.dictionaries(st.sampled_from(["properties", "items", "x", "enum", "title", "$defs"]), JSON_VALUES, max_size=4)
)
def test_canonical_text_is_a_fixed_point(schema: dict[str, Any]) -> None:
    text = canonical_json(schema, roles.SCHEMA)
    assert canonical_json(parse_json(text), roles.SCHEMA) == text


@pytest.mark.parametrize(
    "source",
    [
        Source.json_schema(SCHEMA, indent=3, separators=(",", ": ")),
        Source.ebnf('root ::= "€"'),
        Source.regex("a|b"),
        Source.structural_tag('{"b": 1, "a": 2}'),
        Source.builtin_json(),
    ],
)
def test_bytes_restore_the_source(source: Source) -> None:
    restored = Source.from_bytes(source.to_bytes())
    assert restored == source
    assert restored.key(FINGERPRINT) == source.key(FINGERPRINT)


def test_a_text_travels_as_it_was_written() -> None:
    written = json.dumps(SCHEMA, indent=4)
    source = Source.json_schema(written, indent=3, separators=(",", ": "), any_order=True)
    restored = Source.from_bytes(source.to_bytes())
    assert restored == source
    assert restored.written == source.written == written
    assert restored.text_digest(FINGERPRINT) == source.text_digest(FINGERPRINT)
    assert source.canonical() == source
    assert source.canonical().written == ""
    assert Source.from_bytes(source.canonical().to_bytes()) == source


@pytest.mark.parametrize("title", ["\ud800", "é" * 1000])
def test_what_is_no_bytes_or_too_many_travels_in_its_canonical_form(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An annotation may be anything, as it is in no key."""
    monkeypatch.setattr(key_module, "SOURCE_BYTES_MAX", 1500)
    source = Source.json_schema(f'{{"title": "{title}", "type": "integer"}}')
    restored = Source.from_bytes(source.to_bytes())
    assert restored == source == Source.json_schema({"type": "integer"})
    assert restored.written == ""


def test_only_json_texts_have_a_digest() -> None:
    assert Source.json_schema(json.dumps(SCHEMA)).text_digest(FINGERPRINT) is not None
    assert Source.structural_tag('{"b": 1}').text_digest(FINGERPRINT) is not None
    others = [
        Source.json_schema(SCHEMA),
        Source.structural_tag({"b": 1}),
        Source.structural_tag([], []),
        Source.ebnf('root ::= "a"'),
        Source.regex("a"),
        Source.builtin_json(),
    ]
    assert [source.text_digest(FINGERPRINT) for source in others] == [None] * len(others)


OTHER_OPTIONS: list[dict[str, Any]] = [
    {"any_order": True},
    {"any_whitespace": False},
    {"canonical_numbers": False},
    {"indent": 2},
    {"max_whitespace_cnt": 2},
    {"on_unsupported": "ignore"},
    {"separators": (",", ":")},
    {"strict_mode": False},
]


def test_digests_of_texts_differ_with_everything_that_makes_another_key() -> None:
    digests = {
        source.text_digest(fingerprint)
        for fingerprint in (FINGERPRINT, bytes(range(32)))
        for text in ("{}", "{ }", "true")
        for source in (
            Source.json_schema(text),
            *(Source.json_schema(text, **options) for options in OTHER_OPTIONS),
            *([Source.structural_tag(text)] if text != "true" else []),
        )
    }
    assert len(digests) == 2 * (3 * (1 + len(OTHER_OPTIONS)) + 2)


@given(JSON_VALUES, st.sampled_from([None, 0, 3]), st.booleans())
def test_one_digest_one_key(value: Any, indent: int | None, escapes: bool) -> None:
    """The digest is of the text, the key is a function of it: what a second key must be."""
    text = json.dumps({"const": value}, indent=indent, ensure_ascii=escapes)
    first, second = Source.json_schema(text), Source.from_bytes(Source.json_schema(text).to_bytes())
    assert first.text_digest(FINGERPRINT) == second.text_digest(FINGERPRINT)
    assert first.key(FINGERPRINT) == second.key(FINGERPRINT)
    spelt = Source.json_schema(text + " ")
    assert spelt.key(FINGERPRINT) == first.key(FINGERPRINT)
    assert spelt.text_digest(FINGERPRINT) != first.text_digest(FINGERPRINT)


def test_foreign_bytes_are_refused() -> None:
    good = {"kind": "regex", "text": "a", "options": ()}
    bad: list[Any] = [None, 1, [], {}, {**good, "kind": "x"}, {**good, "text": b"a"}, {**good, "options": (("a",),)}]
    bad += [{**good, "extra": 1}, {**good, "options": ((1, 2),)}, {**good, "options": (("a", (1,)),)}, {1: 2}]
    written = {"kind": "json_schema", "written": "{}", "options": ()}
    bad += [
        {**written, "written": "{"},
        {**written, "written": 1},
        {**written, "kind": "regex"},
        {**written, "text": ""},
    ]
    bad += [{**written, "options": (("unknown", 1),)}, {**written, "options": (("indent", -1),)}]
    bad += [{**written, "kind": "structural_tag", "options": (("indent", 1),)}, {**written, "written": None}]
    for data in [b"", b"\xc1", *map(msgpack.packb, bad), msgpack.packb(good)[:-1], msgpack.packb(good) + b"\0"]:
        with pytest.raises(SourceError):
            Source.from_bytes(data)
    assert Source.from_bytes(msgpack.packb(good)) == Source.regex("a")


@given(st.binary(max_size=60))
def test_no_bytes_whatever_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(SourceError):
        Source.from_bytes(data)


@pytest.mark.parametrize(
    ("source", "depends"),
    [
        (Source.regex(r"\p{Lu}"), True),
        (Source.regex(r"a\P{L}"), True),
        (Source.regex("(?i:straße)"), True),
        (Source.regex("(?msi-s:k)"), True),
        (Source.json_schema({"properties": {"a": {"pattern": r"^\p{Nd}$"}}}), True),
        (Source.json_schema('{"pattern": "\\u005cp{Nd}"}'), True),
        (Source.regex(r"(?:i|\d)(?<i>\w)"), False),
        (Source.json_schema(SCHEMA), False),
        (Source.ebnf('root ::= "(?i:a)"'), False),
        (Source.ebnf('root ::= Regex("\\x5cp{Nd}")'), True),
    ],
)
def test_the_version_of_unicode_enters_where_a_pattern_depends_on_it(
    source: Source, depends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients and workers of one host may run different Pythons."""
    before = source.key(FINGERPRINT)
    monkeypatch.setattr("unicodedata.unidata_version", "99.0.0")
    assert (source.key(FINGERPRINT) != before) is depends


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_without_end_is_a_limit_error_as_data_too(sign: int) -> None:
    with pytest.raises(LimitError) as caught:
        key_of({"maximum": sign * 10**5000})
    assert caught.value.limit == "integer_digits"


@pytest.mark.parametrize("name", ["indent", "max_whitespace_cnt"])
def test_an_option_that_asks_for_too_many_characters_is_a_limit_error(name: str) -> None:
    """Before anything is made of it: a line of so much indentation, or a message that cannot hold the number."""
    key_of(SCHEMA, **{name: STATES_MAX})
    for count in (STATES_MAX + 1, 1 << 64, 10**5000):
        with pytest.raises(LimitError) as caught:
            key_of(SCHEMA, **{name: count})
        assert caught.value.limit == "states"


TAG: dict[str, Any] = {
    "type": "tag",
    "begin": "<f>",
    "content": {"type": "json_schema", "json_schema": SCHEMA, "style": "qwen_xml"},
    "end": ["</f>", "</f>\n"],
}


def key_of_tag(tag_format: Any) -> bytes:
    return Source.structural_tag({"type": "structural_tag", "format": tag_format}).key(FINGERPRINT)


def with_schema(schema: Any) -> dict[str, Any]:
    return {**TAG, "content": {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}}


@pytest.mark.parametrize(
    "same",
    [
        dict(reversed(TAG.items())),
        {**TAG, "content": {**TAG["content"], "max_whitespace_cnt": None, "excludes": None}},
        with_schema({"title": "t", "description": "d", "examples": [1], **SCHEMA}),
        with_schema(dict(reversed(SCHEMA.items()))),
    ],
)
def test_same_key_of_structural_tags(same: Any) -> None:
    text = json.dumps({"format": same, "type": "structural_tag"}, indent=2)
    assert key_of_tag(same) == key_of_tag(TAG) == Source.structural_tag(text).key(FINGERPRINT)


@pytest.mark.parametrize(
    "other",
    [
        {**TAG, "end": ["</f>\n", "</f>"]},
        {**TAG, "begin": "<f> "},
        with_schema({**SCHEMA, "properties": dict(reversed(PROPERTIES.items()))}),
        with_schema({**SCHEMA, "properties": {**PROPERTIES, "title": {}}}),
        with_schema({**SCHEMA, "const": None}),
    ],
)
def test_other_key_of_structural_tags(other: Any) -> None:
    assert key_of_tag(other) != key_of_tag(TAG)


def test_an_annotation_that_a_schema_in_a_tag_refers_to_is_kept() -> None:
    schema = {"$ref": "#/examples/0", "examples": [{"type": "null"}]}
    text = Source.structural_tag({"format": {"type": "json_schema", "json_schema": schema}}).text
    assert '"examples":[{"type":"null"}]' in text


STRUCTURES: list[dict[str, Any]] = [
    {"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
    {"begin": "<f=b>", "schema": {"type": "null"}, "end": "</f>"},
]


def test_the_older_interface_is_the_older_form() -> None:
    older = Source.structural_tag({"type": "structural_tag", "structures": STRUCTURES, "triggers": ["<f="]})
    assert Source.structural_tag(STRUCTURES, ["<f="]) == older
    as_text = [{**one, "schema": json.dumps(one["schema"])} for one in STRUCTURES]
    assert Source.structural_tag(as_text, ("<f=",)) == older
    for triggers in ("<f=", 1.5):
        with pytest.raises(SourceError):
            Source.structural_tag(STRUCTURES, triggers)  # type: ignore[arg-type]


def test_the_older_form_is_the_same_grammar_as_the_newer() -> None:
    tags = [
        {"begin": one["begin"], "content": {"type": "json_schema", "json_schema": one["schema"]}, "end": one["end"]}
        for one in STRUCTURES
    ]
    newer = Source.structural_tag({"format": {"type": "triggered_tags", "triggers": ["<f="], "tags": tags}})
    older = Source.structural_tag({"structures": STRUCTURES, "triggers": ["<f="]})
    assert older.grammar(Budget()) == newer.grammar(Budget())


def test_pydantic_objects_stand_for_their_documents() -> None:
    pydantic = pytest.importorskip("pydantic")
    item = pydantic.create_model(
        "Item", begin=(str, ...), schema_=(dict[str, Any], pydantic.Field(alias="schema")), end=(str, ...)
    )
    older = Source.structural_tag(STRUCTURES, ["<f="])
    assert Source.structural_tag([item(**one) for one in STRUCTURES], ["<f="]) == older
    model = pydantic.create_model("Point", x=(int, ...))
    with_model = Source.structural_tag([{**STRUCTURES[0], "schema": model}], ["<f="])
    assert with_model == Source.structural_tag([{**STRUCTURES[0], "schema": model.model_json_schema()}], ["<f="])
    newer = pydantic.create_model("Newer", type=(str, "structural_tag"), format=(dict[str, Any], ...))
    assert Source.structural_tag(newer(format=TAG)).key(FINGERPRINT) == key_of_tag(TAG)
    inner = pydantic.create_model("Inner", type=(str, ...), value=(str, ...), excludes=(list[str] | None, None))
    constant = {"type": "const_string", "value": "x"}
    assert key_of_tag(inner(**constant)) == key_of_tag(constant)


class OnlyText:
    """What offers its JSON and nothing else."""

    def model_dump_json(self) -> str:
        return json.dumps({"format": TAG, "type": "structural_tag"})


def test_objects_with_json_of_their_own_are_read() -> None:
    assert Source.structural_tag(OnlyText()).key(FINGERPRINT) == key_of_tag(TAG)


@pytest.mark.parametrize("tag", [None, 1, [], "[]", object(), {"format": object()}, {"structures": object()}, dict])
def test_what_is_no_structural_tag_is_refused(tag: Any) -> None:
    with pytest.raises(SourceError):
        Source.structural_tag(tag).grammar(Budget())


@pytest.mark.parametrize(
    ("tag_format", "depends"),
    [
        ({"type": "regex", "pattern": r"\p{Lu}"}, True),
        ({"type": "json_schema", "json_schema": {"pattern": "(?i:x)"}}, True),
        ({"type": "regex", "pattern": "[a-z]"}, False),
    ],
)
def test_the_version_of_unicode_enters_the_key_of_structural_tags(
    tag_format: Any, depends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of_tag(tag_format)
    monkeypatch.setattr("unicodedata.unidata_version", "99.0.0")
    assert (key_of_tag(tag_format) != before) is depends
