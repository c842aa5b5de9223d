"""``shmcache ls``: the entries of the index.

Owns their selection, order and rendering. Must never need a manager, nor write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from shmcache.memory.names import Namespace
from shmcache_tools.entry_facts import KINDS, Facts, check_prefix, facts_of, find_entries
from shmcache_tools.exit_codes import NotFoundError
from shmcache_tools.mappers import mappers
from shmcache_tools.options import bytes_option, json_option, namespace_option
from shmcache_tools.output import age_text, bytes_text, count_text, echo_json, seconds_text, table
from shmcache_tools.shared_stats import TIER_NAMES, open_view

KEY_DIGITS = 16


def _largest_first(name: str) -> Callable[[Facts], Any]:
    def order(facts: Facts) -> float:
        value = getattr(facts, name)
        return float("inf") if value is None else -value

    return order


def _readers(facts: Facts) -> int:
    return -len(facts.mapped_by or ())


ORDERS: dict[str, Callable[[Facts], Any]] = {
    "bytes": _largest_first("charged_bytes"),
    "cost": _largest_first("cost_us"),
    "age": _largest_first("age_seconds"),
    "idle": _largest_first("idle_seconds"),
    "hits": _largest_first("hits"),
    "mapped": _readers,
    "key": lambda facts: facts.key,
}


@click.command(
    "ls",
    epilog="Example:  shmcache ls --kind json_schema --sort cost -n production",
    short_help="List the entries.",
)
@click.argument("key_prefix", default="", metavar="[KEY]", callback=check_prefix)
@namespace_option
@click.option("--tier", type=click.Choice(sorted(TIER_NAMES.values())), help="Only entries of this tier.")
@click.option("--kind", type=click.Choice(KINDS), help="Only entries made of such a source.")
@bytes_option("--larger-than", help="Only entries that are charged more than that, such as 1MiB.")
@click.option("--idle-for", type=click.FloatRange(min=0), metavar="SECONDS", help="Only entries unused for so long.")
@click.option("--mapped-by", type=click.IntRange(min=1), metavar="PID", help="Only entries that this process maps.")
@click.option("--sort", type=click.Choice(list(ORDERS)), default="bytes", show_default=True, help="Largest first.")
@click.option("--lines", type=click.IntRange(min=1), metavar="N", help="Only so many, the first in that order.")
@click.option("--all", "with_all", is_flag=True, help="Also entries being filled, and retired ones.")
@json_option
def command(
    key_prefix: str,
    namespace: str | None,
    tier: str | None,
    kind: str | None,
    larger_than: int | None,
    idle_for: float | None,
    mapped_by: int | None,
    sort: str,
    lines: int | None,
    with_all: bool,
    as_json: bool,
) -> None:
    """List the entries whose key begins with KEY (hexadecimal digits), or all.

    Columns: key, kind of source, bytes charged, what compiling cost, time since it was made, time since it was last
    used, uses (about), and how many processes map it, as far as this user can see. Exits with 3 when KEY is given and
    no entry has it.
    """
    view = open_view(Namespace.of(namespace))
    generation = view.control.generation
    mapped = mappers(view.namespace.prefix)

    def is_wanted(facts: Facts) -> bool:
        return (
            (with_all or facts.state == "ready")
            and kind in (None, facts.kind)
            and (larger_than is None or facts.charged_bytes > larger_than)
            and (idle_for is None or (facts.idle_seconds or 0) >= idle_for)
            and (mapped_by is None or mapped_by in (facts.mapped_by or ()))
        )

    entries = find_entries(view, key_prefix, lambda entry: tier in (None, TIER_NAMES[entry.tier]))
    found = [facts for entry in entries if is_wanted(facts := facts_of(view, entry, mapped))]
    if key_prefix and not found:
        raise NotFoundError(f"no entry has a key that begins with {key_prefix}")
    shown = sorted(found, key=ORDERS[sort])[:lines]
    if as_json:
        echo_json({"generation": generation, "entries": [asdict(facts) for facts in shown]})
    else:
        _show(shown, len(found), generation)


def _show(shown: list[Facts], found: int, generation: int) -> None:
    rows = [
        (
            facts.key[:KEY_DIGITS],
            (facts.kind or "–") if facts.state == "ready" else facts.state,
            bytes_text(facts.charged_bytes),
            seconds_text(facts.cost_us / 1e6) if facts.cost_us else "–",
            "–" if facts.age_seconds is None else age_text(facts.age_seconds),
            "–" if facts.idle_seconds is None else age_text(facts.idle_seconds),
            "–" if facts.hits is None else str(facts.hits),
            str(len(facts.mapped_by or ())),
        )
        for facts in shown
    ]
    if rows:
        header = ("key", "kind", "bytes", "cost", "age", "idle", "uses", "maps")
        click.echo(table(rows, header=header, align="<<>>>>>>"))
    total = bytes_text(sum(facts.charged_bytes for facts in shown))
    cut = f" of {found}" if found > len(shown) else ""
    click.echo(f"{count_text(len(shown), 'entry', 'entries')}{cut}, {total}, generation {generation}")
