"""SentencePiece models: byte pieces, control pieces, spaces, and a model trained here."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from shmcache.errors import SourceError
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.vocabulary.texts import TEXTS, TRAINING, joined

MODEL = MistralTokenizer._data_path() / "mistral_instruct_tokenizer_240323.model.v3"


@pytest.fixture(scope="module")
def processor() -> Any:
    return sentencepiece.SentencePieceProcessor(model_file=str(MODEL))


def train(**options: Any) -> Any:
    """A small model in memory."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING),
        model_writer=model,
        minloglevel=3,
        normalization_rule_name="identity",
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_add_up_to_the_text_after_one_space(processor: Any, text: str) -> None:
    assert joined(Vocabulary.from_sentencepiece(processor), processor.encode(text)) == b" " + text.encode()


def test_path_and_processor_agree(processor: Any) -> None:
    vocabulary = Vocabulary.from_sentencepiece(MODEL)
    assert vocabulary == Vocabulary.from_sentencepiece(str(MODEL)) == Vocabulary.from_sentencepiece(processor)
    assert vocabulary.size == 32_768
    assert vocabulary.stop_token_ids == (processor.eos_id(),)


def test_kinds_of_pieces(processor: Any) -> None:
    vocabulary = Vocabulary.from_sentencepiece(processor)
    line_feed = processor.piece_to_id("<0x0A>")
    assert vocabulary.token_bytes(line_feed) == b"\n"
    assert vocabulary.is_text(line_feed)
    for piece in ("<unk>", "<s>", "</s>", "[INST]"):
        assert processor.piece_to_id(piece) in vocabulary.special_token_ids
        assert vocabulary.token_bytes(processor.piece_to_id(piece)) == piece.encode()
    assert vocabulary.token_bytes(processor.piece_to_id("▁the")) == b" the"


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_model_of_our_own(model_type: str) -> None:
    processor = train(
        model_type=model_type,
        vocab_size=340,
        byte_fallback=True,
        user_defined_symbols=["<tool>", "▁▁"],
        control_symbols=["<call>"],
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        eos_id=-1,
        hard_vocab_limit=False,
        character_coverage=0.98,
    )
    vocabulary = Vocabulary.from_sentencepiece(processor)
    assert vocabulary.stop_token_ids == ()
    assert processor.piece_to_id("<call>") in vocabulary.special_token_ids
    assert vocabulary.is_text(processor.piece_to_id("<tool>"))
    assert vocabulary.token_bytes(processor.piece_to_id("▁▁")) == b"  "
    for text in TEXTS:
        if "\0" not in text:  # the trainer's normaliser drops it
            assert joined(vocabulary, processor.encode(text)) == text.encode()


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    with pytest.raises(FileNotFoundError):
        Vocabulary.from_sentencepiece(path)
    for data in (b"", b"not a model"):
        path.write_bytes(data)
        with pytest.raises(SourceError, match="not a SentencePiece model"):
            Vocabulary.from_sentencepiece(path)
