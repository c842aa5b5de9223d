"""``shmcache explain-key``: the key of a source; of two, whether they share one, and why not.

Owns the rendering. Must never compile, nor touch a cache unless its vocabulary is asked for.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from shmcache.grammar.key import ENGINE_VERSION, Source
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.key_comparison import NO_VOCABULARY, first_difference
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import COLUMNS_MAX, echo_json, table, wrapped
from shmcache_tools.source_files import KINDS, parse_options, read_source
from shmcache_tools.vocabulary_choice import CHOICES, load_vocabulary

TEXT_SHOWN_MAX = 800


@click.command(
    "explain-key",
    epilog="Example:  shmcache explain-key old.json new.json --second strict_mode=false",
    short_help="Do two sources share a key? Why not?",
)
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", required=False, type=click.Path(path_type=Path))
@namespace_option
@click.option("--kind", type=click.Choice(KINDS), help="What the sources are.  [default: by their suffix]")
@click.option(
    "-o", "--option", "options", multiple=True, callback=parse_options, metavar="NAME=VALUE", help="For JSON Schemas."
)
@click.option(
    "--second",
    "second_options",
    multiple=True,
    callback=parse_options,
    metavar="NAME=VALUE",
    help="The same, for the second source only.",
)
@click.option("--vocabulary", metavar="WHICH", help=f"For the whole key, as the cache has it: one of {CHOICES}.")
@json_option
def command(
    first: Path,
    second: Path | None,
    namespace: str | None,
    kind: str | None,
    options: dict[str, Any],
    second_options: dict[str, Any],
    vocabulary: str | None,
    as_json: bool,
) -> None:
    """Show the key of FIRST, or whether FIRST and SECOND share one, and the first difference that matters.

    Spacing, escapes, the order of keywords, and annotations such as title do not matter; options, the order of
    properties and the spelling of numbers do. The key also has the vocabulary in it: without --vocabulary it is left
    out, and the key shown is not the one that the cache has. Exits with 6 when the keys differ.
    """
    fingerprint = NO_VOCABULARY if vocabulary is None else load_vocabulary(vocabulary, namespace).fingerprint
    one = read_source(first, kind, options)
    if second is None:
        if second_options:
            raise click.UsageError("--second is for a second source")
        _show_one(one, fingerprint, vocabulary, as_json)
        return
    other = read_source(second, kind, {**options, **second_options})
    difference = first_difference(one, other)
    keys = [source.key(fingerprint).hex() for source in (one, other)]
    assert (keys[0] == keys[1]) == (difference is None), "the keys differ and the sources do not, or the reverse"
    if as_json:
        told = None if difference is None else asdict(difference)
        echo_json({"same": difference is None, "keys": keys, "difference": told})
    elif difference is None:
        click.secho("one key", fg="green")
        click.echo(keys[0])
        if first.read_bytes() != second.read_bytes():
            click.echo("the texts differ in nothing that matters")
    else:
        click.secho("two keys", fg="yellow")
        click.echo("\n".join(keys))
        click.echo(wrapped(f"first difference: {difference.what}{f' {difference.where}' if difference.where else ''}"))
        click.echo(table([("first", difference.first), ("second", difference.second)]))
        if difference.note:
            click.echo(wrapped(difference.note))
    if difference is not None:
        click.get_current_context().exit(ExitCode.FINDINGS)


def _show_one(source: Source, fingerprint: bytes, vocabulary: str | None, as_json: bool) -> None:
    key = source.key(fingerprint).hex()
    parts = {"kind": source.kind, "engine": ENGINE_VERSION, "vocabulary": fingerprint.hex() if vocabulary else None}
    if as_json:
        echo_json({"key": key, **parts, "options": dict(source.options), "text": source.text})
        return
    click.secho(key, bold=True)
    rows = [(name, str(value) if value is not None else "left out") for name, value in parts.items()]
    rows += [(name, str(value)) for name, value in source.options]
    click.echo(table(rows))
    text = source.text if source.text.isprintable() else json.dumps(source.text, ensure_ascii=False)
    for start in range(0, min(len(text), TEXT_SHOWN_MAX), COLUMNS_MAX):
        click.echo(text[start : start + COLUMNS_MAX])
    if len(text) > TEXT_SHOWN_MAX:
        click.echo(f"and {len(text) - TEXT_SHOWN_MAX} characters more: --json has all")
