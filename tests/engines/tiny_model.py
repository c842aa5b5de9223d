"""A language model that knows nothing, with a real tokenizer: what is random without constraints, valid with them.

Owns the training of a byte-level BPE on a few lines and the making of a small randomly initialised model of
``transformers``. No network, no files.
"""

from __future__ import annotations

from typing import Any

LINES = [
    '{"name": "Ada", "age": 36, "tags": ["first", "second"], "address": {"city": "London", "zip": "10115"}}',
    '{"id": 1234567890, "price": -12.50, "ratio": 1e-05, "ok": true, "other": false, "nothing": null}',
    "the quick brown fox jumps over the lazy dog; 0123456789 Zwölf Boxkämpfer jagen Viktor, 日本語 и русский",
    "2024-02-29T23:59:59Z 127.0.0.1 user@example.org https://example.org/path?query=1",
]
PAD, BEGIN, END = "<pad>", "<s>", "</s>"
WIDTH = 640
"""The model's vocabulary, a little wider than the tokenizer's, as that of many models is."""


def make_tokenizer() -> Any:
    """A fast tokenizer of ``transformers``: byte-level BPE of about 600 tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=[PAD, BEGIN, END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LINES * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, bos_token=BEGIN, eos_token=END, padding_side="left"
    )


def make_model(tokenizer: Any, seed: int = 0) -> Any:
    """A Llama of one layer whose weights are random."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=WIDTH,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=4096,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config).eval()


def prompts(tokenizer: Any, texts: list[str]) -> Any:
    """The inputs of ``generate`` for these texts, padded on the left."""
    encoded = tokenizer(texts, return_tensors="pt", padding=True)
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}
