"""What happened is counted where the exporter finds it, and logged with its figures."""

from __future__ import annotations

import logging

import pytest

from shmcache.manager import effects as fx
from shmcache.manager.bookkeeping import Bookkeeping
from shmcache.memory.control import ControlWriter, control_image
from shmcache.memory.layout import (
    COMPILE_SECONDS_BOUNDS,
    COUNTER_NAMES,
    COUNTERS,
    EVICTION_REASONS,
    FINGERPRINTS,
    Tier,
)
from shmcache.memory.statistics import statistics

KEY = bytes(range(32))


@pytest.fixture
def control() -> ControlWriter:
    return ControlWriter(control_image(home_count=64))


def ended(outcome: str = "succeeded", tier: Tier = Tier.GRAMMAR, cost_us: int = 0, code: str = "") -> fx.CompileEnded:
    return fx.CompileEnded(tier, KEY, 3, outcome, 2, 10.0, code, cost_us, 4096)


def test_the_counters_have_room() -> None:
    assert COUNTERS + len(COUNTER_NAMES) <= FINGERPRINTS
    assert len(set(COUNTER_NAMES)) == len(COUNTER_NAMES)


@pytest.mark.parametrize(
    ("cost_us", "bucket"),
    [(1, 0), (5_000, 0), (5_001, 1), (330_000, 6), (1_000_000, 7), (30_000_000, 11), (30_000_001, 12)],
)
def test_each_compile_is_in_one_bucket(control: ControlWriter, cost_us: int, bucket: int) -> None:
    Bookkeeping(control, lambda: 12.0).perform(ended(cost_us=cost_us))
    histogram = statistics(control, None)["compile_seconds"]
    assert histogram["bounds"] == list(COMPILE_SECONDS_BOUNDS)
    assert [place for place, count in enumerate(histogram["counts"]) if count] == [bucket]
    assert sum(histogram["counts"]) == statistics(control, None)["compiles"]["succeeded"] == 1
    assert histogram["sum"] == cost_us / 1e6


def test_vocabularies_and_failures_are_in_none(control: ControlWriter) -> None:
    books = Bookkeeping(control, lambda: 12.0)
    books.perform(ended(tier=Tier.VOCABULARY, cost_us=7))
    books.perform(ended("refused", code="UNSUPPORTED"))
    stats = statistics(control, None)
    assert sum(stats["compile_seconds"]["counts"]) == 0
    assert stats["compiles"] == {"started": 0, "succeeded": 0, "refused": 1, "failed": 0, "fenced": 0}


def test_evictions_by_reason(control: ControlWriter) -> None:
    books = Bookkeeping(control, lambda: 0.0)
    for count, reason in enumerate(EVICTION_REASONS, 1):
        for _ in range(count):
            books.perform(fx.EntryEvicted(Tier.RULE, KEY, 4096, reason))
    stats = statistics(control, None)
    assert stats["evictions_by_reason"] == {reason: count for count, reason in enumerate(EVICTION_REASONS, 1)}
    assert stats["evictions"] == 10


def test_gauges_of_a_dead_manager_are_nobodys(control: ControlWriter) -> None:
    Bookkeeping(control, lambda: 0.0).keep_gauges(3, 5)
    control.count("clients")
    alive = statistics(control, None, manager_pid=1)
    assert (alive["compiles_in_flight"], alive["waiters"], alive["clients_connected"]) == (3, 5, 1)
    dead = statistics(control, None)
    assert (dead["compiles_in_flight"], dead["waiters"], dead["clients_connected"]) == (0, 0, 0)


def test_the_log_has_the_figures_and_no_whole_key(control: ControlWriter, caplog: pytest.LogCaptureFixture) -> None:
    books = Bookkeeping(control, lambda: 12.5)
    with caplog.at_level(logging.INFO, "shmcache.manager"):
        books.perform(ended(cost_us=1_500_000))
        books.perform(ended("failed", code="CANCELLED"))
        books.perform(fx.EntryEvicted(Tier.RULE, KEY, 4096, "limit"))
    good, bad, evicted = (vars(record) for record in caplog.records)
    assert (good["key"], good["outcome"], good["seconds"], good["waited_seconds"]) == (
        KEY.hex()[:16],
        "succeeded",
        1.5,
        2.5,
    )
    assert "code" not in good
    assert (bad["code"], bad["outcome"]) == ("CANCELLED", "failed")
    assert (evicted["reason"], evicted["bytes"]) == ("limit", 4096)
    assert KEY.hex() not in caplog.text
