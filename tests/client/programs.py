"""A process that uses the cache: ``python -m tests.client.programs <namespace> <directory>``.

It reads one command a line, says one JSON document for each, and ends with its input. The first line says that it is
there; ``connect`` comes later, so that a test can let many do it at once.
"""

from __future__ import annotations

import json
import signal
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

from shmcache.client import GrammarCache
from shmcache.errors import ShmCacheError
from shmcache.image.image import write_image
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.memory.names import Namespace
from tests.client.support import VOCABULARY

LIFE_SECONDS_MAX = 60


class Program:
    """The commands, each a method."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._cache: GrammarCache | None = None

    @property
    def cache(self) -> GrammarCache:
        """The client, once connected."""
        assert self._cache is not None
        return self._cache

    def connect(self) -> dict[str, Any]:
        """Connects, and starts a manager when none answers."""
        self._cache = GrammarCache(VOCABULARY, self._namespace, may_start=True)
        return {"stats": self._cache.stats()}

    def regex(self, pattern: str) -> dict[str, Any]:
        """Compiles, and says what came of it."""
        try:
            grammar = self.cache.compile_regex(pattern)
        except ShmCacheError as error:
            return error.to_plain()
        return {"generation": grammar.generation, "image": blake2b(write_image(grammar.image)).hexdigest()}

    def keep(self, count: str) -> dict[str, Any]:
        """Compiles that many grammars and keeps every one; how many of them match what they should."""
        kept = [self.cache.compile_regex(f"x{{{number + 1}}}") for number in range(int(count))]
        matching = 0
        for number, grammar in enumerate(kept):
            matcher = GrammarMatcher(grammar, terminate_without_stop_token=True)
            matching += matcher.accept_string("x" * (number + 1)) and matcher.is_terminated()
        return {"kept": len(kept), "matching": matching}

    def clear(self) -> dict[str, Any]:
        """Clears."""
        self.cache.clear_cache()
        return {"bytes": self.cache.get_cache_size_bytes()}

    def stats(self) -> dict[str, Any]:
        """The statistics."""
        return self.cache.stats()

    def numba(self) -> dict[str, Any]:
        """Whether this process has loaded what compiles."""
        return {"loaded": "numba" in sys.modules}


def main() -> None:
    signal.alarm(LIFE_SECONDS_MAX)
    program = Program(Namespace.of(sys.argv[1], directory=Path(sys.argv[2])))
    answer: dict[str, Any] = {"ready": True}
    while True:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        command, *arguments = json.loads(line)
        answer = getattr(program, command)(*arguments)


if __name__ == "__main__":
    main()
