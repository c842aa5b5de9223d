"""The cases that are stated one by one, and a process that goes through all of them with the cache.

Owns the sources with the texts that they must and must not accept. ``python -m tests.client.stated_cases <namespace>
<directory>`` compiles every one of them by way of the cache and says on one line what came of it.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

from shmcache.client import GrammarCache
from shmcache.errors import ShmCacheError
from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.memory.names import Namespace
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.masks import mask_bits

LIFE_SECONDS_MAX = 60

PIECES = [
    *("ab", "abc", "b", "bc", "bca", "xa", "xab", "a", "cat", "dog", "hot", "bird", "hotdog", "dogcat", "null", "true"),
    *(
        '{"',
        '":',
        '","',
        '"}',
        '{"value":',
        '"next"',
        "}}",
        "[1",
        ",2",
        "12",
        "0.0",
        ".01",
        "-5",
        "-4",
        "日本",
        "語",
        "é",
    ),
    *("\\u", "\\ud83d", "d83d\\ude00", '\\"', "😀", "😀😀"),
]
TOKENS: list[bytes | None] = [
    *(bytes([byte]) for byte in range(256)),
    *(piece.encode() for piece in PIECES),
    *(b"\xf0\x9f\x98", b"\x80", b"\xe6\x97", b"\xa5\xe6", b"", None, b"<pad>", b"</s>"),
]
STOP = len(TOKENS) - 1
VOCABULARY = Vocabulary(TOKENS, special_token_ids=[STOP - 1], stop_token_ids=[STOP])


@dataclass(frozen=True, slots=True)
class Case:
    """A source, texts that it accepts to the end, and texts that it does not."""

    kind: str
    source: Any
    accepted: tuple[str | bytes, ...] = ()
    rejected: tuple[str | bytes, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    """The code of the error that is expected instead; ``accepted`` and ``rejected`` are then empty."""
    feature: str = ""
    """The feature that may be refused by that name instead."""


def _schema(source: Any, *accepted: str | bytes, but: tuple[str | bytes, ...] = (), **options: Any) -> Case:
    return Case("json_schema", source, accepted, but, {"strict_mode": False, **options})


NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
UNIQUE = {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3, "uniqueItems": True}

CASES: dict[str, Case] = {
    "anchored alternatives": _schema(
        {"type": "string", "pattern": "^(cat|dog)$|^bird$"},
        '"cat"',
        '"dog"',
        '"bird"',
        but=('"catdog"', '"birds"', '"hotdog"', '""', '"a bird"', "cat"),
    ),
    "a pattern is searched for": _schema(
        {"type": "string", "pattern": "cat|dog"}, '"hotdog"', '"cat"', '"cats and"', but=('"ca"', '"do g"', '""')
    ),
    "names and values": _schema(
        {"type": "object", "propertyNames": {"pattern": "^[ab]+$"}, "additionalProperties": {"type": "integer"}},
        "{}",
        '{"a":1}',
        '{"ab":12,"b":0}',
        but=('{"c":1}', '{"a":"1"}', '{"":1}', '{"abc":1}', '{"a":null}'),
    ),
    "code points are counted": _schema(
        {"type": "string", "minLength": 1, "maxLength": 2},
        '"\\""',
        '"é"',
        '"😀😀"',
        '"\\ud83d\\ude00\\ud83d\\ude00"',
        '"\\ud83d\\ude00"',
        '"\\n"',
        but=(
            '""',
            '"abc"',
            '"\n"',
            '"\\ud83d"',
            '"\\ude00"',
            '"\\ud83da"',
            b'"\xed\xa0\xbd"',
            '"😀😀😀"',
            '"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00"',
        ),
    ),
    "pattern with lengths": _schema(
        {"type": "string", "pattern": "^a*b*$", "minLength": 2, "maxLength": 3},
        '"aa"',
        '"ab"',
        '"abb"',
        '"bb"',
        but=('"a"', '"aabb"', '"ba"', '""'),
    ),
    "integer with a minimum": _schema(
        {"type": "integer", "minimum": -5}, "-5", "0", "7", "120", but=("-6", "-50", "1.5", "-0", "05", '"1"')
    ),
    "number above zero": _schema(
        {"type": "number", "exclusiveMinimum": 0}, "1", "0.01", "1e-3", "12.5", but=("0", "-1", "0.0", "-0.5", "0e1")
    ),
    "number between": _schema(
        {"type": "number", "minimum": -4, "maximum": 4},
        "-4",
        "4",
        "0",
        "3.99",
        "-0.5",
        "4.0",
        but=("4.01", "-4.1", "5", "-40", "1e1"),
    ),
    "all of a reference and an object": _schema(
        {
            "$defs": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
            "allOf": [
                {"$ref": "#/$defs/base"},
                {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]},
            ],
        },
        '{"a":1,"b":true}',
        '{"a":1,"b":false,"c":null}',
        but=('{"a":1}', '{"b":true}', '{"a":true,"b":true}', '{"a":1,"b":1}', "{}"),
    ),
    "constants beyond ASCII": _schema(
        {"enum": ["日本語", "中文", "한국어", "日本"]},
        '"日本語"',
        '"中文"',
        '"한국어"',
        '"日本"',
        '"\\u65e5\\u672c"',
        but=('"日"', '"日本文"', '""', '"\\u65e5"', '"æ"'),
    ),
    "only required": _schema(
        {"required": ["a"], "type": "object"},
        '{"a":null}',
        '{"a":{},"b":1}',
        but=("{}", '{"b":1}', "[]"),
    ),
    "only a number of items": _schema({"type": "array", "minItems": 2}, "[1,2]", '["a",{},null]', but=("[]", "[1]")),
    "linked list": _schema(
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        '{"value":1,"next":null}',
        '{"value":1,"next":{"value":-2,"next":{"value":3,"next":null}}}',
        but=('{"value":1}', '{"value":1,"next":1}', '{"value":1,"next":{"value":2}}', '{"value":1,"next":null}}'),
    ),
    "reference to nothing": Case("json_schema", {"$ref": "#/$defs/missing", "$defs": {}}, error="SOURCE_ERROR"),
    "reference to itself": Case("json_schema", {"$ref": "#"}, error="SOURCE_ERROR"),
    "references in a circle": Case(
        "json_schema",
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        error="SOURCE_ERROR",
    ),
    "multiples of seven": _schema(
        {"type": "integer", "multipleOf": 7}, "0", "7", "-14", "7007", but=("1", "8", "-13", "70070001")
    ),
    "multiples of a hundredth": _schema(
        {"type": "number", "multipleOf": 0.01}, "0", "0.01", "12.5", "-3.99", "100", but=("0.001", "1.005", "-0.119")
    ),
    "unique integers": Case(
        "json_schema",
        UNIQUE,
        ("[1,2,3]", "[3,1,12]"),
        ("[1,2,1]", "[1,1,2]", "[1,2]", "[2,12,12]"),
        {"strict_mode": False},
        feature="uniqueItems",
    ),
    "unique integers of few values": _schema(
        {**UNIQUE, "items": {"enum": [1, 2, 3]}}, "[1,2,3]", "[3,1,2]", but=("[1,2,1]", "[1,1,2]", "[1,2]", "[2,3,3]")
    ),
    "an optional group around a looping one": Case(
        "regex", "x(ab*)?y", ("xy", "xay", "xaby", "xabby"), ("xby", "xaay", "x", "xbby", "y")
    ),
    "tokens that begin with other tokens": Case("regex", "a(bc)?|xab", ("a", "abc", "xab"), ("ab", "bc", "xa", "abca")),
    "digits are ASCII": Case("regex", "^\\d$", ("0", "9"), ("٣", "९", "𝟗", "", "12", "a")),
    "digits are ASCII in a schema": _schema(
        {"type": "string", "pattern": "^\\d$"}, '"7"', but=('"٣"', '"९"', '"\\u0663"', '"12"', '""')
    ),
}

FIRST_TOKENS = {"tokens that begin with other tokens": {b"a", b"ab", b"abc", b"x", b"xa", b"xab"}}
"""The bytes of all tokens that may come first."""


def outcome(case: Case, cache: GrammarCache) -> dict[str, Any]:
    """What became of one case, as plain data: the error, or which texts were accepted, and a digest of all masks."""
    try:
        if case.kind == "regex":
            grammar = cache.compile_regex(case.source)
        else:
            grammar = cache.compile_json_schema(case.source, **case.options)
    except ShmCacheError as error:
        return {"error": error.to_plain()}
    digest = blake2b(digest_size=16)
    texts = [*case.accepted, *case.rejected]
    verdicts = [accepts(grammar, text.encode() if isinstance(text, str) else text, digest) for text in texts]
    row = allocate_token_bitmask(1, VOCABULARY.width)
    GrammarMatcher(grammar).fill_next_token_bitmask(row)
    first = sorted(VOCABULARY.token_bytes(token).hex() for token in mask_bits(row[0]))
    return {
        "generation": grammar.generation,
        "accepted": verdicts,
        "first": first if len(first) < 10 else [],
        "masks": digest.hexdigest(),
    }


def accepts(grammar: CompiledGrammar, text: bytes, digest: Any) -> bool:
    """Whether the text is accepted to its end, however it is cut into tokens; the digest takes all masks on the way."""
    verdicts = set()
    for seed in range(3):
        matcher = GrammarMatcher(grammar)
        rest, is_accepted = text, True
        row = allocate_token_bitmask(1, VOCABULARY.width)
        while rest and is_accepted:
            ways = [token for token in VOCABULARY.text_token_ids().tolist() if _begins(rest, token)]
            token = Random(len(rest) * 3 + seed).choice(ways)
            matcher.fill_next_token_bitmask(row)
            digest.update(row.tobytes())
            is_allowed = bool(row[0, token >> 5] >> (token & 31) & 1)
            is_accepted = matcher.accept_token(token)
            assert is_accepted == is_allowed, (text, token)
            rest = rest[len(VOCABULARY.token_bytes(token)) :]
        verdicts.add(is_accepted and matcher.accept_token(STOP))
    assert len(verdicts) == 1, (text, "accepted in one way only")
    return verdicts.pop()


def _begins(text: bytes, token: int) -> bool:
    return text.startswith(VOCABULARY.token_bytes(token))


def main() -> None:
    signal.alarm(LIFE_SECONDS_MAX)
    namespace = Namespace.of(sys.argv[1], directory=Path(sys.argv[2]))
    with GrammarCache(VOCABULARY, namespace, may_start=True) as cache:
        outcomes = {name: outcome(case, cache) for name, case in CASES.items()}
        stats = cache.stats()
    sys.stdout.write(json.dumps({"outcomes": outcomes, "stats": stats}) + "\n")


if __name__ == "__main__":
    main()
