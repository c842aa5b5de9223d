"""A batch of requests at known configurations: all their masks in one call, in one thread.

Owns which requests are in it and what is timed. Must never print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from shmcache_tools.benchmark.corpus import Case
from shmcache_tools.benchmark.engines import Engine
from shmcache_tools.benchmark.figures import OURS, Goal, Latencies, Section, percentile
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork
from shmcache_tools.benchmark.setting import Setting

SCHEMAS = 8
ROW_US_MAX = 0.6


def batch_section(setting: Setting) -> Section:
    """Microseconds a row of whole calls, by the size of the batch."""
    section = Section("batch")
    engines = setting.engines
    answers = {engine.name: _of(setting, engine) for engine in engines}
    for size in setting.scale.batch_sizes:
        found = {name: answer[str(size)] for name, answer in answers.items() if str(size) in answer}
        latencies = Latencies(f"batch of {size}: per row, configurations known", found)
        section.parts.append(latencies)
    largest = str(setting.scale.batch_sizes[-1])
    if OURS in answers and largest in answers[OURS]:
        reached = percentile(answers[OURS][largest], 50)
        section.goals.append(Goal(f"batch of {largest}, per row, p50", reached, ROW_US_MAX, "µs"))
    section.notes += [f"{name}: {answer['error']}" for name, answer in answers.items() if "error" in answer]
    return section


def _of(setting: Setting, engine: Engine) -> dict[str, Any]:
    setting.tell(f"batches: {engine.name}")
    scale = setting.scale
    try:
        answer: dict[str, Any] = in_fork(
            lambda: _measure(engine, setting.cases, scale.batch_sizes, scale.batch_rounds),
            seconds_max=SCHEMAS * scale.pair_seconds_max,
        )
    except (OverdueError, CrashedError) as error:
        return {"error": str(error) or "took too long"}
    return answer


def _measure(engine: Engine, cases: Sequence[Case], sizes: Sequence[int], rounds: int) -> dict[str, list[float]]:
    begins = _beginnings(engine, cases)
    answer = {}
    for size in sizes:
        fill = engine.batch(_matchers(begins, size))
        for _ in range(3):
            fill()
        microseconds = []
        for _ in range(rounds):
            started = perf_counter_ns()
            fill()
            microseconds.append((perf_counter_ns() - started) / 1e3 / size)
        answer[str(size)] = microseconds
    return answer


def _beginnings(engine: Engine, cases: Sequence[Case]) -> list[tuple[Callable[[], Any], Case]]:
    """Of as many schemas as the engine takes, up to :data:`SCHEMAS`."""
    found: list[tuple[Callable[[], Any], Case]] = []
    for case in cases:
        if len(found) == SCHEMAS:
            break
        if not case.instances:
            continue
        try:
            found.append((engine.compile(case.schema).matcher, case))
        except Exception:
            continue
    if not found:
        raise ValueError("none of the schemas is taken")
    return found


def _matchers(begins: Sequence[tuple[Callable[[], Any], Case]], size: int) -> list[Any]:
    """Requests of different schemas, each as far in an instance as its number says, or as the instance goes."""
    matchers = []
    for number in range(size):
        begin, case = begins[number % len(begins)]
        tokens = case.instances[number % len(case.instances)]
        matcher = begin()
        for token in tokens[: (number * 7) % max(1, len(tokens))]:
            matcher.fill()
            if not matcher.accept(token):
                break
        matchers.append(matcher)
    return matchers
