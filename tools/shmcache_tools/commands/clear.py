"""``shmcache clear``: a new generation.

Owns asking for it and saying what it changed. Must never wait for anything but the manager's reply.
"""

from __future__ import annotations

import click

from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache_tools.main import json_option, namespace_option
from shmcache_tools.manager_link import manager_link
from shmcache_tools.output import bytes_text, echo_json
from shmcache_tools.shared_stats import open_view


@click.command(
    "clear",
    epilog="Example:  shmcache clear --namespace staging",
    short_help="Open a new generation: nothing compiled before is found any more.",
)
@namespace_option
@json_option
def command(namespace: str | None, as_json: bool) -> None:
    """Open a new generation: nothing compiled before is found any more.

    Waits for no compile and no reader. Whoever is waiting for a grammar gets it; memory that is still mapped is given
    back when it is let go. Vocabularies in use stay. Exits with 4 when no manager answers.
    """
    names = Namespace.of(namespace)
    view = open_view(names)
    with manager_link(names) as link:
        before = view.control.totals()
        generation = link.clear()
        after = view.control.totals()
    cleared = before.entries[Tier.GRAMMAR] + before.entries[Tier.RULE]
    if as_json:
        echo_json(
            {
                # Each clear raises it by one, whoever else clears just now.
                "old_generation": generation - 1,
                "new_generation": generation,
                "entries_cleared": cleared,
                "bytes_before": before.cache_bytes,
                "bytes_after": after.cache_bytes,
                "retired_bytes": after.retired_bytes,
            }
        )
        return
    click.echo(f"generation {generation - 1} → {generation}")
    click.echo(
        f"charged    {bytes_text(before.cache_bytes)} → {bytes_text(after.cache_bytes)} "
        f"({cleared} {'entry' if cleared == 1 else 'entries'} cleared)"
    )
    click.echo(f"retired    {bytes_text(after.retired_bytes)}, given back when nobody maps it any more")
