"""Vocabularies of tiktoken encodings.

Owns the reading of a ``tiktoken.Encoding``. Must never know a grammar. Names of encodings are not accepted: tiktoken
would fetch their ranks over the network, which is the caller's decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shmcache.vocabulary.adapter import known_stop_token_ids
from shmcache.vocabulary.vocabulary import Vocabulary


def from_tiktoken(
    encoding: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
) -> Vocabulary:
    """The vocabulary of a ``tiktoken.Encoding``, whose ids may have gaps.

    ``stop_token_ids`` defaults to the special tokens whose text is known to end a generation (``<|endoftext|>`` among
    them), ``width`` to ``n_vocab``.
    """
    if not hasattr(encoding, "decode_single_token_bytes"):
        raise TypeError(f"expected a tiktoken.Encoding, got {type(encoding).__name__} (names would need the network)")
    tokens: list[bytes | None] = []
    for token_id in range(encoding.n_vocab):
        try:
            tokens.append(encoding.decode_single_token_bytes(token_id))
        except KeyError:
            tokens.append(None)
    special = {text: encoding.encode_single_token(text) for text in sorted(encoding.special_tokens_set)}
    stop = known_stop_token_ids(special) if stop_token_ids is None else stop_token_ids
    return Vocabulary(tokens, special.values(), stop, width)
