"""Cold compiles and steps of each engine on each schema, every pair in a fresh process.

Owns what is timed there and what becomes of it. Must never print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.benchmark.corpus import Case
from shmcache_tools.benchmark.engines import ENGINES, Engine
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork

SECONDS_MAX = 60.0
"""One engine on one schema, steps included."""


@dataclass(slots=True)
class Results:
    """Of one engine: a value for every schema that it took, in microseconds and bytes, and the others by reason."""

    engine: str
    cold_us: dict[str, float] = field(default_factory=dict)
    first_step_us: list[float] = field(default_factory=list)
    """Fill and accept, where the process meets the text for the first time."""
    step_us: list[float] = field(default_factory=list)
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
        self.first_step_us += answer["first_step_us"]
        self.step_us += answer["step_us"]
        self.rejected_instances += answer["rejected"]
        if answer["size_bytes"] is not None:
            self.size_bytes[case.name] = answer["size_bytes"]


def compare(
    names: Sequence[str], cases: Sequence[Case], vocabulary: Vocabulary, progress: Callable[[str, Case], None]
) -> list[Results]:
    """The results of the engines of these names, which take turns on each schema so that noise meets all alike.

    ``progress`` is told before each.
    """
    engines = {name: ENGINES[name][1](vocabulary) for name in names}
    results = {name: Results(engine.name) for name, engine in engines.items()}
    for case in cases:
        for name, engine in engines.items():
            progress(engine.name, case)
            results[name].add(case, measured(engine, case))
    return list(results.values())


def measured(engine: Engine, case: Case) -> dict[str, Any]:
    """What one engine does with one schema in a fork of this process."""
    try:
        answer: dict[str, Any] = in_fork(lambda: _measure(engine, case), seconds_max=SECONDS_MAX)
    except OverdueError:
        return {"error": f"longer than {SECONDS_MAX:.0f} s"}
    except CrashedError as error:
        return {"error": f"crashed: {error}"}
    return answer


def _measure(engine: Engine, case: Case) -> dict[str, Any]:
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


PERCENTILES = (50, 75, 90, 95, 99, 99.9, 100)


def percentiles(values: Iterable[float]) -> list[float] | None:
    """Of :data:`PERCENTILES`, the last of which is the maximum; None where there is nothing."""
    array = np.fromiter(values, dtype=np.float64)
    return None if not len(array) else [float(one) for one in np.percentile(array, PERCENTILES)]
