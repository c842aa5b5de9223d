"""``shmcache gc``: what a killed manager left is brought to order, without starting another one.

Owns taking the manager's lock for that, and saying what went. Must never touch a cache whose manager is alive.
"""

from __future__ import annotations

from dataclasses import asdict

import click

from shmcache.errors import ManagerUnavailable
from shmcache.manager.tidying import has_objects, tidy
from shmcache.memory.election import ManagerLock, holder_pid
from shmcache.memory.lease import ignore_lease_signals
from shmcache.memory.names import Namespace
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import bytes_text, count_text, echo_json


@click.command(
    "gc",
    epilog="Example:  shmcache gc --namespace staging",
    short_help="Clean up after a manager that is gone.",
)
@namespace_option
@json_option
def command(namespace: str | None, as_json: bool) -> None:
    """Clean up after a manager that is gone.

    Frees slots and files that were never finished, what a clear or an eviction ended and nobody maps any more, and
    files without a slot. Valid entries stay for the next manager, and readers keep hitting. While a manager is alive
    nothing is done, since it does all that itself: the exit code is 1 then. Exits with 4 when there is no cache.
    """
    names = Namespace.of(namespace)
    pid = holder_pid(names)
    if pid is None and not has_objects(names):
        raise ManagerUnavailable(f"there is no cache named {names.name!r}: nothing to clean up")
    ignore_lease_signals()
    lock = ManagerLock(names)
    if pid is not None or not lock.acquire():
        _refuse(names, pid, as_json)
        return
    try:
        tidied = tidy(names)
    finally:
        lock.release(remove=not has_objects(names))
    if as_json:
        echo_json({"manager": None, **asdict(tidied)})
        return
    gone = tidied.objects_before - tidied.objects_after
    click.echo(f"removed    {count_text(gone, 'object')}")
    click.echo(f"memory     {bytes_text(tidied.bytes_before)} → {bytes_text(tidied.bytes_after)}")
    click.echo(f"left       {count_text(tidied.entries, 'entry', 'entries')} for the next manager")
    click.echo(f"retired    {bytes_text(tidied.retired_bytes)}, still mapped by some process")


def _refuse(names: Namespace, pid: int | None, as_json: bool) -> None:
    who = f"the manager (pid {pid})" if pid else "a manager"
    if as_json:
        echo_json({"manager": {"pid": pid}})
    click.echo(f"{who} of {names.name!r} is alive and cleans up by itself: nothing was done", err=True)
    click.get_current_context().exit(ExitCode.FAILURE)
