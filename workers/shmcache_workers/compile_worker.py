"""The compile worker: a process that takes one job after the other from its manager and can be killed at any time.

Owns the order of things in a worker: limits, compile, delivery, rows, and that every error becomes a typed one. Must
never touch the control segment, nor outlive its manager. It is the only place where the cache meets the compiler.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from shmcache.errors import LimitError, SegmentError, ShmCacheError
from shmcache.limits import Budget
from shmcache.manager import logs, wire
from shmcache.manager.channel import Channel, ChannelClosed
from shmcache.manager.descriptors import close_all
from shmcache.manager.fields import TEXT_CHARACTERS_MAX
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.segments import NO_TEXT
from shmcache_workers.grammar_compile import Compiled, compile_source, warm_up
from shmcache_workers.process_limits import collect_rarely, die_with_parent, give_back, memory_limit, resident_bytes
from shmcache_workers.storage import Payload, RowReader, SharedRuleRows, Storage, elapsed_us
from shmcache_workers.vocabularies import Vocabularies, vocabulary_payload

_log = logging.getLogger("shmcache.worker")

Compiler = Callable[..., Compiled]
"""``compiler(source, vocabulary, *, key, budget, rule_rows) -> compiled``."""

CANCEL_SECONDS = 0.02
"""How often a running compile looks whether it is still wanted."""

GROWTH_BYTES = 16 << 20
"""A worker that has grown by more gives back what it has freed: building a vocabulary frees a third of all."""

RESIDENT_BYTES_MAX = 2 << 30
"""A worker that holds more after a job ends, so that a fresh one takes its place."""


class CancelledError(ShmCacheError):
    """Nobody waits for this job any more."""

    code = "CANCELLED"


class CompileWorker:
    """One worker's conversation with its manager."""

    def __init__(self, channel: Channel, namespace: Namespace, compiler: Compiler) -> None:
        self._channel = channel
        self._compiler = compiler
        self._storage = Storage(namespace, self._converse, self._channel.send)
        self._rows = RowReader(namespace)
        self._vocabularies = Vocabularies()
        self._job = 0
        self._cancelled = 0
        self._looked_at = 0.0

    def run(self) -> None:
        """Takes jobs until the manager is gone, or this process has grown too large."""
        self._channel.send(wire.WorkerState(os.getpid(), "cold"))
        small_bytes = resident_bytes()
        while (now_bytes := resident_bytes()) < RESIDENT_BYTES_MAX:
            if now_bytes > small_bytes + GROWTH_BYTES:
                give_back()
                small_bytes = resident_bytes()
            message, descriptors = self._channel.receive()
            try:
                match message:
                    case wire.WarmUp():
                        if self._compiler is compile_source:
                            warm_up(_log.warning)
                            collect_rarely()
                        self._channel.send(wire.WorkerState(os.getpid(), "idle"))
                    case wire.Job():
                        self._work(message, descriptors)
                    case wire.CancelJob(job):
                        self._cancelled = max(self._cancelled, job)
                    case _:
                        raise wire.WireError(f"{message.op} is not for a manager to say here")
            finally:
                close_all(descriptors)
        _log.info("grown to more than %d bytes: ending", RESIDENT_BYTES_MAX)

    def _work(self, job: wire.Job, descriptors: Sequence[int]) -> None:
        self._job = job.job
        tier = Tier.VOCABULARY if job.kind == "vocabulary" else Tier.GRAMMAR
        rows = SharedRuleRows(self._rows)
        start_ns = time.perf_counter_ns()
        try:
            with memory_limit(job.memory_bytes_max):
                payload, text_digest = self._make(job, descriptors, rows)
            self._storage.deliver(job, tier, payload, elapsed_us(start_ns), text_digest=text_digest)
        except ChannelClosed:
            raise
        except Exception as error:
            self._fail(job, typed_error(error, job))
        else:
            self._store_rows(job, rows)
        self._channel.send(wire.Done(job.job))

    def _make(self, job: wire.Job, descriptors: Sequence[int], rows: SharedRuleRows) -> tuple[Payload, bytes]:
        source = job.source if job.source or not job.source_bytes else _read(descriptors[-1], job.source_bytes)
        if job.kind == "vocabulary":
            return vocabulary_payload(source, job.key), NO_TEXT
        vocabulary = self._vocabularies.get(job.vocabulary_key, descriptors[0])
        budget = Budget(
            states_max=job.states_max, edges_max=job.edges_max, seconds_max=job.seconds_max, clock=self._clock
        )
        compiled = self._compiler(source, vocabulary, key=job.key, budget=budget, rule_rows=rows)
        return [compiled.payload], compiled.text_digest

    def _store_rows(self, job: wire.Job, rows: SharedRuleRows) -> None:
        for key, payload, cost_us in rows.pending:
            self._look()
            if self._cancelled >= job.job:
                return
            try:
                outcome = self._storage.store_row(job, key, payload, cost_us)
            except (SegmentError, OSError) as error:
                if isinstance(error, ChannelClosed):
                    raise
                _log.warning("rows are not stored: %s", error)
                return
            if outcome in ("fenced", "full"):
                return

    def _fail(self, job: wire.Job, error: ShmCacheError) -> None:
        message = error.message[:TEXT_CHARACTERS_MAX]
        fail = wire.Fail(job.job, error.code, message, error.details)
        try:
            self._channel.send(fail)
        except wire.WireError:
            self._channel.send(wire.Fail(job.job, error.code, message))

    # --- the manager's voice while a job runs ------------------------------------------------------------------------

    def _clock(self) -> float:
        """The budget's clock: time, and a look at whether the job is still wanted."""
        now = time.monotonic()
        if now - self._looked_at > CANCEL_SECONDS:
            self._looked_at = now
            self._look()
            if self._cancelled >= self._job:
                raise CancelledError("nobody waits for this compile any more")
        return now

    def _look(self) -> None:
        try:
            while True:
                message, descriptors = self._channel.receive(0)
                close_all(descriptors)
                self._cancelled = max(self._cancelled, wire.expect(message, wire.CancelJob).job)
        except TimeoutError:
            return

    def _converse(self, request: wire.Message, descriptors: Sequence[int]) -> wire.Message:
        self._channel.send(request, descriptors)
        while True:
            message, received = self._channel.receive()
            close_all(received)
            if not isinstance(message, wire.CancelJob):
                return message
            self._cancelled = max(self._cancelled, message.job)


def typed_error(error: Exception, job: wire.Job) -> ShmCacheError:
    """What the caller gets to see of an error."""
    if isinstance(error, ShmCacheError):
        return error
    if isinstance(error, MemoryError):
        return LimitError(
            f"compiling needs more than {job.memory_bytes_max} bytes", limit="memory_bytes", value=job.memory_bytes_max
        )
    if isinstance(error, RecursionError):
        return LimitError("the source is nested too deeply", limit="depth")
    _log.error("a compile failed", exc_info=error)
    return ShmCacheError(f"internal error while compiling: {type(error).__name__}: {error}")


def _read(descriptor: int, size_bytes: int) -> bytes:
    content = os.pread(descriptor, size_bytes, 0)
    while len(content) < size_bytes:
        more = os.pread(descriptor, size_bytes - len(content), len(content))
        if not more:
            raise SegmentError("a source became shorter on its way")
        content += more
    return content


def load_compiler(reference: str) -> Compiler:
    """The function that ``module:function`` names."""
    module, _, name = reference.partition(":")
    compiler: Compiler = getattr(importlib.import_module(module), name)
    return compiler


def main(arguments: Sequence[str] | None = None) -> int:
    """Works until the manager is gone."""
    parser = argparse.ArgumentParser(prog="python -m shmcache_workers.compile_worker")
    parser.add_argument("--descriptor", type=int, required=True, help="the connected socket to the manager")
    parser.add_argument("--manager-pid", type=int, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--directory", type=Path, required=True, help="the namespace's runtime directory")
    parser.add_argument("--log-format", choices=logs.FORMATS, default="text")
    parser.add_argument("--compiler", help="module:function to run in place of the compiler")
    options = parser.parse_args(arguments)
    logs.configure("info", options.log_format, with_process=True)
    if not die_with_parent(options.manager_pid):
        return 1
    # Ctrl-C is for the manager, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compiler = load_compiler(options.compiler) if options.compiler else compile_source
    namespace = Namespace.of(options.namespace, directory=options.directory)
    channel = Channel(socket.socket(fileno=options.descriptor))
    try:
        CompileWorker(channel, namespace, compiler).run()
    except ChannelClosed:
        return 0
    finally:
        channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
