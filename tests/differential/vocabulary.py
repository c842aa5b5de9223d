"""A vocabulary for comparisons: every byte, pieces of JSON and of words, and parts of characters.

Owns those tokens. Small, so that each can be asked for by itself.
"""

from __future__ import annotations

from functools import cache

from shmcache.vocabulary.vocabulary import Vocabulary

_JSON = [
    '{"',
    '"}',
    '":',
    '": ',
    '": "',
    '", "',
    '","',
    '",',
    ", ",
    "[]",
    "{}",
    "[[",
    "]]",
    "}}",
    "},",
    "],",
    '"]',
    "[{",
]
_ESCAPES = ["\\u", "\\u00", "\\n", '\\"', "\\\\", "\\/", "d83d", "\\ud83d\\ude00", "\n", "\n  ", "  ", "\t"]
_WORDS = ["true", "false", "null", "tr", "name", "age", "type", "id", "value", " the", "ab", "abc", "aa", "http", "://"]
_NUMBERS = ["10", "12", "00", "000", "0.", ".5", ".0", "e+", "e-", "E1", "-1", "-0", "1e", "19", "99", "20"]
_CHARACTERS = ["é", "ü", "日", "日本", "😀"]
_CUT = [b"\xe6\x97", b"\xa5", b"\xf0\x9f", b"a\xc3", b"\xa9b", b"\xff\xfe"]

_TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    *(text.encode() for text in [*_JSON, *_ESCAPES, *_WORDS, *_NUMBERS, *_CHARACTERS]),
    *_CUT,
    b"</s>",
]
VOCABULARY = Vocabulary(list(dict.fromkeys(_TOKENS)), stop_token_ids=[len(dict.fromkeys(_TOKENS)) - 1])


@cache
def by_bytes() -> dict[bytes, int]:
    """The id of each text token; there are no two with the same bytes."""
    return {VOCABULARY.token_bytes(token): token for token in VOCABULARY.text_token_ids().tolist()}
