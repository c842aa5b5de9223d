"""The caches of one engine process: one for plain text, one where special tokens may be spelt.

Owns how an engine's tokenizer becomes vocabularies, and the connections to the host's cache. Must never know an engine.

Constrained text (a JSON document, a regular expression) never holds special tokens. The tags around tool calls do, and
are written out by their texts; for those there is a second vocabulary, in which every special token that ends nothing
is text. It is made and shared when it is first asked for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any

from shmcache.client import GrammarCache, connect
from shmcache.errors import ManagerUnavailable
from shmcache.vocabulary.vocabulary import Vocabulary


def vocabulary_of(tokenizer: Any, *, width: int, stop_token_ids: Iterable[int] | None = None) -> Vocabulary:
    """The vocabulary of a tokenizer as engines hold it: of Hugging Face, mistral-common or tiktoken, wrapped or not.

    ``stop_token_ids`` of no bit in a mask of ``width`` are left out; None leaves them to the tokenizer. Raises what the
    adapters raise for a tokenizer that they do not understand.
    """
    stop = None if stop_token_ids is None else stops_within(stop_token_ids, width)
    if not hasattr(tokenizer, "backend_tokenizer"):
        inner = getattr(tokenizer, "tokenizer", tokenizer)
        inner = getattr(getattr(inner, "instruct_tokenizer", inner), "tokenizer", inner)
        if hasattr(inner, "id_to_byte_piece") or hasattr(inner, "file_path"):
            return Vocabulary.from_mistral(inner, stop_token_ids=stop, width=width)
        if hasattr(inner, "decode_single_token_bytes"):
            return Vocabulary.from_tiktoken(inner, stop_token_ids=stop, width=width)
    return Vocabulary.from_huggingface(tokenizer, stop_token_ids=stop, width=width)


def stops_within(stop_token_ids: Iterable[int], width: int) -> list[int]:
    """Those stop tokens that a model of ``width`` ids can ever give, ascending."""
    return sorted({int(token) for token in stop_token_ids if 0 <= token < width})


ANY_OBJECT = '{"type": "object"}'
"""What "JSON mode" is: any object at all."""


class EngineCaches:
    """The connections of one process. Safe for several threads; connects when first asked for a cache.

    ``autostart`` is that of :func:`shmcache.connect`.
    """

    def __init__(self, vocabulary: Vocabulary, *, autostart: bool = True) -> None:
        self.vocabulary = vocabulary
        self._autostart = autostart
        self._lock = threading.Lock()
        self._caches: dict[bytes, GrammarCache] = {}
        self._spelt: dict[frozenset[int], Vocabulary] = {}

    def plain(self) -> GrammarCache:
        """The cache for text without special tokens."""
        return self._cache(self.vocabulary)

    def spelling_special(self, reserved: Collection[int] = ()) -> GrammarCache:
        """The cache whose text may spell special tokens, but for the stop tokens and those ``reserved``."""
        wanted = frozenset(reserved)
        with self._lock:
            if wanted not in self._spelt:
                self._spelt[wanted] = _spelling_special(self.vocabulary, wanted)
            vocabulary = self._spelt[wanted]
        return self._cache(vocabulary)

    def mentions_special(self, text: str) -> bool:
        """Whether the text of a special token, other than a stop token, stands somewhere in ``text``."""
        return self._special_texts is not None and self._special_texts.search(text) is not None

    def has_manager(self) -> bool:
        """Whether a manager serves this process, one started just now included."""
        return self.plain().has_manager()

    def clear(self) -> None:
        """Clears the host's cache, for all vocabularies; where there is no manager, what this process holds."""
        plain = self.plain()
        with suppress(ManagerUnavailable):
            plain.clear_cache()
        if plain.has_manager():
            return
        # No generation ends, and each connection holds on to what it has until it is told.
        with self._lock:
            others = [cache for cache in self._caches.values() if cache is not plain]
        for cache in others:
            with suppress(ManagerUnavailable):
                cache.clear_cache()

    def close(self) -> None:
        """Ends the connections; grammars given out stay valid. Idempotent."""
        with self._lock:
            caches, self._caches = list(self._caches.values()), {}
        for cache in caches:
            cache.close()

    def _cache(self, vocabulary: Vocabulary) -> GrammarCache:
        with self._lock:
            cache = self._caches.get(vocabulary.fingerprint)
            if cache is None:
                cache = self._caches[vocabulary.fingerprint] = connect(vocabulary, autostart=self._autostart)
            return cache

    @cached_property
    def _special_texts(self) -> re.Pattern[str] | None:
        vocabulary = self.vocabulary
        texts = {
            vocabulary.token_bytes(token).decode("utf-8", "replace")
            for token in set(vocabulary.special_token_ids) - set(vocabulary.stop_token_ids)
        }
        texts.discard("")
        return re.compile("|".join(map(re.escape, sorted(texts)))) if texts else None


def _spelling_special(vocabulary: Vocabulary, reserved: frozenset[int]) -> Vocabulary:
    special = [token for token in reserved if 0 <= token < vocabulary.size]
    tokens = [None if vocabulary.is_gap(token) else vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    return Vocabulary(tokens, special, vocabulary.stop_token_ids, vocabulary.width)
