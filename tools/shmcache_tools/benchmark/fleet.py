"""A fleet: so many processes of one host that all want the same schemas.

Owns who asks for what, and the sums over all processes. Must never print.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from shmcache_tools.benchmark.corpus import Case
from shmcache_tools.benchmark.engines import OurMatcher, XGrammar
from shmcache_tools.benchmark.figures import OURS, Goal, Plot, Point, Section, Table
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_forks
from shmcache_tools.benchmark.hits import asked
from shmcache_tools.benchmark.processes import free_memory_share, own_processor_seconds, processor_seconds
from shmcache_tools.benchmark.setting import Setting
from shmcache_tools.benchmark.stores import STORES, missing
from shmcache_tools.manager_link import manager_link
from shmcache_tools.memory_usage import sum_of
from shmcache_tools.own_manager import own_manager

FREE_MEMORY_SHARE_MIN = 1 / 4
"""Of the host's memory: with less, no process begins another schema."""

SHARE_MAX = 1 / 20
"""Ours by XGrammar's, of bytes and of processor seconds."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Of all processes of a host together. ``growth`` is that of the processes, ``service`` what serves them."""

    processor_seconds: float
    compiles: int
    growth_bytes: int
    service_bytes: int
    asked: int
    """Schemas of all processes that were come to within the time."""

    @property
    def host_bytes(self) -> int:
        """Both."""
        return self.growth_bytes + self.service_bytes


class FleetError(Exception):
    """A process of the fleet failed or took too long."""


Way = Callable[[Setting, int], Totals]


def fleet_section(setting: Setting) -> Section:
    """Every way of having the schemas in all processes, by the number of processes."""
    section = Section("fleet")
    ways = dict(_ways(setting, section.notes))
    found: dict[str, dict[int, Totals]] = {name: {} for name in ways}
    for count in setting.scale.fleet_processes:
        for name, way in ways.items():
            setting.tell(f"fleet: {count} × {len(setting.cases)} schemas, {name}")
            try:
                found[name][count] = totals = way(setting, count)
            except FleetError as error:
                section.notes.append(f"{name}, {count} processes: {error}")
                continue
            if totals.asked < count * len(setting.cases):
                whole = count * len(setting.cases)
                section.notes.append(
                    f"{name}, {count} processes: no schema was begun after {setting.scale.fleet_seconds_max:.0f} s, nor"
                    f" with less than a quarter of the memory free; the figures are of {totals.asked:,} of {whole:,}"
                )
    rows = [
        (name, count, cost.processor_seconds, cost.compiles, cost.growth_bytes, cost.service_bytes)
        for count in setting.scale.fleet_processes
        for name in ways
        if (cost := found[name].get(count)) is not None
    ]
    header = ("", "processes", "CPU", "compiles", "grown by", "service")
    title = f"fleet: {len(setting.cases)} schemas in every process, first mask of each"
    section.parts = [Table(title, header, ("", "", "s", "", "B", "B"), rows)]
    section.goals = _goals(found, len(setting.cases))
    dots = {
        name: [Point(count, totals.host_bytes) for count, totals in sorted(by_count.items())]
        for name, by_count in found.items()
    }
    section.plots = [Plot("fleet-bytes", title, "processes", "bytes of the host", dots)]
    section.notes.append(
        "grown by: proportional set sizes without files; service: manager and workers, store, shared memory"
    )
    return section


def _ways(setting: Setting, notes: list[str]) -> Iterator[tuple[str, Way]]:
    if OURS in setting.engine_names:
        setting.engine(OURS)
        yield OURS, _ours
    xgrammar = next((engine for engine in setting.peers if isinstance(engine, XGrammar)), None)
    if xgrammar is None:
        return
    yield xgrammar.name, partial(_alone, engine=xgrammar)
    for package in STORES:
        reason = missing(package)
        if reason is not None:
            notes.append(f"XGrammar's serialised form in {package}: {reason}")
            continue
        yield f"XGrammar in {package}", partial(_stored, engine=xgrammar, package=package)


def _ours(setting: Setting, count: int) -> Totals:
    from shmcache.client import connect

    kept: list[Any] = []

    with own_manager("bench", workers=2) as namespace, ExitStack() as links:
        status = links.enter_context(manager_link(namespace)).status
        stats = status()
        pids = [stats["manager"]["pid"], *(worker["pid"] for worker in stats["workers"])]
        before = processor_seconds(pids[:1])

        def ask_all(number: int) -> dict[str, Any]:
            bitmask = _bitmask(setting)
            cache = connect(setting.vocabulary, namespace.name, autostart=False)
            kept.append(cache)
            return _each(setting, count, number, lambda case: OurMatcher(asked(cache, case), bitmask), kept)

        def costs() -> tuple[float, int, int]:
            stats = status()
            pids = [stats["manager"]["pid"], *(worker["pid"] for worker in stats["workers"])]
            size = sum_of(pids).anonymous_bytes + stats["charged_bytes"]["total"]
            return processor_seconds(pids) - before, stats["compiles"]["started"], size

        return _together(count, ask_all, costs, _overdue_seconds(setting), is_shared_apart=True)


def _alone(setting: Setting, count: int, engine: XGrammar) -> Totals:
    kept: list[Any] = []

    def ask_all(number: int) -> dict[str, Any]:
        return _each(setting, count, number, lambda case: engine.compile(case.schema).matcher(), kept)

    return _together(count, ask_all, lambda: (0.0, 0, 0), _overdue_seconds(setting))


def _stored(setting: Setting, count: int, engine: XGrammar, package: str) -> Totals:
    kept: list[Any] = []
    with STORES[package]() as service:

        def ask_all(number: int) -> dict[str, Any]:
            store = service.connect()
            compiles = 0

            def matcher(case: Case) -> Any:
                nonlocal compiles
                key = hashlib.sha256(case.schema.encode()).hexdigest()
                text = store.get(key)
                if text is not None:
                    return engine.read(text.decode() if isinstance(text, bytes) else text).matcher()
                grammar, text = engine.serialised(case.schema)
                compiles += 1
                store.set(key, text)
                return grammar.matcher()

            answer = _each(setting, count, number, matcher, kept)
            return {**answer, "compiles": compiles}

        def costs() -> tuple[float, int, int]:
            return service.processor_seconds(), 0, service.size_bytes()

        return _together(count, ask_all, costs, _overdue_seconds(setting))


def _each(setting: Setting, count: int, number: int, begin: Callable[[Case], Any], kept: list[Any]) -> dict[str, Any]:
    """First masks of all schemas, each process beginning elsewhere; what is asked for is kept. None begins too late."""
    cases = list(setting.cases)
    first = number * len(cases) // count
    until = monotonic() + setting.scale.fleet_seconds_max
    begun = taken = 0
    for case in cases[first:] + cases[:first]:
        if monotonic() > until or free_memory_share() < FREE_MEMORY_SHARE_MIN:
            break
        begun += 1
        try:
            matcher = begin(case)
        except Exception:
            continue
        matcher.fill()
        kept.append(matcher)
        taken += 1
    return {"seconds": own_processor_seconds(), "compiles": taken, "asked": begun}


def _overdue_seconds(setting: Setting) -> float:
    """When processes are killed: what was begun in time may take as long again."""
    return 2 * setting.scale.fleet_seconds_max + 30.0


def _together(
    count: int,
    ask_all: Callable[[int], dict[str, Any]],
    costs: Callable[[], tuple[float, int, int]],
    seconds_max: float,
    *,
    is_shared_apart: bool = False,
) -> Totals:
    """``is_shared_apart``: compiles and shared memory are those of the service, and not counted in the processes."""

    def own_bytes(pids: Sequence[int]) -> int:
        size = sum_of(pids)
        return size.anonymous_bytes if is_shared_apart else size.data_bytes

    idle_bytes = own_bytes([os.getpid()])

    def meanwhile(pids: list[int]) -> tuple[int, tuple[float, int, int]]:
        return own_bytes([os.getpid(), *pids]) - idle_bytes, costs()

    # A fork begins with no processor time of its own.
    measures = [lambda number=number: ask_all(number) for number in range(count)]
    try:
        answers, (growth, (seconds, compiles, size)) = in_forks(measures, seconds_max=seconds_max, meanwhile=meanwhile)
    except OverdueError as error:
        raise FleetError(f"longer than {seconds_max:.0f} s") from error
    except CrashedError as error:
        raise FleetError(str(error)) from error
    for answer in answers:
        if "error" in answer:
            raise FleetError(answer["error"])
    return Totals(
        seconds + sum(answer["seconds"] for answer in answers),
        compiles if is_shared_apart else sum(answer["compiles"] for answer in answers),
        growth,
        size,
        sum(answer["asked"] for answer in answers),
    )


def _bitmask(setting: Setting) -> Any:
    from shmcache.matcher.bitmask import allocate_token_bitmask

    return allocate_token_bitmask(1, setting.vocabulary.width)


def _goals(found: dict[str, dict[int, Totals]], schemas: int) -> list[Goal]:
    """Ours by XGrammar's, for most processes. What XGrammar had no time for is taken to cost what the rest did."""
    ours = found.get(OURS, {})
    theirs = next((by_count for name, by_count in found.items() if name != OURS), {})
    if not ours or not theirs:
        return []
    most = max(ours)
    # Without a cache in common, each of its processes costs the same: those that were run stand for the others.
    near = min(theirs, key=lambda count: (abs(most - count), count))
    mine, other = ours[most], theirs[near]
    if mine.asked < most * schemas or not other.asked:
        return []
    factor = most * schemas / other.asked
    share = "XGrammar's"
    if other.asked < most * schemas:
        share = f"XGrammar's for {other.asked:,}, times {factor:.1f}"
    bytes_max = other.host_bytes * factor * SHARE_MAX
    seconds_max = other.processor_seconds * factor * SHARE_MAX
    return [
        Goal(f"bytes of {most} processes: 1/20 of {share}", mine.host_bytes, bytes_max, "B"),
        Goal(f"CPU of {most} processes: 1/20 of {share}", mine.processor_seconds, seconds_max, "s"),
    ]
