"""The schemas that engines are compared on, each with instances as token ids.

Owns reading them: from the package, or from a file of one JSON object a line with ``id``, ``schema`` and ``tests``
(each with ``data`` and ``valid``), which may be compressed, as MaskBench has it. Must never compile.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.sources import demo_sources

INSTANCES_MAX = 5
"""Instances of one schema that are decoded."""

TOKENS_MAX = 1_000
"""Tokens of one instance that are decoded."""


class Tokenizer(Protocol):
    """What turns text into ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of the text, without any special token."""


@dataclass(frozen=True, slots=True)
class Case:
    """One schema as text, and valid instances of it as token ids."""

    name: str
    schema: str
    instances: tuple[tuple[int, ...], ...]


class LongestTokens:
    """A tokenizer that always takes the longest token, for vocabularies that come without one."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids: dict[bytes, int] = {}
        for token_id in vocabulary.text_token_ids().tolist():
            self._ids.setdefault(vocabulary.token_bytes(token_id), token_id)
        self._longest = max(map(len, self._ids))

    def encode(self, text: str) -> list[int]:
        """The ids of the text. Raises ValueError where no token goes on."""
        data, place, found = text.encode(), 0, []
        while place < len(data):
            for length in range(min(self._longest, len(data) - place), 0, -1):
                token_id = self._ids.get(data[place : place + length])
                if token_id is not None:
                    found.append(token_id)
                    place += length
                    break
            else:
                raise ValueError(f"no token begins at {data[place : place + 20]!r}")
        return found


def packaged_cases(tokenizer: Tokenizer) -> list[Case]:
    """The package's own JSON Schemas, with the instances beside them."""
    folder = Path(__file__).resolve().parent.parent / "demo_sources"
    cases = []
    for source in demo_sources():
        path = folder / f"{source.name}.instances"
        if source.kind == "json_schema" and path.is_file():
            texts = path.read_text(encoding="utf-8").splitlines()
            cases.append(Case(source.name, source.text, _encoded(texts, tokenizer)))
    return cases


def cases_of_file(path: Path, tokenizer: Tokenizer, *, limit: int | None = None) -> list[Case]:
    """The cases of a file, every so-manieth where ``limit`` asks for fewer. Raises OSError and ValueError."""
    rows = list(_rows(path))
    step = 1 if limit is None else max(1, len(rows) // limit)
    cases = []
    for row in rows[::step][:limit]:
        valid = [json.dumps(test["data"], ensure_ascii=False) for test in row["tests"] if test["valid"]]
        cases.append(Case(str(row["id"]), json.dumps(row["schema"]), _encoded(valid, tokenizer)))
    return cases


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with _opened(path) as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _encoded(texts: Sequence[str], tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tokenizer.encode(text)[:TOKENS_MAX]) for text in texts[:INSTANCES_MAX])
