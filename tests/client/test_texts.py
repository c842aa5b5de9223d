"""Texts that are found as they were written, without being read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from shmcache.client import GrammarCache, grammar_cache
from shmcache.errors import SourceError
from shmcache.grammar import key as key_module
from shmcache.grammar.key import Source
from shmcache.image.image import write_image
from shmcache.manager.client_messages import Hello
from tests.client.support import VOCABULARY, FakeManager, image_of

Client = Callable[[], GrammarCache]

TEXT = '{"title": "T", "type": "object", "properties": {"a": {"type": "integer"}}}'
SAME = json.dumps(json.loads(TEXT), indent=2)
LONG = json.dumps({"enum": [f"value {number}" for number in range(6_000)]})
TAG = '{"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}'


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is read of JSON texts from here on."""
    texts: list[Any] = []
    real = key_module.parse_json

    def parse(text: str) -> Any:
        texts.append(text)
        return real(text)

    monkeypatch.setattr(key_module, "parse_json", parse)
    return texts


def test_a_text_that_another_process_had_compiled_is_not_read(
    manager: FakeManager, client: Client, read: list[Any]
) -> None:
    first = client().compile_json_schema(TEXT)
    messages = len(manager.asked)
    read.clear()
    cache = client()
    second = cache.compile_json_schema(TEXT)
    assert read == []
    assert [type(message) for message in manager.asked[messages:]] == [Hello]
    assert second is not first
    assert second.key == first.key == Source.json_schema(TEXT).key(VOCABULARY.fingerprint)
    assert write_image(second.image) == image_of(Source.json_schema(TEXT))
    counts = manager.cache.recency.counts(2)
    assert (counts.host_hits, counts.local_hits, counts.misses) == (1, 0, 0)
    assert cache.compile_json_schema(TEXT) is second
    assert manager.cache.recency.counts(2).local_hits == 1


def test_another_spelling_is_read_and_has_the_same_grammar(
    manager: FakeManager, client: Client, read: list[Any]
) -> None:
    client().compile_json_schema(TEXT)
    read.clear()
    cache = client()
    grammar = cache.compile_json_schema(SAME)
    assert read == [SAME]
    assert manager.grammar_compiles() == 1
    # The text that was compiled is found beside it as the same object.
    assert cache.compile_json_schema(TEXT) is grammar
    assert cache.compile_json_schema(json.loads(TEXT)) is grammar


@pytest.mark.parametrize(
    "options",
    [
        {"any_order": True},
        {"any_whitespace": False},
        {"canonical_numbers": False},
        {"indent": 2, "any_whitespace": False},
        {"max_whitespace_cnt": 3},
        {"on_unsupported": "ignore"},
        {"any_whitespace": False, "separators": (",", ":")},
        {"strict_mode": False},
    ],
)
def test_other_options_are_another_grammar(
    manager: FakeManager, client: Client, options: dict[str, Any], read: list[Any]
) -> None:
    plain = client().compile_json_schema(TEXT)
    other = client().compile_json_schema(TEXT, **options)
    assert other.key == Source.json_schema(TEXT, **options).key(VOCABULARY.fingerprint) != plain.key
    read.clear()
    cache = client()
    assert cache.compile_json_schema(TEXT, **options).key == other.key
    assert cache.compile_json_schema(TEXT).key == plain.key
    assert read == []


@pytest.mark.parametrize("options", [{"indent": True}, {"max_whitespace_cnt": True}, {"on_unsupported": "?"}])
def test_wrong_options_are_refused_though_the_text_is_known(
    manager: FakeManager, client: Client, options: dict[str, Any]
) -> None:
    client().compile_json_schema(TEXT)
    client().compile_json_schema(TEXT, indent=1)
    client().compile_json_schema(TEXT, max_whitespace_cnt=1)
    with pytest.raises(SourceError):
        client().compile_json_schema(TEXT, **options)


def test_a_structural_tag_is_not_read_either(manager: FakeManager, client: Client, read: list[Any]) -> None:
    key = client().compile_structural_tag(TAG).key
    assert key == Source.structural_tag(TAG).key(VOCABULARY.fingerprint)
    read.clear()
    assert client().compile_structural_tag(TAG).key == key
    assert read == []


def test_a_text_of_one_kind_is_not_one_of_another(manager: FakeManager, client: Client) -> None:
    client().compile_structural_tag(TAG)
    with pytest.raises(SourceError):
        client().compile_json_schema("[" + TAG + "]")
    assert client().compile_json_schema("{}").key != client().compile_structural_tag(TAG).key


def test_a_long_text_is_remembered_by_its_digest(manager: FakeManager, client: Client, read: list[Any]) -> None:
    assert len(LONG) > grammar_cache.RAW_TEXT_LENGTH_MAX
    cache = client()
    grammar = cache.compile_json_schema(LONG)
    read.clear()
    assert all(cache.compile_json_schema(LONG) is grammar for _ in range(3))
    other = client()
    assert other.compile_json_schema(LONG).key == grammar.key
    assert other.compile_json_schema(LONG).key == grammar.key
    assert read == []
    assert manager.cache.recency.counts(1).local_hits == 3
    assert manager.cache.recency.counts(2).local_hits == 1


def test_a_clear_ends_what_texts_lead_to(manager: FakeManager, client: Client) -> None:
    for text in (TEXT, LONG):
        cache, other = client(), client()
        before = cache.compile_json_schema(text)
        assert other.compile_json_schema(text).generation == before.generation
        manager.clear()
        assert other.compile_json_schema(text).generation == before.generation + 1
        assert cache.compile_json_schema(text).generation == before.generation + 1


def test_a_text_with_a_lone_surrogate_is_refused(client: Client) -> None:
    with pytest.raises(SourceError, match="surrogate"):
        client().compile_json_schema('{"const": "\ud800"}')


def test_a_closed_cache_finds_no_text(manager: FakeManager, client: Client) -> None:
    cache = client()
    cache.compile_json_schema(TEXT)
    cache.close()
    with pytest.raises(ValueError, match="closed"):
        cache.compile_json_schema(TEXT)
