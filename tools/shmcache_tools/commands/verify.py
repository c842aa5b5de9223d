"""``shmcache verify``: does everything that must hold, hold?

Owns the rendering of findings and the exit code. Must never change anything.
"""

from __future__ import annotations

from dataclasses import asdict

import click

from shmcache.memory.names import Namespace
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, count_text, echo_json, wrapped
from shmcache_tools.shared_stats import open_view
from shmcache_tools.verification import verify


@click.command(
    "verify",
    epilog="Example:  shmcache verify --json | jq '.findings[].code'",
    short_help="Walk over everything in shared memory; say what is wrong.",
)
@namespace_option
@json_option
def command(namespace: str | None, as_json: bool) -> None:
    """Walk over everything in shared memory; say what is wrong.

    Compares index, account and files; reads every segment and checks its header, its checksums and the bounds of the
    image in it. Changes nothing, needs no manager, and may be run while one works. Exits with 6 when there are
    findings, 4 when there is no cache of that name, 5 when what is there is of another version or foreign.
    """
    names = Namespace.of(namespace)
    found = verify(open_view(names))
    if as_json:
        echo_json(
            {
                "slots": found.slots,
                "entries": found.entries,
                "payload_bytes": found.payload_bytes,
                "findings": [asdict(finding) for finding in found.findings],
            }
        )
    else:
        click.echo(f"{found.slots} slots, {found.entries} entries, {bytes_text(found.payload_bytes)} of payload read")
        for finding in found.findings:
            click.secho(f"{finding.code}  {finding.subject}", fg="yellow", bold=True)
            click.echo(wrapped(finding.message, indent="  "))
        count = len(found.findings)
        click.secho(
            f"{count_text(count, 'finding')}" if count else "no findings",
            fg="yellow" if count else "green",
        )
    if found.findings:
        click.get_current_context().exit(ExitCode.FINDINGS)
