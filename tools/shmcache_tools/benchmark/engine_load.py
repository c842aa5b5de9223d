"""The ranks of an engine under one load, with this cache and with XGrammar in every rank.

Owns which runs are made and their table. The load itself is :mod:`shmcache_tools.fleet`'s. Must never print.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shmcache_tools.fleet import Course, Plan, run_fleet
from shmcache_tools.output import seconds_text, table
from shmcache_tools.own_manager import own_manager

FULL = Plan(vocabulary="mistral", delay_seconds=0.2)
QUICK = Plan(ranks=3, requests=12, grammars=4, killed_at=3, flushed_at=6)


@dataclass(frozen=True, slots=True)
class Run:
    """One engine's course."""

    engine: str
    course: Course

    def to_plain(self) -> dict[str, Any]:
        """As one entry of the JSON document."""
        course = self.course
        return {
            "engine": self.engine,
            "seconds": round(course.seconds, 3),
            "steps": course.steps,
            "tokens": course.tokens,
            "compiles_expected": course.compiles_expected,
            "differing_masks": len(course.differences),
            "grammar_wait_seconds": {
                "p50": _at(course.compile_seconds, 50),
                "sum": round(sum(course.compile_seconds), 3),
            },
            "step_seconds": {"p50": _at(course.mask_seconds, 50), "p99": _at(course.mask_seconds, 99)},
        }


def runs(*, is_quick: bool, seed: int, progress: Callable[[str], None]) -> list[Run]:
    """The load with each engine that is installed. Raises :class:`FleetError` and :class:`ManagerUnavailable`."""
    plan = replace(QUICK if is_quick else FULL, seed=seed)
    engines = ["shmcache", *(["xgrammar"] if importlib.util.find_spec("xgrammar") else [])]
    found = []
    for engine in engines:
        progress(f"{plan.ranks} ranks, {plan.requests} requests, {engine}")
        with own_manager("bench", workers=2) as namespace:
            found.append(Run(engine, run_fleet(replace(plan, engine=engine), namespace.name)))
    return found


def shown(found: list[Run]) -> str:
    """The runs as a table: one column an engine."""
    rows = [
        ("the whole run", *(seconds_text(run.course.seconds) for run in found)),
        ("a rank's step, p50", *(seconds_text(_at(run.course.mask_seconds, 50)) for run in found)),
        ("a rank's step, p99", *(seconds_text(_at(run.course.mask_seconds, 99)) for run in found)),
        ("waiting for a grammar, p50", *(seconds_text(_at(run.course.compile_seconds, 50)) for run in found)),
        ("waiting for grammars, sum", *(seconds_text(sum(run.course.compile_seconds)) for run in found)),
        ("tokens", *(f"{run.course.tokens:,}" for run in found)),
        ("masks that differ between ranks", *(str(len(run.course.differences)) for run in found)),
    ]
    return table(rows, header=("", *(run.engine for run in found)), align="<" + ">" * len(found))


def _at(seconds: list[float], percent: float) -> float:
    return round(float(np.percentile(seconds, percent)), 9) if seconds else 0.0
