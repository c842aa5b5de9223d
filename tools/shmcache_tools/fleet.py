"""A fleet: the ranks of one engine in lock step, under the load and the accidents that engines meet.

Owns the course of a run: which requests come and are cancelled when, which rank is held back, which is killed and
started again, and when the cache is flushed. Must never know a grammar or a mask: ranks report digests.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

REPLY_SECONDS_MAX = 120.0


class FleetError(Exception):
    """A rank ended or took too long; what it said is on standard error."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens. Steps are counted from 0; None is never."""

    ranks: int = 8
    requests: int = 200
    grammars: int = 20
    arrivals_per_step: int = 4
    cancelled_share: float = 0.1
    held_back_every: int = 5
    """Every so many steps one rank begins only when all others are done, or after ``delay_seconds``."""
    delay_seconds: float = 0.0
    killed_at: int | None = 10
    """A rank is killed while it does this step, and another one takes its place."""
    flushed_at: int | None = 20
    engine: str = "shmcache"
    vocabulary: str = "bytes"
    seed: int = 1


@dataclass(slots=True)
class Course:
    """What happened. ``compiles_expected`` counts each grammar once in each generation in which a rank asked for it."""

    steps: int = 0
    tokens: int = 0
    ended: int = 0
    cancelled: int = 0
    compiles_expected: int = 0
    differences: list[str] = field(default_factory=list)
    """Where ranks reported different masks, tokens or ends."""
    compile_seconds: list[float] = field(default_factory=list)
    """How long a rank waited for a grammar, each time."""
    mask_seconds: list[float] = field(default_factory=list)
    """How long a rank took for all its masks, drafts and tokens of a step."""
    seconds: float = 0.0


def run_fleet(plan: Plan, namespace: str) -> Course:
    """Runs the plan with a manager that serves ``namespace``, and ends every rank. Raises :class:`FleetError`."""
    fleet = _Fleet(plan, namespace)
    begin = time.perf_counter()
    try:
        fleet.run()
    finally:
        fleet.end()
    fleet.course.seconds = time.perf_counter() - begin
    return fleet.course


class _Rank:
    """One process."""

    def __init__(self, plan: Plan, namespace: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shmcache_tools.fleet_rank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "SHMCACHE_NAMESPACE": namespace},
            start_new_session=True,
        )
        self.tell({"engine": plan.engine, "vocabulary": plan.vocabulary, "grammars": plan.grammars, "seed": plan.seed})

    def tell(self, command: Mapping[str, Any]) -> None:
        """Sends a command."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise FleetError("a rank has ended") from error

    def reply(self) -> dict[str, Any]:
        """Waits for the answer to one command; there is never more than one unanswered."""
        output = self._process.stdout
        assert output is not None
        poller = select.poll()
        poller.register(output, select.POLLIN)
        deadline = time.monotonic() + REPLY_SECONDS_MAX
        data = b""
        while not data.endswith(b"\n"):
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise FleetError("a rank does not answer")
            part = os.read(output.fileno(), 1 << 20)
            if not part:
                raise FleetError(f"a rank ended with status {self._process.wait()}")
            data += part
        answer: dict[str, Any] = json.loads(data)
        return answer

    def kill(self) -> None:
        """As the kernel kills: at once, with nothing tidied. Idempotent."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class _Fleet:
    def __init__(self, plan: Plan, namespace: str) -> None:
        self._plan = plan
        self._namespace = namespace
        self._random = random.Random(plan.seed)
        self._ranks = [_Rank(plan, namespace) for _ in range(plan.ranks)]
        self._live: dict[int, tuple[int, list[int]]] = {}
        self._asked: set[tuple[int, int]] = set()
        self._generation = 0
        self._arrived = 0
        self.course = Course()

    def run(self) -> None:
        """All steps, until every request has ended."""
        for rank in self._ranks:
            rank.reply()
        while self._live or self._arrived < self._plan.requests:
            self._step(self.course.steps)
            self.course.steps += 1

    def end(self) -> None:
        """Ends the ranks."""
        for rank in self._ranks:
            rank.kill()

    def _step(self, number: int) -> None:
        plan = self._plan
        if number == plan.flushed_at:
            self._ask([self._ranks[self._random.randrange(plan.ranks)]], {"do": "clear"})
            self._generation += 1
        new = self._arrivals()
        cancelled = [name for name in self._live if self._random.random() < plan.cancelled_share / 10]
        for name in cancelled:
            del self._live[name]
        self.course.cancelled += len(cancelled)
        self._live.update((name, (grammar, [])) for name, grammar in new.items())
        answers = self._ask_all({"do": "step", "new": new, "cancelled": cancelled}, number)
        self._take(number, answers)

    def _arrivals(self) -> dict[int, int]:
        count = min(self._plan.arrivals_per_step, self._plan.requests - self._arrived)
        names = range(self._arrived, self._arrived + count)
        self._arrived += count
        new = {name: self._random.randrange(self._plan.grammars) for name in names}
        self._expect(new.values())
        return new

    def _expect(self, grammars: Iterable[int]) -> None:
        self._asked.update((self._generation, grammar) for grammar in grammars)
        self.course.compiles_expected = len(self._asked)

    def _ask(self, ranks: Iterable[_Rank], command: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked = list(ranks)
        for rank in asked:
            rank.tell(command)
        return [rank.reply() for rank in asked]

    def _ask_all(self, command: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
        """The answers of all ranks, one of which is held back every so many steps."""
        plan = self._plan
        if number == plan.killed_at:
            return self._ask_and_kill(command)
        if plan.ranks == 1 or number % plan.held_back_every:
            return self._ask(self._ranks, command)
        late = self._random.randrange(plan.ranks)
        others = [rank for rank in self._ranks if rank is not self._ranks[late]]
        answers = self._ask(others, command)
        if plan.delay_seconds:
            time.sleep(plan.delay_seconds)
        answers[late:late] = self._ask([self._ranks[late]], command)
        return answers

    def _ask_and_kill(self, command: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The answers of all ranks, one of which is killed while it works, begins anew and does it again."""
        place = self._random.randrange(self._plan.ranks)
        for rank in self._ranks:
            rank.tell(command)
        self._ranks[place].kill()
        answers = [rank.reply() for rank in self._ranks if rank is not self._ranks[place]]
        self._ranks[place] = rank = _Rank(self._plan, self._namespace)
        rank.reply()
        before = {name: state for name, state in self._live.items() if name not in command["new"]}
        self._expect(grammar for grammar, _ in before.values())
        [resumed] = self._ask([rank], {"do": "resume", "requests": before})
        self.course.compile_seconds += resumed["compile_seconds"]
        answers[place:place] = self._ask([rank], command)
        return answers

    def _take(self, number: int, answers: list[dict[str, Any]]) -> None:
        """Compares what the ranks say, and goes on with what the first one says."""
        first = answers[0]
        for place, answer in enumerate(answers):
            self.course.compile_seconds += answer["compile_seconds"]
            self.course.mask_seconds.append(answer["mask_seconds"])
            for what in ("digest", "tokens", "ended"):
                if answer[what] != first[what]:
                    self.course.differences.append(f"step {number}: rank {place} has another {what} than rank 0")
        for name, tokens in first["tokens"].items():
            self._live[int(name)][1].extend(tokens)
            self.course.tokens += len(tokens)
        for name in first["ended"]:
            del self._live[name]
            self.course.ended += 1
