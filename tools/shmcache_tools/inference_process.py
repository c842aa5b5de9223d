"""What stands in for an inference process: asks for grammars, fills masks, decodes samples, says how long it took.

Owns the child's side of the conversation with :mod:`shmcache_tools.inference_team`: one JSON line a command on
standard input, one JSON line a reply on standard output, ``{"tick": 1}`` for each step of progress before it. Must
never print anything else there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.sample_check import complaint
from shmcache_tools.sampling import SampleError, Sampler
from shmcache_tools.sources import DemoSource, demo_sources

Compile = Callable[[DemoSource], CompiledGrammar]


class InferenceProcess:
    """One process with the Tekken vocabulary and, unless private, one connection to a cache."""

    def __init__(self, *, namespace: str | None, seed: int) -> None:
        """Gets ready for timing: vocabulary read, kernels loaded, connected. No namespace: compiles by itself."""
        from shmcache.rows.warm_up import warm_up

        self.vocabulary = Vocabulary.from_mistral()
        warm_up()
        self._compile = self._compiler(namespace)
        self._sources = {source.name: source for source in demo_sources()}
        self._grammars: dict[str, CompiledGrammar] = {}
        self._sampler = Sampler(self.vocabulary, seed=seed)
        self._bitmask = allocate_token_bitmask(1, self.vocabulary.width)

    def _compiler(self, namespace: str | None) -> Compile:
        if namespace is None:
            from shmcache.private import compile_source

            self.vocabulary.trie  # noqa: B018  (built now, not while the first compile is timed)
            return lambda source: compile_source(source.source(), self.vocabulary)
        from shmcache.client import connect

        cache = connect(self.vocabulary, namespace, autostart=False)
        return lambda source: source.compile(cache)

    def ask(self, names: list[str]) -> dict[str, Any]:
        """Asks for each source.

        Replies with the seconds from each request to its first mask, and the bytes of the grammars together.
        """
        seconds = [self._first_mask(self._sources[name]) for name in names]
        return {"seconds": seconds, "bytes": sum(self._grammars[name].memory_size_bytes for name in names)}

    def ask_again(self, repeats: int) -> dict[str, Any]:
        """Asks for everything it holds again: local hits.

        Replies with the seconds to the grammar, and those to a first mask, each ``repeats`` times a source.
        """
        grammar_seconds: list[float] = []
        mask_seconds: list[float] = []
        for name in self._grammars:
            source = self._sources[name]
            for _ in range(repeats):
                started = perf_counter()
                grammar = self._compile(source)
                found = perf_counter()
                GrammarMatcher(grammar).fill_next_token_bitmask(self._bitmask)
                mask_seconds.append(perf_counter() - started)
                grammar_seconds.append(found - started)
        return {"seconds": grammar_seconds, "first_mask_seconds": mask_seconds}

    def ask_schema(self, text: str) -> dict[str, Any]:
        """Asks for a schema that is not of the package; replies also with the grammar's generation."""
        source = DemoSource("given", "json_schema", text)
        seconds = self._first_mask(source)
        return {"seconds": [seconds], "generation": self._grammars["given"].generation}

    def _first_mask(self, source: DemoSource) -> float:
        bitmask = self._bitmask
        started = perf_counter()
        grammar = self._compile(source)
        GrammarMatcher(grammar).fill_next_token_bitmask(bitmask)
        seconds = perf_counter() - started
        self._grammars[source.name] = grammar
        say({"tick": 1})
        return seconds

    def decode(self, rounds: int) -> dict[str, Any]:
        """Decodes ``rounds`` samples of each source that was asked for, and checks them.

        Replies with the samples of the last round, the seconds of all steps, and what is wrong with samples.
        """
        texts: dict[str, str] = {}
        seconds: list[float] = []
        problems: list[str] = []
        for _ in range(rounds):
            for name, source in self._sources.items():
                if name not in self._grammars:
                    continue
                try:
                    sample = self._sampler.decode(self._grammars[name])
                    texts[name] = sample.data.decode()
                    seconds += sample.step_seconds
                    problem = complaint(source, texts[name])
                except (SampleError, UnicodeDecodeError) as error:
                    problem = str(error)
                if problem is not None:
                    problems.append(f"{name}: {problem}")
                say({"tick": 1})
        return {"texts": texts, "step_seconds": seconds, "problems": problems}


def say(reply: dict[str, Any]) -> None:
    """Sends one line to the parent."""
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Follows the parent's commands until there are no more: it closes our input, or ends."""
    process: InferenceProcess | None = None
    for line in sys.stdin:
        command = json.loads(line)
        action = command.pop("do")
        if action == "open":
            process = InferenceProcess(**command)
            say({})
        elif process is not None and action in ("ask", "ask_again", "ask_schema", "decode"):
            say(getattr(process, action)(**command))
        else:
            raise ValueError(f"unknown command {line!r}")


if __name__ == "__main__":
    main()
