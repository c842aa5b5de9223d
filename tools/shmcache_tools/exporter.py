"""The cache's figures as Prometheus metrics, read straight from shared memory at every scrape.

Owns the metrics' names, types and labels; every label has a fixed set of values. Must never need a manager, nor write.

One table says what there is (:data:`METRICS`): the collector, the documentation's test, the dashboard's and the alerts'
tests all go by it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.memory import names
from shmcache.memory.account import Share, share_of
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.statistics import OUTCOMES
from shmcache_tools.entry_facts import STATE_NAMES
from shmcache_tools.shared_stats import TIER_NAMES, SharedView, open_view

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

Samples = list[tuple[tuple[str, ...], float]]
"""Label values and the figure."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one scrape read: the shape of ``stats()``, and the sums over the slots by state and tier."""

    stats: dict[str, Any]
    by_state: dict[tuple[str, str], tuple[int, int]]
    """(state, tier) → (bytes, entries); every combination is there."""
    shm_size_bytes: int


def snapshot(view: SharedView) -> Snapshot:
    """Reads everything once."""
    generation = view.control.generation
    by_state = {(STATE_NAMES[share], TIER_NAMES[tier]): (0, 0) for share in Share for tier in Tier}
    for entry in view.entries():
        place = STATE_NAMES[share_of(entry, generation)], TIER_NAMES[entry.tier]
        charged_bytes, count = by_state[place]
        by_state[place] = charged_bytes + entry.charged_bytes, count + 1
    status = os.statvfs(names.SHM_DIRECTORY)
    return Snapshot(view.stats(), by_state, status.f_blocks * status.f_frsize)


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: ``kind`` is ``gauge`` or ``counter`` (whose name ends in ``_total``), in base units."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[Snapshot], Samples]


def _one(read: Callable[[dict[str, Any]], float]) -> Callable[[Snapshot], Samples]:
    return lambda snapshot: [((), float(read(snapshot.stats)))]


def _by_name(read: Callable[[dict[str, Any]], dict[str, int]]) -> Callable[[Snapshot], Samples]:
    return lambda snapshot: [((name,), float(value)) for name, value in read(snapshot.stats).items()]


def _limit(stats: dict[str, Any]) -> float:
    return float("inf") if stats["limit_bytes"] < 0 else float(stats["limit_bytes"])


METRICS = (
    MetricSpec(
        "shmcache_manager_up",
        "gauge",
        "1 while a manager holds the namespace",
        (),
        _one(lambda stats: stats["manager"]["pid"] is not None),
    ),
    MetricSpec(
        "shmcache_manager_restarts_total",
        "counter",
        "Managers that took over from an earlier one",
        (),
        _one(lambda stats: max(0, stats["epoch"] - 1)),
    ),
    MetricSpec(
        "shmcache_generation",
        "gauge",
        "The generation that is valid; each clear raises it",
        (),
        _one(lambda stats: stats["generation"]),
    ),
    MetricSpec(
        "shmcache_limit_bytes", "gauge", "What grammars and rules may take; +Inf without a limit", (), _one(_limit)
    ),
    MetricSpec(
        "shmcache_bytes",
        "gauge",
        "What entries take in shared memory, summed over the slots of the index",
        ("state", "tier"),
        lambda snapshot: [(place, float(amount)) for place, (amount, _) in snapshot.by_state.items()],
    ),
    MetricSpec(
        "shmcache_entries",
        "gauge",
        "Entries, counted over the slots of the index",
        ("state", "tier"),
        lambda snapshot: [(place, float(count)) for place, (_, count) in snapshot.by_state.items()],
    ),
    MetricSpec(
        "shmcache_shm_free_bytes",
        "gauge",
        "What the shared-memory file system has left",
        (),
        _one(lambda stats: stats["shm_free_bytes"]),
    ),
    MetricSpec(
        "shmcache_shm_size_bytes",
        "gauge",
        "The size of the shared-memory file system",
        (),
        lambda snapshot: [((), float(snapshot.shm_size_bytes))],
    ),
    MetricSpec(
        "shmcache_lookups_total",
        "counter",
        "Requests for a grammar that were answered without a compile, or not",
        ("result",),
        _by_name(lambda stats: {name: stats["lookups"][name] for name in ("hit", "miss")}),
    ),
    MetricSpec(
        "shmcache_local_hits_total",
        "counter",
        "Hits of grammars that the process held already; part of the hits",
        (),
        _one(lambda stats: stats["local_hits"]),
    ),
    MetricSpec(
        "shmcache_coalesced_waits_total",
        "counter",
        "Requests that waited for a compile another had asked for",
        (),
        _one(lambda stats: stats["lookups"]["coalesced"]),
    ),
    MetricSpec(
        "shmcache_private_compiles_total",
        "counter",
        "Compiles in a client, where no manager served it",
        (),
        _one(lambda stats: stats["private_compiles"]),
    ),
    MetricSpec(
        "shmcache_compiles_started_total",
        "counter",
        "Compiles that a worker began",
        (),
        _one(lambda stats: stats["compiles"]["started"]),
    ),
    MetricSpec(
        "shmcache_compiles_total",
        "counter",
        "Compiles that ended, by outcome",
        ("outcome",),
        _by_name(lambda stats: {name: stats["compiles"][name] for name in OUTCOMES}),
    ),
    MetricSpec(
        "shmcache_compiles_in_flight",
        "gauge",
        "Compiles that somebody waits for",
        (),
        _one(lambda stats: stats["compiles_in_flight"]),
    ),
    MetricSpec(
        "shmcache_compile_waiters",
        "gauge",
        "Requests that wait for a compile",
        (),
        _one(lambda stats: stats["waiters"]),
    ),
    MetricSpec(
        "shmcache_refusals_total",
        "counter",
        "Requests that the manager answered with an error, by its code",
        ("code",),
        _by_name(lambda stats: stats["refusals"]),
    ),
    MetricSpec(
        "shmcache_evictions_total",
        "counter",
        "Entries that had to go, by reason",
        ("reason",),
        _by_name(lambda stats: stats["evictions_by_reason"]),
    ),
    MetricSpec(
        "shmcache_clients",
        "gauge",
        "Connected clients, tools not counted",
        (),
        _one(lambda stats: stats["clients_connected"]),
    ),
)

UP = "shmcache_up"
UP_MEANING = "1 when the cache's control segment could be read"
HISTOGRAM = "shmcache_compile_seconds"
HISTOGRAM_MEANING = "What compiles that made an image took in their worker"


def metric_names() -> dict[str, str]:
    """Every metric's name and meaning."""
    return {UP: UP_MEANING, HISTOGRAM: HISTOGRAM_MEANING, **{spec.name: spec.meaning for spec in METRICS}}


class Collector:
    """Reads the cache anew at every scrape; without one, only :data:`UP` is there, and 0."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        from prometheus_client.core import GaugeMetricFamily

        try:
            taken = snapshot(open_view(self._namespace))
        except (ManagerUnavailable, SegmentError, OSError):
            yield GaugeMetricFamily(UP, UP_MEANING, value=0)
            return
        yield GaugeMetricFamily(UP, UP_MEANING, value=1)
        yield from families(taken)

    def describe(self) -> Iterator[Metric]:
        """Nothing: so that registering it reads nothing."""
        return iter(())


def families(taken: Snapshot) -> Iterator[Metric]:
    """The metrics of one snapshot, as prometheus-client has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for spec in METRICS:
        make = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
        family = make(spec.name, spec.meaning, labels=spec.labels)
        for labels, value in spec.read(taken):
            family.add_metric(labels, value)
        yield family
    seconds = taken.stats["compile_seconds"]
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*map(str, seconds["bounds"]), "+Inf"], seconds["counts"], strict=True):
        total += count
        buckets.append((bound, total))
    yield HistogramMetricFamily(HISTOGRAM, HISTOGRAM_MEANING, buckets=buckets, sum_value=seconds["sum"])


def registry(namespace: Namespace) -> CollectorRegistry:
    """A registry with nothing but this cache in it."""
    from prometheus_client.registry import CollectorRegistry

    made = CollectorRegistry(auto_describe=False)
    made.register(Collector(namespace))
    return made


def exposition(namespace: Namespace) -> str:
    """The metrics in Prometheus' text format. Raises what :func:`open_view` does where there is nothing to read."""
    from prometheus_client.exposition import generate_latest

    open_view(namespace)
    return generate_latest(registry(namespace)).decode("utf-8")
