"""The client against a manager whose replies a test chooses: look up, ask, fall back."""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shmcache.client import GrammarCache
from shmcache.client.attachment import Attachment
from shmcache.errors import LimitError, ManagerUnavailable, SourceError
from shmcache.grammar.key import Source
from shmcache.image.image import write_image
from shmcache.manager.client_messages import Cancel, Clear, Compile, Evict, Fetch, Hello, Refused
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.memory.control import create_control
from shmcache.memory.index import IndexWriter
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import unlink_object
from shmcache.memory.recency import create_recency
from tests.client.support import GUARD_SECONDS, VOCABULARY, FakeManager, Reply, fake_manager, image_of

Client = Callable[[], GrammarCache]

EBNF = 'root ::= "a" "b"+'


def _same(grammar: CompiledGrammar, source: Source) -> bool:
    """Whether the grammar is that of the source, by key and by image."""
    return grammar.key == source.key(VOCABULARY.fingerprint) and write_image(grammar.image) == image_of(source)


def test_a_miss_is_compiled_by_the_manager_and_then_a_local_hit(manager: FakeManager, client: Client) -> None:
    cache = client()
    grammar = cache.compile_regex("ab+")
    assert _same(grammar, Source.regex("ab+"))
    assert grammar.generation == 1
    assert manager.grammar_compiles() == 1
    assert all(cache.compile_regex("ab+") is grammar for _ in range(3))
    assert manager.grammar_compiles() == 1
    counts = manager.cache.recency.counts(1)
    assert (counts.hits, counts.local_hits, counts.misses) == (3, 3, 1)


def test_another_process_hits_without_asking(manager: FakeManager, client: Client) -> None:
    first = client().compile_grammar(EBNF)
    messages = len(manager.asked)
    second = client().compile_grammar(EBNF)
    assert [type(message) for message in manager.asked[messages:]] == [Hello]
    assert second is not first
    assert _same(second, Source.ebnf(EBNF))
    assert second.memory_size_bytes == manager.cache.control.totals().cache_bytes > 0
    counts = manager.cache.recency.counts(2)
    assert (counts.hits, counts.local_hits, counts.misses) == (1, 0, 0)


def test_a_hit_notes_its_use(manager: FakeManager, client: Client) -> None:
    client().compile_regex("ab+")
    entry = next(entry for entry in manager.cache.index.entries() if entry.tier == 0)
    cache = client()
    cache.compile_regex("ab+")
    first = manager.cache.recency.last_used_ns(entry.slot, 1 << 63)
    cache.compile_regex("ab+")
    assert 0 < first < manager.cache.recency.last_used_ns(entry.slot, 1 << 63)


def test_every_kind_of_source(manager: FakeManager, client: Client) -> None:
    cache = client()
    assert _same(cache.compile_regex("a"), Source.regex("a"))
    assert _same(cache.compile_grammar('top ::= "a"', "top"), Source.ebnf('top ::= "a"', "top"))
    tag = {"format": {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": ">"}}
    assert _same(cache.compile_structural_tag(tag), Source.structural_tag(tag))


def test_a_raw_name_of_one_kind_is_not_one_of_another(manager: FakeManager, client: Client) -> None:
    cache = client()
    regex, ebnf = cache.compile_regex(EBNF), cache.compile_grammar(EBNF)
    assert _same(regex, Source.regex(EBNF))
    assert _same(ebnf, Source.ebnf(EBNF))


def test_errors_of_the_source_arrive_typed(manager: FakeManager, client: Client) -> None:
    with pytest.raises(SourceError) as caught:
        client().compile_regex("(a")
    assert manager.grammar_compiles() == 1
    assert caught.value.column is not None


def test_a_clear_of_another_process_is_seen(manager: FakeManager, client: Client) -> None:
    cache = client()
    first = cache.compile_regex("ab+")
    manager.clear()
    second = cache.compile_regex("ab+")
    assert second is not first
    assert (first.generation, second.generation) == (1, 2)
    assert manager.grammar_compiles() == 2
    assert cache.compile_regex("ab+") is second


def test_clearing_empties_the_account_and_the_local_table(manager: FakeManager, client: Client) -> None:
    cache = client()
    first = cache.compile_regex("ab+")
    assert cache.get_cache_size_bytes() == first.memory_size_bytes
    cache.clear_cache()
    assert cache.get_cache_size_bytes() == 0
    assert cache.compile_regex("ab+") is not first
    assert cache.stats() == {"generation": 2}


def test_a_manager_that_dies_while_it_clears_is_asked_again(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, clear = client(), manager.clear
    cache.compile_regex("ab+")

    def die() -> int:
        monkeypatch.setattr(manager, "clear", clear)
        manager.drop_connections()
        return 2

    monkeypatch.setattr(manager, "clear", die)
    cache.clear_cache()
    assert cache.get_cache_size_bytes() == 0
    assert manager.count(Clear) == 2


def test_a_compile_across_a_clear_is_for_its_caller_only(manager: FakeManager, client: Client) -> None:
    def clear_meanwhile(fake: FakeManager, message: Compile, source: bytes) -> Reply:
        fake.on_compile = None
        generation = fake.cache.control.generation
        fake.clear()
        return fake.unindexed(message, source, generation)

    manager.on_compile = clear_meanwhile
    cache = client()
    old = cache.compile_regex("ab+")
    assert old.generation == 1
    new = cache.compile_regex("ab+")
    assert new.generation == 2
    assert manager.grammar_compiles() == 2
    assert cache.compile_regex("ab+") is new


def test_a_request_after_a_clear_does_not_wait_for_one_before_it(manager: FakeManager, client: Client) -> None:
    asked, gate = threading.Event(), threading.Event()

    def hold_first(fake: FakeManager, message: Compile, source: bytes) -> Reply:
        fake.on_compile = None
        asked.set()
        gate.wait(GUARD_SECONDS)
        return fake.unindexed(message, source, 1)

    manager.on_compile = hold_first
    cache = client()
    with ThreadPoolExecutor(1) as pool:
        try:
            before = pool.submit(cache.compile_regex, "ab+")
            assert asked.wait(GUARD_SECONDS)
            cache.clear_cache()
            after = cache.compile_regex("ab+")
            assert after.generation == 2
            assert not before.done()
        finally:
            gate.set()
        assert before.result(GUARD_SECONDS).generation == 1
    assert cache.compile_regex("ab+") is after


def test_an_image_that_is_in_no_index_is_kept_here(manager: FakeManager, client: Client) -> None:
    manager.on_compile = lambda fake, message, source: fake.unindexed(message, source, fake.cache.control.generation)
    cache = client()
    grammar = cache.compile_regex("ab+")
    assert _same(grammar, Source.regex("ab+"))
    assert cache.compile_regex("ab+") is grammar
    assert client().compile_regex("ab+") is not grammar
    assert manager.grammar_compiles() == 2


def test_threads_of_one_process_ask_once(manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = 8
    all_wait = threading.Event()
    waiting: list[int] = []
    real = Attachment.note_coalesced

    def note(attachment: Attachment) -> None:
        real(attachment)
        waiting.append(1)
        if len(waiting) == threads - 1:
            all_wait.set()

    def hold(fake: FakeManager, message: Compile, source: bytes) -> Reply:
        all_wait.wait(GUARD_SECONDS)
        return fake.compile(message, source)

    monkeypatch.setattr(Attachment, "note_coalesced", note)
    manager.on_compile = hold
    cache = client()
    with ThreadPoolExecutor(threads) as pool:
        grammars = list(pool.map(lambda _: cache.compile_regex("ab+"), range(threads)))
    assert len(set(map(id, grammars))) == 1
    assert manager.grammar_compiles() == 1
    counts = manager.cache.recency.counts(1)
    assert (counts.misses, counts.coalesced) == (1, threads - 1)


def test_different_sources_are_asked_for_at_the_same_time(manager: FakeManager, client: Client) -> None:
    barrier = threading.Barrier(4)

    def meet(fake: FakeManager, message: Compile, source: bytes) -> Reply:
        barrier.wait(GUARD_SECONDS)
        with fake.lock:
            return fake.compile(message, source)

    manager.on_compile = meet
    cache = client()
    with ThreadPoolExecutor(4) as pool:
        grammars = list(pool.map(cache.compile_regex, ["a", "b", "c", "d"]))
    assert len({grammar.key for grammar in grammars}) == 4


def test_a_large_source_travels_as_a_descriptor(manager: FakeManager, client: Client) -> None:
    text = EBNF + "\n# " + "x" * 200_000
    grammar = client().compile_grammar(text)
    assert _same(grammar, Source.ebnf(text))
    compiles = [message for message in manager.asked if isinstance(message, Compile) and message.kind == "grammar"]
    assert compiles[0].source == b""
    assert manager.sources[-1] == Source.ebnf(text).to_bytes()


def test_the_timeout_is_the_compiles_limit(manager: FakeManager, client: Client) -> None:
    client().compile_regex("ab+", timeout=7.5)
    client().compile_regex("ab+c")
    limits = [m.seconds_max for m in manager.asked if isinstance(m, Compile) and m.kind == "grammar"]
    assert limits == [7.5, 0.0]


def test_the_vocabulary_is_sent_once_for_the_host(manager: FakeManager, client: Client) -> None:
    client().compile_regex("a")
    client().compile_regex("b")
    sent = [message for message in manager.asked if isinstance(message, Compile) and message.kind == "vocabulary"]
    assert [message.key for message in sent] == [VOCABULARY.fingerprint]
    assert VOCABULARY.to_bytes() in manager.sources
    assert all(m.vocabulary_key == VOCABULARY.fingerprint for m in manager.asked if isinstance(m, Hello))


def test_a_manager_that_lost_the_vocabulary_gets_it_again(manager: FakeManager, client: Client) -> None:
    def missing_once(fake: FakeManager, message: Compile, source: bytes) -> Reply:
        fake.on_compile = None
        return Refused(message.request, "VOCABULARY_MISSING", "no such vocabulary"), []

    manager.on_compile = missing_once
    assert client().compile_regex("ab+").generation == 1
    kinds = [message.kind for message in manager.asked if isinstance(message, Compile)]
    assert kinds == ["vocabulary", "grammar", "vocabulary", "grammar"]


def test_without_a_manager_grammars_are_compiled_here_and_said_so_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "shmcache"):
        cache = client()
        grammar = cache.compile_regex("ab+")
        cache.compile_regex("ab+c")
    assert _same(grammar, Source.regex("ab+"))
    assert grammar.generation == 0
    assert cache.compile_regex("ab+") is grammar
    assert caplog.text.count("compiled in this process") == 1
    assert cache.get_cache_size_bytes() == 0
    stats = cache.stats()
    assert stats["generation"] == 0
    assert stats["charged_bytes"]["total"] == 0
    cache.clear_cache()
    assert cache.compile_regex("ab+") is not grammar


def test_without_a_manager_errors_are_the_same(client: Client) -> None:
    with pytest.raises(SourceError):
        client().compile_regex("(a")
    with pytest.raises(LimitError) as caught:
        client().compile_regex("[ab]*a[ab]{18}", timeout=0.05)
    assert caught.value.limit in ("seconds", "states", "edges")


def test_with_a_cache_and_no_manager_hits_still_hit(namespace: Namespace, client: Client) -> None:
    with fake_manager(namespace) as manager:
        client().compile_regex("ab+")
        size = manager.cache.control.totals().cache_bytes
    cache = client()
    assert cache.compile_regex("ab+").generation == 1
    assert cache.compile_regex("other").generation == 0
    assert cache.get_cache_size_bytes() == size
    stats = cache.stats()
    assert stats["entries"] == {"grammar": 1, "rule": 0, "vocabulary": 1}
    assert stats["charged_bytes"]["grammar"] == size
    with pytest.raises(ManagerUnavailable):
        cache.clear_cache()


def test_a_manager_that_dies_while_it_compiles(manager: FakeManager, client: Client) -> None:
    def die(fake: FakeManager, message: Compile, source: bytes) -> None:
        fake.drop_connections()

    manager.on_compile = die
    grammar = client().compile_regex("ab+")
    assert grammar.generation == 0
    assert _same(grammar, Source.regex("ab+"))
    assert manager.grammar_compiles() == 2


def test_the_next_manager_is_asked_when_the_first_dies(manager: FakeManager, client: Client) -> None:
    def die_once(fake: FakeManager, message: Compile, source: bytes) -> None:
        fake.on_compile = None
        fake.drop_connections()

    manager.on_compile = die_once
    assert client().compile_regex("ab+").generation == 1
    assert manager.count(Hello) == 2


def test_a_dead_connection_between_requests_is_made_anew(manager: FakeManager, client: Client) -> None:
    cache = client()
    cache.compile_regex("a")
    manager.drop_connections()
    assert cache.compile_regex("b").generation == 1
    assert manager.count(Hello) == 2


def test_no_answer_in_time_is_a_limit_and_a_cancel(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shmcache.client.host.GRACE_SECONDS", 0.0)
    manager.on_compile = lambda fake, message, source: None
    with pytest.raises(LimitError) as caught:
        client().compile_regex("ab+", timeout=0.05)
    assert (caught.value.limit, caught.value.value) == ("seconds", 0.05)
    compile_message = next(m for m in manager.asked if isinstance(m, Compile) and m.kind == "grammar")
    _wait_until(lambda: manager.count(Cancel) == 1)
    assert [m.target for m in manager.asked if isinstance(m, Cancel)] == [compile_message.request]


def test_a_manager_that_does_not_answer_is_not_waited_for_for_ever(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = client()
    cache.compile_regex("a")
    monkeypatch.setenv("SHMCACHE_REQUEST_SECONDS", "0.05")
    manager.on_compile = lambda fake, message, source: None
    assert cache.compile_regex("ab+").generation == 0


@pytest.mark.parametrize("code", ["MANAGER_STOPPING", "WORKERS_GONE", "SEGMENT", "SHMCACHE_ERROR"])
def test_refusals_that_are_not_the_sources_fault_are_no_errors(manager: FakeManager, client: Client, code: str) -> None:
    manager.on_compile = lambda fake, message, source: (Refused(message.request, code, "not now"), [])
    grammar = client().compile_regex("ab+")
    assert grammar.generation == 0
    assert _same(grammar, Source.regex("ab+"))


def test_an_image_of_another_key_is_refused(
    manager: FakeManager, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(fake: FakeManager, message: Compile, source: bytes) -> Reply:
        other = Source.regex("other")
        return fake.unindexed(replace(message, key=other.key(VOCABULARY.fingerprint)), other.to_bytes(), 1)

    manager.on_compile = wrong
    grammar = client().compile_regex("ab+")
    assert _same(grammar, Source.regex("ab+"))
    assert grammar.generation == 0


def test_a_damaged_entry_is_reported_and_compiled_again(
    manager: FakeManager, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client().compile_regex("ab+")
    entry = next(entry for entry in manager.cache.index.entries() if entry.tier == 0)
    path = object_path(manager.namespace.data_name(manager.cache.control.instance, entry.serial))
    with path.open("r+b") as file:
        file.seek(128 + 200)
        file.write(b"\xff" * 64)
    grammar = client().compile_regex("ab+")
    assert _same(grammar, Source.regex("ab+"))
    assert grammar.generation == 1
    assert manager.count(Evict) == 1
    assert "damaged" in caplog.text


def test_a_foreign_control_segment_is_refused_and_grammars_still_come(
    namespace: Namespace, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    create_control(namespace, home_count=64)
    path = object_path(namespace.control_name)
    with path.open("r+b") as file:
        file.write(b"somebody else's")
    assert client().compile_regex("ab+").generation == 0
    assert "not usable" in caplog.text
    assert path.read_bytes().startswith(b"somebody else's")


def test_shared_memory_of_another_container_is_used_by_descriptor(namespace: Namespace, client: Client) -> None:
    elsewhere = Namespace.of(namespace.name + "-elsewhere", directory=namespace.directory)
    try:
        with fake_manager(elsewhere, listening_at=namespace) as manager:
            first, cache = client(), client()
            grammar = first.compile_regex("ab+")
            assert grammar.generation == 1
            assert first.compile_regex("ab+") is grammar
            assert _same(cache.compile_regex("ab+"), Source.regex("ab+"))
            assert manager.grammar_compiles() == 1
            assert manager.count(Fetch) == 2
            manager.clear()
            assert first.compile_regex("ab+").generation == 2
            assert first.get_cache_size_bytes() > 0
    finally:
        for name in (elsewhere.control_name, elsewhere.recency_name):
            unlink_object(name)
        for path in object_path(elsewhere.control_name).parent.glob(elsewhere.prefix[1:] + "-*"):
            path.unlink()


def test_a_cache_that_is_given_up_is_left_for_its_successor(manager: FakeManager, client: Client) -> None:
    cache = client()
    first = cache.compile_regex("ab+")
    assert cache.compile_regex("ab+") is first
    manager.cache.control.dissolve()
    unlink_object(manager.namespace.control_name)
    control = create_control(manager.namespace, home_count=64, row_count=8)
    manager.cache.control, manager.cache.index = control, IndexWriter(control)
    manager.cache.recency = create_recency(manager.namespace, control)
    manager.drop_connections()
    second = cache.compile_regex("ab+")
    assert second is not first
    assert second.generation == 1
    assert cache.get_cache_size_bytes() == control.totals().cache_bytes > 0
    assert cache.compile_regex("ab+") is second


def test_a_child_has_a_connection_and_a_row_of_its_own(manager: FakeManager, client: Client) -> None:
    cache = client()
    grammar = cache.compile_regex("ab+")

    def in_child() -> bool:
        hit = cache.compile_regex("ab+")
        compiled = cache.compile_regex("a child's")
        return hit is grammar and compiled.generation == 1

    assert _in_child(in_child)
    assert manager.count(Hello) == 2
    assert cache.compile_regex("ab+") is grammar
    assert cache.compile_regex("a parent's").generation == 1
    assert manager.count(Hello) == 2
    parent, child = manager.cache.recency.counts(1), manager.cache.recency.counts(2)
    assert (parent.hits, parent.misses) == (1, 2)
    assert (child.hits, child.misses) == (1, 1)


def test_a_child_does_not_keep_the_parents_connection_open(manager: FakeManager, client: Client) -> None:
    cache = client()
    connection = manager.connections[0]
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(write_end)
        signal.alarm(int(GUARD_SECONDS))
        os.read(read_end, 1)
        os._exit(0)
    try:
        cache.close()
        # Its descriptor is closed by the thread that receives, and was the last one if the child let go of its own.
        _wait_until(lambda: _has_ended(connection))
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    finally:
        os.close(write_end)
        os.close(read_end)
        os.waitpid(pid, 0)


def test_closing(manager: FakeManager, client: Client) -> None:
    cache = client()
    grammar = cache.compile_regex("ab+")
    cache.close()
    cache.close()
    assert _same(grammar, Source.regex("ab+"))
    with pytest.raises(ValueError, match="closed"):
        cache.compile_regex("ab+")


def test_nothing_is_left_of_a_client_that_is_dropped(namespace: Namespace, manager: FakeManager) -> None:
    gc.collect()
    _wait_until(lambda: not any(t.name == "shmcache link" for t in threading.enumerate()))
    before = len(os.listdir("/proc/self/fd"))
    cache = GrammarCache(VOCABULARY, namespace, may_start=False)
    cache.compile_regex("ab+")
    del cache
    gc.collect()
    _wait_until(lambda: not any(t.name == "shmcache link" for t in threading.enumerate()))
    manager.drop_connections()
    _wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_a_runtime_directory_open_to_others_is_not_used(namespace: Namespace, client: Client) -> None:
    namespace.directory.chmod(0o777)
    assert client().compile_regex("ab+").generation == 0


def test_a_manager_that_refuses_the_client(manager: FakeManager, client: Client) -> None:
    manager.on_hello = lambda fake, message: (Refused(message.request, "WIRE", "another protocol"), [])
    assert client().compile_regex("ab+").generation == 0


def test_a_manager_that_is_stopped_costs_one_wait(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shmcache.client.link.HELLO_SECONDS_MAX", 0.05)
    monkeypatch.setattr("shmcache.client.manager_access.start_manager", None)
    manager.on_hello = lambda fake, message: None
    with GrammarCache(VOCABULARY, manager.namespace, may_start=True) as cache:
        assert [cache.compile_regex(pattern).generation for pattern in "abc"] == [0, 0, 0]
    assert manager.count(Hello) == 1


def test_a_manager_that_comes_later_is_found(namespace: Namespace, client: Client) -> None:
    cache = client()
    assert cache.compile_regex("a").generation == 0
    with fake_manager(namespace):
        assert cache.compile_regex("b").generation == 1
        assert cache.compile_regex("a").generation == 1


def test_nothing_is_looked_for_again_at_once(manager: FakeManager, client: Client) -> None:
    manager.on_hello = lambda fake, message: (Refused(message.request, "WIRE", "another protocol"), [])
    cache = client()
    for number in range(5):
        cache.compile_regex("a" * (number + 1))
    assert manager.count(Hello) == 1


def _wait_until(condition: Callable[[], bool]) -> None:
    """Waits for another thread's doing, by giving it the processor; fails after the guard."""
    over = threading.Event()
    timer = threading.Timer(GUARD_SECONDS, over.set)
    timer.start()
    try:
        while not condition():
            assert not over.is_set()
            os.sched_yield()
    finally:
        timer.cancel()
        timer.join()


def _has_ended(connection: socket.socket) -> bool:
    """Whether the peer's last descriptor is closed: not only shut down, but hung up."""
    poller = select.poll()
    try:
        poller.register(connection, 0)
    except (OSError, ValueError):
        return True
    return bool(poller.poll(0))


def _in_child(work: Callable[[], bool]) -> bool:
    """Runs ``work`` in a forked child and says whether it was true there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.alarm(int(GUARD_SECONDS))
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
