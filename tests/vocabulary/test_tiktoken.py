"""tiktoken encodings built from ranks of our own, with gaps in the ids."""

from __future__ import annotations

from typing import Any

import pytest
import tiktoken

from shmcache.vocabulary.vocabulary import Vocabulary
from tests.vocabulary.texts import TEXTS, joined

PIECES = ["he", "ll", "hell", "hello", " a", "me", "name", "  ", '":', "é", "日", "本"]


@pytest.fixture(scope="module")
def encoding() -> Any:
    ranks = {bytes([byte]): byte for byte in range(256)}
    # The merges of a longer piece need its halves: pieces of two bytes first.
    for piece in sorted((text.encode() for text in PIECES), key=len):
        ranks.setdefault(piece, len(ranks))
    return tiktoken.Encoding(
        "ours",
        pat_str=r"\s?\p{L}+|\p{N}|[^\s\p{L}\p{N}]+|\s+",
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 300, "<|call|>": 305, "<|tool|>": 306},
    )


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_add_up(encoding: Any, text: str) -> None:
    assert joined(Vocabulary.from_tiktoken(encoding), encoding.encode(text)) == text.encode()


def test_ids_and_gaps(encoding: Any) -> None:
    vocabulary = Vocabulary.from_tiktoken(encoding)
    assert (vocabulary.size, vocabulary.width) == (307, 307)
    assert vocabulary.special_token_ids == (300, 305, 306)
    assert vocabulary.stop_token_ids == (300, 305)
    assert vocabulary.token_bytes(306) == b"<|tool|>"
    gaps = [token_id for token_id in range(307) if vocabulary.is_gap(token_id)]
    assert gaps == [*range(268, 300), 301, 302, 303, 304]
    assert not any(vocabulary.is_text(token_id) for token_id in gaps)


def test_stop_tokens_and_width_can_be_given(encoding: Any) -> None:
    vocabulary = Vocabulary.from_tiktoken(encoding, stop_token_ids=[306], width=512)
    assert vocabulary.stop_token_ids == (306,)
    assert vocabulary.special_token_ids == (300, 305, 306)
    assert vocabulary.width == 512


def test_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="network"):
        Vocabulary.from_tiktoken("o200k_base")
