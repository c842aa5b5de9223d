"""Clears as their caller sees them, idle and with compiles in flight, and what a reader sees of them.

Owns the three kinds of processes that take part. Must never print.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from time import monotonic, perf_counter_ns
from typing import Any

from shmcache.memory.names import Namespace
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.benchmark.engines import OurMatcher
from shmcache_tools.benchmark.figures import Goal, Latencies, Section, Table, percentile
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork, in_forks
from shmcache_tools.benchmark.setting import Setting
from shmcache_tools.own_manager import own_manager, wait_until
from shmcache_tools.sources import large_schema, tiny_pattern

SECONDS_MAX = 600.0
REST_SECONDS_MAX = 60.0
READING_SECONDS = 0.25
"""So long a reader hits before and after."""

CLEAR_US_MAX = 300.0
ROUND_ENTRIES_MAX = 10_000
"""Rounds of one size make no more entries than this together, but there is one."""

LARGE_PROPERTIES = 300
_READS, _CLEARED = 0, 1
"""Places of the bytes that the processes tell one another by."""


class ClearError(Exception):
    """A process that takes part failed, or what was to be cleared was not there."""


def clear_section(setting: Setting) -> Section:
    """A row for each number of entries, idle and in flight; a reader takes part in rounds of its own."""
    # Small tokens only: what is cleared is entries, not rows.
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])
    scale = setting.scale
    microseconds: dict[str, list[float]] = {}
    for entries in scale.clear_entries:
        for is_busy in (False, True):
            label = f"{entries:,}{', in flight' if is_busy else ''}"
            microseconds[label] = []
            for number in range(max(1, min(scale.clear_rounds, ROUND_ENTRIES_MAX // entries))):
                setting.tell(f"clear of {label}: {number + 1}")
                answer = _round(vocabulary, entries, setting.seed + number, is_busy=is_busy, is_read=False)
                microseconds[label].append(answer["clear_us"])
    rows = []
    for is_busy in (False, True):
        label = f"{scale.read_entries:,}{', in flight' if is_busy else ''}"
        setting.tell(f"clear of {label}, with a reader")
        answer = _round(vocabulary, scale.read_entries, setting.seed, is_busy=is_busy, is_read=True)
        rows.append((label, *_reader_row(answer)))
    return Section(
        "clear",
        [
            Latencies("clear of so many entries, as its caller sees it", microseconds),
            Table(
                "hits of a reader that does nothing else, on a core that it may have to share",
                ("", "hits/s before", "hits/s around", "p99.9 before", "p99.9 around", "longest around"),
                ("", "", "", "µs", "µs", "µs"),
                rows,
            ),
        ],
        [
            Goal(f"clear of {label}, slowest", max(values), CLEAR_US_MAX, "µs")
            for label, values in list(microseconds.items())[-2:]
        ],
        ["in flight: large schemas are being compiled. A reader's first request after a clear is a miss, and no hit."],
    )


def _reader_row(answer: dict[str, Any]) -> tuple[float, ...]:
    before, around = answer["before_us"], answer["around_us"]
    if not before or not around:
        raise ClearError("the reader had no hits")
    return (
        len(before) / READING_SECONDS,
        len(around) / answer["around_seconds"],
        percentile(before, 99.9),
        percentile(around, 99.9),
        max(around),
    )


def _round(vocabulary: Vocabulary, entries: int, seed: int, *, is_busy: bool, is_read: bool) -> dict[str, Any]:
    with own_manager("bench", workers=2) as namespace, mmap.mmap(-1, 4096) as flags:
        try:
            _checked(in_fork(lambda: _fill(vocabulary, namespace, entries), seconds_max=SECONDS_MAX))
            flags[_READS] = not is_read
            measures: list[Callable[[], Any]] = [lambda: _clear(vocabulary, namespace, flags, entries, is_busy)]
            if is_busy:
                measures.append(lambda: _keep_busy(vocabulary, namespace, flags, seed))
            if is_read:
                measures.append(lambda: _read(vocabulary, namespace, flags))
            answers, _ = in_forks(measures, seconds_max=SECONDS_MAX, meanwhile=lambda pids: None)
        except (OverdueError, CrashedError) as error:
            raise ClearError(str(error) or "a process took too long") from error
    found: dict[str, Any] = {}
    for answer in answers:
        found |= _checked(answer)
    return found


def _checked(answer: Any) -> Any:
    if isinstance(answer, dict) and "error" in answer:
        raise ClearError(answer["error"])
    return answer


def _fill(vocabulary: Vocabulary, namespace: Namespace, entries: int) -> int:
    from shmcache.client import connect

    with connect(vocabulary, namespace.name, autostart=False) as cache:
        for entry in range(entries):
            cache.compile_regex(tiny_pattern(entry))

        def is_stored() -> bool:
            stats = cache.stats()
            return bool(stats["entries"]["grammar"] == entries and not stats["compiles_in_flight"])

        wait_until(is_stored, seconds_max=REST_SECONDS_MAX, what=f"{entries:,} grammars to be there")
    return entries


def _clear(
    vocabulary: Vocabulary, namespace: Namespace, flags: mmap.mmap, entries: int, is_busy: bool
) -> dict[str, Any]:
    from shmcache.client import connect

    with connect(vocabulary, namespace.name, autostart=False) as cache:
        wait_until(lambda: flags[_READS] == 1, seconds_max=REST_SECONDS_MAX, what="the reader to read")
        if is_busy:
            wait_until(
                lambda: cache.stats()["compiles_in_flight"] > 0,
                seconds_max=REST_SECONDS_MAX,
                what="a compile to be in flight",
            )
        found = cache.stats()["entries"]["grammar"]
        started = perf_counter_ns()
        cache.clear_cache()
        ended = perf_counter_ns()
        flags[_CLEARED] = 1
        if found < entries:
            raise ClearError(f"{found:,} grammars are there to be cleared, not {entries:,}")
    return {"clear_us": (ended - started) / 1e3}


def _read(vocabulary: Vocabulary, namespace: Namespace, flags: mmap.mmap) -> dict[str, Any]:
    """Asks for one grammar and fills a mask, over and over: before the clear, and after it."""
    from shmcache.client import connect
    from shmcache.matcher.bitmask import allocate_token_bitmask

    bitmask = allocate_token_bitmask(1, vocabulary.width)
    answer: dict[str, Any] = {}
    with connect(vocabulary, namespace.name, autostart=False) as cache:
        held = cache.compile_regex("what the reader reads")

        def hit_for(seconds: float) -> list[float]:
            nonlocal held
            found: list[float] = []
            until = monotonic() + seconds
            while monotonic() < until:
                started = perf_counter_ns()
                grammar = cache.compile_regex("what the reader reads")
                OurMatcher(grammar, bitmask).fill()
                ended = perf_counter_ns()
                if grammar is held:
                    found.append((ended - started) / 1e3)
                held = grammar
            return found

        hit_for(0.05)
        answer["before_us"] = hit_for(READING_SECONDS)
        begun = monotonic()
        flags[_READS] = 1
        deadline = monotonic() + REST_SECONDS_MAX
        during: list[float] = []
        while not flags[_CLEARED] and monotonic() < deadline:
            begun = monotonic()
            during = hit_for(0.005)
        # The window in which the clear fell counts as around it.
        answer["around_us"] = during + hit_for(READING_SECONDS)
        answer["around_seconds"] = monotonic() - begun
    return answer


def _keep_busy(vocabulary: Vocabulary, namespace: Namespace, flags: mmap.mmap, seed: int) -> dict[str, Any]:
    """Has large schemas compiled, one after the other, until all is cleared."""
    from shmcache.client import connect

    number = 0
    with connect(vocabulary, namespace.name, autostart=False) as cache:
        while not flags[_CLEARED]:
            cache.compile_json_schema(large_schema(LARGE_PROPERTIES, seed=seed * 1_000 + number))
            number += 1
    return {}
