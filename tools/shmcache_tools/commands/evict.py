"""``shmcache evict``: one entry leaves the cache.

Owns asking for it and saying what went. Must never touch another entry.
"""

from __future__ import annotations

import click

from shmcache.memory.names import Namespace
from shmcache_tools.entry_facts import check_prefix, find_one
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.manager_link import manager_link
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, echo_json, wrapped
from shmcache_tools.shared_stats import TIER_NAMES, open_view


@click.command(
    "evict",
    epilog="Example:  shmcache evict 3f2a91",
    short_help="Remove one entry.",
)
@click.argument("key_prefix", metavar="KEY", callback=check_prefix)
@namespace_option
@json_option
def command(key_prefix: str, namespace: str | None, as_json: bool) -> None:
    """Remove the entry whose key begins with KEY (hexadecimal digits).

    The next request compiles it anew. Who has it mapped keeps it; its memory is given back when it is let go. Exits
    with 3 when no entry has that key, 2 when several have, 1 when it may not go: a vocabulary in use.
    """
    names = Namespace.of(namespace)
    view = open_view(names)
    entry = find_one(view, key_prefix)
    with manager_link(names) as link:
        entries, charged_bytes = link.evict([entry.key])
    key, tier = entry.key.hex(), TIER_NAMES[entry.tier]
    if as_json:
        echo_json({"key": key, "tier": tier, "entries_evicted": entries, "charged_bytes": charged_bytes})
    elif entries:
        click.echo(f"evicted  {key[:16]}, {tier}, {bytes_text(charged_bytes)}")
    if not entries:
        click.echo(wrapped(f"{key[:16]} stays: a client uses this vocabulary, or it has just gone"), err=True)
        click.get_current_context().exit(ExitCode.FAILURE)
