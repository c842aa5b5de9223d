"""The caches of an engine process: vocabularies of its tokenizer, and the connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shmcache import GrammarMatcher, Vocabulary
from shmcache_workers.engine_caches import ANY_OBJECT, EngineCaches, stops_within, vocabulary_of

TOKENS = [*(bytes([byte]) for byte in range(128)), b"<t>", b"</t>", b"<pad>", None, b"</s>"]
PLAIN = Vocabulary(TOKENS, special_token_ids=[128, 129, 130], stop_token_ids=[132], width=140)


@pytest.fixture
def caches(namespace: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Without a manager: grammars are compiled here."""
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    made = EngineCaches(PLAIN, autostart=False)
    yield made
    made.close()


def accepts(grammar: Any, tokens: list[int]) -> bool:
    """Whether the tokens are accepted one after the other."""
    matcher = GrammarMatcher(grammar)
    return all(matcher.accept_token(token) for token in tokens)


def test_special_tokens_are_spelt_in_the_second_vocabulary_alone(caches: EngineCaches) -> None:
    for pattern, token in (("<t>", 128), ("<pad>", 130)):
        plain, spelt = caches.plain().compile_regex(pattern), caches.spelling_special().compile_regex(pattern)
        assert not accepts(plain, [token])
        assert accepts(spelt, [token, 132])
        assert accepts(plain, [*pattern.encode(), 132])
    assert not accepts(caches.spelling_special().compile_regex("</s>"), [132])


def test_reserved_tokens_are_not_spelt(caches: EngineCaches) -> None:
    grammar = caches.spelling_special([129, 999]).compile_regex("(<t>|</t>)")
    assert accepts(grammar, [128])
    assert not accepts(grammar, [129])


def test_a_vocabulary_without_special_tokens_needs_no_second_one(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    made = EngineCaches(Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2]), autostart=False)
    assert made.spelling_special() is made.plain()
    assert not made.mentions_special("a</s>")
    made.close()


@pytest.mark.parametrize(
    ("text", "is_special"), [('root ::= "<t>"', True), ("</t", False), ("</s>", False), ("", False)]
)
def test_the_texts_of_special_tokens_are_found(caches: EngineCaches, text: str, is_special: bool) -> None:
    assert caches.mentions_special(text) == is_special


def test_without_a_manager_a_clear_forgets_what_is_held(caches: EngineCaches) -> None:
    held = [caches.plain().compile_regex("a"), caches.spelling_special().compile_regex("a")]
    assert caches.plain().compile_regex("a") is held[0]
    caches.clear()
    assert caches.plain().compile_regex("a") is not held[0]
    assert caches.spelling_special().compile_regex("a") is not held[1]
    assert not caches.has_manager()


def test_with_a_manager_a_clear_is_the_hosts(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    made, other = EngineCaches(PLAIN), EngineCaches(PLAIN)
    assert made.has_manager()
    held = [made.plain().compile_regex("a"), made.spelling_special().compile_regex("a")]
    assert other.plain().compile_regex("a").generation == held[0].generation
    other.clear()
    again = [made.plain().compile_regex("a"), made.spelling_special().compile_regex("a")]
    assert [grammar.generation for grammar in again] == [held[0].generation + 1] * 2
    assert made.plain().stats()["compiles"]["succeeded"] == 4
    made.close()
    made.close()
    other.close()


def test_json_mode_is_any_object(caches: EngineCaches) -> None:
    grammar = caches.plain().compile_json_schema(ANY_OBJECT)
    assert accepts(grammar, [*b'{"a": [1, {"b": null}]}', 132])
    assert not accepts(grammar, [*b"[]"])
    compact = caches.plain().compile_json_schema(ANY_OBJECT, any_whitespace=False, separators=(",", ":"))
    assert not accepts(compact, [*b'{"a": '])


def test_tokenizers_are_recognised_in_their_wrappings() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "of a test",
        pat_str=".",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={"<|endoftext|>": 256},
    )
    for tokenizer in (encoding, SimpleNamespace(tokenizer=encoding)):
        vocabulary = vocabulary_of(tokenizer, width=300)
        assert (vocabulary.width, vocabulary.stop_token_ids, vocabulary.size) == (300, (256,), 257)
    assert vocabulary_of(encoding, width=300, stop_token_ids=[300, 65]).stop_token_ids == (65,)
    with pytest.raises(TypeError):
        vocabulary_of(SimpleNamespace(), width=300)


@pytest.mark.tekken
def test_mistral_tokenizers_are_recognised_in_their_wrappings() -> None:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from shmcache.vocabulary.mistral import _packaged_file

    tekkenizer = Tekkenizer.from_file(_packaged_file("tekken_240911.json"))
    instruct = SimpleNamespace(tokenizer=tekkenizer)
    expected = Vocabulary.from_mistral(tekkenizer)
    for tokenizer in (tekkenizer, SimpleNamespace(tokenizer=tekkenizer), SimpleNamespace(instruct_tokenizer=instruct)):
        assert vocabulary_of(tokenizer, width=expected.width) == expected
    wrapped = SimpleNamespace(tokenizer=SimpleNamespace(instruct_tokenizer=instruct))
    assert vocabulary_of(wrapped, width=expected.width) == expected


def test_stops_that_no_model_can_give_are_left_out() -> None:
    assert stops_within({7, -1, 10, 3, 11}, 10) == [3, 7]
