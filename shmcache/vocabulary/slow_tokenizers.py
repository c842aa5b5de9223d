"""Vocabularies of the slow tokenizers of ``transformers``: those written in Python.

Owns what is known of their kinds. Must never know a grammar.

A slow tokenizer says what its tokens are called, not which bytes they add to a text; that depends on what it is made
of: a SentencePiece model, GPT-2's byte alphabet, a ``tiktoken`` encoding, or single bytes. Of any other kind a token
may change with its neighbours (lower case, joining words), and it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shmcache.errors import UnsupportedError
from shmcache.vocabulary.adapter import known_stop_token_ids
from shmcache.vocabulary.byte_level import byte_level_bytes
from shmcache.vocabulary.vocabulary import Vocabulary

_SPACE_SYMBOL = "\u2581"

Spell = Callable[[str, int], bytes | None]
"""The bytes of the token with this text and id; None for one that never stands for text."""


def is_slow_tokenizer(tokenizer: Any) -> bool:
    """Whether ``tokenizer`` has what the slow tokenizers of ``transformers`` have, of any release."""
    return all(hasattr(tokenizer, name) for name in ("get_vocab", "added_tokens_decoder", "all_special_ids"))


def from_slow_tokenizer(
    tokenizer: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
) -> Vocabulary:
    """The vocabulary of a slow tokenizer; defaults as for a fast one.

    Raises :class:`UnsupportedError` for one of an unknown kind.
    """
    spell = _spelling(tokenizer)
    added: dict[int, Any] = tokenizer.added_tokens_decoder
    special_ids = set(tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}
    ids_by_text: dict[str, int] = {**tokenizer.get_vocab(), **{token.content: i for i, token in added.items()}}
    tokens: list[bytes | None] = [None] * (max(ids_by_text.values(), default=-1) + 1)
    special: dict[str, int] = {}
    for text, token_id in ids_by_text.items():
        if token_id in added or token_id in special_ids:
            data: bytes | None = text.encode()
        else:
            data = spell(text, token_id)
        if token_id in special_ids or data is None:
            special[text] = token_id
            data = text.encode()
        tokens[token_id] = data
    if stop_token_ids is None:
        end = tokenizer.eos_token_id
        stop_token_ids = known_stop_token_ids(special) if end is None else [end]
    return Vocabulary(tokens, special.values(), stop_token_ids, width)


def _spelling(tokenizer: Any) -> Spell:
    inner: Any = getattr(tokenizer, "tokenizer", None)
    model = getattr(tokenizer, "sp_model", None) or getattr(inner, "sp_model", None)
    if model is not None:
        return _of_sentencepiece(model)
    if hasattr(inner, "decode_single_token_bytes"):
        return lambda text, token_id: inner.decode_single_token_bytes(token_id)
    if isinstance(getattr(tokenizer, "byte_decoder", None), dict):
        return lambda text, token_id: byte_level_bytes(text)
    if getattr(tokenizer, "_utf_vocab_size", None) == 256:
        # ByT5: each token is one byte, as the character of that number.
        return lambda text, token_id: text.encode("latin-1")
    raise UnsupportedError(
        f"the tokens of a slow tokenizer {type(tokenizer).__name__} have no bytes that are known here: "
        "use its fast form, or give their bytes to Vocabulary()",
        feature=f"slow tokenizer {type(tokenizer).__name__}",
    )


def _of_sentencepiece(model: Any) -> Spell:
    def spell(text: str, token_id: int) -> bytes | None:
        # By its text: many tokenizers number the pieces of their model anew.
        piece = model.piece_to_id(text)
        if model.id_to_piece(piece) != text:
            return text.encode()
        if model.is_byte(piece):
            return bytes([int(text[3:5], 16)])
        if model.is_control(piece) or model.is_unknown(piece) or model.is_unused(piece):
            return None
        return text.replace(_SPACE_SYMBOL, " ").encode()

    return spell
