"""What ``shmcache top`` shows: two readings of the cache, and the lines between which they differ.

Owns the reading, the rates and the layout of one frame, from 80 columns and 24 lines up. Must never write to the cache
or to the terminal, nor know the time but through its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shmcache.errors import ManagerUnavailable
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache_tools.commands.status import TIERS, fill_text, hit_ratio_text, workers_text
from shmcache_tools.entry_facts import source_of
from shmcache_tools.manager_link import manager_link
from shmcache_tools.output import age_text, bytes_text, count_text, seconds_text, table
from shmcache_tools.shared_stats import SharedView, open_view

LINES_MIN = 24
_BARS = " ▁▂▃▄▅▆▇█"
_COLUMN = 6
_KEY_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Hot:
    """A grammar and how often it was used, about."""

    key: str
    kind: str
    charged_bytes: int
    cost_us: int
    uses: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The cache at one moment: ``seconds`` of the monotonic clock, the shape of ``stats()``, grammars by use."""

    seconds: float
    instance: int
    stats: dict[str, Any]
    hot: tuple[Hot, ...]


class Reader:
    """Takes readings. A manager that does not answer is left alone for a while, so that no frame waits for it long."""

    def __init__(self, namespace: Namespace, *, answer_seconds_max: float, retry_seconds: float, hot_max: int) -> None:
        self._namespace = namespace
        self._answer_seconds_max = answer_seconds_max
        self._retry_seconds = retry_seconds
        self._hot_max = hot_max
        self._ask_at = 0.0
        self._kinds: dict[int, str] = {}

    def read(self, now: float) -> Reading:
        """The cache now. Raises :class:`ManagerUnavailable` or :class:`SegmentError` where there is none to read."""
        view = open_view(self._namespace)
        stats = view.stats()
        if stats["manager"]["state"] == "serving":
            self._ask(stats, now)
        return Reading(now, view.control.instance, stats, self._hottest(view))

    def _ask(self, stats: dict[str, Any], now: float) -> None:
        """Who the workers and clients are; the rest stays as it was read from memory."""
        if now < self._ask_at:
            stats["manager"]["state"] = "silent"
            return
        try:
            with manager_link(self._namespace, seconds_max=self._answer_seconds_max) as link:
                known = link.status()
        except ManagerUnavailable:
            stats["manager"]["state"] = "silent"
            self._ask_at = now + self._retry_seconds
            return
        stats["workers"], stats["clients"] = known["workers"], known["clients"]

    def _hottest(self, view: SharedView) -> tuple[Hot, ...]:
        generation = view.control.generation
        used = [
            (view.uses(entry) or 0, entry)
            for entry in view.entries()
            if entry.tier is Tier.GRAMMAR and entry.is_valid_in(generation) and view.uses(entry) is not None
        ]
        used.sort(key=lambda pair: (-pair[0], pair[1].serial))
        hot = []
        for uses, entry in used[: self._hot_max]:
            kind = self._kinds.get(entry.serial)
            if kind is None:
                source = source_of(view, entry)
                kind = self._kinds[entry.serial] = source.kind if source else "–"
            idle_seconds = view.idle_seconds(entry) or 0.0
            hot.append(Hot(entry.key.hex(), kind, entry.charged_bytes, entry.cost_us, uses, idle_seconds))
        self._kinds = {entry.serial: self._kinds[entry.serial] for _, entry in used[: self._hot_max]}
        return tuple(hot)


def frame(name: str, before: Reading | None, now: Reading, *, columns: int, lines: int, clock: str) -> list[str]:
    """The lines of one frame, at most ``lines`` of at most ``columns`` characters."""
    if before is not None and before.instance != now.instance:
        before = None
    stats = now.stats
    manager = stats["manager"]
    who = f"pid {manager['pid']}, " if manager["pid"] else ""
    head = f"cache {name}  {who}{manager['state']}, epoch {stats['epoch']}, generation {stats['generation']}"
    text = [
        f"{head[: columns - len(clock) - 1]:<{columns - len(clock)}}{clock}",
        *table(_summary(before, now)).splitlines(),
        "",
        f"compile times, of {count_text(sum(stats['compile_seconds']['counts']), 'compile')}",
        *histogram(stats["compile_seconds"]),
        "",
    ]
    room = max(0, max(lines, LINES_MIN) - len(text) - 1)
    text += table(_hot_rows(before, now)[: room + 1], align="<<>>>>>").splitlines()
    return [line[:columns] for line in text[: max(lines, LINES_MIN)]]


def rates(before: Reading | None, now: Reading) -> dict[str, float]:
    """What happened a second, by name; empty for a first reading."""
    if before is None or now.seconds <= before.seconds:
        return {}
    old, new = _counters(before.stats), _counters(now.stats)
    # A counter that went back is of a cache that was made anew.
    return {name: max(0, new[name] - old[name]) / (now.seconds - before.seconds) for name in new}


def _counters(stats: dict[str, Any]) -> dict[str, int]:
    return {
        **stats["lookups"],
        "local": stats["local_hits"],
        **stats["compiles"],
        "private": stats["private_compiles"],
        "evictions": stats["evictions"],
        "refusals": sum(stats["refusals"].values()),
    }


def _summary(before: Reading | None, now: Reading) -> list[tuple[str, str]]:
    stats, charged = now.stats, now.stats["charged_bytes"]
    rate = rates(before, now)
    per_second = {name: rate_text(rate.get(name)) for name in _counters(stats)}
    ratio = hit_ratio_text(stats["lookups"]["hit"], stats["lookups"]["miss"])
    tiers = [f"{stats['entries'][tier]} {tier} {bytes_text(charged[tier])}" for tier in TIERS]
    return [
        (
            "look-ups",
            "{hit} hit, {local} of them in the process, {miss} miss, {coalesced} waited".format_map(per_second),
        ),
        ("", f"since the cache was made {ratio}"),
        ("compiles", "{started} begun, {succeeded} done, {refused} refused, {failed} failed".format_map(per_second)),
        (
            "now",
            f"{stats['compiles_in_flight']} in flight, {stats['waiters']} waiting, "
            + "{private} in clients, {evictions} evicted".format_map(per_second),
        ),
        ("memory", ", ".join(tiers)),
        ("", f"{bytes_text(stats['filling_bytes'])} being filled, {bytes_text(stats['retired_bytes'])} retired"),
        ("/dev/shm", f"{bytes_text(stats['shm_free_bytes'])} free"),
        ("limit", fill_text(stats)),
        ("workers", f"{workers_text(stats['workers'])}; {count_text(stats['clients_connected'], 'client')}"),
    ]


def histogram(seconds: dict[str, Any]) -> list[str]:
    """Three lines: bars, counts and upper bounds, a column for each bucket."""
    counts: Sequence[int] = seconds["counts"]
    most = max(counts) or 1
    bars = [_BARS[-(-count * (len(_BARS) - 1) // most)] * (_COLUMN - 1) for count in counts]
    bounds = [*(f"≤{_bound(bound)}" for bound in seconds["bounds"]), "more"]
    rows = (bars, [_short(count) if count else "" for count in counts], bounds)
    return ["".join(f"{cell:>{_COLUMN}}" for cell in row) for row in rows]


def _bound(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 0.1 else f"{seconds:g}s"


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count // 1000}k"


def rate_text(per_second: float | None) -> str:
    """``12/s``, ``0.3/s``; a dash for what is not known yet."""
    if per_second is None:
        return "–/s"
    return f"{per_second:.0f}/s" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}/s"


def _hot_rows(before: Reading | None, now: Reading) -> list[tuple[str, ...]]:
    old = {hot.key: hot.uses for hot in before.hot} if before else {}
    seconds = now.seconds - before.seconds if before else 0.0

    def rate(hot: Hot) -> float | None:
        return max(0, hot.uses - old[hot.key]) / seconds if hot.key in old and seconds > 0 else None

    order = sorted(now.hot, key=lambda hot: (-(rate(hot) or 0.0), -hot.uses))
    rows = [
        (
            hot.key[:_KEY_DIGITS],
            hot.kind,
            bytes_text(hot.charged_bytes),
            seconds_text(hot.cost_us / 1e6),
            rate_text(rate(hot)),
            str(hot.uses),
            age_text(hot.idle_seconds),
        )
        for hot in order
    ]
    return [("hottest grammars", "kind", "bytes", "cost", "uses", "all uses", "idle"), *rows]
