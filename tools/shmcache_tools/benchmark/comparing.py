"""Cold compiles and steps of each engine on each schema, every pair in a fresh process.

Owns what is timed there and what becomes of it. Must never print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from shmcache_tools.benchmark.corpus import Case
from shmcache_tools.benchmark.engines import Engine
from shmcache_tools.benchmark.figures import (
    OURS,
    Goal,
    Latencies,
    Plot,
    Point,
    Section,
    Table,
    percentile,
    quantile_plot,
)
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork
from shmcache_tools.benchmark.setting import Setting

BYTES_P50_MAX, BYTES_P99_MAX = 60e3, 4e6
XGRAMMAR = "XGrammar"
ANOTHER = '{"type": "array", "items": {"type": "boolean"}}'
"""A schema that has little in common with any other."""


@dataclass(slots=True)
class Results:
    """Of one engine: a value for every schema that it took, in microseconds and bytes, and the others by reason."""

    engine: str
    cold_us: dict[str, float] = field(default_factory=dict)
    first_step_us: dict[str, list[float]] = field(default_factory=dict)
    """Fill and accept, where the process meets the text for the first time."""
    step_us: dict[str, list[float]] = field(default_factory=dict)
    """Fill and accept, where it has met the text before."""
    size_bytes: dict[str, int] = field(default_factory=dict)
    rejected_instances: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, case: Case, answer: dict[str, Any]) -> None:
        """Takes in what came back from the process for one schema."""
        if "error" in answer:
            self.failures[case.name] = answer["error"]
            return
        self.cold_us[case.name] = answer["cold_us"]
        self.first_step_us[case.name] = answer["first_step_us"]
        self.step_us[case.name] = answer["step_us"]
        self.rejected_instances += answer["rejected"]
        if answer["size_bytes"] is not None:
            self.size_bytes[case.name] = answer["size_bytes"]


def compare(
    engines: Sequence[Engine], cases: Sequence[Case], tell: Callable[[str], None], *, seconds_max: float
) -> list[Results]:
    """The results of the engines, which take turns on each schema so that noise meets all alike."""
    results = [Results(engine.name) for engine in engines]
    for number, case in enumerate(cases):
        for engine, result in zip(engines, results, strict=True):
            tell(f"cold and step: {number + 1}/{len(cases)} {case.name}, {engine.name}")
            result.add(case, measured(engine, case, seconds_max=seconds_max))
    return results


def measured(engine: Engine, case: Case, *, seconds_max: float) -> dict[str, Any]:
    """What one engine does with one schema in a fork of this process."""
    try:
        answer: dict[str, Any] = in_fork(lambda: _measure(engine, case), seconds_max=seconds_max)
    except OverdueError:
        return {"error": f"longer than {seconds_max:.0f} s"}
    except CrashedError as error:
        return {"error": f"crashed: {error}"}
    return answer


def _measure(engine: Engine, case: Case) -> dict[str, Any]:
    # Touches the pages that any compile touches: after a fork that is slow, and no process in service has it before it.
    engine.compile(ANOTHER).matcher().fill()
    started = perf_counter_ns()
    grammar = engine.compile(case.schema)
    matcher = grammar.matcher()
    matcher.fill()
    cold_us = (perf_counter_ns() - started) / 1e3
    first, rejected = _steps(grammar.matcher, case.instances)
    again, _ = _steps(grammar.matcher, case.instances)
    return {
        "cold_us": cold_us,
        "first_step_us": first,
        "step_us": again,
        "rejected": rejected,
        "size_bytes": grammar.size_bytes,
    }


def _steps(begin: Callable[[], Any], instances: Iterable[Sequence[int]]) -> tuple[list[float], int]:
    """Microseconds of every fill + accept, and how many instances were not taken to their end."""
    steps: list[float] = []
    rejected = 0
    for tokens in instances:
        matcher = begin()
        fill, accept = matcher.fill, matcher.accept
        for token in tokens:
            started = perf_counter_ns()
            fill()
            is_accepted = accept(token)
            steps.append((perf_counter_ns() - started) / 1e3)
            if not is_accepted:
                rejected += 1
                break
    return steps, rejected


def cold_section(setting: Setting, results: Sequence[Results]) -> Section:
    """Source to first mask, over the schemas that every engine took; and what became of all of them."""
    section = Section("cold")
    latencies = Latencies(
        f"cold: source to first mask, {len(common(results))} schemas that all take",
        {result.engine: [result.cold_us[name] for name in common(results)] for result in results},
    )
    sizes = [
        (result.engine, len(result.cold_us), len(result.failures), result.rejected_instances, *_sizes(result))
        for result in results
    ]
    header = ("", "schemas", "not taken", "cut short", "size p50", "size p99")
    section.parts = [latencies, Table("what became of them", header, ("", "", "", "", "B", "B"), sizes)]
    section.goals = _cold_goals(latencies, results)
    section.notes = [note for result in results if (note := _failures(result))]
    lengths = {case.name: float(len(case.schema)) for case in setting.cases}
    dots = {
        result.engine: [Point(lengths[name], microseconds) for name, microseconds in result.cold_us.items()]
        for result in results
    }
    section.plots = [
        quantile_plot("cold", latencies),
        Plot("cold-by-size", "cold: source to first mask", "characters of the schema", "µs", dots, has_lines=False),
    ]
    return section


def step_section(_setting: Setting, results: Sequence[Results]) -> Section:
    """Fill and accept over the instances, over the schemas that every engine took."""
    names = common(results)

    def all_of(steps: Callable[[Results], dict[str, list[float]]]) -> dict[str, list[float]]:
        return {result.engine: [one for name in names for one in steps(result)[name]] for result in results}

    first = Latencies(
        "step: fill + accept, a text for the first time in its process", all_of(lambda result: result.first_step_us)
    )
    again = Latencies("step: fill + accept, the text once more", all_of(lambda result: result.step_us))
    section = Section("step", [first, again])
    for latencies, when in ((first, "first time"), (again, "once more")):
        rows = dict(latencies.rows())
        if OURS in rows and len(rows) > 1:
            ours = rows.pop(OURS)
            for place, label, share in ((0, "p50", 2), (4, "p99", 4), (5, "p99.9", 4)):
                limit = min(row[place] for row in rows.values()) / share
                section.goals.append(
                    Goal(f"step {label}, {when}: 1/{share} of the best peer's", ours[place], limit, "µs")
                )
    section.plots = [quantile_plot("step-first", first), quantile_plot("step-again", again)]
    return section


def common(results: Sequence[Results]) -> list[str]:
    """The schemas that every engine took, in the order of the corpus."""
    return [name for name in results[0].cold_us if all(name in result.cold_us for result in results)] if results else []


def _sizes(result: Results) -> tuple[float | None, float | None]:
    sizes = list(result.size_bytes.values())
    return (percentile(sizes, 50), percentile(sizes, 99)) if sizes else (None, None)


def _failures(result: Results) -> str:
    reasons: dict[str, int] = {}
    for reason in result.failures.values():
        short = reason.splitlines()[0][:60]
        reasons[short] = reasons.get(short, 0) + 1
    listed = sorted(reasons.items(), key=lambda pair: -pair[1])[:3]
    return (
        f"{result.engine} does not take: " + "; ".join(f"{count} × {reason}" for reason, count in listed)
        if listed
        else ""
    )


def _cold_goals(latencies: Latencies, results: Sequence[Results]) -> list[Goal]:
    rows = dict(latencies.rows())
    goals: list[Goal] = []
    if OURS not in rows:
        return goals
    ours = rows[OURS]
    if "llguidance" in rows:
        goals += [
            Goal(f"cold {label}: as llguidance", ours[place], rows["llguidance"][place], "µs")
            for place, label in ((0, "p50"), (4, "p99"))
        ]
    if XGRAMMAR in rows:
        goals += [
            Goal(f"cold {label}: 1/50 of XGrammar's", ours[place], rows[XGRAMMAR][place] / 50, "µs")
            for place, label in ((0, "p50"), (3, "p95"), (4, "p99"))
        ]
    p50, p99 = next(_sizes(result) for result in results if result.engine == OURS)
    if p50 is not None and p99 is not None:
        goals += [Goal("size p50", p50, BYTES_P50_MAX, "B"), Goal("size p99", p99, BYTES_P99_MAX, "B")]
    return goals
