"""Kills a compile worker before every one of its steps, under a manager that lives.

The worker is a process; the manager runs in this one. Only the first worker is killed; its compile goes to the next,
and the caller gets its grammar every time.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from shmcache.limits import Budget
from shmcache.manager import wire
from shmcache.manager.channel import Channel, ChannelClosed
from shmcache.manager.connection import Connection
from shmcache.memory.names import Namespace
from shmcache_workers import compile_worker
from shmcache_workers.compile_worker import CompileWorker
from shmcache_workers.grammar_compile import Compiled
from tests.crash.explorer import GUARD_SECONDS, Report, collecting, own_namespace
from tests.crash.invariants import Facts, broken_at_rest
from tests.crash.rig import InlineSupervisor, Rig, key_of, payload_of, text_of
from tests.crash.seam import Counter, before_every_step

ROWS = ("row a", "row b")


@dataclass
class ForkedWorker:
    """A worker that is a child of this process."""

    number: int
    pid: int
    pidfd: int
    connection: Connection


class ForkingSupervisor(InlineSupervisor):
    """Workers as children; the first is killed before its step ``killed_at``."""

    def __init__(self, namespace: Namespace, killed_at: int) -> None:
        super().__init__(namespace)
        self._killed_at = killed_at
        self.codes: list[int] = []

    def spawn(self, number: int) -> Any:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        sys.stdout.flush()
        # Its parent cleans up when told to end; a worker just ends, also when it is told before it has begun.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        if pid == 0:
            ours.close()
            _be_worker(self._namespace, theirs, self._killed_at if number == 1 else -1)
        theirs.close()
        return ForkedWorker(number, pid, os.pidfd_open(pid), Connection(ours))

    def kill(self, worker: Any) -> None:
        signal.pidfd_send_signal(worker.pidfd, signal.SIGTERM)

    def bury(self, worker: Any) -> int:
        self.kill(worker)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        self.codes.append(code)
        worker.connection.close()
        os.close(worker.pidfd)
        return code


def _be_worker(namespace: Namespace, endpoint: socket.socket, killed_at: int) -> None:
    code = 1
    try:
        signal.alarm(GUARD_SECONDS)
        channel = Channel(endpoint)
        with before_every_step(Counter(killed_at)):
            CompileWorker(channel, namespace, _compile).run()
    except ChannelClosed:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _compile(source: bytes, vocabulary: Any, *, key: bytes, budget: Budget, rule_rows: Any) -> Compiled:
    for row in ROWS:
        rule_rows.put(key_of(row), payload_of(key_of(row)), 10)
    return Compiled(payload_of(key), text_of(key))


def explore_workers() -> Report:
    """Tries every step of a worker that makes a grammar and stores its rows; the last point is the one nobody kills."""
    # What the vocabulary holds is of no interest here.
    compile_worker.vocabulary_payload = lambda source, key: [payload_of(key)]  # type: ignore[assignment]
    compile_worker.Vocabularies.get = lambda self, key, descriptor: None  # type: ignore[assignment,method-assign,return-value]
    report, was_killed = Report("a worker makes a vocabulary, a grammar and rows"), True
    while was_killed and not report.failures:
        was_killed = _try(report, report.steps)
        report.steps += 1
    return report


def _try(report: Report, killed_at: int) -> bool:
    place = f"step {killed_at}"
    with own_namespace() as namespace, collecting(report, place):
        supervisor = ForkingSupervisor(namespace, killed_at)
        rig = Rig(namespace, supervisor=supervisor)
        try:
            for name in ("vocabulary", "new"):
                rig.ask_for(name)
                answer = rig.answer()
                if not isinstance(answer, wire.Image) or not answer.serial:
                    report.failures.append(f"{place}: the answer for {name} is {answer}")
            rig._until(lambda: not any(worker["state"] == "busy" for worker in rig.server.statistics()["workers"]))
            rig.settle()
            report.failures += [f"{place}: {what}" for what in broken_at_rest(rig, Facts(), is_mapped=False)]
        finally:
            rig.stop()
        return -signal.SIGKILL in supervisor.codes
    return False
