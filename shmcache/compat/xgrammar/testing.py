"""Masks taken apart and put together, under the names of XGrammar.

Owns the public functions of XGrammar's module of this name, and those of its helpers that need nothing of its insides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shmcache.compat.bitmask import expand, expand_tensor, is_tensor
from shmcache.compat.xgrammar.compiler import GrammarCompiler
from shmcache.compat.xgrammar.exception import MisuseError
from shmcache.compat.xgrammar.grammar import Grammar
from shmcache.compat.xgrammar.matcher import GrammarMatcher
from shmcache.compat.xgrammar.tokenizer_info import TokenizerInfo
from shmcache.matcher.bitmask import BITS_PER_WORD


def bitmask_to_bool_mask(bit_mask: Any, vocab_size: int | None = None) -> Any:
    """One flag a token for each bit."""
    width = bit_mask.shape[-1] * BITS_PER_WORD if vocab_size is None else vocab_size
    return expand_tensor(bit_mask, width) if is_tensor(bit_mask) else expand(bit_mask, width)


def bool_mask_to_bitmask(bool_mask: Any) -> Any:
    """One bit for each flag; surplus bits are 0."""
    flags = bool_mask.cpu().numpy() if is_tensor(bool_mask) else np.asarray(bool_mask)
    padding = [(0, 0)] * (flags.ndim - 1) + [(0, -flags.shape[-1] % BITS_PER_WORD)]
    words = np.packbits(np.pad(flags.astype(bool), padding), axis=-1, bitorder="little").view(np.int32)
    if not is_tensor(bool_mask):
        return words
    import torch

    return torch.from_numpy(words).to(bool_mask.device)


def _get_masked_tokens_from_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> list[int]:
    """The ids that a row forbids."""
    if bitmask.ndim != 2 or not 0 <= index < bitmask.shape[0]:
        raise MisuseError(f"there is no row {index} in a bitmask of shape {tuple(bitmask.shape)}")
    allowed = bitmask_to_bool_mask(bitmask[index], vocab_size)
    return [token for token in range(vocab_size) if not allowed[token]]


def _is_single_token_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """Whether a row allows one token only, and which; -1 otherwise."""
    forbidden = set(_get_masked_tokens_from_bitmask(bitmask, vocab_size, index))
    allowed = [token for token in range(vocab_size) if token not in forbidden]
    return (True, allowed[0]) if len(allowed) == 1 else (False, -1)


def _get_matcher_from_grammar(grammar: Grammar | str, **kwargs: Any) -> GrammarMatcher:
    """A matcher that takes strings only: its vocabulary has no tokens."""
    return _get_matcher_from_grammar_and_tokenizer_info(grammar, None, **kwargs)


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    info = TokenizerInfo([], stop_token_ids=[]) if tokenizer_info is None else tokenizer_info
    compiled = GrammarCompiler(info, cache_enabled=False).compile_grammar(grammar)
    return GrammarMatcher(compiled, **kwargs)


def _is_grammar_accept_string(
    grammar: Grammar | str,
    input_str: str | bytes,
    *,
    debug_print: bool = False,
    print_time: bool = False,
    require_termination: bool = True,
) -> bool:
    """Whether a text is a text of the grammar, or its beginning."""
    matcher = _get_matcher_from_grammar(grammar, terminate_without_stop_token=False)
    return matcher.accept_string(input_str) and (matcher.is_completed() or not require_termination)
