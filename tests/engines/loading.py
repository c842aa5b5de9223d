"""The engines' real modules in a process without an accelerator, and a tokenizer for them.

SGLang's and vLLM's own code is never replaced here, only what it imports and this machine cannot have: STAND_INS, whose
every attribute is an empty class. PyTorch is the real one, for the CPU.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from shmcache.errors import ManagerUnavailable
from tests.engines import wheels

STAND_INS = frozenset({"compressed_tensors", "gguf", "torchvision"})
"""Packages that SGLang imports for its models, of which the release that fits PyTorch for the CPU is not to be had."""

NEEDED = ("torch", "transformers", "xgrammar", "orjson", "cbor2")
"""Some of what the test group ``engines-test`` brings; without them there is no use in trying."""

SPECIAL = ("<s>", "</s>", "<|tool|>", "<|end_tool|>", "<think>", "</think>")
MERGED = ("null", "true", "{}", '"a"', " b", "ab")
WIDTH = 300
"""More than there are tokens, as models have it."""


class _EmptyType(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _EmptyType(name, (), {})


class _StandIn(types.ModuleType):
    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _EmptyType(name, (), {})


class _StandIns(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        is_ours = fullname.partition(".")[0] in STAND_INS
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = _StandIn(spec.name)
        module.__version__ = "1.0"  # asked for by transformers
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def quietly() -> Iterator[None]:
    """What the engines warn of is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load(engine: str, *modules: str) -> list[Any]:
    """The engine's modules; skips the tests where the wheel or what it needs is not there."""
    if not wheels.is_there(engine):
        pytest.skip(f"{engine} is not unpacked: python -m tests.engines.wheels", allow_module_level=True)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing} are not there: pip install -e '.[engines-test]'", allow_module_level=True)
    place = str(wheels.home(engine))
    if place not in sys.path:
        sys.path.append(place)
    if not any(isinstance(finder, _StandIns) for finder in sys.meta_path):
        sys.meta_path.append(_StandIns())  # behind all others: what is there is used
    with quietly():
        return [importlib.import_module(name) for name in modules]


def no_manager(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    """Moves to a namespace where no manager is and none can be started."""

    def fail(*_: Any, **__: Any) -> None:
        raise ManagerUnavailable("it cannot be started")

    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    monkeypatch.setattr("shmcache.client.manager_access.start_manager", fail)


def tokenizer() -> Any:
    """A byte-level tokenizer of transformers with a few longer tokens and some that are special."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {character: index for index, character in enumerate(alphabet)}
    merges: list[tuple[str, str]] = []
    for text in MERGED:
        spelt = text.replace(" ", "Ġ")
        for end in range(2, len(spelt) + 1):
            if spelt[:end] not in ids:
                merges.append((spelt[: end - 1], spelt[end - 1]))
                ids[spelt[:end]] = len(ids)
    model = Tokenizer(models.BPE(ids, merges))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    model.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return PreTrainedTokenizerFast(tokenizer_object=model, bos_token="<s>", eos_token="</s>")


def ids_of(tokens: Any, text: str) -> list[int]:
    """The ids of a text, which may name special tokens."""
    ids: list[int] = tokens.encode(text, add_special_tokens=False)
    return ids


def allowed(row: Any) -> set[int]:
    """The ids whose bits are set in one row of a mask, a tensor."""
    words = [int(word) & 0xFFFFFFFF for word in row]
    return {32 * index + bit for index, word in enumerate(words) for bit in range(32) if word >> bit & 1}
