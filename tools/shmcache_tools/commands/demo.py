"""``shmcache demo``: one compile per host, seen in a minute.

Owns the telling: progress bar, tables, exit code. Must never leave anything in shared memory, whatever happens.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from types import FrameType
from typing import TYPE_CHECKING

import click

from shmcache.settings import shm_directory
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.output import COLUMNS_MAX, bytes_text, heading, seconds_text, table

if TYPE_CHECKING:
    from shmcache.memory.names import Namespace
    from shmcache_tools.demo_run import ClearScene, Memory, Moment, Requests, WorkerLatency

SEED = 20_250
COMPILE_WORKERS = 2


@click.command(
    "demo",
    epilog="Example:  shmcache demo --samples",
    short_help="Show four processes share one compile of each grammar.",
)
@click.option("--samples", is_flag=True, help="Also print what one worker decoded from each source.")
@click.option("--seed", type=int, default=SEED, show_default=True, help="For the samples.")
def command(samples: bool, seed: int) -> None:
    """Show four processes share one compile of each grammar.

    Starts a manager in a namespace of its own and four worker processes with the 131,072-token Tekken vocabulary. All
    ask for the same 20 schemas and grammars and decode a sample of each. Then the cache is cleared while a compile is
    in flight. Ends with nothing left in shared memory; exits with 1 when anything is not as it should be.
    """
    from shmcache_tools.demo_run import DemoError
    from shmcache_tools.inference_team import MemberError
    from shmcache_tools.own_manager import own_manager

    try:
        with terminated_like_interrupted():
            _warm_up()
            with own_manager("demo", workers=COMPILE_WORKERS, ready_workers=COMPILE_WORKERS) as namespace:
                _run(namespace, samples, seed)
            _check_nothing_left(namespace)
    except (DemoError, MemberError, TimeoutError) as error:
        click.secho(f"error: {error}", fg="red", err=True)
        click.get_current_context().exit(ExitCode.FAILURE)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Lets SIGTERM unwind the stack as Ctrl-C does, so that everything is cleaned up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _warm_up() -> None:
    from shmcache.rows.warm_up import warm_up

    warm_up(click.echo)


def _run(namespace: Namespace, samples: bool, seed: int) -> None:
    from shmcache_tools import demo_run
    from shmcache_tools.inference_team import inference_team, open_commands
    from shmcache_tools.memory_usage import sum_of

    click.echo(f"a manager, {COMPILE_WORKERS} compile workers, {demo_run.WORKERS} workers with the Tekken vocabulary")
    progress = _Progress()
    with inference_team(demo_run.WORKERS, progress.tick) as team:
        with progress.over(demo_run.TICKS):
            team.all(open_commands(demo_run.WORKERS, namespace=namespace.name, seed=seed))
            idle = sum_of(team.pids)
            requests = demo_run.ask_for_everything(team, namespace)
            memory = demo_run.measure_memory(team, idle, requests.stats, seed, progress.tick)
        _show_requests(requests)
        if samples:
            _show_samples(requests)
        _show_memory(memory, requests)
        heading("a clear while a compile is in flight")
        scene = demo_run.clear_in_flight(team, namespace, seed)
    _show_clear(scene, demo_run.account_at_rest(namespace))


class _Progress:
    """A bar that steps may come to before and after it is shown."""

    def __init__(self) -> None:
        self._step: Callable[[int], None] | None = None

    def tick(self) -> None:
        if self._step is not None:
            self._step(1)

    @contextmanager
    def over(self, length: int) -> Iterator[None]:
        with click.progressbar(length=length, label="compiling and decoding", width=30, file=sys.stderr) as bar:
            self._step = bar.update
            try:
                yield
            finally:
                self._step = None


def _show_requests(requests: Requests) -> None:
    stats = requests.stats
    latencies = requests.latencies
    compiles, lookups, charged = stats["compiles"], stats["lookups"], stats["charged_bytes"]
    heading("from request to first mask, p50")
    rows = [
        (f"worker {number}, pid {one.pid}", *(seconds_text(median(part)) for part in _parts(one)))
        for number, one in enumerate(latencies)
    ]
    together = [[second for one in latencies for second in _parts(one)[place]] for place in range(3)]
    rows.append(("all", *(seconds_text(median(part)) for part in together)))
    click.echo(table(rows, header=("", "own compile", "host hit", "local hit"), align="<>>>"))
    heading("what that took")
    grammars = stats["entries"]["grammar"]
    click.echo(
        table(
            [
                ("compiles", f"{compiles['succeeded']}, not {len(latencies) * grammars}"),
                ("waited", f"{lookups['coalesced']} for a compile that another worker had asked for"),
                ("hits", f"{lookups['hit']}"),
                ("grammars", f"{bytes_text(charged['grammar'])} charged for {grammars}"),
                (
                    "rules",
                    f"{bytes_text(charged['rule'])} charged for {stats['entries']['rule']}, for the next compiles",
                ),
                ("vocabulary", f"{bytes_text(charged['vocabulary'])}, in shared memory once"),
                ("samples", f"{requests.sample_count} decoded, all as their source demands"),
            ]
        )
    )


def _parts(one: WorkerLatency) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    return one.own_compile, one.host_hit, one.local_hit


def _show_samples(requests: Requests) -> None:
    heading("what worker 0 decoded: random legal tokens, led to an end")
    width = COLUMNS_MAX - 24
    for name, text in sorted(requests.samples.items()):
        plain = "".join(character if character.isprintable() else "·" for character in text)
        click.echo(f"{name:22}  {plain if len(plain) <= width else plain[: width - 1] + '…'}")


def _show_memory(memory: Memory, requests: Requests) -> None:
    count = len(requests.latencies)
    shared, private = memory.workers.data_bytes, memory.private.data_bytes
    shared_growth = shared - memory.idle_workers.data_bytes
    private_growth = private - memory.idle_private.data_bytes
    heading(f"memory of {count} workers, each with all grammars")
    rows = [
        ("grammars", requests.stats["charged_bytes"]["grammar"], count * memory.private_grammar_bytes),
        ("workers, growth since idle", shared_growth, count * private_growth),
        ("workers, all", shared, count * private),
    ]
    lines = [(name, bytes_text(left), bytes_text(right)) for name, left, right in rows]
    lines.append(("manager and its workers", bytes_text(memory.service.data_bytes), "–"))
    click.echo(table(lines, header=("", "shared", "private copies"), align="<>>"))
    click.echo("Workers and manager: proportional set sizes from smaps_rollup, without program")
    click.echo(f"files. Private copies: {count} times one process that did the same by itself.")


def _show_clear(scene: ClearScene, at_rest: Moment) -> None:
    rows = [
        (
            moment.name,
            str(moment.stats["generation"]),
            bytes_text(moment.size_bytes),
            bytes_text(moment.stats["retired_bytes"]),
            str(moment.stats["compiles_in_flight"]),
        )
        for moment in (*scene.moments, at_rest)
    ]
    click.echo(table(rows, header=("moment", "generation", "size", "retired", "in flight"), align="<>>>>"))
    click.echo(
        f"The caller whose compile the clear overtook got its grammar after {seconds_text(scene.caller_seconds)};\n"
        f"it is of generation {scene.caller_generation} and charged to nobody."
    )


def _check_nothing_left(namespace: Namespace) -> None:
    from shmcache_tools.demo_run import DemoError
    from shmcache_tools.leftovers import own_objects

    left = own_objects(namespace)
    if left:
        raise DemoError(f"left behind: {', '.join(left)}")
    click.echo()
    click.secho(f"Nothing of this demo is left in {shm_directory()}.", fg="green")
