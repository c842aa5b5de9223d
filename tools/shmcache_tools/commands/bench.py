"""``shmcache bench``: the yardstick, for others to repeat.

Owns its options and presentation. Must never time anything itself.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shmcache_tools.commands.demo import terminated_like_interrupted
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.options import json_option
from shmcache_tools.output import echo_json

if TYPE_CHECKING:
    from shmcache_tools.benchmark.corpus import Case
    from shmcache_tools.benchmark.figures import Section
    from shmcache_tools.benchmark.setting import Scale, Setting

SEED = 20_250
SCENARIO_NAMES = ("cold", "step", "batch", "host-hit", "local-hit", "fleet", "growth", "clear", "start-up")
ENGINE_NAMES = ("shmcache", "llguidance", "xgrammar", "xgrammar-strict")


@click.command(
    "bench",
    epilog="Example:  shmcache bench --scenario cold --scenario step --schemas maskbench.jsonl.gz --count 60",
    short_help="Measure this cache and its peers on the same inputs.",
)
@click.argument("load", required=False, type=click.Choice(("fleet",)))
@click.option(
    "--scenario",
    "scenarios",
    type=click.Choice(SCENARIO_NAMES),
    multiple=True,
    help="What to measure; may be repeated.  [default: all]",
)
@click.option(
    "--schemas",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Schemas with instances, as MaskBench has them: JSON lines, may be .gz.  [default: the package's own]",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Of the schemas, every so-manieth.")
@click.option(
    "--engines",
    metavar="LIST",
    default=",".join(ENGINE_NAMES),
    show_default=True,
    help="Separated by commas; xgrammar-strict is XGrammar as vLLM calls it.",
)
@click.option("--seconds", type=click.FloatRange(min=1), metavar="S", help="For one engine on one schema.")
@click.option(
    "--processes",
    metavar="LIST",
    help="Of the fleet, separated by commas.  [default: 1,2,4,8]",
)
@click.option(
    "--fleet-seconds",
    type=click.FloatRange(min=1),
    metavar="S",
    help="After which no process of a fleet begins another schema; the figures say of how many they are.",
)
@click.option("--quick", is_flag=True, help="Few repetitions: to see that it works, not to quote.")
@click.option("--seed", type=int, default=SEED, show_default=True, help="For what is made up.")
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write the curves as PNG files (needs matplotlib).",
)
@json_option
def command(
    load: str | None,
    scenarios: tuple[str, ...],
    schemas: Path | None,
    count: int | None,
    engines: str,
    seconds: float | None,
    processes: str | None,
    fleet_seconds: float | None,
    quick: bool,
    seed: int,
    plots: Path | None,
    as_json: bool,
) -> None:
    """Measure this cache and its peers on the same inputs, with the 131,072-token Tekken vocabulary.

    Everything is measured in one thread, compiles and steps of each schema in a fresh process. Peers come with the
    extra `bench`; those that are not installed are named and left out. Exits with 0 whether or not the goals are met.

    `shmcache bench fleet` is a load instead: ranks of an engine in lock step, with drafts, cancelled requests, a rank
    that is late, one that is killed, and a flush; with this cache, and with XGrammar in every rank.
    """
    if load is not None:
        _fleet(is_quick=quick, seed=seed, as_json=as_json)
        return
    from shmcache.rows.warm_up import warm_up
    from shmcache_tools.benchmark.circumstances import circumstances
    from shmcache_tools.benchmark.plots import can_plot, write_plots
    from shmcache_tools.benchmark.scenarios import run

    if plots is not None and not can_plot():
        raise click.UsageError("--plots needs matplotlib, which comes with the extra 'bench'")
    names, missing = _engines(engines)
    with terminated_like_interrupted():
        warm_up(_tell)
        scale = _scale(seconds, processes, fleet_seconds, quick=quick)
        setting = _setting(names, schemas, count, scale, seed)
        around = circumstances(seed) | {"schemas": len(setting.cases), "missing": missing}
        if not as_json:
            _show_circumstances(around)
        sections: list[Section] = []
        for section in run(setting, scenarios or SCENARIO_NAMES):
            sections.append(section)
            if not as_json:
                _show(section)
    if plots is not None:
        for path in write_plots([plot for section in sections for plot in section.plots], plots):
            click.echo(f"wrote {path}", err=True)
    if as_json:
        echo_json({**around, "scenarios": [section.to_plain() for section in sections]})
    if any(note.startswith("failed: ") for section in sections for note in section.notes):
        click.get_current_context().exit(ExitCode.FAILURE)


def _fleet(*, is_quick: bool, seed: int, as_json: bool) -> None:
    from shmcache.errors import ManagerUnavailable
    from shmcache_tools.benchmark.circumstances import circumstances
    from shmcache_tools.benchmark.engine_load import runs, shown
    from shmcache_tools.fleet import FleetError

    with terminated_like_interrupted():
        try:
            found = runs(is_quick=is_quick, seed=seed, progress=_tell)
        except (FleetError, ManagerUnavailable) as error:
            click.secho(f"error: {error}", fg="red", err=True)
            click.get_current_context().exit(ExitCode.FAILURE)
    around = circumstances(seed) | {"missing": [] if len(found) > 1 else ["xgrammar"]}
    if as_json:
        echo_json({**around, "fleet": [run.to_plain() for run in found]})
        return
    _show_circumstances(around)
    click.echo(shown(found))


def _engines(text: str) -> tuple[list[str], list[str]]:
    """Those that are installed, and those that are not, of a list on the command line."""
    from shmcache_tools.benchmark.engines import ENGINES

    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in ENGINES]
    if unknown or not names:
        raise click.BadParameter(
            f"{', '.join(unknown) or 'nothing'}: known are {', '.join(ENGINES)}", param_hint="--engines"
        )
    installed = [name for name in ENGINES if name in names and ENGINES[name].is_installed]
    return installed, [name for name in names if name not in installed]


def _scale(seconds: float | None, processes: str | None, fleet_seconds: float | None, *, quick: bool) -> Scale:
    from dataclasses import replace

    from shmcache_tools.benchmark.setting import FULL, QUICK

    scale = QUICK if quick else FULL
    if seconds is not None:
        scale = replace(scale, pair_seconds_max=seconds)
    if fleet_seconds is not None:
        scale = replace(scale, fleet_seconds_max=fleet_seconds)
    if processes is not None:
        try:
            counts = tuple(int(count) for count in processes.split(","))
        except ValueError:
            counts = ()
        if not counts or min(counts) < 1:
            raise click.BadParameter(f"{processes!r} is no list of numbers from 1 on", param_hint="--processes")
        scale = replace(scale, fleet_processes=counts)
    return scale


def _setting(names: list[str], schemas: Path | None, count: int | None, scale: Scale, seed: int) -> Setting:
    from shmcache.vocabulary.vocabulary import Vocabulary
    from shmcache_tools.benchmark.setting import Setting

    vocabulary = Vocabulary.from_mistral()
    vocabulary.trie  # noqa: B018  (built now, not while something is timed)
    return Setting(_cases(vocabulary, schemas, count), names, vocabulary, scale, seed, _tell)


def _cases(vocabulary: Any, schemas: Path | None, count: int | None) -> list[Case]:
    from shmcache_tools.benchmark.corpus import LongestTokens, cases_of_file, packaged_cases

    tokenizer = LongestTokens(vocabulary)
    if schemas is None:
        return packaged_cases(tokenizer)[:count]
    try:
        cases = cases_of_file(schemas, tokenizer, limit=count)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.BadParameter(f"{schemas} cannot be read: {error!r}", param_hint="--schemas") from error
    if not cases:
        raise click.BadParameter(f"{schemas} has no schemas", param_hint="--schemas")
    return cases


def _tell(line: str) -> None:
    """Progress: one line that is written over on a terminal, many elsewhere."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line[:78]}", nl=False, err=True)
    else:
        click.echo(f"{time.strftime('%H:%M:%S')} {line}", err=True)


def _show_circumstances(around: dict[str, Any]) -> None:
    click.echo(f"{around['processor']}, {around['cores']} cores, load {around['load_average']:.1f}")
    click.echo(f"Python {around['python']}, commit {around['commit'] or 'unknown'}, seed {around['seed']}")
    click.echo(", ".join(f"{name} {version}" for name, version in around["peers"].items() if version))
    if around["missing"]:
        click.echo(f"not installed, and left out: {', '.join(around['missing'])}")
    click.echo()


def _show(section: Section) -> None:
    from shmcache_tools.benchmark.showing import lines

    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    for text in lines(section):
        click.echo(text)
