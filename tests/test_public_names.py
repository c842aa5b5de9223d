"""The public names: all there, loaded only when used, and the private compilers behind them."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import shmcache
from shmcache import private
from shmcache.client import GrammarCache
from shmcache.grammar.key import Source

COMPILERS = [
    "compile_json_schema",
    "compile_grammar",
    "compile_regex",
    "compile_structural_tag",
    "compile_builtin_json_grammar",
]


@pytest.mark.parametrize("name", shmcache.__all__)
def test_every_public_name_is_there_and_stays(name: str) -> None:
    assert getattr(shmcache, name) is getattr(shmcache, name)
    assert name in dir(shmcache)


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = shmcache.no_such_name


@pytest.mark.parametrize("name", COMPILERS)
def test_private_and_cached_compilers_take_the_same_options(name: str) -> None:
    cached = list(inspect.signature(getattr(GrammarCache, name)).parameters.values())[1:]
    alone = [p for p in inspect.signature(getattr(private, name)).parameters.values() if p.name != "vocab"]
    assert [(p.name, p.default, p.kind) for p in cached] == [(p.name, p.default, p.kind) for p in alone]


def test_json_schema_options_are_those_of_the_source() -> None:
    options = inspect.signature(Source.json_schema).parameters
    ours = inspect.signature(GrammarCache.compile_json_schema).parameters
    assert set(ours) - {"self", "timeout"} == set(options)
    assert all(ours[name].default == parameter.default for name, parameter in options.items())


def test_a_private_compile() -> None:
    vocabulary = shmcache.Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2])
    grammar = shmcache.compile_regex("ab", vocabulary)
    assert grammar.generation == 0
    assert grammar.key == Source.regex("ab").key(vocabulary.fingerprint)
    assert grammar.memory_size_bytes > 0
    with pytest.raises(shmcache.SourceError):
        shmcache.compile_grammar("root ::= ", vocabulary)
    with pytest.raises(shmcache.LimitError):
        shmcache.compile_regex("[ab]*a[ab]{18}", vocabulary, timeout=0.01)
    with pytest.raises(shmcache.UnsupportedError):
        shmcache.compile_structural_tag(
            {"format": {"type": "json_schema", "json_schema": True, "style": "cohere_xml"}}, vocabulary
        )


@pytest.mark.parametrize(
    ("statement", "unloaded"),
    [
        ("import shmcache", ["numpy", "numba", "msgpack", "shmcache.client", "shmcache.compiler", "shmcache.memory"]),
        ("import shmcache; shmcache.connect", ["numba", "shmcache.compiler", "shmcache.rows.kernels"]),
    ],
)
def test_importing_is_light(statement: str, unloaded: list[str]) -> None:
    report = f"import sys; print([name for name in {unloaded!r} if name in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{report}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == "[]\n"
