"""mistral-common's vocabularies: the packaged Tekken file, tokenizer objects, and its SentencePiece models."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from shmcache.errors import SourceError
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.vocabulary.texts import TEXTS, joined

DATA = MistralTokenizer._data_path()


@pytest.fixture(scope="module")
def tekken_tokenizer() -> Any:
    return MistralTokenizer.v3(is_tekken=True)


@pytest.mark.tekken
def test_packaged_file_equals_the_librarys_tokenizer(tekken: Vocabulary, tekken_tokenizer: Any) -> None:
    from_object = Vocabulary.from_mistral(tekken_tokenizer)
    assert from_object == tekken
    assert Vocabulary.from_mistral(tekken_tokenizer.instruct_tokenizer.tokenizer) == tekken
    assert from_object.token_bytes(5) == b"[AVAILABLE_TOOLS]"
    assert from_object.token_bytes(999) == b"<SPECIAL_999>"


@pytest.mark.tekken
def test_text_ids_start_after_the_special_tokens(tekken: Vocabulary) -> None:
    assert tekken.special_token_ids == tuple(range(1000))
    assert tekken.stop_token_ids == (2,)
    assert tekken.token_bytes(2) == b"</s>"
    for byte in range(256):
        assert tekken.token_bytes(1000 + byte) == bytes([byte])
    assert not any(tekken.is_text(token_id) for token_id in range(1000))
    assert all(tekken.is_text(token_id) for token_id in range(1000, 131_072))
    assert tekken.trie.token_count == 130_072


@pytest.mark.tekken
@pytest.mark.parametrize("text", TEXTS)
def test_tekken_bytes_add_up(tekken: Vocabulary, tekken_tokenizer: Any, text: str) -> None:
    ids = tekken_tokenizer.instruct_tokenizer.tokenizer.encode(text, bos=False, eos=False)
    assert joined(tekken, ids) == text.encode()


@pytest.mark.parametrize("name", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"])
def test_sentencepiece_models(name: str) -> None:
    vocabulary = Vocabulary.from_mistral(DATA / name)
    tokenizer = MistralTokenizer.from_file(str(DATA / name))
    assert Vocabulary.from_mistral(tokenizer) == vocabulary
    assert vocabulary.stop_token_ids == (2,)
    for text in TEXTS:
        ids = tokenizer.instruct_tokenizer.tokenizer.encode(text, bos=False, eos=False)
        assert joined(vocabulary, ids) == b" " + text.encode()


def test_stop_tokens_and_width_can_be_given() -> None:
    vocabulary = Vocabulary.from_mistral(DATA / "tokenizer.model.v1", stop_token_ids=[5, 2], width=40_000)
    assert vocabulary.stop_token_ids == (2, 5)
    assert (vocabulary.size, vocabulary.width) == (32_000, 40_000)


def write_tekken(path: Path, **changes: object) -> Path:
    """A tekken.json of 300 ids, 10 of them special, with some of its parts replaced."""
    vocab = [{"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode(), "token_str": None} for i in range(256)]
    vocab += [
        {"rank": i, "token_bytes": base64.b64encode(b"token %d" % i).decode(), "token_str": f"token {i}"}
        for i in range(256, 320)
    ]
    document: dict[str, object] = {
        "config": {"default_vocab_size": 300, "default_num_special_tokens": 10, "version": "v13"},
        "special_tokens": [{"rank": 1, "token_str": "</s>", "is_control": True}],
        "vocab": vocab,
    }
    document.update(changes)
    path.write_text(json.dumps(document))
    return path


def test_a_file_that_lists_its_special_tokens(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_mistral(write_tekken(tmp_path / "tekken.json"))
    assert vocabulary.size == 300
    assert vocabulary.stop_token_ids == (1,)
    assert vocabulary.special_token_ids == tuple(range(10))
    assert vocabulary.token_bytes(0) == b"<SPECIAL_0>"
    assert vocabulary.token_bytes(10 + 65) == b"A"
    assert vocabulary.token_bytes(299) == b"token 289"


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {}},
        {"config": {"default_vocab_size": 5, "default_num_special_tokens": 10}},
        {"config": {"default_vocab_size": 1 << 40, "default_num_special_tokens": 10}},
        {"config": {"default_vocab_size": 400, "default_num_special_tokens": 10}},
        {"vocab": None},
        {"vocab": [{"rank": 1, "token_bytes": "AA=="}] * 290},
        {"vocab": [{"rank": rank, "token_bytes": "!"} for rank in range(290)]},
        {"special_tokens": [{"rank": 10, "token_str": "late"}]},
        {"special_tokens": [{"rank": 0, "token_str": "a"}, {"rank": 1, "token_str": "a"}]},
        {"special_tokens": ["a"]},
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(SourceError, match="not a Tekken vocabulary"):
        Vocabulary.from_mistral(write_tekken(tmp_path / "tekken.json", **changes))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\ud800", '"\xff'])
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tekken.json"
    path.write_bytes(text.encode("latin-1") if text != "\ud800" else b"\xff\xfe")
    with pytest.raises(SourceError, match="not a Tekken vocabulary"):
        Vocabulary.from_mistral(path)


def test_a_foreign_object_is_refused() -> None:
    with pytest.raises(TypeError, match="not a tokenizer of mistral-common"):
        Vocabulary.from_mistral(object())
    with pytest.raises(FileNotFoundError):
        Vocabulary.from_mistral("/nowhere/tekken.json")
