"""``shmcache top``: what happens in the cache, live.

Owns the terminal: plain ANSI, so that it works over any connection. Must never need a manager, nor write to the cache.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from dataclasses import asdict

import click

from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.memory.names import Namespace
from shmcache_tools.live_view import LINES_MIN, Reader, Reading, frame
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import COLUMNS_MAX, echo_json

ANSWER_SECONDS_MAX = 0.5
RETRY_SECONDS = 5.0
HOT_MAX = 200
"""Grammars that are watched: the most used."""

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_END_OF_LINE = "\x1b[K"
_END_OF_SCREEN = "\x1b[J"


@click.command(
    "top",
    epilog="Example:  shmcache top --interval 2 -n production",
    short_help="Watch rates, compile times, hot grammars, workers.",
)
@namespace_option
@click.option("--interval", type=click.FloatRange(min=0.1), default=1.0, metavar="SECONDS", help="[default: 1]")
@click.option("--frames", type=click.IntRange(min=1), metavar="N", help="End after so many.  [default: 1 in a pipe]")
@json_option
def command(namespace: str | None, interval: float, frames: int | None, as_json: bool) -> None:
    """Watch rates, compile times, the hottest grammars and the workers.

    Reads shared memory, and asks a manager that answers who its workers are. On a terminal it goes on until q or
    Ctrl-C, whatever becomes of the manager or the cache; in a pipe, and with --json, it reads once. Exits with 4 when
    there is no cache to read once.
    """
    names = Namespace.of(namespace)
    reader = Reader(names, answer_seconds_max=ANSWER_SECONDS_MAX, retry_seconds=RETRY_SECONDS, hot_max=HOT_MAX)
    if as_json:
        reading = reader.read(time.monotonic())
        echo_json({"stats": reading.stats, "hottest": [asdict(hot) for hot in reading.hot]})
    elif sys.stdout.isatty():
        _watch(names, reader, interval, frames)
    else:
        _print(names, reader, interval, frames or 1)


def _print(names: Namespace, reader: Reader, interval: float, frames: int) -> None:
    before: Reading | None = None
    for number in range(frames):
        if number:
            time.sleep(interval)
            click.echo()
        now = reader.read(time.monotonic())
        for line in frame(names.name, before, now, columns=COLUMNS_MAX, lines=LINES_MIN, clock=_clock()):
            click.echo(line.rstrip())
        before = now


def _watch(names: Namespace, reader: Reader, interval: float, frames: int | None) -> None:
    before: Reading | None = None
    shown = 0
    with _screen():
        while frames is None or shown < frames:
            size = shutil.get_terminal_size((COLUMNS_MAX, LINES_MIN))
            try:
                now = reader.read(time.monotonic())
                lines = frame(names.name, before, now, columns=size.columns, lines=size.lines - 1, clock=_clock())
                before = now
            except (ManagerUnavailable, SegmentError, OSError) as error:
                lines = [f"cache {names.name}", "", str(error)[: size.columns], "looking again; q ends this"]
                before = None
            _draw(lines[: size.lines - 1])
            shown += 1
            if (frames is None or shown < frames) and _is_ended(interval):
                return


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _draw(lines: list[str]) -> None:
    styled = [click.style(lines[0], bold=True), *lines[1:]] if not os.environ.get("NO_COLOR") else lines
    sys.stdout.write(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in styled) + _END_OF_SCREEN)
    sys.stdout.flush()


class _Ended(Exception):  # noqa: N818  (a condition)
    """A signal asked for the end."""


def _is_ended(seconds: float) -> bool:
    """Waits so long for somebody to press q; True when somebody does, or the terminal is gone."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not sys.stdin.isatty():
            time.sleep(left)
            return False
        if select.select([sys.stdin], [], [], left)[0] and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b"\x03", b""):
            return True
    return False


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """The other screen of the terminal, keys read as they are pressed; everything as it was afterwards."""

    def end(*_: object) -> None:
        raise _Ended

    former = [(number, signal.signal(number, end)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    settings = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    try:
        if settings is not None:
            tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        yield
    except _Ended:
        pass
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        if settings is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
        for number, handler in former:
            signal.signal(number, handler)
