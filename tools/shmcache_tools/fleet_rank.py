"""One rank of an engine, as the cache sees it: ``python -m shmcache_tools.fleet_rank``.

Owns what a rank does with requests in one step: it has grammars compiled, writes masks, follows drafts and takes them
back, and moves on. Must never know of the other ranks: what all of them must agree on it reports as a digest.

It reads one command a line, says one JSON document for each, and ends with its input. Tokens are chosen from the masks
by a generator that every rank begins alike, as samplers of tensor-parallel ranks are.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from shmcache.array_types import Int32Array
from shmcache.matcher.bitmask import BITS_PER_WORD, allocate_token_bitmask
from shmcache.vocabulary.vocabulary import Vocabulary

LIFE_SECONDS_MAX = 600
DRAFT_TOKENS = 3
TOKENS_MAX = 24
"""A request that long ends by its length."""


class Way(Protocol):
    """One request's way through a grammar."""

    def accept(self, token: int) -> bool:
        """Moves on."""

    def write(self, row: Int32Array) -> None:
        """Writes the mask."""

    def rollback(self, num_tokens: int) -> None:
        """Takes steps back."""

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""


Compile = Callable[[str, str], Callable[[], Way]]
"""Kind and text of a source → what begins a way through its grammar."""


def grammar_sources(count: int) -> list[tuple[str, str]]:
    """Kind and text of so many different sources, regular expressions and schemas of the kind that tools have."""
    sources = []
    for number in range(count):
        if number % 2:
            sources.append(("regex", f"item{number}(:[a-z]{{1,{3 + number % 7}}}|=[0-9]+)+"))
            continue
        names = [f"field_{number}_{place}" for place in range(1 + number % 4)]
        kinds = [{"type": "integer"}, {"enum": ["red", "green"]}, {"type": "string", "maxLength": 5}]
        properties = {name: kinds[place % 3] for place, name in enumerate(names)}
        sources.append(("json", json.dumps({"type": "object", "properties": properties, "required": names})))
    return sources


@dataclass(slots=True)
class _Request:
    way: Way
    tokens: list[int] = field(default_factory=list)


class Rank:
    """The requests of one rank, each with its way through a grammar."""

    def __init__(self, vocabulary: Vocabulary, compile_source: Compile, grammar_count: int, seed: int) -> None:
        self._compile = compile_source
        self._sources = grammar_sources(grammar_count)
        self._seed = seed
        self._requests: dict[int, _Request] = {}
        self._width = vocabulary.width
        self._rows = allocate_token_bitmask(1 + DRAFT_TOKENS, vocabulary.width)
        self._stop = vocabulary.stop_token_ids[0]

    def step(self, new: Mapping[str, int], cancelled: list[int]) -> dict[str, Any]:
        """Begins ``new`` requests (name → number of the grammar), forgets ``cancelled`` ones, and moves all others on.

        Says the tokens of each, which of them ended, a digest of every mask, and the seconds of each compile and of the
        masks.
        """
        for name in cancelled:
            self._requests.pop(name, None)
        compile_seconds = [self._begin(int(name), grammar, []) for name, grammar in new.items()]
        digest = blake2b(digest_size=16)
        tokens: dict[int, list[int]] = {}
        ended: list[int] = []
        begin = time.perf_counter()
        for name in sorted(self._requests):
            request = self._requests[name]
            tokens[name] = self._advance(name, request, digest.update)
            if request.way.is_terminated() or len(request.tokens) >= TOKENS_MAX:
                ended.append(name)
                del self._requests[name]
        return {
            "digest": digest.hexdigest(),
            "tokens": tokens,
            "ended": ended,
            "compile_seconds": compile_seconds,
            "mask_seconds": time.perf_counter() - begin,
        }

    def resume(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Takes over requests (name → number of the grammar, tokens so far), as after a restart."""
        return {"compile_seconds": [self._begin(int(name), *state) for name, state in requests.items()]}

    def _begin(self, name: int, grammar: int, tokens: list[int]) -> float:
        begin = time.perf_counter()
        way = self._compile(*self._sources[grammar])()
        seconds = time.perf_counter() - begin
        for token in tokens:
            if not way.accept(token):
                raise AssertionError(f"token {token} of request {name} was accepted before")
        self._requests[name] = _Request(way, list(tokens))
        return seconds

    def _advance(self, name: int, request: _Request, take: Callable[[bytes], None]) -> list[int]:
        """Writes the masks in front of and behind the drafts, takes the drafts back, and goes on by some of them."""
        way, chooser = request.way, random.Random(f"{self._seed} {name} {len(request.tokens)}")
        drafts: list[int] = []
        for place in range(1 + DRAFT_TOKENS):
            row = self._rows[place]
            way.write(row)
            take(row.tobytes())
            if place < DRAFT_TOKENS:
                token = self._chosen(row, chooser)
                forbidden = (token + 1) % self._width
                if not row[forbidden // BITS_PER_WORD] >> forbidden % BITS_PER_WORD & 1 and way.accept(forbidden):
                    raise AssertionError(f"token {forbidden} of request {name} was accepted against its mask")
                if not way.accept(token):
                    raise AssertionError(f"token {token} of request {name} was refused against its mask")
                drafts.append(token)
                if way.is_terminated():
                    break
        way.rollback(len(drafts))
        kept = drafts[: 1 + chooser.randrange(len(drafts))]
        for token in kept:
            way.accept(token)
        request.tokens += kept
        return kept

    def _chosen(self, row: Int32Array, chooser: random.Random) -> int:
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: self._width])
        if self._stop in allowed and chooser.random() < 0.25:
            return self._stop
        return int(allowed[chooser.randrange(len(allowed))])


def _with_cache(vocabulary: Vocabulary) -> tuple[Compile, Callable[[], None]]:
    from shmcache_workers.engine_caches import EngineCaches
    from shmcache_workers.engine_matcher import EngineMatcher

    caches = EngineCaches(vocabulary, autostart=False)

    def compile_source(kind: str, text: str) -> Callable[[], Way]:
        cache = caches.plain()
        grammar = cache.compile_regex(text) if kind == "regex" else cache.compile_json_schema(text)
        return lambda: EngineMatcher(grammar)

    return compile_source, caches.clear


def _with_xgrammar(vocabulary: Vocabulary) -> tuple[Compile, Callable[[], None]]:
    import xgrammar

    tokens = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    information = xgrammar.TokenizerInfo(
        tokens, vocab_size=vocabulary.width, stop_token_ids=list(vocabulary.stop_token_ids)
    )
    compiler = xgrammar.GrammarCompiler(information, max_threads=1)

    class XGrammarWay:
        """XGrammar's matcher, whose masks are tensors."""

        def __init__(self, grammar: Any) -> None:
            self._matcher = xgrammar.GrammarMatcher(grammar)
            self._row = xgrammar.allocate_token_bitmask(1, vocabulary.width)
            self.accept: Callable[[int], bool] = self._matcher.accept_token
            self.rollback: Callable[[int], None] = self._matcher.rollback
            self.is_terminated: Callable[[], bool] = self._matcher.is_terminated

        def write(self, row: Int32Array) -> None:
            self._matcher.fill_next_token_bitmask(self._row)
            row[:] = self._row.numpy()[0]

    def compile_source(kind: str, text: str) -> Callable[[], Way]:
        grammar = compiler.compile_regex(text) if kind == "regex" else compiler.compile_json_schema(text)
        return lambda: XGrammarWay(grammar)

    return compile_source, compiler.clear_cache


ENGINES: Mapping[str, Callable[[Vocabulary], tuple[Compile, Callable[[], None]]]] = {
    "shmcache": _with_cache,
    "xgrammar": _with_xgrammar,
}
"""What compiles a rank's grammars: the host's cache, or XGrammar in each rank by itself."""


def main() -> None:
    """Follows the commands; the first one says what the rank is made of."""
    signal.alarm(LIFE_SECONDS_MAX)
    from shmcache_tools.vocabulary_choice import load_vocabulary

    first = json.loads(sys.stdin.readline())
    vocabulary = load_vocabulary(first["vocabulary"], None)
    compile_source, clear = ENGINES[first["engine"]](vocabulary)
    rank = Rank(vocabulary, compile_source, first["grammars"], first["seed"])
    _say({})
    for line in sys.stdin:
        command = json.loads(line)
        kind = command.pop("do")
        if kind == "clear":
            clear()
            _say({})
        else:
            _say(rank.step(**command) if kind == "step" else rank.resume(**command))


def _say(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
