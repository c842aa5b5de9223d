"""One worker, spoken to directly: what it says in which order, and what it makes of errors."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from shmcache.errors import LimitError, SegmentError, SourceError
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.manager import wire
from shmcache.manager.channel import Channel, ChannelClosed
from shmcache.manager.parts import split_vocabulary
from shmcache.memory.names import Namespace
from shmcache.memory.segments import NO_TEXT, create_anonymous_segment, map_segment, read_header, unlink_segment
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_workers import storage
from shmcache_workers.compile_worker import CompileWorker, load_compiler, main, typed_error
from shmcache_workers.grammar_compile import KeyMismatchError, compile_source
from shmcache_workers.process_limits import address_space_bytes, memory_limit
from shmcache_workers.vocabularies import Vocabularies, vocabulary_payload
from tests.manager.live import VOCABULARY, key
from tests.workers.gated_compiler import GUARD_SECONDS, compile_at_gate, source_of

M = TypeVar("M", bound=wire.Message)
GENERATION = 3
INSTANCE = 77


class FakeManager:
    """The other end of a worker's channel, in the hands of the test."""

    def __init__(self, namespace: Namespace) -> None:
        ours, theirs = socket.socketpair()
        self.namespace = namespace
        self.channel = Channel(ours)
        worker_channel = Channel(theirs)
        self.thread = threading.Thread(target=self._work, args=(worker_channel,))
        self.thread.start()
        assert self.hear(wire.WorkerState).state == "cold"
        self._job = 0

    def _work(self, channel: Channel) -> None:
        try:
            CompileWorker(channel, self.namespace, compile_at_gate).run()
        except ChannelClosed:
            pass
        finally:
            channel.close()

    def hear(self, kind: type[M]) -> M:
        message, descriptors = self.channel.receive(GUARD_SECONDS)
        for descriptor in descriptors:
            self.header = read_header(descriptor)
            os.close(descriptor)
        return wire.expect(message, kind)

    def order(self, source: bytes, *, kind: str = "grammar", wanted: bytes = key("g"), **limits: Any) -> wire.Job:
        """Sends a job."""
        payload = vocabulary_payload(VOCABULARY.to_bytes(), VOCABULARY.fingerprint)
        vocabulary = create_anonymous_segment(payload, key=VOCABULARY.fingerprint, generation=0, tier=2)
        self._job += 1
        fields = {"seconds_max": 30.0, "states_max": 10, "edges_max": 10, "memory_bytes_max": 1 << 30, **limits}
        job = wire.Job(
            job=self._job,
            kind=kind,
            key=wanted,
            vocabulary_key=VOCABULARY.fingerprint,
            generation=GENERATION,
            source=source,
            source_bytes=len(source),
            vocabulary_bytes=1,
            descriptors=1,
            **fields,
        )
        self.channel.send(job, [vocabulary])
        os.close(vocabulary)
        return job

    def grant(self, outcome: str = "granted", serial: int = 1) -> wire.Alloc:
        """Answers an alloc."""
        alloc = self.hear(wire.Alloc)
        answer = (INSTANCE, GENERATION, serial) if outcome == "granted" else (INSTANCE, 0, 0)
        self.channel.send(wire.Allocated(alloc.request, outcome, *answer))
        return alloc

    def acknowledge(self, outcome: str = "ready") -> wire.Commit:
        """Answers a commit."""
        commit = self.hear(wire.Commit)
        self.channel.send(wire.Committed(commit.request, outcome))
        return commit

    def close(self) -> None:
        self.channel.close()
        self.thread.join(2 * GUARD_SECONDS)
        assert not self.thread.is_alive()
        for serial in range(1, 5):
            unlink_segment(self.namespace.data_name(INSTANCE, serial))


@pytest.fixture
def manager(namespace: str) -> Iterator[FakeManager]:
    manager = FakeManager(Namespace.of(namespace))
    yield manager
    manager.close()


def test_an_image_is_stored_then_rows_then_done(manager: FakeManager) -> None:
    row = key("row")
    job = manager.order(source_of(payload="x", rows={row.hex(): "the row"}))
    alloc = manager.grant()
    assert (alloc.tier, alloc.key, alloc.segment_bytes) == ("grammar", job.key, 4096)
    commit = manager.acknowledge()
    assert (commit.serial, commit.descriptors) == (1, 0)
    mapping = map_segment(manager.namespace.data_name(INSTANCE, 1))
    assert (mapping.header.generation, mapping.header.payload_bytes) == (GENERATION, commit.payload_bytes)
    assert manager.grant(serial=2).tier == "rule"
    assert manager.acknowledge().key == row
    assert manager.hear(wire.Done).job == job.job


@pytest.mark.parametrize("outcome", ["fenced", "exists", "full"])
def test_without_room_the_image_goes_by_descriptor(manager: FakeManager, outcome: str) -> None:
    manager.order(source_of(payload="x"))
    manager.grant(outcome)
    commit = manager.acknowledge("fenced" if outcome == "fenced" else "unindexed")
    assert (commit.serial, commit.descriptors) == (0, 1)
    assert manager.header.key == key("g")
    manager.hear(wire.Done)


def test_a_commit_that_was_fenced_is_not_repeated(manager: FakeManager) -> None:
    manager.order(source_of(payload="x"))
    manager.grant()
    manager.acknowledge("fenced")
    manager.hear(wire.Done)


def test_a_full_host_is_asked_once_more(manager: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise LimitError("full", limit="shm_bytes")

    monkeypatch.setattr(storage, "create_segment", full)
    manager.order(source_of(payload="x", rows={key("row").hex(): "row"}))
    assert manager.grant(serial=1).reclaim_bytes == 0
    assert manager.hear(wire.Abandon).serial == 1
    assert manager.grant(serial=2).reclaim_bytes == 4096
    assert manager.hear(wire.Abandon).serial == 2
    assert manager.acknowledge("unindexed").serial == 0
    assert manager.grant(serial=3).tier == "rule"
    assert manager.hear(wire.Abandon).serial == 3
    manager.hear(wire.Done)


def test_rows_stop_at_the_fence(manager: FakeManager) -> None:
    manager.order(source_of(payload="x", rows={key("a").hex(): "a", key("b").hex(): "b"}))
    manager.grant()
    manager.acknowledge()
    manager.grant("fenced")
    manager.hear(wire.Done)


def test_a_cancelled_compile_says_so(manager: FakeManager) -> None:
    job = manager.order(source_of(spin="listening"))
    manager.channel.send(wire.CancelJob(job.job))
    assert manager.hear(wire.Fail).code == "CANCELLED"
    assert manager.hear(wire.Done).job == job.job
    manager.order(source_of(payload="next"))
    manager.grant()


def test_a_vocabulary_is_stored_with_its_trie(manager: FakeManager) -> None:
    manager.order(VOCABULARY.to_bytes(), kind="vocabulary", wanted=VOCABULARY.fingerprint)
    assert manager.grant().tier == "vocabulary"
    manager.acknowledge()
    payload = map_segment(manager.namespace.data_name(INSTANCE, 1)).payload
    vocabulary_bytes, trie_bytes = split_vocabulary(payload)
    assert Vocabulary.from_bytes(vocabulary_bytes).fingerprint == VOCABULARY.fingerprint
    assert Trie.from_buffer(trie_bytes).fingerprint == VOCABULARY.fingerprint
    manager.hear(wire.Done)


@pytest.mark.parametrize("content", [b"", b"nonsense", VOCABULARY.to_bytes()])
def test_a_vocabulary_that_is_none_or_another_is_a_mismatch(manager: FakeManager, content: bytes) -> None:
    manager.order(content, kind="vocabulary", wanted=key("another"))
    assert manager.hear(wire.Fail).code == "KEY_MISMATCH"
    manager.hear(wire.Done)


def test_an_error_too_long_for_a_message_is_cut(manager: FakeManager) -> None:
    details = {"line": 1, "pointer": "x" * 63_000}
    manager.order(source_of(error={"code": "SOURCE_ERROR", "message": "m", "details": details}, repeat=70_000))
    assert manager.hear(wire.Fail).code == "SOURCE_ERROR"
    manager.hear(wire.Done)


def test_errors_become_typed() -> None:
    job = wire.Job(1, "grammar", key("g"), key("v"), 1, b"", 0, 0, 1.0, 1, 1, 5)
    known = SourceError("bad")
    assert typed_error(known, job) is known
    for error, limit in ((MemoryError(), "memory_bytes"), (RecursionError(), "depth")):
        typed = typed_error(error, job)
        assert isinstance(typed, LimitError)
        assert typed.limit == limit
    assert "ZeroDivisionError" in typed_error(ZeroDivisionError("x"), job).message


def test_a_source_under_another_key_is_refused() -> None:
    source = Source.regex("a")
    budget = Budget()
    with pytest.raises(KeyMismatchError, match="another key"):
        compile_source(source.to_bytes(), VOCABULARY, key=key("g"), budget=budget, rule_rows=None)  # type: ignore[arg-type]
    with pytest.raises(KeyMismatchError, match="no source"):
        compile_source(b"?", VOCABULARY, key=key("g"), budget=budget, rule_rows=None)  # type: ignore[arg-type]


def test_nobody_puts_a_grammar_under_the_digest_of_another_text() -> None:
    """The digest is of the text that was sent, and that must have the key."""
    text, budget = '{"type": "integer", "title": "t"}', Budget()
    fields: dict[str, Any] = {"budget": budget, "rule_rows": None}
    source = Source.json_schema(text)
    compiled = compile_source(source.to_bytes(), VOCABULARY, key=source.key(VOCABULARY.fingerprint), **fields)
    assert compiled.text_digest == source.text_digest(VOCABULARY.fingerprint)
    plain = Source.json_schema({"type": "integer"})
    same = compile_source(plain.to_bytes(), VOCABULARY, key=plain.key(VOCABULARY.fingerprint), **fields)
    assert same.payload == compiled.payload
    assert same.text_digest == NO_TEXT
    lie = replace(source, written='{"type": "string"}')
    with pytest.raises(KeyMismatchError):
        compile_source(lie.to_bytes(), VOCABULARY, key=source.key(VOCABULARY.fingerprint), **fields)


def test_vocabularies_are_checked_and_few_stay() -> None:
    vocabularies = Vocabularies()
    payload = vocabulary_payload(VOCABULARY.to_bytes(), VOCABULARY.fingerprint)
    descriptor = create_anonymous_segment(payload, key=VOCABULARY.fingerprint, generation=0, tier=2)
    try:
        assert vocabularies.get(VOCABULARY.fingerprint, descriptor).trie.fingerprint == VOCABULARY.fingerprint
        with pytest.raises(SegmentError):
            vocabularies.get(key("another"), descriptor)
    finally:
        os.close(descriptor)


def test_memory_is_limited_inside_and_not_after() -> None:
    with memory_limit(64 << 20), pytest.raises(MemoryError):
        bytearray(256 << 20)
    assert len(bytearray(256 << 20)) == 256 << 20
    assert address_space_bytes() > 0


def test_a_compiler_is_found_by_name() -> None:
    assert load_compiler("tests.workers.gated_compiler:compile_at_gate") is compile_at_gate


def test_a_worker_whose_manager_is_gone_does_not_start() -> None:
    """In a child: the death signal that it asks for would be this process's own."""
    import subprocess
    import sys

    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", "-m", "shmcache_workers.compile_worker", "--manager-pid", "1"]
        command += ["--descriptor", str(theirs.fileno()), "--namespace", "n", "--directory", "/tmp"]
        run = subprocess.run(command, pass_fds=[theirs.fileno()], timeout=4 * GUARD_SECONDS, check=False)
    assert run.returncode == 1
    assert callable(main)
