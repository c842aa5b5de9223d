"""``shmcache metrics``: the figures for Prometheus, once or over HTTP.

Owns the listening. Must never need a manager, nor write to the cache.
"""

from __future__ import annotations

import json
import signal
import threading

import click

from shmcache.memory.names import Namespace
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import echo_json
from shmcache_tools.shared_stats import open_view


def _address(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) < 1 << 16:
        raise click.BadParameter("expected [HOST:]PORT, such as 9464 or 0.0.0.0:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command(
    "metrics",
    epilog="Example:  shmcache metrics --listen 9464",
    short_help="Print the metrics for Prometheus, or serve them.",
)
@namespace_option
@click.option("--listen", callback=_address, metavar="[HOST:]PORT", help="Serve them over HTTP at /metrics instead.")
@json_option
def command(namespace: str | None, listen: tuple[str, int] | None, as_json: bool) -> None:
    """Print the metrics in Prometheus' text format, or serve them until Ctrl-C.

    Every scrape reads shared memory and nothing else: it works with a manager that does not answer, or with none. With
    --listen a cache that is not there is no error, but shmcache_up 0; without, the exit code is 4 then.
    """
    from shmcache_tools import exporter

    names = Namespace.of(namespace)
    if listen is not None:
        _serve(names, listen, as_json)
    elif as_json:
        taken = exporter.snapshot(open_view(names))
        echo_json(
            {
                sample.name + (json.dumps(sample.labels, sort_keys=True) if sample.labels else ""): sample.value
                if abs(sample.value) != float("inf")
                else None
                for family in exporter.families(taken)
                for sample in family.samples
            }
        )
    else:
        click.echo(exporter.exposition(names), nl=False)


def _serve(names: Namespace, listen: tuple[str, int], as_json: bool) -> None:
    from prometheus_client import start_http_server

    from shmcache_tools import exporter

    host, port = listen
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        server, thread = start_http_server(port, host, exporter.registry(names))
    except OSError as error:
        raise click.ClickException(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
    address = f"http://{host}:{server.server_port}/metrics"
    if as_json:
        echo_json({"namespace": names.name, "address": address})
    else:
        click.echo(f"metrics of {names.name} at {address}; Ctrl-C ends it")
    try:
        ended.wait()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
