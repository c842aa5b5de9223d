"""``shmcache status``: who manages the cache, and the account.

Owns the rendering of the shape that ``stats()`` has. Must never need a manager.
"""

from __future__ import annotations

from typing import Any

import click

from shmcache.memory.names import Namespace
from shmcache_tools.manager_link import current_stats
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, count_text, echo_json, heading, limit_text, seconds_text, table

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
    waiting = f", {count_text(stats['waiters'], 'request')} waiting" if stats["waiters"] else ""
    click.echo(
        table(
            [
                ("manager", f"{who}{manager['state']}, epoch {stats['epoch']}"),
                ("generation", str(stats["generation"])),
                ("limit", fill_text(stats)),
                ("in flight", f"{count_text(stats['compiles_in_flight'], 'compile')}{waiting}"),
                ("workers", workers_text(stats["workers"])),
                ("clients", str(stats["clients_connected"]) if manager["pid"] is not None else "none known"),
                ("/dev/shm free", bytes_text(stats["shm_free_bytes"])),
            ]
        )
    )
    heading("account")
    click.echo(account_table(stats))
    heading("since the cache was made")
    click.echo(table(counter_rows(stats)))


def fill_text(stats: dict[str, Any]) -> str:
    """The limit, and how much of it is charged."""
    limit_bytes, charged = stats["limit_bytes"], stats["charged_bytes"]
    if limit_bytes <= 0:
        return limit_text(limit_bytes)
    used = 100 * (charged["grammar"] + charged["rule"]) / limit_bytes
    return f"{limit_text(limit_bytes)}, {used:.1f} % of it charged to grammars and rules"


def workers_text(workers: list[dict[str, Any]]) -> str:
    """Process ids and states; the shape that a manager gives."""
    return ", ".join(f"{worker['pid']} {worker['state']}" for worker in workers) or "none known"


def hit_ratio_text(hits: int, misses: int) -> str:
    """The share of look-ups that hit."""
    return f"{100 * hits / (hits + misses):.1f} % hit" if hits + misses else "none yet"


def counter_rows(stats: dict[str, Any]) -> list[tuple[str, str]]:
    """The counters, by name."""
    lookups, compiles = stats["lookups"], stats["compiles"]
    made = compiles["succeeded"] + compiles["fenced"]
    ratio = hit_ratio_text(lookups["hit"], lookups["miss"])
    mean = f"{seconds_text(stats['compile_seconds']['sum'] / made)} each" if made else "none yet"
    return [
        ("look-ups", f"{lookups['hit']} hit, {lookups['miss']} miss ({ratio})"),
        ("", f"{stats['local_hits']} of the hits in the process itself"),
        ("waited", f"{lookups['coalesced']} for a compile that another had asked for"),
        ("compiles", ", ".join(f"{compiles[name]} {name}" for name in compiles)),
        ("", f"{stats['private_compiles']} more by clients themselves"),
        ("compile time", mean),
        ("refusals", _nonzero(stats["refusals"])),
        ("evictions", _nonzero(stats["evictions_by_reason"])),
    ]


def account_table(stats: dict[str, Any]) -> str:
    """Entries and bytes by tier, the total, and what is being filled and retired."""
    charged = stats["charged_bytes"]
    rows = [(tier, str(stats["entries"][tier]), bytes_text(charged[tier])) for tier in TIERS]
    rows.append(("total", str(sum(stats["entries"].values())), bytes_text(charged["total"])))
    rows.append(("being filled", "", bytes_text(stats["filling_bytes"])))
    rows.append(("retired, still mapped", "", bytes_text(stats["retired_bytes"])))
    return table(rows, header=("tier", "entries", "bytes"), align="<>>")


def _nonzero(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
