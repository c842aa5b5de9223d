"""The benchmark: what is timed, in which process, and how often.

Owns the scenarios and their figures as values. Must never print. Latencies of one inference process are taken while
nothing else of the benchmark runs.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcache_tools.inference_team import inference_team, open_commands
from shmcache_tools.own_manager import own_manager, wait_until
from shmcache_tools.sources import demo_sources, tiny_pattern

if TYPE_CHECKING:
    from shmcache.client import GrammarCache

PERCENTILES = (50, 90, 99)
REST_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How often each scenario is repeated."""

    cold_rounds: int
    hit_processes: int
    local_repeats: int
    decode_rounds: int
    cleared_entries: int
    clear_rounds: int


FULL = Scale(cold_rounds=2, hit_processes=8, local_repeats=200, decode_rounds=10, cleared_entries=1000, clear_rounds=5)
QUICK = Scale(cold_rounds=1, hit_processes=2, local_repeats=20, decode_rounds=1, cleared_entries=50, clear_rounds=2)


@dataclass(frozen=True, slots=True)
class Figure:
    """One scenario's latencies in seconds; ``goal_seconds`` is for their p50."""

    name: str
    seconds: Sequence[float]
    goal_seconds: float | None = None

    def percentile(self, percent: float) -> float:
        """In seconds; 100 is the maximum."""
        return float(np.percentile(np.asarray(self.seconds), percent))

    @property
    def is_met(self) -> bool | None:
        """Whether the p50 reaches the goal; None without one."""
        return None if self.goal_seconds is None else self.percentile(50) <= self.goal_seconds

    def to_plain(self) -> dict[str, Any]:
        """As one entry of the JSON document, in microseconds."""
        return {
            "name": self.name,
            "count": len(self.seconds),
            **{f"p{percent}_us": round(self.percentile(percent) * 1e6, 3) for percent in PERCENTILES},
            "max_us": round(self.percentile(100) * 1e6, 3),
            "goal_p50_us": None if self.goal_seconds is None else self.goal_seconds * 1e6,
            "goal_met": self.is_met,
        }


@dataclass(frozen=True, slots=True)
class Scenario:
    """A step of the benchmark: what it is called while it runs, and what it yields."""

    label: str
    run: Callable[[Scale, int], list[Figure]]


def cold(scale: Scale, seed: int) -> list[Figure]:
    """Compiled in the process that asks, nothing shared: source to first mask."""
    names = [source.name for source in demo_sources()]
    with inference_team(1) as team:
        team.all(open_commands(1, namespace=None, seed=seed))
        replies = [team.all([{"do": "ask", "names": names}])[0] for _ in range(scale.cold_rounds)]
    return [Figure("cold: source to first mask", [second for reply in replies for second in reply["seconds"]])]


def shared(scale: Scale, seed: int) -> list[Figure]:
    """Hits and steps in processes that are new each time, of grammars that another process had compiled."""
    names = [source.name for source in demo_sources()]
    host: list[float] = []
    local: list[float] = []
    local_mask: list[float] = []
    steps: list[float] = []
    with own_manager("bench", workers=2) as namespace:
        with inference_team(1) as compiling:
            compiling.all(open_commands(1, namespace=namespace.name, seed=seed))
            compiling.all([{"do": "ask", "names": names}])
        for number in range(scale.hit_processes):
            with inference_team(1) as team:
                team.all(open_commands(1, namespace=namespace.name, seed=seed + number))
                host += team.all([{"do": "ask", "names": names}])[0]["seconds"]
                again = team.all([{"do": "ask_again", "repeats": scale.local_repeats}])[0]
                local += again["seconds"]
                local_mask += again["first_mask_seconds"]
                if number == 0:
                    steps = team.all([{"do": "decode", "rounds": scale.decode_rounds}])[0]["step_seconds"]
    return [
        Figure("host hit: request to first mask", host, 200e-6),
        Figure("local hit: request to grammar", local, 5e-6),
        Figure("local hit: request to first mask", local_mask),
        Figure("decode step: fill and accept", steps, 5e-6),
    ]


def clearing(scale: Scale, _seed: int) -> list[Figure]:
    """A clear of many small entries, as its caller sees it: one who holds none of them, and one who maps them all."""
    from shmcache.client import connect
    from shmcache.vocabulary.vocabulary import Vocabulary

    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with (
        own_manager("bench", workers=2) as namespace,
        connect(vocabulary, namespace.name, autostart=False) as holder,
        connect(vocabulary, namespace.name, autostart=False) as other,
    ):
        for number in range(2 * scale.clear_rounds):
            for entry in range(scale.cleared_entries):
                holder.compile_regex(tiny_pattern(entry))
            _await_rest(other, scale.cleared_entries)
            is_holder = number % 2 == 1
            started = perf_counter()
            (holder if is_holder else other).clear_cache()
            seconds[is_holder].append(perf_counter() - started)
    entries = f"{scale.cleared_entries:,}"
    return [
        Figure(f"clear of {entries} entries", seconds[False], 1e-3),
        Figure(f"clear of {entries}, mapped by caller", seconds[True]),
    ]


def peer(scale: Scale, _seed: int) -> list[Figure]:
    """The same sources, cold, in llguidance; nothing where it is not installed (extra ``bench``)."""
    from shmcache_tools.bench_peer import cold_seconds

    seconds = cold_seconds(scale.cold_rounds)
    if seconds is None:
        return []
    return [Figure("cold in llguidance (JSON, regex)", seconds)]


SCENARIOS = (
    Scenario("cold compiles", cold),
    Scenario("hits and steps", shared),
    Scenario("clears", clearing),
    Scenario("the peer", peer),
)


def _await_rest(cache: GrammarCache, entries: int) -> None:
    """Waits until what was compiled is stored and what was cleared before is gone; so many grammars are then there."""

    def is_at_rest() -> bool:
        stats = cache.stats()
        return stats["retired_bytes"] == 0 and all(worker["state"] != "busy" for worker in stats["workers"])

    wait_until(is_at_rest, seconds_max=REST_SECONDS_MAX, what="the cache to be at rest")
    found = cache.stats()["entries"]["grammar"]
    if found != entries:
        raise ValueError(f"{found} grammars are there to be cleared, not {entries}")


def circumstances(seed: int) -> dict[str, Any]:
    """What one must know to compare figures: machine, Python, commit, seed."""
    return {
        "processor": processor_name(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")),
        "cores": len(os.sched_getaffinity(0)),
        "linux": platform.release(),
        "python": platform.python_version(),
        "commit": commit(),
        "seed": seed,
        "load_average": os.getloadavg()[0],
    }


def processor_name(cpuinfo: str) -> str:
    """The processor's name in the text of ``/proc/cpuinfo``, else the machine's type."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def commit() -> str | None:
    """The commit this code is of, with ``+`` when the checkout differs from it; None outside of a checkout."""
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        is_changed = bool(git("status", "--porcelain", "--untracked-files=no"))
        return git("rev-parse", "--short", "HEAD") + ("+" if is_changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
