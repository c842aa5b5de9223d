"""The demonstration: who asks for what, in which order, and what is measured.

Owns the scenes and their results as values. Must never print; ``tick`` is called at each step of progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shmcache.memory.names import Namespace
from shmcache_tools.inference_team import InferenceTeam, inference_team, open_commands
from shmcache_tools.manager_link import manager_link
from shmcache_tools.memory_usage import ProportionalSize, sum_of
from shmcache_tools.own_manager import wait_until
from shmcache_tools.sources import demo_sources, large_schema

WORKERS = 4
TOGETHER = 4
"""So many sources are asked for by all workers at the same moment; of the others each worker asks for its share."""

TICKS = WORKERS * 20 * 3 + 20 * 2
SETTLE_SECONDS_MAX = 60.0
LARGE_PROPERTIES = 400
LARGE_ATTEMPTS = 4


class DemoError(Exception):
    """Something that the demonstration shows is not so."""


@dataclass(frozen=True, slots=True)
class WorkerLatency:
    """One worker's seconds from request to first mask, each a list over sources."""

    pid: int
    own_compile: Sequence[float]
    host_hit: Sequence[float]
    local_hit: Sequence[float]


@dataclass(frozen=True, slots=True)
class Requests:
    """The result of the first scene: latencies, the statistics after it, and the samples of worker 0 by source."""

    latencies: Sequence[WorkerLatency]
    stats: dict[str, Any]
    samples: dict[str, str]
    sample_count: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The four workers, the manager with its compile workers, and one private process.

    ``idle_`` is before anything was asked for: interpreter, libraries' data, vocabulary.
    """

    idle_workers: ProportionalSize
    workers: ProportionalSize
    service: ProportionalSize
    idle_private: ProportionalSize
    private: ProportionalSize
    private_grammar_bytes: int


@dataclass(frozen=True, slots=True)
class Moment:
    """The account at one moment of the clear."""

    name: str
    stats: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """What ``get_cache_size_bytes()`` is: grammars and rules."""
        charged = self.stats["charged_bytes"]
        return int(charged["grammar"] + charged["rule"])


@dataclass(frozen=True, slots=True)
class ClearScene:
    """The moments in order, and what the caller got whose compile was in flight."""

    moments: Sequence[Moment]
    caller_generation: int
    caller_seconds: float


def stats_of(namespace: Namespace) -> dict[str, Any]:
    """The manager's own statistics."""
    with manager_link(namespace) as link:
        return link.status()


def ask_for_everything(team: InferenceTeam, namespace: Namespace) -> Requests:
    """All workers ask for all sources, twice, and decode a sample of each.

    The sources of :data:`TOGETHER` are asked for by all at once, so that one compile serves four callers. Of the rest
    each worker has a share that it asks for first (its own compiles); the shares of the others it asks for when those
    are compiled (host hits). Asking again is a local hit.
    """
    names = [source.name for source in demo_sources()]
    together, rest = names[:TOGETHER], names[TOGETHER:]
    shares = [rest[number::WORKERS] for number in range(WORKERS)]
    others = [[name for name in rest if name not in share] for share in shares]
    team.all([{"do": "ask", "names": together}] * WORKERS)
    own = team.all([{"do": "ask", "names": share} for share in shares])
    host = team.all([{"do": "ask", "names": other} for other in others])
    local = team.all([{"do": "ask", "names": names}] * WORKERS)
    decoded = team.all([{"do": "decode", "rounds": 1}] * WORKERS)
    for number, reply in enumerate(decoded):
        if reply["problems"]:
            raise DemoError(f"worker {number}: {reply['problems'][0]}")
    stats = stats_of(namespace)
    if stats["compiles"]["started"] != len(names) or stats["compiles"]["succeeded"] != len(names):
        raise DemoError(f"{len(names)} sources were compiled {stats['compiles']['started']} times")
    latencies = [
        WorkerLatency(pid, own[number]["seconds"], host[number]["seconds"], local[number]["seconds"])
        for number, pid in enumerate(team.pids)
    ]
    return Requests(latencies, stats, decoded[0]["texts"], sum(len(reply["texts"]) for reply in decoded))


def measure_memory(
    team: InferenceTeam, idle_workers: ProportionalSize, stats: dict[str, Any], seed: int, tick: Callable[[], None]
) -> Memory:
    """What the team takes, and what a process takes that compiles the same for itself and does the same with it."""
    workers = sum_of(team.pids)
    service = sum_of([stats["manager"]["pid"], *(worker["pid"] for worker in stats["workers"])])
    names = [source.name for source in demo_sources()]
    with inference_team(1, tick) as alone:
        alone.all(open_commands(1, namespace=None, seed=seed))
        idle_private = sum_of(alone.pids)
        asked = alone.all([{"do": "ask", "names": names}])
        decoded = alone.all([{"do": "decode", "rounds": 1}])
        if decoded[0]["problems"]:
            raise DemoError(f"private process: {decoded[0]['problems'][0]}")
        private = sum_of(alone.pids)
    return Memory(idle_workers, workers, service, idle_private, private, asked[0]["bytes"])


def clear_in_flight(team: InferenceTeam, namespace: Namespace, seed: int) -> ClearScene:
    """Clears while worker 0 waits for a long compile, and has worker 1 ask for something meanwhile.

    Raises :class:`DemoError` when the account is not what it must be.
    """
    property_count = LARGE_PROPERTIES
    for attempt in range(LARGE_ATTEMPTS):
        scene = _try_clear(team, namespace, large_schema(property_count, seed=seed + attempt))
        if scene is not None:
            return scene
        # Compiled before the clear: too small for this machine.
        property_count *= 3
    raise DemoError(f"no compile took long enough to be cleared in flight, not even {property_count // 3} properties")


def _try_clear(team: InferenceTeam, namespace: Namespace, schema: str) -> ClearScene | None:
    with manager_link(namespace) as link:
        before = Moment("before", link.status())
        team.tell(0, {"do": "ask_schema", "text": schema})
        wait_until(
            lambda: link.status()["compiles_in_flight"] > 0 or team.has_replied(0),
            seconds_max=SETTLE_SECONDS_MAX,
            what="the compile to begin",
        )
        generation = link.clear()
        during = Moment("cleared, compile in flight", link.status())
        team.tell(1, {"do": "ask", "names": [demo_sources()[-1].name]})
        team.wait(1)
        wait_until(
            lambda: _busy(link.status()) <= during.stats["compiles_in_flight"],
            seconds_max=SETTLE_SECONDS_MAX,
            what="the workers to store what they compiled",
        )
        later = Moment("another worker asks anew", link.status())
        caller = team.wait(0)
        wait_until(lambda: _busy(link.status()) == 0, seconds_max=SETTLE_SECONDS_MAX, what="the workers to become idle")
        after = Moment("the first caller is served", link.status())
    if during.stats["compiles_in_flight"] == 0 or later.stats["compiles_in_flight"] == 0:
        return None
    _check_clear(before, during, later, after, generation, caller["generation"])
    return ClearScene((before, during, later, after), caller["generation"], caller["seconds"][0])


def _check_clear(
    before: Moment, during: Moment, later: Moment, after: Moment, generation: int, caller_generation: int
) -> None:
    if during.size_bytes != 0:
        raise DemoError(f"{during.size_bytes} bytes are charged right after the clear")
    if later.size_bytes == 0 or later.stats["entries"]["grammar"] != 1:
        raise DemoError(f"after the clear one grammar was asked for: {later.stats['entries']} are there")
    if after.size_bytes != later.size_bytes or after.stats["entries"] != later.stats["entries"]:
        raise DemoError(f"the old compile moved the account from {later.size_bytes} to {after.size_bytes} bytes")
    if caller_generation != generation - 1 or after.stats["compiles"]["fenced"] <= before.stats["compiles"]["fenced"]:
        raise DemoError(f"the old compile was not fenced: its grammar is of generation {caller_generation}")


def account_at_rest(namespace: Namespace) -> Moment:
    """The account once the team has ended: nobody maps anything, so nothing is retired any more."""
    with manager_link(namespace) as link:
        wait_until(
            lambda: link.status()["retired_bytes"] == 0,
            seconds_max=SETTLE_SECONDS_MAX,
            what="the retired bytes to be given back",
        )
        return Moment("the workers have ended", link.status())


def _busy(stats: dict[str, Any]) -> int:
    return sum(worker["state"] == "busy" for worker in stats["workers"])
