"""``shmcache ls``: the entries of the index.

Owns their selection, order and rendering. Must never need a manager, nor open what an entry points to.
"""

from __future__ import annotations

from typing import Any

import click

from shmcache.memory.account import Entry, Share, share_of
from shmcache.memory.names import Namespace
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.main import json_option, namespace_option
from shmcache_tools.output import age_text, bytes_text, echo_json, seconds_text, table
from shmcache_tools.shared_stats import TIER_NAMES, SharedView, open_view

KEY_DIGITS = 16
ORDERS = {
    "bytes": lambda item: -item["charged_bytes"],
    "cost": lambda item: -item["cost_us"],
    "idle": lambda item: item["idle_seconds"] if item["idle_seconds"] is not None else float("inf"),
    "key": lambda item: item["key"],
}


@click.command(
    "ls",
    epilog="Example:  shmcache ls --tier grammar --sort cost",
    short_help="List the entries.",
)
@click.argument("key_prefix", default="", metavar="[KEY]")
@namespace_option
@click.option("--tier", type=click.Choice(sorted(TIER_NAMES.values())), help="Only entries of this tier.")
@click.option("--sort", type=click.Choice(sorted(ORDERS)), default="bytes", show_default=True, help="Largest first.")
@click.option("--all", "with_all", is_flag=True, help="Also entries being filled, and retired ones.")
@json_option
def command(key_prefix: str, namespace: str | None, tier: str | None, sort: str, with_all: bool, as_json: bool) -> None:
    """List the entries whose key begins with KEY (hexadecimal digits), or all.

    Columns: key, tier, generation, bytes charged, what compiling cost, time since it was last asked for. Exits with 3
    when KEY is given and no entry has it.
    """
    if not set(key_prefix.lower()) <= set("0123456789abcdef"):
        raise click.BadParameter("a key has hexadecimal digits only", param_hint="KEY")
    view = open_view(Namespace.of(namespace))
    generation = view.control.generation
    items = [
        _describe(view, entry, generation)
        for entry in view.entries()
        if entry.key.hex().startswith(key_prefix.lower()) and tier in (None, TIER_NAMES[entry.tier])
    ]
    if not with_all:
        items = [item for item in items if item["state"] == "ready"]
    items.sort(key=ORDERS[sort])
    if as_json:
        echo_json({"generation": generation, "entries": items})
    else:
        _show(items, generation)
    if key_prefix and not items:
        click.echo(f"no entry has a key that begins with {key_prefix}", err=True)
        click.get_current_context().exit(ExitCode.NOT_FOUND)


def _describe(view: SharedView, entry: Entry, generation: int) -> dict[str, Any]:
    states = {Share.CHARGED: "ready", Share.FILLING: "filling", Share.RETIRED: "retired"}
    return {
        "key": entry.key.hex(),
        "tier": TIER_NAMES[entry.tier],
        "state": states[share_of(entry, generation)],
        "generation": entry.generation,
        "serial": entry.serial,
        "charged_bytes": entry.charged_bytes,
        "payload_bytes": entry.payload_bytes,
        "cost_us": entry.cost_us,
        "idle_seconds": view.idle_seconds(entry),
    }


def _show(items: list[dict[str, Any]], generation: int) -> None:
    rows = [
        (
            item["key"][:KEY_DIGITS],
            item["tier"],
            item["state"],
            str(item["generation"]),
            bytes_text(item["charged_bytes"]),
            seconds_text(item["cost_us"] / 1e6) if item["cost_us"] else "–",
            "–" if item["idle_seconds"] is None else age_text(item["idle_seconds"]),
        )
        for item in items
    ]
    if rows:
        header = ("key", "tier", "state", "gen", "bytes", "cost", "idle")
        click.echo(table(rows, header=header, align="<<<>>>>"))
    total = sum(item["charged_bytes"] for item in items)
    click.echo(
        f"{len(items)} {'entry' if len(items) == 1 else 'entries'}, {bytes_text(total)}, generation {generation}"
    )
