"""``shmcache warm``: sources are compiled before anybody asks for them.

Owns the files, the progress and the summary. Must never start a manager, nor compile what is cached.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from shmcache.errors import ManagerUnavailable, ShmCacheError
from shmcache.memory.names import Namespace
from shmcache_tools.exit_codes import ExitCode, exit_code_of
from shmcache_tools.manager_link import manager_link
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, count_text, echo_json, wrapped
from shmcache_tools.progress import Progress
from shmcache_tools.shared_stats import SharedView, open_view
from shmcache_tools.source_files import Line, parse_options, read_lines
from shmcache_tools.vocabulary_choice import load_vocabulary, vocabulary_option
from shmcache_tools.warming import Outcome, Warmer

AT_ONCE = 8
REFUSED_SHOWN_MAX = 20


@click.command(
    "warm",
    epilog="Example:  shmcache warm schemas.jsonl -o strict_mode=false",
    short_help="Have a file of sources compiled.",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@namespace_option
@vocabulary_option("cache")
@click.option(
    "-o", "--option", "options", multiple=True, callback=parse_options, metavar="NAME=VALUE", help="For JSON Schemas."
)
@click.option("--at-once", type=click.IntRange(1, 60), default=AT_ONCE, show_default=True, help="Compiles in flight.")
@json_option
def command(
    files: tuple[Path, ...],
    namespace: str | None,
    vocabulary: str,
    options: dict[str, Any],
    at_once: int,
    as_json: bool,
) -> None:
    """Have the sources in FILEs compiled, one JSON object a line.

    A line has "schema", "regex", "ebnf", "structural_tag" or "builtin_json", perhaps "options" and an "id". What is in
    the cache is skipped, so that an interrupted run goes on where it was. Needs a manager: exits with 4 without one,
    with 6 when sources were refused, with 1 when it was interrupted.
    """
    names = Namespace.of(namespace)
    view = open_view(names)
    # Before the vocabulary, which takes a while to load.
    total = _count_lines(files)
    with manager_link(names) as link:
        warmer = Warmer(link, view, load_vocabulary(vocabulary, names.name), at_once=at_once)
        progress = Progress(total)
        end = _run(warmer, _lines(files, options), progress)
    if as_json:
        echo_json(_document(warmer, total, end))
    else:
        _show(warmer, view, total, end)
    if end.error is not None:
        if not as_json:
            raise end.error
        click.get_current_context().exit(exit_code_of(end.error))
    if end.is_interrupted:
        click.get_current_context().exit(ExitCode.FAILURE)
    if warmer.outcome.refused:
        click.get_current_context().exit(ExitCode.FINDINGS)


class _End:
    """How a run ended."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self.error: ManagerUnavailable | None = None
        self.seconds = 0.0


def _run(warmer: Warmer, lines: Iterator[Line], progress: Progress) -> _End:
    end = _End()
    began = time.monotonic()

    def tell(outcome: Outcome, *, is_last: bool = False) -> None:
        note = f"{len(outcome.refused)} refused" if outcome.refused else ""
        progress.show(outcome.done, outcome.worked, note, is_last=is_last)

    # Also where a shell has started it in the background, which makes it deaf to Ctrl-C.
    former = [(number, signal.signal(number, signal.default_int_handler)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        warmer.run(lines, tell)
    except KeyboardInterrupt:
        end.is_interrupted = True
    except ManagerUnavailable as error:
        end.error = error
    finally:
        for number, handler in former:
            signal.signal(number, handler)
    tell(warmer.outcome, is_last=True)
    end.seconds = time.monotonic() - began
    return end


def _count_lines(files: tuple[Path, ...]) -> int:
    try:
        total = 0
        for path in files:
            with path.open(encoding="utf-8") as file:
                total += sum(bool(line.strip()) for line in file)
        return total
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error


def _lines(files: tuple[Path, ...], options: dict[str, Any]) -> Iterator[Line]:
    for path in files:
        yield from read_lines(path, options)


def _document(warmer: Warmer, total: int, end: _End) -> dict[str, Any]:
    outcome = warmer.outcome
    return {
        "total": total,
        "compiled": outcome.compiled,
        "cached_before": outcome.cached,
        "not_stored": outcome.not_stored,
        "refused": [{"place": line.place, "id": line.name, **error.to_plain()} for line, error in outcome.refused],
        "left": total - outcome.done,
        "in_cache_now": warmer.left_in_cache(),
        "is_interrupted": end.is_interrupted,
        "error": None if end.error is None else end.error.to_plain(),
        "seconds": round(end.seconds, 3),
    }


def _show(warmer: Warmer, view: SharedView, total: int, end: _End) -> None:
    outcome = warmer.outcome
    rate = outcome.worked / end.seconds if end.seconds else 0.0
    click.echo(f"compiled  {outcome.compiled} of {total} in {end.seconds:.1f} s ({rate:.1f}/s)")
    click.echo(f"skipped   {outcome.cached}, in the cache before")
    if outcome.not_stored:
        click.echo(f"no room   for {outcome.not_stored}: compiled, not stored")
    now = warmer.left_in_cache()
    charged = bytes_text(view.control.totals().cache_bytes)
    click.echo(f"in cache  {now} of them now; {charged} charged in all")
    if now < len(outcome.keys):
        gone = count_text(len(outcome.keys) - now, "entry has", "entries have")
        click.echo(wrapped(f"{gone} gone meanwhile: the limit is too small for all, or somebody cleared"))
    if outcome.refused:
        click.secho(f"refused   {len(outcome.refused)}", fg="yellow")
    for line, error in outcome.refused[:REFUSED_SHOWN_MAX]:
        click.echo(wrapped(f"{line.name}: {error.code}: {_one_line(error)}", indent="  "))
    if len(outcome.refused) > REFUSED_SHOWN_MAX:
        click.echo(f"  and {len(outcome.refused) - REFUSED_SHOWN_MAX} more: --json lists all")
    if end.is_interrupted:
        click.secho(f"interrupted with {total - outcome.done} left: run it again to go on", fg="yellow")


def _one_line(error: ShmCacheError) -> str:
    where = f" at {error.details['pointer'] or '/'}" if "pointer" in error.details else ""
    return error.message.partition("\n")[0] + where
