"""What the engines find by entry point: one function each, which puts our backend where the engine looks for one.

Owns when a plug-in takes effect. Must never import an engine, or anything of ours that is heavy, before it does: both
engines run every plug-in that is installed, in every process, whether anybody wants it or not.
"""

from __future__ import annotations

import logging
import os
from typing import Any

SGLANG_NAME = "shmcache"
"""What ``--grammar-backend`` calls it."""

VLLM_VARIABLE = "SHMCACHE_VLLM"
"""``1`` makes vLLM use the cache; without it nothing of vLLM is touched."""

_log = logging.getLogger("shmcache")


def register_sglang() -> None:
    """Makes ``--grammar-backend shmcache`` a choice of SGLang; it takes effect when chosen. Idempotent."""
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend

    register_grammar_backend(SGLANG_NAME, _create_sglang_backend)
    if SGLANG_NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([SGLANG_NAME])


def _create_sglang_backend(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> Any:
    from shmcache_workers.sglang_backend import create_backend

    return create_backend(server_args, tokenizer, vocab_size, eos_token_ids)


def register_vllm() -> None:
    """Puts our backend in the place of vLLM's XGrammar backend where ``SHMCACHE_VLLM=1``. Idempotent; never raises.

    vLLM does not catch what a plug-in raises, so that a failure here would end the engine.
    """
    if os.environ.get(VLLM_VARIABLE) != "1":
        return
    try:
        from shmcache_workers.vllm_backend import rebind

        rebind()
    except Exception:
        _log.warning("vLLM keeps its own XGrammar backend, as ours could not be put in its place", exc_info=True)
