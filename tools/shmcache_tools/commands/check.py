"""``shmcache check``: a source is compiled here, and instances are tried.

Owns the rendering of verdicts. Must never touch a cache.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.options import json_option
from shmcache_tools.output import bytes_text, count_text, echo_json, seconds_text, wrapped
from shmcache_tools.source_files import KINDS, parse_options, read_source

if TYPE_CHECKING:
    from shmcache_tools.checking import Verdict


@click.command(
    "check",
    epilog='Example:  shmcache check person.json -i \'{"name": "Ann"}\' answers/*.json',
    short_help="Compile a source here; try instances.",
)
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("instances", metavar="[INSTANCE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("-i", "--instance", "texts", multiple=True, metavar="TEXT", help="An instance as it is written here.")
@click.option("--kind", type=click.Choice(KINDS), help="What the source is.  [default: by its suffix]")
@click.option(
    "-o", "--option", "options", multiple=True, callback=parse_options, metavar="NAME=VALUE", help="For a JSON Schema."
)
@json_option
def command(
    source: Path,
    instances: tuple[Path, ...],
    texts: tuple[str, ...],
    kind: str | None,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Compile SOURCE in this process, and try the INSTANCEs (files; - is standard input).

    Says of each instance whether the whole of it is accepted; where not, up to which byte, which bytes could have come
    there, and, if it is JSON, whether only its spelling is at fault. One line end at the end of a file is left out.
    Without instances it says what is allowed first. Exits with 6 when an instance is not accepted, with 1 when the
    source cannot be compiled.
    """
    import time

    from shmcache.private import compile_source
    from shmcache_tools.checking import check_instance
    from shmcache_tools.vocabulary_choice import byte_vocabulary

    wanted = read_source(source, kind, options)
    started = time.perf_counter()
    grammar = compile_source(wanted, byte_vocabulary())
    seconds = time.perf_counter() - started
    named = [(f"-i {text}", text.encode("utf-8", "surrogateescape")) for text in texts]
    named += [(str(path), _read(path)) for path in instances]
    verdicts = [(name, check_instance(grammar, data)) for name, data in named]
    automaton = grammar.image.automaton
    if as_json:
        echo_json(
            {
                "kind": wanted.kind,
                "states": automaton.state_count,
                "warnings": [asdict(warning) for warning in grammar.warnings],
                "first": _expectation(check_instance(grammar, b"")),
                "instances": [{"name": name, **asdict(verdict), **_expectation(verdict)} for name, verdict in verdicts],
            }
        )
    else:
        size = f"{count_text(automaton.rule_count, 'rule')}, {count_text(automaton.state_count, 'state')}"
        click.echo(f"{wanted.kind}: {size}, {bytes_text(grammar.memory_size_bytes)}, in {seconds_text(seconds)}")
        for warning in grammar.warnings:
            click.echo(wrapped(f"warning: {warning.feature} at {warning.pointer or '/'}: {warning.message}"))
        for name, verdict in verdicts:
            _show(name, verdict)
        if not verdicts:
            _show_expected(check_instance(grammar, b""))
    if not all(verdict.is_accepted for _, verdict in verdicts):
        click.get_current_context().exit(ExitCode.FINDINGS)


def _read(path: Path) -> bytes:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from error
    return data.removesuffix(b"\n").removesuffix(b"\r")


def _expectation(verdict: Verdict) -> dict[str, Any]:
    from shmcache_tools.checking import expected_text

    return {
        "expected": list(verdict.expected),
        "may_end": verdict.may_end,
        "expected_text": expected_text(verdict.expected, verdict.may_end),
    }


def _show(name: str, verdict: Verdict) -> None:
    shown = name if len(name) <= 60 else name[:59] + "…"
    if verdict.is_accepted:
        click.echo(f"{click.style('accepted', fg='green')}  {shown}")
        return
    click.echo(f"{click.style(verdict.reason, fg='red')}  {shown}")
    where = f" in the value at {verdict.pointer or '/'}" if verdict.pointer is not None else ""
    click.echo(
        wrapped(
            f"after {count_text(verdict.offset, 'byte')}, line {verdict.line}, column {verdict.column}{where}:",
            indent="  ",
        )
    )
    click.echo(f"  {verdict.before}{click.style(verdict.after or '⏎', fg='red', bold=True)}")
    click.echo(f"  {' ' * len(verdict.before)}^")
    _show_expected(verdict)
    if verdict.hint:
        click.echo(wrapped(verdict.hint, indent="  "))


def _show_expected(verdict: Verdict) -> None:
    from shmcache_tools.checking import expected_text

    click.echo(wrapped(f"expected: {expected_text(verdict.expected, verdict.may_end)}", indent="  "))
