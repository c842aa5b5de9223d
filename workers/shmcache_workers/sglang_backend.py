"""SGLang's grammar backend on top of the host's cache, chosen by ``--grammar-backend shmcache``.

Owns what SGLang's names mean in ours: its backend, its grammar objects and its masks. Must never know what lies below
the client and the matcher. Importing it imports SGLang.

Written for SGLang 0.5.23. Every tensor-parallel rank has a backend; the first one to ask has a grammar compiled.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarRow,
    GrammarStats,
    InvalidGrammarObject,
    create_grammar_backend,
)
from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch
from sglang.srt.constrained.utils import is_legacy_structural_tag
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_context, get_serving
from sglang.srt.utils.common import is_pin_memory_available

from shmcache.errors import ShmCacheError
from shmcache.matcher.bitmask import word_count
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache_workers.engine_caches import EngineCaches, vocabulary_of
from shmcache_workers.engine_matcher import EngineMatcher, rows_of

ANY_JSON = "$$ANY$$"
"""What SGLang sends in place of a schema for any JSON value."""

STOCK_NAME = "xgrammar"
"""The backend SGLang uses by itself, and in our place where we cannot serve."""

_log = logging.getLogger("shmcache")


class ShmcacheGrammar(BaseGrammarObject):  # type: ignore[misc]  # SGLang is not there when types are checked
    """One request's way through a grammar.

    ``content`` is the format of a structural tag that says the same as the grammar.
    """

    def __init__(self, grammar: CompiledGrammar, content: dict[str, Any], stats: GrammarStats) -> None:
        super().__init__()
        self.matcher = EngineMatcher(grammar)
        self.content = content
        self.grammar_stats = stats

    def accept_token(self, token: int) -> None:
        """Moves on by a token; nothing after termination. Raises ValueError for one that is not allowed."""
        matcher = self.matcher
        if matcher.is_terminated():
            return
        self.current_token = token
        if not matcher.accept(token):
            reason = f": {matcher.failure}" if matcher.failure else ""
            raise ValueError(f"token {token} is not allowed by the grammar {matcher.grammar.key.hex()[:12]}{reason}")

    def rollback(self, k: int) -> None:
        """Takes back the last ``k`` tokens, termination included."""
        self.matcher.rollback(k)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self.matcher.is_terminated()

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """int32 (batch_size, words) in main memory, everything allowed."""
        return _allocate(vocab_size, batch_size)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Writes row ``idx``."""
        self.matcher.write(rows_of(vocab_mask)[idx])

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Writes the rows of several grammars and leaves the others as they are."""
        rows = rows_of(vocab_mask)
        for entry in entries:
            if isinstance(entry.grammar, ShmcacheGrammar):
                entry.grammar.matcher.write(rows[entry.row])
            else:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Everything allowed again."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """The mask on the device, without waiting for it."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Sets the logits of tokens that are not allowed to minus infinity, in place."""
        _apply(logits, vocab_mask)

    def copy(self) -> ShmcacheGrammar:
        """The same grammar from its beginning, for another request."""
        stats = dataclasses.replace(self.grammar_stats, is_cache_hit=True, tree_traversal_time=[])
        return ShmcacheGrammar(self.matcher.grammar, self.content, stats)

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """The text that must come next, in the shape that :meth:`jump_forward_str_state` takes; None without one."""
        text = self.matcher.forced_text()
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """The text of a jump; there is no state to go with it, as tokens are accepted again."""
        return helper[1], -1

    def jump_and_retokenize(self, old_output_ids: list[int], new_output_ids: list[int], next_state: int) -> None:
        """Goes back to where old and new tokens part, and on by the new ones."""
        common = 0
        for old, new in zip(old_output_ids, new_output_ids, strict=False):
            if old != new:
                break
            common += 1
        self.rollback(len(old_output_ids) - common)
        for token in new_output_ids[common:]:
            self.accept_token(token)

    def __repr__(self) -> str:
        return f"<ShmcacheGrammar {self.matcher.grammar.key.hex()[:12]}, last token {self.current_token}>"


class ShmcacheGrammarBackend(BaseGrammarBackend):  # type: ignore[misc]
    """Compiles grammars through the host's cache. SGLang calls ``dispatch_...`` from a pool of threads."""

    def __init__(
        self, caches: EngineCaches, *, any_whitespace: bool = True, max_whitespace_cnt: int | None = None
    ) -> None:
        super().__init__()
        self.caches = caches
        self._whitespace: dict[str, Any] = {"any_whitespace": any_whitespace, "max_whitespace_cnt": max_whitespace_cnt}
        self._framing: tuple[int, ...] = ()

    allocate_vocab_mask = staticmethod(lambda vocab_size, batch_size, device: _allocate(vocab_size, batch_size))
    move_vocab_mask = staticmethod(ShmcacheGrammar.move_vocab_mask)
    apply_vocab_mask = staticmethod(ShmcacheGrammar.apply_vocab_mask)

    @property
    def is_support_token_filter(self) -> bool:
        """Tokens can be set and cleared in a mask."""
        return True

    def set_token_filter(
        self,
        vocab_mask: torch.Tensor,
        token_ids: list[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        """Allows (or forbids) tokens in a row, which ``reset_vocab_mask`` empties (or fills) before."""
        set_token_filter_torch(vocab_mask, token_ids, batch_idx, is_allowed, reset_vocab_mask)

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """A JSON Schema, or any JSON value."""
        if key_string == ANY_JSON:
            content = {"type": "json_schema", "json_schema": True}
            return self._compiled("json", content, lambda: self.caches.plain().compile_builtin_json_grammar())
        return self._compiled(
            "json",
            {"type": "json_schema", "json_schema": key_string},
            lambda: self.caches.plain().compile_json_schema(key_string, **self._whitespace),
        )

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """A regular expression."""
        content = {"type": "regex", "pattern": key_string}
        return self._compiled("regex", content, lambda: self.caches.plain().compile_regex(key_string))

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """An EBNF grammar; one that names special tokens by their texts (a whole turn, say) spells them."""
        caches = self.caches
        cache = caches.spelling_special if caches.mentions_special(key_string) else caches.plain
        content = {"type": "grammar", "grammar": key_string}
        return self._compiled("ebnf", content, lambda: cache().compile_grammar(key_string))

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """A structural tag of either form; what begins and ends a tag may be the text of a special token."""

        def compile_tag() -> CompiledGrammar:
            return self.caches.spelling_special().compile_structural_tag(completed_tag(key_string))

        return self._compiled("structural_tag", {}, compile_tag)

    def reserve_framing_tokens(self, token_ids: Sequence[int]) -> None:
        """In framed grammars these tokens are only ever taken whole."""
        self._framing = tuple(token_ids)

    def compile_framed_grammar(
        self, grammar: BaseGrammarObject, frame: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> BaseGrammarObject | None:
        """The grammar with what ``frame`` puts around it; None for one that cannot stand in a structural tag."""
        if not isinstance(grammar, ShmcacheGrammar) or not grammar.content:
            return None
        content = dict(grammar.content)

        def compile_framed() -> CompiledGrammar:
            if content["type"] == "json_schema":
                if not self._whitespace["any_whitespace"]:
                    raise ValueError("a framed JSON Schema cannot be without whitespace")
                if isinstance(content["json_schema"], str):
                    content["json_schema"] = json.loads(content["json_schema"])
                content["max_whitespace_cnt"] = self._whitespace["max_whitespace_cnt"]
            cache = self.caches.spelling_special(self._framing)
            return cache.compile_structural_tag(json.dumps(frame(content)))

        return self._compiled("structural_tag", {}, compile_framed)

    def reset(self) -> None:
        """Forgets every grammar, here and on the host: what SGLang calls a flush of its cache."""
        super().reset()
        self.caches.clear()

    def _compiled(
        self, kind: str, content: dict[str, Any], compile_source: Callable[[], CompiledGrammar]
    ) -> BaseGrammarObject:
        try:
            grammar = compile_source()
        except (ShmCacheError, ValueError, AssertionError, RecursionError) as error:
            _log.error("a %s grammar is refused: %s", kind, error)
            return InvalidGrammarObject(str(error))
        return ShmcacheGrammar(grammar, content, GrammarStats(dispatch_type=kind))


def create_backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Collection[int] | int | None
) -> BaseGrammarBackend | None:
    """What SGLang calls for the chosen backend: ours, behind its reasoning backend where it has a reasoning parser.

    Where there is no manager, and none can be started, or the tokenizer is not understood, SGLang gets the backend that
    it uses by itself.
    """
    think_end_ids, parser = _reasoning(tokenizer)
    stop = [eos_token_ids] if isinstance(eos_token_ids, int) else eos_token_ids or None
    try:
        caches = EngineCaches(vocabulary_of(tokenizer, width=vocab_size, stop_token_ids=stop))
    except (ShmCacheError, TypeError, ValueError, ImportError) as error:
        return _stock(
            f"its tokenizer is not understood: {error}", server_args, tokenizer, vocab_size, stop, think_end_ids
        )
    if not caches.has_manager():
        caches.close()
        return _stock("no manager answers", server_args, tokenizer, vocab_size, stop, think_end_ids)
    backend: BaseGrammarBackend = ShmcacheGrammarBackend(
        caches,
        any_whitespace=not get_serving().constrained_json_disable_any_whitespace,
        max_whitespace_cnt=get_serving().constrained_json_max_whitespace_cnt,
    )
    if parser is None or not think_end_ids:
        return backend
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend

    strict = get_serving().enable_strict_thinking
    return ReasonerGrammarBackend(backend, parser, tokenizer, enable_strict_thinking=strict)


def _reasoning(tokenizer: Any) -> tuple[list[int] | None, Any]:
    """The tokens that end a thought and the reasoning parser, where there is one."""
    name = get_serving().reasoning_parser
    if not name:
        return None, None
    parser = ReasoningParser(model_type=name, stream_reasoning=False, tokenizer=tokenizer)
    return parser.detector.get_think_end_token_ids(tokenizer), parser


def _stock(
    reason: str, server_args: Any, tokenizer: Any, vocab_size: int, stop: Any, think_end_ids: list[int] | None
) -> BaseGrammarBackend | None:
    _log.warning("SGLang uses its own backend %r instead of shmcache: %s", STOCK_NAME, reason)
    get_context().override("grammar.shmcache_fallback", grammar_backend=STOCK_NAME)
    stop_set = None if stop is None else set(stop)
    return create_grammar_backend(server_args, tokenizer, vocab_size, stop_set, think_end_ids=think_end_ids)


def completed_tag(text: str) -> Any:
    """A structural tag as SGLang means it: a schema that is missing or null allows any JSON value.

    The text itself where nothing is missing. Raises ValueError for what is no structural tag.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        return text  # our reader goes deeper, and says what is wrong
    if not isinstance(document, dict):
        raise ValueError("a structural tag is a JSON object")
    if is_legacy_structural_tag(document):
        return _triggered_tags(document)
    is_changed = False
    rest: list[Any] = [document["format"]]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            if value.get("type") in ("json_schema", "qwen_xml_parameter") and value.get("json_schema") is None:
                value["json_schema"] = {}
                is_changed = True
            rest.extend(part for name, part in value.items() if name != "json_schema")
    return document if is_changed else text


def _triggered_tags(document: dict[str, Any]) -> dict[str, Any]:
    """The format that the older form means, which alone can say that at least one tag must come."""
    tags = [
        {
            "type": "tag",
            "begin": one["begin"],
            "content": {"type": "json_schema", "json_schema": {} if one.get("schema") is None else one["schema"]},
            "end": one["end"],
        }
        for one in document["structures"]
    ]
    format_ = {"type": "triggered_tags", "triggers": document["triggers"], "tags": tags}
    format_["at_least_one"] = bool(document.get("at_least_one", False))
    return {"type": "structural_tag", "format": format_}


def _allocate(vocab_size: int, batch_size: int) -> torch.Tensor:
    # Pinned where that is possible, so that the copy to the device is not waited for.
    shape = (batch_size, word_count(vocab_size))
    return torch.full(shape, -1, dtype=torch.int32, pin_memory=is_pin_memory_available())


def _apply(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
    if logits.device.type != "cpu":
        # SGLang's own kernels, of which its XGrammar backend knows which belongs to which device.
        from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

        XGrammarGrammarBackend.apply_vocab_mask(logits, vocab_mask)
        return
    bits = torch.arange(32, dtype=torch.int32)
    allowed = (vocab_mask.unsqueeze(-1) >> bits & 1).bool().flatten(1)
    width = min(allowed.shape[1], logits.shape[-1])
    logits[..., :width].masked_fill_(~allowed[:, :width], float("-inf"))
