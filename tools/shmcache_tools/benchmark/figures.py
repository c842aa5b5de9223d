"""What a scenario yields: latencies by engine, tables, goals, and whether they are met.

Owns these values and how they become JSON and columns of text. Must never time nor print anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OURS = "shmcache"
"""The engine that goals are about, and that is compared with the others."""

PERCENTILES = (50, 75, 90, 95, 99, 99.9, 100)
HEADER = ("p50", "p75", "p90", "p95", "p99", "p99.9", "max")


def percentiles(values: Iterable[float]) -> list[float] | None:
    """Of :data:`PERCENTILES`, the last of which is the maximum; None where there is nothing."""
    array = np.fromiter(values, dtype=np.float64)
    return None if not len(array) else [float(one) for one in np.percentile(array, PERCENTILES)]


def percentile(values: Sequence[float], percent: float) -> float:
    """One of them. Raises IndexError where there is nothing."""
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent))


@dataclass(frozen=True, slots=True)
class Goal:
    """``reached`` is to be no more than ``limit``; ``text`` says what it is of, ``unit`` is "µs", "B", "s" or "×"."""

    text: str
    reached: float
    limit: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.reached <= self.limit

    def to_plain(self) -> dict[str, Any]:
        """As the JSON document has it."""
        return {
            "goal": self.text,
            "reached": self.reached,
            "limit": self.limit,
            "unit": self.unit,
            "is_met": self.is_met,
        }


@dataclass(frozen=True, slots=True)
class Latencies:
    """Microseconds of the same thing by engine, ours first where it is among them."""

    title: str
    by_engine: Mapping[str, Sequence[float]]

    def rows(self) -> list[tuple[str, list[float]]]:
        """A name and its percentiles in microseconds, for every engine that has any."""
        found = ((name, percentiles(values)) for name, values in self.by_engine.items())
        return [(name, row) for name, row in found if row is not None]

    def ratios(self) -> list[float] | None:
        """Ours by the best of the others, at each percentile; None without ours or without others."""
        rows = dict(self.rows())
        ours = rows.pop(OURS, None)
        if ours is None or not rows:
            return None
        return [mine / max(1e-9, min(others)) for mine, *others in zip(ours, *rows.values(), strict=True)]

    def to_plain(self) -> dict[str, Any]:
        """As the JSON document has it."""
        engines = {
            name: {"count": len(self.by_engine[name]), **dict(zip(HEADER, row, strict=True))}
            for name, row in self.rows()
        }
        ratios = self.ratios()
        return {
            "title": self.title,
            "unit": "µs",
            "engines": engines,
            "ratio_to_best_peer": None if ratios is None else dict(zip(HEADER, ratios, strict=True)),
        }


@dataclass(frozen=True, slots=True)
class Table:
    """Anything else: a header, and rows of text and numbers; ``units`` says of each column what its numbers are."""

    title: str
    header: tuple[str, ...]
    units: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def to_plain(self) -> dict[str, Any]:
        """As the JSON document has it."""
        return {
            "title": self.title,
            "columns": [{"name": name, "unit": unit} for name, unit in zip(self.header, self.units, strict=True)],
            "rows": [list(row) for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Point:
    """One dot of a plot: both numbers, in the units of its axes."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Plot:
    """Dots or lines by name; both axes are logarithmic."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[Point]]
    has_lines: bool = True


@dataclass(slots=True)
class Section:
    """What one scenario yields, in the order in which it is shown."""

    name: str
    parts: list[Latencies | Table] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """As the JSON document has it; plots are files of their own."""
        return {
            "name": self.name,
            "parts": [part.to_plain() for part in self.parts],
            "goals": [goal.to_plain() for goal in self.goals],
            "notes": self.notes,
        }


def quantile_plot(name: str, latencies: Latencies) -> Plot:
    """The latencies as curves over how many in a hundred are slower."""
    shares = [100.0, 75.0, 50.0, 40.0, 30.0, 20.0, 15.0, 10.0, 7.0, 5.0, 3.0, 2.0, 1.0, 0.5, 0.2, 0.1]
    series = {
        engine: [Point(share, percentile(values, 100 - share)) for share in shares if share * len(values) >= 100]
        for engine, values in latencies.by_engine.items()
        if len(values)
    }
    return Plot(name, latencies.title, "percent that are slower", "µs", series)
