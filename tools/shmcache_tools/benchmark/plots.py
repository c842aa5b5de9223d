"""Plots as PNG files.

Owns how they look, and the only use of matplotlib. Must never know what they are of.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from shmcache_tools.benchmark.figures import Plot

SIZE_INCHES = (7.0, 4.5)
DOTS_PER_INCH = 110


def can_plot() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def write_plots(plots: Iterable[Plot], folder: Path) -> list[Path]:
    """One file each, for those that have anything to show. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for plot in plots:
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, points in plot.series.items():
            shown = [(point.x, point.y) for point in points if point.x > 0 and point.y > 0]
            if shown:
                x, y = zip(*shown, strict=True)
                axes.plot(x, y, "-o" if plot.has_lines else "o", markersize=4, alpha=0.8, label=name)
        if not axes.lines:
            continue
        axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label, xscale="log", yscale="log")
        if plot.x_label.startswith("percent"):
            axes.invert_xaxis()
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(frameon=False)
        path = folder / f"{plot.name}.png"
        figure.savefig(path, dpi=DOTS_PER_INCH)
        written.append(path)
    return written
