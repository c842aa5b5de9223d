"""The classes and functions of XGrammar's Python interface on top of ours: a user switches by one import.

    from shmcache.compat import xgrammar

Owns the names, those of XGrammar 0.2.9; they are loaded when first used. What is not offered raises an
:class:`UnsupportedError` that names it when it is called. ``docs/xgrammar.md`` says what differs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from shmcache.compat.xgrammar import config, exception, structural_tag, testing
    from shmcache.compat.xgrammar.compiler import CompiledGrammar, GrammarCompiler
    from shmcache.compat.xgrammar.config import (
        get_max_recursion_depth,
        get_serialization_version,
        max_recursion_depth,
        set_max_recursion_depth,
    )
    from shmcache.compat.xgrammar.exception import (
        DeserializeFormatError,
        DeserializeVersionError,
        InvalidJSONError,
        InvalidStructuralTagError,
    )
    from shmcache.compat.xgrammar.grammar import Grammar
    from shmcache.compat.xgrammar.matcher import (
        BatchGrammarMatcher,
        GrammarMatcher,
        allocate_token_bitmask,
        apply_token_bitmask_inplace,
        get_bitmask_shape,
        reset_token_bitmask,
    )
    from shmcache.compat.xgrammar.structural_tag import StructuralTag, StructuralTagItem
    from shmcache.compat.xgrammar.tokenizer_info import TokenizerInfo, VocabType

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "StructuralTag",
    "StructuralTagItem",
    "TokenizerInfo",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "config",
    "exception",
    "get_bitmask_shape",
    "get_max_recursion_depth",
    "get_serialization_version",
    "max_recursion_depth",
    "reset_token_bitmask",
    "set_max_recursion_depth",
    "structural_tag",
    "testing",
]

_HOMES = {
    "compiler": ("CompiledGrammar", "GrammarCompiler"),
    "config": (
        "get_max_recursion_depth",
        "get_serialization_version",
        "max_recursion_depth",
        "set_max_recursion_depth",
    ),
    "exception": ("DeserializeFormatError", "DeserializeVersionError", "InvalidJSONError", "InvalidStructuralTagError"),
    "grammar": ("Grammar",),
    "matcher": (
        "BatchGrammarMatcher",
        "GrammarMatcher",
        "allocate_token_bitmask",
        "apply_token_bitmask_inplace",
        "get_bitmask_shape",
        "reset_token_bitmask",
    ),
    "structural_tag": ("StructuralTag", "StructuralTagItem"),
    "tokenizer_info": ("TokenizerInfo", "VocabType"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("config", "exception", "structural_tag", "testing")

NOT_OFFERED = {
    "get_builtin_structural_tag": "build the tag of your model with the classes of structural_tag",
    "get_model_structural_tag": "build the tag of your model with the classes of structural_tag",
    "normalize_tool_choice": "build the tag of your model with the classes of structural_tag",
    "register_model_structural_tag": "build the tag of your model with the classes of structural_tag",
}
"""Functions of XGrammar that raise when they are called, and what to do instead."""


def __getattr__(name: str) -> Any:
    value: Any
    if name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    elif name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in NOT_OFFERED:
        value = _refusing(name)
    elif name == "bitmask_dtype":
        value = import_module(f"{__name__}.matcher").allocate_token_bitmask(0, 0).dtype
    elif name in ("hf", "contrib"):
        from shmcache.compat.xgrammar.exception import not_offered

        raise not_offered(name, "use shmcache_workers.huggingface.LogitsProcessor")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _refusing(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        from shmcache.compat.xgrammar.exception import not_offered

        raise not_offered(name, NOT_OFFERED[name])

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *NOT_OFFERED, "bitmask_dtype"})
