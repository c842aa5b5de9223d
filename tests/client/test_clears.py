"""What a clear ends in a client, be it its own or another's, with a manager and without."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from shmcache import private
from shmcache.client import GrammarCache
from shmcache.grammar.key import Source
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.client.support import GUARD_SECONDS, FakeManager

Client = Callable[[], GrammarCache]


@pytest.mark.parametrize("ending", ["clear of another", "clear", "close"])
def test_what_is_of_no_use_is_not_kept_mapped(manager: FakeManager, client: Client, ending: str) -> None:
    """Retired memory is freed when nobody maps it, so a client must not, for a reuse that never comes."""
    maker, cache = client(), client()
    for each in (maker, cache):  # one is handed the segment, the other finds it
        each.compile_regex("ab+")
    name = manager.cache.namespace.data_name(manager.cache.control.instance, manager.cache.control.serial_last)

    def is_mapped() -> bool:
        gc.collect()
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return any(line.removesuffix(" (deleted)\n").rstrip().endswith(name) for line in maps)

    assert is_mapped()
    if ending == "clear of another":
        manager.clear()
        for each in (maker, cache):
            each.compile_regex("another")
    else:
        for each in (maker, cache):
            each.clear_cache() if ending == "clear" else each.close()
    assert not is_mapped()


def test_without_a_manager_a_clear_fences_what_is_being_compiled_here(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_source = private.compile_source
    is_begun, gate = threading.Event(), threading.Event()
    compiled: list[Source] = []

    def gated(source: Source, vocab: Vocabulary, *, timeout: float | None = None) -> CompiledGrammar:
        compiled.append(source)
        if len(compiled) == 1:
            is_begun.set()
            assert gate.wait(GUARD_SECONDS)
        return compile_source(source, vocab, timeout=timeout)

    monkeypatch.setattr(private, "compile_source", gated)
    cache = client()
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(cache.compile_regex, "ab+")
        try:
            assert is_begun.wait(GUARD_SECONDS)
            cache.clear_cache()
        finally:
            gate.set()
        first = before.result(GUARD_SECONDS)
    second = cache.compile_regex("ab+")
    assert second is not first
    assert compiled == [Source.regex("ab+")] * 2
    assert cache.compile_regex("ab+") is second
