"""``top``: rates between two readings, the frame at 80×24, the terminal left as it was found."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from shmcache.client import GrammarCache, connect
from shmcache.memory.names import Namespace
from shmcache.memory.statistics import statistics
from shmcache_tools.live_view import Hot, Reader, Reading, frame, histogram, rate_text, rates
from shmcache_tools.own_manager import own_manager
from tests.tools.support import BYTES, STATS_SHAPE, check_columns, check_shape, document, run
from tests.tools.terminal import Terminal

GUARD_SECONDS = 20.0


def reading(seconds: float, hits: int = 0, **changes: Any) -> Reading:
    stats = {**statistics(None, None), **changes}
    stats["lookups"] = {"hit": hits, "miss": 0, "coalesced": 0}
    return Reading(seconds, 7, stats, (Hot("ab" * 32, "regex", 4096, 1500, hits, 3.0),))


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_rates_are_what_happened_a_second() -> None:
    assert rates(None, reading(1.0)) == {}
    assert rates(reading(1.0, 10), reading(3.0, 50))["hit"] == 20
    assert rates(reading(1.0, 10), reading(3.0, 5))["hit"] == 0, "a cache that was made anew"
    assert rates(reading(1.0, 10), reading(1.0, 50)) == {}


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "–/s"), (0.0, "0/s"), (0.25, "0.2/s"), (9.96, "10.0/s"), (12.4, "12/s"), (1e6, "1000000/s")],
)
def test_rates_as_text(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


def test_the_histogram_has_a_column_for_each_bucket() -> None:
    counts = [0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 123_456]
    seconds = {**statistics(None, None)["compile_seconds"], "counts": counts}
    bars, numbers, bounds = histogram(seconds)
    assert {len(bars), len(numbers), len(bounds)} == {6 * 13}
    assert bars[6:12] == " ▁▁▁▁▁", "one is seen beside many"
    assert bars.endswith(" █████")
    assert numbers.split() == ["1", "16", "123k"]
    assert bounds.split()[-1] == "more"


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (80, 60), (200, 24), (132, 43)])
def test_a_frame_fits_its_terminal(columns: int, lines: int) -> None:
    long_name = "n" * 150
    hot = tuple(Hot(f"{number:064x}", "structural_tag", 1 << 40, 10**9, 10**9, 1e6) for number in range(99))
    worker = {"pid": 4_194_304, "state": "starting"}
    now = replace(reading(2.0, 10**12, workers=[worker] * 9, limit_bytes=1 << 41), hot=hot)
    for before in (None, reading(1.0)):
        shown = frame(long_name, before, now, columns=columns, lines=lines, clock="12:34:56")
        assert len(shown) == lines
        assert max(map(len, shown)) <= columns
        assert shown[0].endswith("12:34:56")


def test_a_short_frame_is_whole() -> None:
    shown = frame("x", reading(1.0, 5), reading(2.0, 25), columns=80, lines=24, clock="now")
    assert len(shown) <= 24
    assert any("20/s hit" in line for line in shown)
    assert any(line.startswith("abababababababab") and "20/s" in line for line in shown)


def test_the_hottest_come_first() -> None:
    before = replace(reading(1.0), hot=(Hot("a" * 64, "regex", 1, 1, 900, 1.0), Hot("b" * 64, "regex", 1, 1, 5, 1.0)))
    now = replace(reading(2.0), hot=(Hot("a" * 64, "regex", 1, 1, 901, 1.0), Hot("b" * 64, "regex", 1, 1, 50, 1.0)))
    shown = frame("x", before, now, columns=80, lines=24, clock="")
    places = [next(place for place, line in enumerate(shown) if line.startswith(name * 16)) for name in "ba"]
    assert places == sorted(places)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cache() -> Iterator[tuple[Namespace, GrammarCache]]:
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as client:
        for _ in range(5):
            client.compile_regex("ab*c")
        client.compile_regex("x{3}")
        yield namespace, client


def test_a_reading(cache: tuple[Namespace, GrammarCache]) -> None:
    reader = Reader(cache[0], answer_seconds_max=2.0, retry_seconds=5.0, hot_max=1)
    taken = reader.read(10.0)
    check_shape(taken.stats, STATS_SHAPE)
    (hottest,) = taken.hot
    assert hottest.key == cache[1].compile_regex("ab*c").key.hex()
    assert hottest.kind == "regex"
    assert hottest.uses == 4
    assert taken.stats["workers"]


def test_a_silent_manager_is_asked_again_only_after_a_while(
    cache: tuple[Namespace, GrammarCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    from shmcache.errors import ManagerUnavailable
    from shmcache_tools import live_view

    asked: list[Namespace] = []

    @contextmanager
    def silent(namespace: Namespace, *, seconds_max: float) -> Iterator[None]:
        asked.append(namespace)
        raise ManagerUnavailable("silent")
        yield

    monkeypatch.setattr(live_view, "manager_link", silent)
    reader = Reader(cache[0], answer_seconds_max=0.5, retry_seconds=5.0, hot_max=1)
    states = [reader.read(now).stats["manager"]["state"] for now in (10.0, 11.0, 14.9, 15.0)]
    assert states == ["silent"] * 4
    assert len(asked) == 2


def test_in_a_pipe_it_reads_once(cache: tuple[Namespace, GrammarCache]) -> None:
    result = run("top", "-n", cache[0].name)
    assert (result.returncode, result.stderr) == (0, "")
    check_columns(result.stdout)
    assert 15 < len(result.stdout.splitlines()) <= 24
    assert "\x1b" not in result.stdout
    two = run("top", "-n", cache[0].name, "--frames", "2", "--interval", "0.1").stdout
    assert "0/s hit" in two
    told = document(run("top", "-n", cache[0].name, "--json").stdout)
    check_shape(told["stats"], STATS_SHAPE)
    assert told["hottest"][0]["uses"] >= 4


# --- on a terminal ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["q", "SIGINT", "SIGTERM"])
def test_it_leaves_the_terminal_as_it_was(
    cache: tuple[Namespace, GrammarCache], terminals: list[Terminal], how: str
) -> None:
    terminal = Terminal("top", "-n", cache[0].name, "--interval", "0.1")
    terminals.append(terminal)
    terminal.until("hottest grammars")
    if how == "q":
        os.write(terminal.ours, b"q")
    else:
        terminal.process.send_signal(signal.Signals[how])
    shown = terminal.until("\x1b[?1049l")
    assert terminal.end() == (0, terminal.before)
    assert shown.startswith("\x1b[?1049h\x1b[?25l")
    assert shown.index("\x1b[?25h") > shown.index("hottest")
    assert "Traceback" not in shown
    first = shown.split("\x1b[H")[1]
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", first).split("\r\n")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert ("\x1b[1m" in first) == (not os.environ.get("NO_COLOR"))


def test_no_colour_where_it_is_not_wanted(cache: tuple[Namespace, GrammarCache], terminals: list[Terminal]) -> None:
    terminal = Terminal("top", "-n", cache[0].name, "--frames", "1", NO_COLOR="1")
    terminals.append(terminal)
    shown = terminal.until("\x1b[?1049l")
    assert terminal.end()[0] == 0
    assert re.findall(r"\x1b\[[0-9;]*m", shown) == []


def test_it_waits_for_a_cache_that_is_not_there_yet(namespace: str, terminals: list[Terminal]) -> None:
    terminal = Terminal("top", "-n", namespace, "--interval", "0.1")
    terminals.append(terminal)
    terminal.until("no cache named")
    with connect(BYTES, namespace) as client:
        client.compile_regex("ab*c")
        terminal.until("hottest grammars")
    os.write(terminal.ours, b"q")
    terminal.until("\x1b[?1049l")
    assert terminal.end()[0] == 0


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell: str) -> None:
    program = [sys.executable, "-c", "from shmcache_tools.main import main; main(prog_name='shmcache')"]
    told = {**os.environ, "_SHMCACHE_COMPLETE": f"{shell}_source"}
    done = subprocess.run(program, env=told, capture_output=True, text=True, check=True, timeout=GUARD_SECONDS)
    assert "shmcache" in done.stdout
    asked = {**os.environ, "_SHMCACHE_COMPLETE": f"{shell}_complete", "COMP_WORDS": "shmcache expl", "COMP_CWORD": "1"}
    # fish gives the word itself.
    asked = {**asked, "COMP_CWORD": "expl"} if shell == "fish" else asked
    done = subprocess.run(program, env=asked, capture_output=True, text=True, check=True, timeout=GUARD_SECONDS)
    assert "explain-key" in done.stdout
