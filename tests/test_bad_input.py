"""What a hostile or unlucky user sends: an answer or a typed error in time, and the next request is served."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shmcache
from shmcache.client import GrammarCache
from shmcache.errors import LimitError, ShmCacheError, SourceError, UnsupportedError
from shmcache.vocabulary.vocabulary import Vocabulary

COMPILE_SECONDS = 4
ANSWER_SECONDS_MAX = 30.0
"""The deadline, the time to kill and replace a worker, and much room for a busy machine."""


@pytest.fixture
def cache(namespace: str, small_vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrammarCache]:
    """A cache whose compiles have few seconds."""
    monkeypatch.setenv("SHMCACHE_COMPILE_SECONDS", str(COMPILE_SECONDS))
    with shmcache.connect(small_vocabulary, name=namespace) as connected:
        yield connected


def nested_schema(depth: int) -> str:
    return '{"items":' * depth + "true" + "}" * depth


def large_schema() -> str:
    """A schema of 2 MB: 40,000 constants of 45 characters."""
    return json.dumps({"enum": [f"{number:07d}" + "x" * 38 for number in range(40_000)]})


EXPENSIVE: dict[str, Callable[[GrammarCache], Any]] = {
    "a regex that explodes": lambda cache: cache.compile_regex("[ab]*a[ab]{13}"),
    "a regex that explodes further": lambda cache: cache.compile_regex("[ab]*a[ab]{40}"),
    "60,000 nested parentheses": lambda cache: cache.compile_regex("(" * 60_000 + "a" + ")" * 60_000),
    "60,000 nested groups": lambda cache: cache.compile_grammar("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000),
    "a schema nested 10,000 deep": lambda cache: cache.compile_json_schema(nested_schema(10_000)),
    "a schema of 2 MB": lambda cache: cache.compile_json_schema(large_schema()),
    "left recursion": lambda cache: cache.compile_grammar('root ::= root "+" [0-9] | [0-9]'),
    "hidden left recursion": lambda cache: cache.compile_grammar('root ::= a root "+" | "x"\na ::= "y"?'),
    "a star of stars": lambda cache: cache.compile_grammar('root ::= ("a"*)*'),
    "counts of counts": lambda cache: cache.compile_grammar("root ::= (((([a-z]{99}){99}){99}){99}){99}"),
}


def outcome_of(ask: Callable[[GrammarCache], Any], cache: GrammarCache) -> Any:
    """The grammar, or the limit that it would exceed; any other error is the test's failure."""
    try:
        return ask(cache)
    except LimitError as error:
        return error


@pytest.mark.parametrize("ask", EXPENSIVE.values(), ids=EXPENSIVE.keys())
def test_an_answer_or_a_limit_in_time_and_the_next_request_is_served(
    cache: GrammarCache, ask: Callable[[GrammarCache], Any]
) -> None:
    cache.compile_regex("warm")
    started = time.monotonic()
    outcome = outcome_of(ask, cache)
    if isinstance(outcome, LimitError):
        assert outcome.limit
    else:
        assert outcome.generation == 1, "it was compiled in this process"
    assert time.monotonic() - started < ANSWER_SECONDS_MAX
    after = cache.compile_regex("next")
    assert after.generation == 1
    stats = cache.stats()
    assert stats["compiles_in_flight"] == 0
    assert stats["entries"]["grammar"] >= 2


MALFORMED: dict[str, tuple[Callable[[GrammarCache], Any], type[ShmCacheError], dict[str, Any]]] = {
    "schema that is no JSON": (lambda cache: cache.compile_json_schema('{"type": '), SourceError, {"line": 1}),
    "schema with a wrong type": (
        lambda cache: cache.compile_json_schema('{"properties": {"a": {"type": "strin"}}}'),
        SourceError,
        {"pointer": "/properties/a/type"},
    ),
    "reference to nothing": (
        lambda cache: cache.compile_json_schema('{"items": {"$ref": "#/$defs/a"}}'),
        SourceError,
        {"pointer": "/items/$ref"},
    ),
    "regex": (lambda cache: cache.compile_regex("a(b"), SourceError, {"line": 1}),
    "EBNF": (lambda cache: cache.compile_grammar('root ::= "a"\nb ::= )'), SourceError, {"line": 2, "column": 7}),
    "undefined rule": (lambda cache: cache.compile_grammar("root ::= missing"), SourceError, {"line": 1}),
    "unsupported keyword": (
        lambda cache: cache.compile_json_schema('{"properties": {"a/b": {"items": {}, "uniqueItems": true}}}'),
        UnsupportedError,
        {"feature": "uniqueItems", "pointer": "/properties/a~1b/uniqueItems"},
    ),
    "back-reference": (lambda cache: cache.compile_regex(r"(a)\1"), UnsupportedError, {"column": 4}),
}


@pytest.mark.parametrize(("ask", "error", "details"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_and_unsupported_text_is_a_typed_error_that_says_where(
    cache: GrammarCache,
    ask: Callable[[GrammarCache], Any],
    error: type[ShmCacheError],
    details: dict[str, Any],
) -> None:
    with pytest.raises(error) as raised:
        ask(cache)
    assert details.items() <= raised.value.details.items()
    assert raised.value.code == error.code
    assert cache.compile_regex("next").generation == 1
