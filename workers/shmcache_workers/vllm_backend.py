"""vLLM's structured-output backend on top of the host's cache, in the place of its XGrammar backend.

Owns what vLLM's names mean in ours, and when a grammar goes to the backend that vLLM came with. Must never know what
lies below the client and the matcher. Importing it imports vLLM.

Written for vLLM 0.33.0, which has no place where backends of others can be named: :func:`rebind` puts ours where vLLM
looks for the XGrammar backend. Every data-parallel engine core has a backend; the first one to ask has a grammar
compiled. vLLM calls it from pools of threads.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from dataclasses import dataclass
from typing import Any

import torch
import vllm
import vllm.envs
from vllm.utils.mistral import is_mistral_tokenizer
from vllm.v1 import structured_output as manager_module
from vllm.v1.structured_output import backend_xgrammar as stock_module
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)
from vllm.v1.structured_output.utils import choice_as_grammar, grammar_is_likely_lark

from shmcache.errors import UnsupportedError
from shmcache.matcher.bitmask import word_count
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache_workers.engine_caches import ANY_OBJECT, EngineCaches, stops_within, vocabulary_of
from shmcache_workers.engine_matcher import EngineMatcher, rows_of

VERSIONS = ((0, 33),)
"""The releases of vLLM whose XGrammar backend ours was compared with; any other keeps its own."""

REPORTED_MAX = 4096
"""Grammars whose way to the other backend is remembered, so that it is logged once."""

StockBackend = stock_module.XgrammarBackend

_log = logging.getLogger("shmcache")


class ShmcacheGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM is not there when types are checked
    """One request's way through a grammar."""

    def __init__(self, matcher: EngineMatcher) -> None:
        self._matcher = matcher
        self.num_processed_tokens = 0

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Moves on by the tokens up to termination; False where one is not allowed, those before it stay accepted."""
        for token in tokens:
            if self._matcher.is_terminated():
                break
            if not self._matcher.accept(token):
                _log.error(
                    "request %s: token %d is not allowed%s",
                    request_id,
                    token,
                    f": {self._matcher.failure}" if self._matcher.failure else "",
                )
                return False
            self.num_processed_tokens += 1
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The first of the tokens that would be accepted; nothing changes."""
        return self._matcher.accepted_prefix(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Takes back the last tokens."""
        self._matcher.rollback(num_tokens)
        self.num_processed_tokens -= num_tokens

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Writes row ``batch_index``, int32."""
        self._matcher.write(rows_of(bitmask)[batch_index])

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self._matcher.is_terminated()

    def reset(self) -> None:
        """Back to the beginning."""
        self._matcher.reset()
        self.num_processed_tokens = 0


@dataclass(eq=False)
class ShmcacheBackend(StructuredOutputBackend):  # type: ignore[misc]
    """Compiles grammars through the host's cache, and through vLLM's own backend what that does not serve.

    Both are made when they are first needed. Without a manager, or with a tokenizer that is not understood, everything
    goes to vLLM's own.
    """

    def __post_init__(self) -> None:
        if is_mistral_tokenizer(self.tokenizer):
            # The width of the other backend's masks, which ours share.
            self.vocab_size = len(self.tokenizer.vocab)
        self._lock = threading.Lock()
        self._stock_lock = threading.Lock()
        self._caches: EngineCaches | None = None
        self._is_decided = False
        self._stock: Any = None
        self._reported: set[bytes] = set()

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> StructuredOutputGrammar:
        """The grammar of a request, at its beginning. Raises what vLLM's own backend raises, and nothing else."""
        caches = self._served_by()
        if caches is not None:
            try:
                grammar = self._compiled(caches, request_type, grammar_spec)
                return ShmcacheGrammar(EngineMatcher(grammar, stops_within(stop_token_ids or (), self.vocab_size)))
            except Exception as error:
                self._report(request_type, grammar_spec, error)
        return self._stock_backend().compile_grammar(request_type, grammar_spec, stop_token_ids)

    def _compiled(
        self, caches: EngineCaches, request_type: StructuredOutputOptions, grammar_spec: str
    ) -> CompiledGrammar:
        if request_type == StructuredOutputOptions.JSON:
            return self._compiled_json(caches, grammar_spec)
        if request_type == StructuredOutputOptions.JSON_OBJECT:
            return self._compiled_json(caches, ANY_OBJECT)
        if request_type == StructuredOutputOptions.REGEX:
            seconds = vllm.envs.VLLM_REGEX_COMPILATION_TIMEOUT_S
            return caches.plain().compile_regex(grammar_spec, timeout=seconds if seconds > 0 else None)
        if request_type == StructuredOutputOptions.GRAMMAR:
            if grammar_is_likely_lark(grammar_spec):
                raise UnsupportedError("a grammar in Lark's syntax", feature="lark")
            return caches.plain().compile_grammar(grammar_spec)
        if request_type == StructuredOutputOptions.CHOICE:
            return caches.plain().compile_grammar(choice_as_grammar(json.loads(grammar_spec)))
        if request_type == StructuredOutputOptions.STRUCTURAL_TAG:
            return caches.spelling_special().compile_structural_tag(grammar_spec)
        raise UnsupportedError(f"a request of type {request_type!s}", feature=str(request_type))

    def _compiled_json(self, caches: EngineCaches, schema: str) -> CompiledGrammar:
        if self.vllm_config.structured_outputs_config.disable_any_whitespace:
            return caches.plain().compile_json_schema(schema, any_whitespace=False, separators=(",", ":"))
        return caches.plain().compile_json_schema(schema)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """int32 (max_num_seqs, words) in main memory, everything allowed."""
        return torch.full((max_num_seqs, word_count(self.vocab_size)), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Ends the connection. Idempotent; grammars given out stay valid."""
        with self._lock:
            caches, self._caches = self._caches, None
            self._is_decided = True
        with self._stock_lock:
            stock, self._stock = self._stock, None
        if caches is not None:
            caches.close()
        if stock is not None:
            stock.destroy()

    def _served_by(self) -> EngineCaches | None:
        """The caches, or None where everything goes to vLLM's own backend. Decided once, where grammars are compiled:
        vLLM makes the backend in the thread that schedules."""
        with self._lock:
            if not self._is_decided:
                self._is_decided = True
                self._caches = self._connected()
            return self._caches

    def _connected(self) -> EngineCaches | None:
        try:
            caches = EngineCaches(vocabulary_of(self.tokenizer, width=self.vocab_size))
            if caches.has_manager():
                return caches
            caches.close()
            reason = "no manager answers"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        _log.warning("vLLM uses its own XGrammar backend instead of shmcache, while this process lives: %s", reason)
        return None

    def _stock_backend(self) -> Any:
        # Not the lock of the caches: this takes seconds, and grammars that are ours need not wait for it.
        with self._stock_lock:
            if self._stock is None:
                self._stock = StockBackend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=self.vocab_size)
            return self._stock

    def _report(self, request_type: StructuredOutputOptions, grammar_spec: str, error: Exception) -> None:
        name = hashlib.blake2b(
            f"{request_type}\n{grammar_spec}".encode("utf-8", "surrogatepass"), digest_size=16
        ).digest()
        with self._lock:
            if name in self._reported or len(self._reported) >= REPORTED_MAX:
                return
            self._reported.add(name)
        _log.warning(
            "a grammar (%s, %s) goes to vLLM's own backend: %s: %s",
            request_type,
            name.hex(),
            type(error).__name__,
            error,
        )


def rebind() -> bool:
    """Puts :class:`ShmcacheBackend` where vLLM looks for its XGrammar backend; False where it was left as it is.

    Idempotent. Another release of vLLM, or a class that is no longer vLLM's own, is left alone and logged.
    """
    places = (stock_module, manager_module)
    if all(place.XgrammarBackend is ShmcacheBackend for place in places):
        return True
    release = tuple(int(part) for part in vllm.__version__.split(".")[:2] if part.isdigit())
    if release not in VERSIONS:
        known = ", ".join(".".join(map(str, version)) for version in VERSIONS)
        _log.warning("vLLM %s keeps its own XGrammar backend: shmcache knows that of %s", vllm.__version__, known)
        return False
    if any(place.XgrammarBackend is not StockBackend for place in places):
        _log.warning("vLLM keeps its XGrammar backend, as something else has taken its place already")
        return False
    for place in places:
        place.XgrammarBackend = ShmcacheBackend
    return True
