"""``shmcache serve``: a manager in the foreground.

Owns its options and the line that says that it is ready. Must never do what a manager does.
"""

from __future__ import annotations

import logging
import os
import threading

import click

from shmcache import settings
from shmcache.manager import logs
from shmcache.memory.names import Namespace
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.options import bytes_option, json_option, namespace_option
from shmcache_tools.output import echo_json, limit_text
from shmcache_tools.shared_stats import open_view


@click.command(
    "serve",
    epilog="Example:  shmcache serve --limit-bytes 2GiB --workers 2",
    short_help="Run a manager in the foreground.",
)
@namespace_option
@bytes_option(
    "--limit-bytes",
    help="What grammars and rules may take: 512M, 2GiB, -1 for no limit.  [default: $SHMCACHE_LIMIT_BYTES, else a "
    "quarter of what /dev/shm and the cgroup leave free]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compile workers.  [default: $SHMCACHE_WORKERS, else half the processors, at most 4]",
)
@click.option(
    "--ready-workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of these, so many are started with the first compile, the others when compiles have to wait; with two there "
    "is no pause when one dies.  [default: 1]",
)
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    help="Log lines for people, or one JSON object a line.  [default: $SHMCACHE_LOG_FORMAT, else text]",
)
@click.option("--remove-on-exit", is_flag=True, help="Leave nothing in shared memory at the end.")
@json_option
def command(
    namespace: str | None,
    limit_bytes: int | None,
    workers: int | None,
    ready_workers: int | None,
    log_format: str | None,
    remove_on_exit: bool,
    as_json: bool,
) -> None:
    """Run a manager in the foreground, until SIGTERM or SIGINT.

    The cache outlives it: the next manager goes on with what is there. Exits with 1 when another manager holds the
    namespace. With --json one document is printed when clients may come.
    """
    from shmcache.manager.__main__ import EXIT_ANOTHER_MANAGER, main

    try:
        settings.LIMIT_BYTES.value(limit_bytes)
        settings.WORKERS.value(workers)
        log_format = settings.LOG_FORMAT.value(log_format)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    names = Namespace.of(namespace)
    logging.getLogger().setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logs.formatter(log_format))
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    threading.Thread(target=_announce, args=(names, read_end, as_json), daemon=True).start()
    arguments = ["--namespace", names.name, "--idle-seconds", "0", "--ready-fd", str(write_end)]
    arguments += ["--log-format", log_format]
    if limit_bytes is not None:
        arguments.append(f"--limit-bytes={limit_bytes}")
    if workers is not None:
        arguments += ["--workers", str(workers)]
    if ready_workers is not None:
        arguments += ["--ready-workers", str(ready_workers)]
    if remove_on_exit:
        arguments.append("--remove-on-exit")
    code = main(arguments)
    if code == EXIT_ANOTHER_MANAGER:
        code = ExitCode.FAILURE
    click.get_current_context().exit(code)


def _announce(names: Namespace, ready: int, as_json: bool) -> None:
    """Waits until the manager says that it is ready, and says so; nothing when it never is."""
    with os.fdopen(ready, "rb") as pipe:
        if not pipe.readline():
            return
    # The control segment may be read here: what the manager must not open twice is its lock.
    control = open_view(names).control
    if as_json:
        echo_json(
            {
                "namespace": names.name,
                "pid": os.getpid(),
                "socket": str(names.socket_path),
                "limit_bytes": control.limit_bytes,
                "generation": control.generation,
            }
        )
    else:
        limit = limit_text(control.limit_bytes)
        click.echo(f"serving {names.name}\npid {os.getpid()}, limit {limit}; Ctrl-C ends it")
