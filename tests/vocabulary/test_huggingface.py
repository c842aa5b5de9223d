"""Tokenizers trained here, byte-level and byte-fallback; what their decoders make of added tokens; what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from shmcache.errors import SourceError, UnsupportedError
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.vocabulary.texts import TEXTS, TRAINING, joined


def byte_level() -> Any:
    """As GPT-2, Llama 3 and Qwen have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def byte_fallback(*, strip: bool = True) -> Any:
    """As Llama 2 and Gemma have it: spaces are U+2581, unknown characters fall back to ``<0xHH>``."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for token in [*(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"helo", "ll", "▁h", "▁▁", "日", "é"]:
        vocab[token] = len(vocab)
    merges = [("l", "l"), ("▁", "h"), ("▁", "▁")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def metaspace() -> Any:
    """As T5 has it, with characters only."""
    pieces = [("<unk>", 0.0), *((character, -2.0) for character in sorted(set("".join(TEXTS)) | {"▁"}))]
    tokenizer = Tokenizer(models.Unigram([*pieces, ("▁hel", -1.0)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>"])
    return tokenizer


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_bytes_add_up(text: str) -> None:
    tokenizer = byte_level()
    assert joined(Vocabulary.from_huggingface(tokenizer), tokenizer.encode(text).ids) == text.encode()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("build", [byte_fallback, metaspace])
def test_space_symbol_bytes_add_up_after_one_space(build: Any, text: str) -> None:
    tokenizer = build()
    data = joined(Vocabulary.from_huggingface(tokenizer), tokenizer.encode(text, add_special_tokens=False).ids)
    # Metaspace does not add a second space before one that is there.
    expected = text if build is metaspace and text.startswith(" ") else f" {text}"
    assert data == expected.encode()


def test_a_pre_tokenizer_says_byte_level_when_there_is_no_decoder() -> None:
    tokenizer = byte_level()
    with_decoder = Vocabulary.from_huggingface(tokenizer)
    tokenizer.decoder = None
    assert Vocabulary.from_huggingface(tokenizer) == with_decoder
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\s"), "isolated"), pre_tokenizers.ByteLevel(use_regex=False)]
    )
    assert Vocabulary.from_huggingface(tokenizer) == with_decoder


def test_all_bytes_are_spelt() -> None:
    vocabulary = Vocabulary.from_huggingface(byte_level())
    single = {vocabulary.token_bytes(token_id) for token_id in range(vocabulary.size)}
    assert {bytes([byte]) for byte in range(256)} <= single


@pytest.mark.parametrize("build", [byte_level, byte_fallback])
def test_added_tokens_are_what_decoding_makes_of_them(build: Any) -> None:
    tokenizer = build()
    tokenizer.add_tokens(["<tool>", AddedToken("   ", normalized=False), "Ünï code", "<0xZZ>"])
    tokenizer.add_special_tokens(["<|im_end|>", "<|image|>"])
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    for text in ("<tool>", "Ünï code", "<0xZZ>"):
        token_id = tokenizer.token_to_id(text)
        assert vocabulary.is_text(token_id)
        assert vocabulary.token_bytes(token_id) == text.encode() == tokenizer.decode([token_id]).encode()
    assert vocabulary.token_bytes(tokenizer.token_to_id("   ")) == b"   "
    special = {tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|image|>")}
    assert special <= set(vocabulary.special_token_ids)
    assert tokenizer.token_to_id("<|im_end|>") in vocabulary.stop_token_ids
    assert tokenizer.token_to_id("<|image|>") not in vocabulary.stop_token_ids


def test_byte_fallback_details() -> None:
    tokenizer = byte_fallback()
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    assert vocabulary.special_token_ids == (0, 1, 2)
    assert vocabulary.stop_token_ids == (2,)
    assert vocabulary.token_bytes(3 + 0xE9) == b"\xe9"
    assert vocabulary.token_bytes(tokenizer.token_to_id("▁h")) == b" h"
    assert Vocabulary.from_huggingface(byte_fallback(strip=False)) == vocabulary


def test_strip_before_fuse_takes_spaces_off_every_token() -> None:
    tokenizer = byte_fallback()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0), decoders.ByteFallback(), decoders.Fuse()]
    )
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    for token in ("▁h", "▁▁", "▁", "ll", "<0x41>"):
        token_id = tokenizer.token_to_id(token)
        assert vocabulary.token_bytes(token_id) == tokenizer.decode([token_id]).encode()


def test_gaps() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 5}, unk_token="b"))
    tokenizer.decoder = decoders.Fuse()
    vocabulary = Vocabulary.from_huggingface(tokenizer, width=10)
    assert [vocabulary.is_gap(token_id) for token_id in range(6)] == [False, True, True, True, True, False]
    assert vocabulary.special_token_ids == (5,)
    assert vocabulary.width == 10


def test_a_file(tmp_path: Path) -> None:
    tokenizer = byte_level()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    assert Vocabulary.from_huggingface(path) == Vocabulary.from_huggingface(tokenizer)
    assert Vocabulary.from_huggingface(str(path), stop_token_ids=[7]).stop_token_ids == (7,)
    path.write_text('{"version": "1.0"}')
    with pytest.raises(SourceError, match=r"not a tokenizer\.json"):
        Vocabulary.from_huggingface(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"not a tokenizer\.json"):
        Vocabulary.from_huggingface(path)
    with pytest.raises(FileNotFoundError):
        Vocabulary.from_huggingface(tmp_path / "missing.json")


def test_a_fast_tokenizer_of_transformers() -> None:
    """Only three attributes are used, so the library itself is not needed here."""
    tokenizer = byte_level()
    end, image = tokenizer.token_to_id("Z"), tokenizer.token_to_id("X")
    fast = SimpleNamespace(backend_tokenizer=tokenizer, all_special_ids=[end, image], eos_token_id=end)
    vocabulary = Vocabulary.from_huggingface(fast)
    assert vocabulary.special_token_ids == tuple(sorted((end, image)))
    assert vocabulary.stop_token_ids == (end,)
    fast.eos_token_id = None
    assert Vocabulary.from_huggingface(fast).stop_token_ids == ()
    assert Vocabulary.from_huggingface(fast, stop_token_ids=[image]).stop_token_ids == (image,)


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.WordPiece(),
        decoders.BPEDecoder(),
        decoders.CTC(),
        decoders.Sequence([decoders.Replace(Regex("a+"), "b"), decoders.Fuse()]),
    ],
)
def test_a_decoder_that_looks_at_neighbours_is_refused(decoder: Any) -> None:
    tokenizer = byte_fallback()
    tokenizer.decoder = decoder
    with pytest.raises(UnsupportedError, match="decoder"):
        Vocabulary.from_huggingface(tokenizer)


def test_a_foreign_object_is_refused() -> None:
    with pytest.raises(TypeError, match="neither"):
        Vocabulary.from_huggingface(object())
