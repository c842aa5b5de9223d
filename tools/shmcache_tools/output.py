"""How results look on a terminal: tables within 80 columns, amounts with units, one JSON document.

Owns the formatting of text. Must never know where a value comes from.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import Any

import click

COLUMNS_MAX = 80


def echo_json(document: Any) -> None:
    """Prints the one document of a ``--json`` run on standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def bytes_text(count: float) -> str:
    """``count`` bytes in the unit that keeps three or four digits: ``512 B``, ``1.50 KiB``, ``31.2 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{_short(size) if unit != 'B' else int(size)} {unit}"
        size /= 1024
    return f"{_short(size)} TiB"


def seconds_text(seconds: float) -> str:
    """A duration in the unit that keeps three digits: ``870 ns``, ``3.21 µs``, ``45.6 ms``, ``7.89 s``."""
    for factor, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if abs(seconds) * factor < 1000:
            return f"{_short(seconds * factor)} {unit}" if seconds else f"0 {unit}"
    return f"{_short(seconds)} s"


def age_text(seconds: float) -> str:
    """A span as one reads a clock: ``12 s``, ``3 min``, ``5 h``, ``2 d``."""
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds / divisor)} {unit}"
    return f"{int(seconds / 86_400)} d"


def count_text(count: int, one: str, many: str = "") -> str:
    """``1 entry``, ``3 entries``; without ``many`` the plural has an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def limit_text(limit_bytes: int) -> str:
    """A limit in bytes, where a negative one means none."""
    return "none" if limit_bytes < 0 else bytes_text(limit_bytes)


def table(
    rows: Sequence[Sequence[str]], *, header: Sequence[str] = (), align: str = "", columns_max: int = COLUMNS_MAX
) -> str:
    """Rows in columns two spaces apart; ``align`` has ``<`` or ``>`` for each column, ``<`` by default.

    The last column is cut where a line would pass ``columns_max`` columns.
    """
    lines = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    marks = align.ljust(len(widths), "<")
    text = []
    for number, line in enumerate(lines):
        cells = [f"{cell:{mark}{width}}" for cell, mark, width in zip(line, marks, widths, strict=True)]
        plain = _cut("  ".join(cells).rstrip(), columns_max)
        text.append(click.style(plain, bold=True) if header and number == 0 else plain)
    return "\n".join(text)


def wrapped(text: str, *, indent: str = "") -> str:
    """``text`` on lines that fit the terminal, each after ``indent``; words are never cut, nor are paths."""
    lines = textwrap.wrap(
        text,
        COLUMNS_MAX,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines)


def heading(text: str) -> None:
    """Prints a line that begins a section."""
    click.echo()
    click.secho(_cut(text), bold=True)


def _cut(line: str, columns_max: int = COLUMNS_MAX) -> str:
    return line if len(line) <= columns_max else line[: columns_max - 1] + "…"


def _short(number: float) -> str:
    """Three significant digits, no exponent."""
    size = abs(number)
    return f"{number:.2f}" if size < 9.995 else f"{number:.1f}" if size < 99.95 else f"{number:.0f}"
