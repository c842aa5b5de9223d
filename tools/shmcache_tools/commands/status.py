"""``shmcache status``: who manages the cache, and the account.

Owns the rendering of the shape that ``stats()`` has. Must never need a manager.
"""

from __future__ import annotations

from typing import Any

import click

from shmcache.memory.names import Namespace
from shmcache_tools.main import json_option, namespace_option
from shmcache_tools.manager_link import current_stats
from shmcache_tools.output import bytes_text, echo_json, heading, limit_text, table

TIERS = ("grammar", "rule", "vocabulary")


@click.command(
    "status",
    epilog="Example:  shmcache status --json | jq .charged_bytes.total",
    short_help="Show the manager, the account and the counters.",
)
@namespace_option
@json_option
def command(namespace: str | None, as_json: bool) -> None:
    """Show the manager, the account and the counters.

    Read from shared memory; works without a manager, and with one that does not answer. Exits with 4 when there is no
    cache of that name.
    """
    names = Namespace.of(namespace)
    stats = current_stats(names)
    if as_json:
        echo_json(stats)
    else:
        show_status(names.name, stats)


def show_status(name: str, stats: dict[str, Any]) -> None:
    """Prints the shape of ``stats()`` as text."""
    manager = stats["manager"]
    who = f"pid {manager['pid']}, " if manager["pid"] else ""
    click.secho(f"cache {name}", bold=True)
    workers = ", ".join(f"{worker['pid']} {worker['state']}" for worker in stats["workers"])
    click.echo(
        table(
            [
                ("manager", f"{who}{manager['state']}, epoch {stats['epoch']}"),
                ("generation", str(stats["generation"])),
                ("limit", limit_text(stats["limit_bytes"])),
                ("in flight", _count(stats["compiles_in_flight"], "compile")),
                ("workers", workers or "none known"),
                ("clients", str(len(stats["clients"])) if manager["pid"] else "none known"),
                ("/dev/shm free", bytes_text(stats["shm_free_bytes"])),
            ]
        )
    )
    heading("account")
    click.echo(account_table(stats))
    heading("since the cache was made")
    lookups, compiles = stats["lookups"], stats["compiles"]
    asked = lookups["hit"] + lookups["miss"]
    ratio = f"{100 * lookups['hit'] / asked:.1f} % hit" if asked else "none yet"
    click.echo(
        table(
            [
                ("look-ups", f"{lookups['hit']} hit, {lookups['miss']} miss ({ratio})"),
                ("waited", f"{lookups['coalesced']} for a compile that another had asked for"),
                ("compiles", ", ".join(f"{compiles[name]} {name}" for name in compiles)),
                ("evictions", str(stats["evictions"])),
            ]
        )
    )


def account_table(stats: dict[str, Any]) -> str:
    """Entries and bytes by tier, the total, and what is retired."""
    charged = stats["charged_bytes"]
    rows = [(tier, str(stats["entries"][tier]), bytes_text(charged[tier])) for tier in TIERS]
    rows.append(("total", str(sum(stats["entries"].values())), bytes_text(charged["total"])))
    rows.append(("retired, still mapped", "", bytes_text(stats["retired_bytes"])))
    return table(rows, header=("tier", "entries", "bytes"), align="<>>")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
