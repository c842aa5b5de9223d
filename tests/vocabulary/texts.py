"""Sample texts for the adapters: what a token's bytes must add up to."""

from __future__ import annotations

from collections.abc import Iterable

from shmcache.vocabulary.vocabulary import Vocabulary

TEXTS = [
    "hello",
    '{"name": "Ann-Lou", "age": 37, "tags": ["a", "b\\n"]}',
    "Grüße aus Zürich — 12,5 €",
    "日本語と中文",
    "👍🏽 family: 👨‍👩‍👧",
    "  two  spaces\tand\n\n\nnew lines\r\n",
    "def f(x):\n    return x ** 2\n",
    "\x00\x01 control \x7f",
    "Ġ Ċ ĠĠ look like byte-level spellings",
]

TRAINING = [*TEXTS, "hello hello world", "the name of the age", '"name": "name"'] * 3


def joined(vocabulary: Vocabulary, token_ids: Iterable[int]) -> bytes:
    """The bytes of the tokens, one after the other; every one of them must be text."""
    ids = list(token_ids)
    assert all(vocabulary.is_text(token_id) for token_id in ids), ids
    return b"".join(vocabulary.token_bytes(token_id) for token_id in ids)
