"""The sources that ``demo`` and ``bench`` compile: the package's own schemas and grammars, and made-up ones.

Owns finding, reading and making them. Must never compile.
"""

from __future__ import annotations

import importlib.resources
import json
import random
from dataclasses import dataclass
from typing import Any

from shmcache.grammar.key import Source

_KINDS = {".json": "json_schema", ".ebnf": "ebnf", ".regex": "regex"}


@dataclass(frozen=True, slots=True)
class DemoSource:
    """One packaged source: ``name`` as in its file's name, ``kind`` as :class:`Source` has it."""

    name: str
    kind: str
    text: str

    def source(self) -> Source:
        """As the compiler takes it, with default options."""
        if self.kind == "json_schema":
            return Source.json_schema(self.text)
        return Source.ebnf(self.text) if self.kind == "ebnf" else Source.regex(self.text)

    def compile(self, cache: Any) -> Any:
        """The grammar of this source from a ``GrammarCache``."""
        if self.kind == "json_schema":
            return cache.compile_json_schema(self.text)
        return cache.compile_grammar(self.text) if self.kind == "ebnf" else cache.compile_regex(self.text)


def demo_sources() -> list[DemoSource]:
    """The packaged sources, in the order of their file names."""
    found = []
    for path in importlib.resources.files("shmcache_tools").joinpath("demo_sources").iterdir():
        stem, dot, suffix = path.name.rpartition(".")
        if dot + suffix in _KINDS:
            found.append((path.name, DemoSource(stem, _KINDS[dot + suffix], path.read_text(encoding="utf-8"))))
    return [source for _, source in sorted(found, key=lambda pair: pair[0])]


def large_schema(property_count: int, *, seed: int) -> str:
    """A schema that takes long to compile: many properties of many shapes, no two alike."""
    rng = random.Random(seed)
    shapes = (
        lambda: {"type": "string", "pattern": f"^[a-{rng.choice('fghij')}]{{2,{rng.randint(5, 9)}}}-[0-9]{{3}}$"},
        lambda: {"type": "integer", "minimum": rng.randint(-999, 0), "maximum": rng.randint(1000, 99999)},
        lambda: {"enum": [f"choice {rng.randrange(10**6)}" for _ in range(12)]},
        lambda: {"type": "array", "items": {"type": "number", "minimum": rng.randint(0, 99)}, "maxItems": 5},
    )
    properties = {f"field_{number}": rng.choice(shapes)() for number in range(property_count)}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)})


def tiny_pattern(number: int) -> str:
    """The ``number``-th of as many different small regular expressions as one likes."""
    return f"entry {number}: [a-c]{{1,3}}"
