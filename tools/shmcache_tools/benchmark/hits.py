"""Hits: a grammar that another process of the host had compiled, and one that this process has asked for before.

Owns who asks for what in which process, and what is timed. Must never print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from shmcache_tools.benchmark.corpus import Case
from shmcache_tools.benchmark.engines import OurMatcher, XGrammar
from shmcache_tools.benchmark.figures import OURS, Goal, Latencies, Section, percentile, quantile_plot
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork
from shmcache_tools.benchmark.setting import Setting
from shmcache_tools.own_manager import own_manager

SECONDS_MAX = 600.0
HOST_P50_US_MAX, HOST_P99_US_MAX, LOCAL_P50_US_MAX = 50.0, 300.0, 2.0


class HitsError(Exception):
    """A process that was to hit did not."""


def hit_sections(setting: Setting) -> list[Section]:
    """Host hits and local hits, each of them in processes that are new."""
    # Kernels and the vocabulary's trie are ready in every fork, as they are in a process that serves.
    setting.engine(OURS)
    first_mask: list[float] = []
    local: list[float] = []
    local_mask: list[float] = []
    with own_manager("bench", workers=2) as namespace:
        setting.tell("hits: another process compiles everything")
        taken = set(_answer(lambda: _compile_all(setting, namespace.name)))
        cases = [case for case in setting.cases if case.name in taken]
        for number in range(setting.scale.hit_processes):
            setting.tell(f"hits: process {number + 1}/{setting.scale.hit_processes}")
            answer = _answer(lambda: _hits(setting, namespace.name, cases))
            first_mask += answer["host_us"]
            local += answer["local_us"]
            local_mask += answer["local_mask_us"]
    host = Latencies(f"host hit: request to first mask, {len(cases)} schemas", {OURS: first_mask})
    again = Latencies(
        "local hit: request to grammar",
        {OURS: local} | {peer.name: _peer_hits(setting, peer) for peer in _cached(setting)},
    )
    mask = Latencies("local hit: request to first mask", {OURS: local_mask})
    host_goals = [
        Goal("host hit p50", percentile(first_mask, 50), HOST_P50_US_MAX, "µs"),
        Goal("host hit p99", percentile(first_mask, 99), HOST_P99_US_MAX, "µs"),
    ]
    notes = [
        "No peer has anything like it: in a second process each compiles again (cold), or reads what it wrote (fleet)."
    ]
    return [
        Section("host-hit", [host], host_goals, notes, [quantile_plot("host-hit", host)]),
        Section("local-hit", [again, mask], [Goal("local hit p50", percentile(local, 50), LOCAL_P50_US_MAX, "µs")]),
    ]


def asked(cache: Any, case: Case) -> Any:
    """The grammar of a case from a ``GrammarCache``, with free whitespace and open objects."""
    return cache.compile_json_schema(case.schema, strict_mode=False)


def _answer(measure: Callable[[], Any]) -> Any:
    try:
        answer = in_fork(measure, seconds_max=SECONDS_MAX)
    except (OverdueError, CrashedError) as error:
        raise HitsError(f"a process that asked for grammars: {error or 'took too long'}") from error
    if isinstance(answer, dict) and "error" in answer:
        raise HitsError(f"a process that asked for grammars: {answer['error']}")
    return answer


def _compile_all(setting: Setting, namespace: str) -> list[str]:
    from shmcache.client import connect
    from shmcache.errors import ShmCacheError

    taken = []
    with connect(setting.vocabulary, namespace, autostart=False) as cache:
        for case in setting.cases:
            try:
                asked(cache, case)
            except ShmCacheError:
                continue
            taken.append(case.name)
    return taken


def _hits(setting: Setting, namespace: str, cases: Sequence[Case]) -> dict[str, Any]:
    from shmcache.client import connect
    from shmcache.matcher.bitmask import allocate_token_bitmask

    bitmask = allocate_token_bitmask(1, setting.vocabulary.width)
    answer: dict[str, Any] = {"host_us": [], "local_us": [], "local_mask_us": []}
    with connect(setting.vocabulary, namespace, autostart=False) as cache:
        OurMatcher(cache.compile_builtin_json_grammar(), bitmask).fill()
        before = cache.stats()["compiles"]["started"]
        for case in cases:
            started = perf_counter_ns()
            OurMatcher(asked(cache, case), bitmask).fill()
            answer["host_us"].append((perf_counter_ns() - started) / 1e3)
        if cache.stats()["compiles"]["started"] != before:
            raise HitsError("what another process had compiled was compiled again")
        for case in cases:
            for _ in range(setting.scale.local_repeats):
                started = perf_counter_ns()
                grammar = asked(cache, case)
                found = perf_counter_ns()
                OurMatcher(grammar, bitmask).fill()
                answer["local_mask_us"].append((perf_counter_ns() - started) / 1e3)
                answer["local_us"].append((found - started) / 1e3)
    return answer


def _cached(setting: Setting) -> list[XGrammar]:
    """The peers that keep what they compiled: one mode is enough, since a look-up does not depend on it."""
    return [engine for engine in setting.peers if isinstance(engine, XGrammar)][-1:]


def _peer_hits(setting: Setting, engine: XGrammar) -> list[float]:
    """Of as many schemas as a quarter of a minute allows."""
    setting.tell(f"local hits: {engine.name}")

    def measure() -> list[float]:
        ask = engine.asking()
        microseconds = []
        begun = perf_counter_ns()
        for case in setting.cases:
            if perf_counter_ns() - begun > 15e9:
                break
            try:
                ask(case.schema)
            except Exception:
                continue
            for _ in range(setting.scale.local_repeats):
                started = perf_counter_ns()
                ask(case.schema)
                microseconds.append((perf_counter_ns() - started) / 1e3)
        return microseconds

    try:
        answer: list[float] = in_fork(measure, seconds_max=SECONDS_MAX)
    except (OverdueError, CrashedError):
        return []
    return answer
