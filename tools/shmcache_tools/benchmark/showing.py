"""Sections as text: tables of 80 to 100 columns, each goal beside what was reached.

Owns the layout. Must never time anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shmcache_tools.benchmark.figures import HEADER, Latencies, Section, Table
from shmcache_tools.output import bytes_text, seconds_text, table, wrapped

COLUMNS_MAX = 100
MARKS = {True: "ok", False: "!!"}


def lines(section: Section) -> Iterator[str]:
    """All of a section, a string for each part of it."""
    for part in section.parts:
        yield part.title
        yield _latencies(part) if isinstance(part, Latencies) else _table(part)
        yield ""
    if section.goals:
        rows = [
            (goal.text, amount(goal.reached, goal.unit), "≤ " + amount(goal.limit, goal.unit), MARKS[goal.is_met])
            for goal in section.goals
        ]
        yield table(rows, header=(f"goals: {section.name}", "reached", "goal", ""), align="<>><")
        yield ""
    for note in section.notes:
        yield wrapped(f"{section.name}: {note}")
    if section.notes:
        yield ""


def amount(value: Any, unit: str) -> str:
    """A number in its unit, short; text as it is."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value if len(value) <= 24 else value[:23] + "…"
    if unit == "µs":
        return seconds_text(value / 1e6)
    if unit == "s":
        return seconds_text(value)
    if unit == "B":
        return bytes_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _latencies(part: Latencies) -> str:
    rows = [(name, *(amount(value, "µs") for value in values)) for name, values in part.rows()]
    ratios = part.ratios()
    if ratios is not None:
        rows.append(("× best peer", *(f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}" for ratio in ratios)))
    return table(rows, header=("", *HEADER), align="<" + ">" * len(HEADER), columns_max=COLUMNS_MAX)


def _table(part: Table) -> str:
    rows = [tuple(amount(value, unit) for value, unit in zip(row, part.units, strict=True)) for row in part.rows]
    return table(rows, header=part.header, align="<" + ">" * (len(part.header) - 1), columns_max=COLUMNS_MAX)
