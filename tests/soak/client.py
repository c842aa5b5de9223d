"""A process that uses the cache without pause: ``python -m tests.soak.client <namespace> <directory> <work> <seed>``.

``work`` is a file with patterns and the digests of their images. Each line it says is one JSON document: how long a
grammar took, or what was wrong. It ends when its input does, and lets go of everything then.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from shmcache.client import GrammarCache
from shmcache.errors import ManagerUnavailable
from shmcache.image.image import write_image
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.memory.names import Namespace
from tests.client.support import VOCABULARY


class Client:
    """What one client does, chosen at random."""

    def __init__(self, namespace: Namespace, work: dict[str, str], seed: int) -> None:
        self._namespace = namespace
        self._work = work
        self._rng = random.Random(seed)
        self._cache = GrammarCache(VOCABULARY, namespace, may_start=True)
        self._held: list[CompiledGrammar] = []

    def act(self) -> None:
        """One thing."""
        acts: list[tuple[int, Callable[[], None]]] = [
            (80, self._compile),
            (8, self._let_go),
            (4, self._reconnect),
            (4, self._fork),
            (2, self._clear),
        ]
        act = self._rng.choices([act for _, act in acts], [weight for weight, _ in acts])[0]
        act()

    def close(self) -> None:
        """Lets go of everything."""
        self._held.clear()
        self._cache.close()

    def _compile(self) -> None:
        pattern = self._rng.choice(list(self._work))
        started_at = time.monotonic()
        grammar = self._cache.compile_regex(pattern)
        seconds = time.monotonic() - started_at
        if blake2b(write_image(grammar.image)).hexdigest() != self._work[pattern]:
            say({"wrong": f"the image of {pattern!r} in generation {grammar.generation} has other bytes"})
        say({"seconds": seconds, "from": started_at, "is_cached": grammar.generation > 0})
        self._held.append(grammar)

    def _clear(self) -> None:
        try:
            self._cache.clear_cache()
        except ManagerUnavailable:
            # Two managers killed in a row: this caller is told that nothing was cleared, as is promised.
            say({"not_cleared": True})

    def _let_go(self) -> None:
        self._held.clear()

    def _reconnect(self) -> None:
        self._cache.close()
        self._cache = GrammarCache(VOCABULARY, self._namespace, may_start=True)

    def _fork(self) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self._rng = random.Random(os.getpid())
                self._compile()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status != 0:
            say({"wrong": f"a child made by fork ended with {os.waitstatus_to_exitcode(status)}"})


def say(what: dict[str, object]) -> None:
    """One line."""
    os.write(1, json.dumps(what).encode() + b"\n")


def main() -> None:
    namespace = Namespace.of(sys.argv[1], directory=Path(sys.argv[2]))
    client = Client(namespace, json.loads(Path(sys.argv[3]).read_text()), int(sys.argv[4]))
    poller = select.poll()
    poller.register(0, select.POLLIN)
    while not poller.poll(0):
        try:
            client.act()
        except Exception as error:
            say({"wrong": f"{type(error).__name__}: {error}"})
    client.close()
    say({"ended": True})


if __name__ == "__main__":
    main()
