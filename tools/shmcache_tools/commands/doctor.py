"""``shmcache doctor``: facts about the host, findings, and the remedy of each.

Owns their rendering. Must never change anything.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from shmcache.memory.names import Namespace
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.host_checks import check_host
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, count_text, echo_json, table, wrapped
from shmcache_tools.report import Finding


@click.command(
    "doctor",
    epilog="Example:  shmcache doctor --json | jq '.findings[].remedy'",
    short_help="Check the host and the cache; say what to do.",
)
@namespace_option
@json_option
def command(namespace: str | None, as_json: bool) -> None:
    """Check the host and the cache; say what to do about each finding.

    Looks at versions, /dev/shm (Docker gives 64 MB), the memory cgroup, user, namespaces and directories, process
    limits, what the kernel and the processor give, logind's RemoveIPC, the manager, the account of the cache, and
    segments that belong to no cache. Exits with 6 when there are findings.
    """
    Namespace.of(namespace)
    report = check_host(namespace)
    if as_json:
        echo_json({"facts": report.facts, "findings": [asdict(finding) for finding in report.findings]})
    else:
        for topic, facts in report.facts.items():
            click.secho(topic, bold=True)
            for line in table(
                [(f"  {_plain(name)}", _text(name, value)) for name, value in facts.items()]
            ).splitlines():
                click.echo(line)
        click.echo()
        for finding in report.findings:
            _show(finding)
        count = len(report.findings)
        click.secho(
            f"{count_text(count, 'finding')}" if count else "no findings",
            fg="yellow" if count else "green",
        )
    if report.findings:
        click.get_current_context().exit(ExitCode.FINDINGS)


def _show(finding: Finding) -> None:
    click.secho(f"{finding.code}", fg="yellow", bold=True)
    click.echo(wrapped(finding.message, indent="  "))
    click.echo(wrapped(f"remedy: {finding.remedy}", indent="  "))


def _plain(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(str(key), item)}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if name.endswith("bytes") or name in ("file size", "memory"):
        return bytes_text(value)
    return str(value)
