"""Two versions of the compiler never share a key for different images: what is compiled is pinned to the version.

When a digest here is no longer right, what the compiler makes has changed. Raise ``ENGINE_VERSION`` in
``shmcache/grammar/key.py`` (and ``_VERSION`` in ``shmcache/rows/build.py`` where rows of rules have), then put the new
digests here.
"""

from __future__ import annotations

import hashlib

import pytest

from shmcache.compiler import compile_image
from shmcache.grammar.key import ENGINE_VERSION, Source
from shmcache.image.image import open_image
from shmcache.limits import Budget
from shmcache.vocabulary.vocabulary import Vocabulary

SCHEMA = """
{"type": "object", "additionalProperties": {"type": "boolean"}, "required": ["name"],
 "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 9}, "ids": {"items": {"minimum": 3}}}}
"""
SOURCES = {
    "json_schema": Source.json_schema(SCHEMA, strict_mode=False),
    "recursion": Source.json_schema('{"items": {"$ref": "#"}, "maxItems": 2, "type": ["array", "null"]}'),
    "ebnf": Source.ebnf('root ::= root "+" x | x\nx ::= [0-9é]{1,3} | "(" root ")"', "root"),
    "regex": Source.regex("[a-c]{2,40}(x|yy)?"),
    "builtin_json": Source.builtin_json(),
}
VERSION = 4
DIGESTS = {
    "json_schema": "5a47305ae6889060",
    "recursion": "01db7c99b46e16d9",
    "ebnf": "44bd4117031b02ee",
    "regex": "918aece1ad875267",
    "builtin_json": "afd04de35d7da51f",
}


def vocabulary() -> Vocabulary:
    """All bytes, and some tokens of several."""
    texts = [b'{"', b'":', b'", "', b"name", b"abc", b"aab", b"\xc3\xa9", b"123", b"+(", b"true", b"null", b"]]", b"  "]
    return Vocabulary([bytes([byte]) for byte in range(256)] + texts + [b"</s>"], stop_token_ids=[256 + len(texts)])


def digest_of(source: Source) -> str:
    """Of what is compiled, without the key, which has the version in it."""
    image = open_image(compile_image(source, vocabulary(), budget=Budget()))
    digest = hashlib.blake2b(digest_size=8)
    for array in (*image.automaton.arrays(), *image.rows.arrays()):
        digest.update(str(array.dtype).encode() + array.tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_compiled_is_what_this_version_compiles(name: str) -> None:
    assert ENGINE_VERSION == VERSION, "put the digests of the new version here"
    assert digest_of(SOURCES[name]) == DIGESTS[name], "the compiler has changed: raise ENGINE_VERSION"
