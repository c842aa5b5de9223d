"""What the adapters of all tokenizer libraries share: importing a library late, and which tokens end a generation.

Owns the message for a missing library and the names by which stop tokens are known. Must never know one library's
types: those stay in the file named after it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_STOP_TOKEN_NAMES = frozenset(
    {
        "</s>",
        "<eos>",
        "<|eos|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|return|>",
        "<|call|>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
    }
)
"""Texts of special tokens that end a turn or a text in published models."""


def import_library(module: str, *, extra: str) -> Any:
    """The module, imported now; ``ImportError`` naming our ``extra`` when the library is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A library that is there but lacks something of its own must say so itself.
        if error.name != module.partition(".")[0]:
            raise
        raise ImportError(
            f"this vocabulary needs {module!r}, which is not installed: pip install 'shmcache[{extra}]'", name=module
        ) from error


def known_stop_token_ids(special_tokens: Mapping[str, int]) -> list[int]:
    """Ids of those special tokens (text to id) whose text is known to end a generation."""
    return [token_id for text, token_id in special_tokens.items() if text in _STOP_TOKEN_NAMES]
