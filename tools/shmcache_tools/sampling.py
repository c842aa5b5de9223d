"""Decoding without a model: legal tokens, chosen at random but led to an end.

Owns the choice of tokens. Must never choose one that the mask forbids, nor know what kind of grammar it follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary

ROAMING_TOKENS_MAX = 48
"""After this many tokens only what ends the text soonest is chosen."""

TOKENS_MAX = 4_000

_READABLE = re.compile(rb"[A-Za-z0-9 ,.:'\"{}\[\]()+*/=_-]*[^\s][A-Za-z0-9 ,.:'\"{}\[\]()+*/=_-]*")
_READABLE_BYTES_MAX = 12
_CLOSING = b"\"}])>;,:.e1234567890-abcdfghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'"
_OPENING = b"(<[{ \n\r\t\\"
_NO_RANK = 255
_CLOSE_CHANCE = 0.25
_STRAY_CHANCE = 0.1
_STOP_CHANCE = 0.4


class SampleError(Exception):
    """The grammar offered no token, refused one of its mask, or could not be brought to an end."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was decoded: token ids with the stop token last, their bytes, and seconds of each fill + accept."""

    tokens: tuple[int, ...]
    data: bytes
    step_seconds: tuple[float, ...]


class Sampler:
    """Decodes samples over one vocabulary; the same seed gives the same samples."""

    def __init__(self, vocabulary: Vocabulary, *, seed: int) -> None:
        self._vocabulary = vocabulary
        self._rng = np.random.default_rng(seed)
        self._is_readable = np.zeros(vocabulary.width, dtype=bool)
        self._rank = np.full(vocabulary.width, _NO_RANK, dtype=np.uint8)
        self._bitmask = allocate_token_bitmask(1, vocabulary.width)
        for token in vocabulary.text_token_ids().tolist():
            data = vocabulary.token_bytes(token)
            if len(data) == 1:
                self._rank[token] = _rank(data[0])
            if len(data) <= _READABLE_BYTES_MAX and _READABLE.fullmatch(data):
                self._is_readable[token] = True

    def decode(self, grammar: CompiledGrammar) -> Sample:
        """Decodes one text up to its stop token. Raises :class:`SampleError`."""
        matcher = GrammarMatcher(grammar)
        stops = [token for token in matcher.stop_token_ids if token < self._vocabulary.width]
        tokens: list[int] = []
        seconds: list[float] = []
        while not matcher.is_terminated():
            if len(tokens) == TOKENS_MAX:
                raise SampleError(f"no end after {TOKENS_MAX} tokens: {self._text(tokens)[-80:]!r}")
            started = perf_counter()
            matcher.fill_next_token_bitmask(self._bitmask)
            filled = perf_counter()
            token = self._choose(self._bitmask[0], stops, is_roaming=len(tokens) < ROAMING_TOKENS_MAX)
            choosing = perf_counter()
            if not matcher.accept_token(token):
                raise SampleError(f"token {token} is in the mask and refused after {self._text(tokens)[-80:]!r}")
            seconds.append(perf_counter() - choosing + filled - started)
            tokens.append(token)
        return Sample(tuple(tokens), self._text(tokens[:-1]), tuple(seconds))

    def _choose(self, row: Any, stops: list[int], *, is_roaming: bool) -> int:
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: self._vocabulary.width])
        if not allowed.size:
            raise SampleError("the mask allows nothing")
        legal_stops = [token for token in stops if row[token >> 5] >> (token & 31) & 1]
        if legal_stops and (not is_roaming or self._rng.random() < _STOP_CHANCE):
            return legal_stops[0]
        if not is_roaming or self._rng.random() < _CLOSE_CHANCE:
            # Now and then any byte, so that no choice goes round in circles.
            ranks = self._rank[allowed]
            bytewise = allowed[ranks < _NO_RANK]
            if bytewise.size:
                return int(
                    self._rng.choice(bytewise) if self._rng.random() < _STRAY_CHANCE else allowed[ranks.argmin()]
                )
        readable = allowed[self._is_readable[allowed]]
        return int(self._rng.choice(readable if readable.size else allowed))

    def _text(self, tokens: list[int]) -> bytes:
        return b"".join(self._vocabulary.token_bytes(token) for token in tokens)


def _rank(byte: int) -> int:
    """How soon a text ends that goes on with ``byte``: what closes comes first, what opens last."""
    if byte in _CLOSING:
        return _CLOSING.index(byte)
    return 80 + _OPENING.index(byte) if byte in _OPENING else 100
