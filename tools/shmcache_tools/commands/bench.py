"""``shmcache bench``: the first figures, for others to repeat.

Owns their presentation. Must never time anything itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from shmcache_tools.commands.demo import terminated_like_interrupted
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.options import json_option
from shmcache_tools.output import echo_json, seconds_text, table

if TYPE_CHECKING:
    from shmcache_tools.bench_run import Figure

SEED = 20_250


@click.command(
    "bench",
    epilog="Example:  shmcache bench --json > figures.json",
    short_help="Measure hits, steps, clears and compiles.",
)
@click.option("--quick", is_flag=True, help="Few repetitions: to see that it works, not to quote.")
@click.option("--seed", type=int, default=SEED, show_default=True, help="For the samples that are decoded.")
@json_option
def command(quick: bool, seed: int, as_json: bool) -> None:
    """Measure hits, steps, clears and compiles, with the 131,072-token Tekken vocabulary.

    A host hit is of a grammar that another process had compiled, for the first time in a process that is new. Exits
    with 0 whether or not the goals are met. With the extra `bench` installed, llguidance compiles the same sources.
    """
    from shmcache.rows.warm_up import warm_up
    from shmcache_tools.bench_run import FULL, QUICK, SCENARIOS, circumstances
    from shmcache_tools.inference_team import MemberError

    scale = QUICK if quick else FULL
    figures: list[Figure] = []
    with terminated_like_interrupted():
        warm_up(lambda line: click.echo(line, err=True))
        around = circumstances(seed)
        try:
            with click.progressbar(
                SCENARIOS, label="measuring", width=30, file=sys.stderr, item_show_func=lambda one: one and one.label
            ) as bar:
                for scenario in bar:
                    figures += scenario.run(scale, seed)
        except (MemberError, TimeoutError, ValueError) as error:
            click.secho(f"error: {error}", fg="red", err=True)
            click.get_current_context().exit(ExitCode.FAILURE)
    if as_json:
        echo_json({**around, "figures": [figure.to_plain() for figure in figures]})
    else:
        _show(around, figures)


def _show(around: dict[str, Any], figures: list[Figure]) -> None:
    click.echo(f"{around['processor']}, {around['cores']} cores, load {around['load_average']:.1f}")
    click.echo(f"Python {around['python']}, commit {around['commit'] or 'unknown'}, seed {around['seed']}")
    click.echo()
    rows = [
        (
            figure.name,
            *(seconds_text(figure.percentile(percent)) for percent in (50, 90, 99, 100)),
            "–" if figure.goal_seconds is None else f"{seconds_text(figure.goal_seconds)}{_mark(figure)}",
        )
        for figure in figures
    ]
    click.echo(table(rows, header=("", "p50", "p90", "p99", "max", "p50 goal"), align="<>>>>>"))


def _mark(figure: Figure) -> str:
    return " ok" if figure.is_met else " !!"
