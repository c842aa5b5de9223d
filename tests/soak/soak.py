"""Clients that compile without pause while everything is killed at random, and the account at the end.

Nothing is waited for but what the clients say and what the manager answers; kills fall at random moments in between.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from shmcache.client import GrammarCache
from shmcache.grammar.key import Source
from shmcache.memory.election import holder_pid
from shmcache.memory.names import Namespace
from shmcache.rows.warm_up import warm_up
from tests.client.support import VOCABULARY, image_of
from tests.conftest import stop_process
from tests.soak.leaks import leaks

CLIENTS = 3
PATTERNS = 40
KILL_SECONDS = (0.05, 1.5)
"""The least and the most time between two kills."""
SILENCE_SECONDS_MAX = 60.0
"""How long a client that nobody stopped may say nothing."""


@dataclass
class Outcome:
    """What happened."""

    kills: Counter[str] = field(default_factory=Counter)
    compiles: int = 0
    cached: int = 0
    waits: list[tuple[float, int]] = field(default_factory=list)
    """Seconds that each grammar took, and how many managers and workers were killed meanwhile."""
    not_cleared: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of a {kind}" for kind, count in sorted(self.kills.items()))
        undisturbed = max((seconds for seconds, deaths in self.waits if not deaths), default=0.0)
        longest, deaths = max(self.waits, default=(0.0, 0))
        return (
            f"{self.kills.total()} kills ({kills}); {self.compiles} grammars, {self.cached} of them from the cache; "
            f"{self.not_cleared} clears refused; the longest wait {longest:.2f} s with {deaths} deaths meanwhile, "
            f"{undisturbed:.2f} s with none; {len(self.wrong)} findings"
        )


class Process:
    """One client, and what it has said in part."""

    def __init__(self, namespace: Namespace, work: Path, seed: int) -> None:
        command = [sys.executable, "-m", "tests.soak.client", namespace.name, str(namespace.directory)]
        self.process = subprocess.Popen(
            [*command, str(work), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.heard_at = time.monotonic()
        self.has_ended = False
        self._rest = b""

    def hear(self) -> Iterator[dict[str, object]]:
        """What it says now; nothing more at its end."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        self.has_ended = not data
        self.heard_at = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from (json.loads(line) for line in lines)

    def end(self) -> None:
        """Tells it to let go of everything."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """Kills it and closes its pipes."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        self.process.wait()


class Soak:
    """One run over one namespace."""

    def __init__(self, namespace: Namespace, work: Path, seed: int) -> None:
        self.outcome = Outcome()
        self._namespace = namespace
        self._work = work
        self._rng = random.Random(seed)
        self._seed = seed
        self._clients: list[Process] = []
        self._deaths: deque[float] = deque(maxlen=200)

    def run(self, *, seconds_max: float, kills_max: int) -> Outcome:
        """Kills until the time is over or so many kills are done, then looks for what is left."""
        deadline = time.monotonic() + seconds_max
        try:
            while time.monotonic() < deadline and self.outcome.kills.total() < kills_max:
                while len(self._clients) < CLIENTS:
                    self._clients.append(self._new_client())
                self._listen(self._rng.uniform(*KILL_SECONDS))
                self._kill_something()
            self._end_clients()
            self.outcome.wrong += self._left()
        finally:
            for client in self._clients:
                client.kill()
        return self.outcome

    def _new_client(self) -> Process:
        self._seed += 1
        return Process(self._namespace, self._work, self._seed)

    def _listen(self, seconds: float) -> None:
        """Takes in what clients say for so long."""
        until = time.monotonic() + seconds
        while (patience := until - time.monotonic()) > 0 and self._clients:
            by_descriptor = {
                client.process.stdout.fileno(): client for client in self._clients if client.process.stdout
            }
            ready, _, _ = select.select(list(by_descriptor), [], [], patience)
            for descriptor in ready:
                client = by_descriptor[descriptor]
                for said in client.hear():
                    self._take(said)
                if client.has_ended:
                    self._bury(client)
            for client in self._clients:
                if time.monotonic() - client.heard_at > SILENCE_SECONDS_MAX:
                    self.outcome.wrong.append("a client hangs")
                    self._bury(client)
                    break

    def _take(self, said: dict[str, object]) -> None:
        if "wrong" in said:
            self.outcome.wrong.append(str(said["wrong"]))
        elif "seconds" in said:
            self.outcome.compiles += 1
            self.outcome.cached += bool(said["is_cached"])
            seconds, started_at = float(str(said["seconds"])), float(str(said["from"]))
            deaths = sum(started_at <= at <= started_at + seconds for at in self._deaths)
            self.outcome.waits.append((seconds, deaths))
        elif "not_cleared" in said:
            self.outcome.not_cleared += 1

    def _bury(self, client: Process) -> None:
        client.kill()
        self._clients.remove(client)

    def _end_clients(self) -> None:
        for client in self._clients:
            client.end()
        deadline = time.monotonic() + SILENCE_SECONDS_MAX
        while self._clients and time.monotonic() < deadline:
            self._listen(1.0)
        if self._clients:
            self.outcome.wrong.append("clients do not end")

    # --- killing -----------------------------------------------------------------------------------------------------

    def _kill_something(self) -> None:
        manager = holder_pid(self._namespace)
        kind = self._rng.choices(["manager", "worker", "client"], [4, 4, 2])[0]
        if kind == "client":
            client = self._rng.choice(self._clients)
            self._bury(client)
        elif manager:
            victims = [manager] if kind == "manager" else children(manager)
            if not victims or not kill(self._rng.choice(victims)):
                return
            self._deaths.append(time.monotonic())
        else:
            return
        self.outcome.kills[kind] += 1

    # --- the end -----------------------------------------------------------------------------------------------------

    def _left(self) -> list[str]:
        """What a last client finds when all others are gone."""
        with GrammarCache(VOCABULARY, self._namespace, may_start=True) as cache:
            found = leaks(self._namespace, cache)
        manager = holder_pid(self._namespace)
        if manager:
            stop_process(manager)
        return found


def kill(pid: int) -> bool:
    """Kills one process; False when it is gone already."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def children(pid: int) -> list[int]:
    """The children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def write_work(path: Path) -> None:
    """Patterns and the digests of their images, compiled here."""
    # Where the kernels have never been compiled, that would take longer than a compile may.
    warm_up()
    patterns = [f"(ab|c{{1,{number + 1}}})[a-{chr(97 + number % 26)}]*x{number}" for number in range(PATTERNS)]
    digests = {pattern: blake2b(image_of(Source.regex(pattern))).hexdigest() for pattern in patterns}
    path.write_text(json.dumps(digests))


@contextmanager
def soaking(namespace: Namespace, folder: Path, seed: int) -> Iterator[Soak]:
    """A soak, after which nothing runs any more, whatever happened."""
    namespace.make_directory()
    work = folder / "work.json"
    write_work(work)
    with ExitStack() as stack:
        stack.callback(_stop_managers, namespace)
        yield Soak(namespace, work, seed)


def _stop_managers(namespace: Namespace) -> None:
    if pid := holder_pid(namespace):
        stop_process(pid)
