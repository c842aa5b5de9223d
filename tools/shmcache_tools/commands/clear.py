"""``shmcache clear``: a new generation, or the end of one tier's entries.

Owns asking for it and saying what it changed. Must never wait for anything but the manager's reply.
"""

from __future__ import annotations

import click

from shmcache.memory.account import Share, Totals, share_of
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache_tools.manager_link import manager_link
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, count_text, echo_json
from shmcache_tools.shared_stats import TIER_NAMES, SharedView, open_view

TIERS = {name: tier for tier, name in TIER_NAMES.items()}


@click.command(
    "clear",
    epilog="Example:  shmcache clear --namespace staging",
    short_help="Open a new generation: nothing compiled before is found any more.",
)
@namespace_option
@click.option("--tier", type=click.Choice(sorted(TIERS)), help="Evict this tier's entries only; no new generation.")
@json_option
def command(namespace: str | None, tier: str | None, as_json: bool) -> None:
    """Open a new generation: nothing compiled before is found any more.

    Waits for no compile and no reader. Whoever is waiting for a grammar gets it; memory that is still mapped is given
    back when it is let go. Vocabularies in use stay. Exits with 4 when no manager answers.

    With --tier the generation stays, and the entries that the tier has now are evicted: what a compile in flight
    makes of the tier is stored. Without it the fence holds: nothing of an older compile is ever found.
    """
    names = Namespace.of(namespace)
    view = open_view(names)
    with manager_link(names) as link:
        old = view.control.generation
        before = view.control.totals()
        if tier is None:
            generation = link.clear()
            # Each clear raises it by one, whoever else clears just now.
            old = generation - 1
            cleared = before.entries[Tier.GRAMMAR] + before.entries[Tier.RULE]
        else:
            cleared, _ = link.evict(_keys(view, TIERS[tier]))
            generation = view.control.generation
        after = view.control.totals()
    counted = [Tier.GRAMMAR, Tier.RULE] if tier is None else [TIERS[tier]]
    bytes_before, bytes_after = _charged_bytes(before, counted), _charged_bytes(after, counted)
    if as_json:
        echo_json(
            {
                "tier": tier,
                "old_generation": old,
                "new_generation": generation,
                "entries_cleared": cleared,
                "bytes_before": bytes_before,
                "bytes_after": bytes_after,
                "retired_bytes": after.retired_bytes,
            }
        )
        return
    click.echo(f"generation {old} → {generation}" if tier is None else f"generation {generation}, as before")
    entries = count_text(cleared, "entry", "entries")
    click.echo(f"charged    {bytes_text(bytes_before)} → {bytes_text(bytes_after)} ({entries} cleared)")
    click.echo(f"retired    {bytes_text(after.retired_bytes)}, given back when nobody maps it any more")


def _keys(view: SharedView, tier: Tier) -> list[bytes]:
    generation = view.control.generation
    return [
        entry.key for entry in view.entries() if entry.tier is tier and share_of(entry, generation) is Share.CHARGED
    ]


def _charged_bytes(totals: Totals, tiers: list[Tier]) -> int:
    return sum(totals.charged_bytes[tier] for tier in tiers)
