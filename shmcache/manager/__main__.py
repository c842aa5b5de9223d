"""The manager as a program: ``python -m shmcache.manager --namespace NAME``.

Owns the command line, signals, and the exit codes: 0 ended in order, 1 could not start, 2 wrong usage, 3 another
manager holds the namespace. Must never be imported by a client.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence

from shmcache import settings
from shmcache.errors import ShmCacheError
from shmcache.manager import logs
from shmcache.manager.policy import Limits, Policy
from shmcache.manager.recovery import recover
from shmcache.manager.server import Server
from shmcache.manager.supervisor import Supervisor
from shmcache.memory import steps
from shmcache.memory.election import ManagerLock
from shmcache.memory.lease import ignore_lease_signals
from shmcache.memory.names import Namespace

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_ANOTHER_MANAGER = 3

READY = b"ready\n"

_log = logging.getLogger("shmcache.manager")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a manager until it is told to end; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        log_format = settings.LOG_FORMAT.value(options.log_format)
    except ValueError as error:
        logging.basicConfig(stream=sys.stderr)
        _log.error("cannot start: %s", error)
        return EXIT_FAILURE
    logs.configure(options.log_level, log_format)
    try:
        namespace = Namespace.of(options.namespace)
        policy = _policy(options)
        lock = ManagerLock(namespace)
        if not lock.acquire():
            _log.error("another manager holds the namespace %r: nothing to do", namespace.name)
            return EXIT_ANOTHER_MANAGER
    except (ShmCacheError, OSError, ValueError) as error:
        _log.error("cannot start: %s", error)
        return EXIT_FAILURE
    try:
        return _serve(namespace, policy, options, lock, log_format)
    except (ShmCacheError, OSError) as error:
        _log.exception("the manager ended: %s", error)
        return EXIT_FAILURE


def _serve(
    namespace: Namespace, policy: Policy, options: argparse.Namespace, lock: ManagerLock, log_format: str
) -> int:
    ignore_lease_signals()
    _raise_descriptor_limit()
    recovered = recover(namespace, policy.limit_bytes)
    # Of an earlier version, it may be smaller.
    policy = policy.fitting(recovered.shelf.control.home_count)
    worker_options = ["--log-format", log_format]
    worker_options += ["--compiler", options.compiler] if options.compiler else []
    idle_seconds = settings.IDLE_SECONDS.value(options.idle_seconds) or None
    server = Server(recovered, policy, Supervisor(namespace, worker_options), idle_seconds=idle_seconds)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.listen()
    _log.info(
        "serving %r: generation %d, %d entries, limit %d bytes, %d workers",
        namespace.name,
        server.core.entries.generation,
        len(server.core.entries),
        policy.limit_bytes,
        policy.workers_max,
        extra={
            "namespace": namespace.name,
            "generation": server.core.entries.generation,
            "entries": len(server.core.entries),
            "limit_bytes": policy.limit_bytes,
            "workers": policy.workers_max,
        },
    )
    # What lasts is not looked at by collections, which would keep whoever asks just then waiting.
    gc.freeze()
    _say_ready(options.ready_fd)
    try:
        server.run()
    finally:
        server.close(remove=options.remove_on_exit)
        lock.release(remove=options.remove_on_exit)
    return EXIT_OK


def _policy(options: argparse.Namespace) -> Policy:
    seconds_max = settings.COMPILE_SECONDS.value()
    default = Policy().default_limits
    return Policy(
        limit_bytes=settings.LIMIT_BYTES.value(options.limit_bytes),
        workers_max=settings.WORKERS.value(options.workers),
        workers_ready=options.ready_workers,
        default_limits=Limits(seconds_max, default.states_max, default.edges_max, default.memory_bytes_max),
    )


def _say_ready(descriptor: int | None) -> None:
    if descriptor is not None:
        steps.write(descriptor, READY)
        os.close(descriptor)


def _raise_descriptor_limit() -> None:
    """Every client costs two descriptors; what may be had without privileges is taken."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        _log.info("the descriptor limit stays as it is: %s", error)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shmcache.manager", description=__doc__.partition("\n")[0])
    parser.add_argument("--namespace", default=settings.NAMESPACE.value(), help="which cache (default: %(default)s)")
    parser.add_argument("--limit-bytes", type=settings.parse_bytes, help=settings.LIMIT_BYTES.meaning)
    parser.add_argument("--workers", type=_count, help=settings.WORKERS.meaning)
    parser.add_argument(
        "--ready-workers",
        type=_count,
        default=Policy().workers_ready,
        help="of the workers, so many are started with the first compile, the others when compiles have to wait for"
        " them; two go on without a pause when one dies (default: %(default)s)",
    )
    parser.add_argument(
        "--ready-fd", type=int, help="descriptor that gets a line, and is closed, when clients may come"
    )
    parser.add_argument("--idle-seconds", type=float, help="end when no client has been there for so long; 0: never")
    parser.add_argument("--remove-on-exit", action="store_true", help="leave nothing in shared memory at the end")
    parser.add_argument("--compiler", help="module:function that workers run in place of the compiler; for tests")
    parser.add_argument("--log-format", choices=logs.FORMATS, help=settings.LOG_FORMAT.meaning)
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


if __name__ == "__main__":
    sys.exit(main())
