"""A reduced run of every scenario, under pytest-benchmark: that figures have their shape, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.benchmark import fleet
from shmcache_tools.benchmark.corpus import LongestTokens, packaged_cases
from shmcache_tools.benchmark.engines import ENGINES
from shmcache_tools.benchmark.figures import HEADER, OURS, Latencies, Section, Table
from shmcache_tools.benchmark.scenarios import run
from shmcache_tools.benchmark.setting import QUICK, Setting
from shmcache_tools.benchmark.showing import COLUMNS_MAX, lines
from tests.tools.support import document

# Alone on a fresh checkout the first of them compiles the kernels.
pytestmark = [pytest.mark.tekken, pytest.mark.timeout(300)]

CHEAP = ("08-support-ticket", "10-matrices")
SCALE = replace(QUICK, batch_sizes=(8,), growth_points=1, clear_entries=(5,), read_entries=5, local_repeats=5)

Measured = Callable[..., list[Section]]


@pytest.fixture(scope="module")
def setting() -> Setting:
    vocabulary = Vocabulary.from_mistral()
    cases = [case for case in packaged_cases(LongestTokens(vocabulary)) if case.name in CHEAP]
    engines = [name for name, choice in ENGINES.items() if choice.is_installed]
    return Setting(cases, engines, vocabulary, SCALE, 1, lambda line: None)


@pytest.fixture
def measured(benchmark: Any, setting: Setting) -> Measured:
    """The sections of these names, from one round; all that any section must have is checked."""

    def measure(*names: str, **changes: Any) -> list[Section]:
        # Engines that are made ready are for all.
        changed = replace(setting, **changes)
        sections: list[Section] = benchmark.pedantic(lambda: list(run(changed, names)), rounds=1)
        assert [section.name for section in sections] == list(names)
        for section in sections:
            check(section)
        return sections

    return measure


def check(section: Section) -> None:
    """What any section must be: nothing failed, percentiles ascend, plain and as text."""
    assert not [note for note in section.notes if note.startswith("failed")], section.notes
    assert section.parts
    for part in section.parts:
        if isinstance(part, Latencies):
            for _, row in part.rows():
                assert len(row) == len(HEADER)
                assert row[0] > 0
                assert row == sorted(row)
        else:
            assert all(len(row) == len(part.header) == len(part.units) for row in part.rows)
    assert document_of(section)["name"] == section.name
    assert all(len(line) <= COLUMNS_MAX for text in lines(section) for line in text.splitlines())


def document_of(section: Section) -> Any:
    import json

    return document(json.dumps(section.to_plain()))


def latencies(section: Section, place: int = 0) -> Latencies:
    part = section.parts[place]
    assert isinstance(part, Latencies)
    return part


def table(section: Section, place: int = 0) -> Table:
    part = section.parts[place]
    assert isinstance(part, Table)
    return part


def test_cold_and_step(measured: Measured, setting: Setting) -> None:
    cold, step = measured("cold", "step")
    assert list(latencies(cold).by_engine) == [engine.name for engine in setting.engines]
    assert {len(values) for values in latencies(cold).by_engine.values()} == {len(CHEAP)}
    ours = next(row for row in table(cold, 1).rows if row[0] == OURS)
    assert ours[1:4] == (len(CHEAP), 0, 0)
    tokens = sum(len(tokens) for case in setting.cases for tokens in case.instances)
    assert len(latencies(step).by_engine[OURS]) == len(latencies(step, 1).by_engine[OURS]) == tokens
    assert latencies(step).ratios() is not None
    assert [goal.text for goal in cold.goals][:2] == ["cold p50: as llguidance", "cold p99: as llguidance"]
    assert len(step.goals) == 6


def test_batch(measured: Measured, setting: Setting) -> None:
    (section,) = measured("batch")
    assert set(latencies(section).by_engine) == {engine.name for engine in setting.engines}
    assert len(latencies(section).by_engine[OURS]) == SCALE.batch_rounds
    assert [goal.text for goal in section.goals] == ["batch of 8, per row, p50"]


def test_hits(measured: Measured) -> None:
    host, local = measured("host-hit", "local-hit", engine_names=[OURS])
    assert len(latencies(host).by_engine[OURS]) == len(CHEAP)
    assert len(latencies(local).by_engine[OURS]) == len(CHEAP) * SCALE.local_repeats
    assert [len(host.goals), len(local.goals)] == [2, 1]


def test_a_fleet_compiles_each_schema_once(measured: Measured) -> None:
    (section,) = measured("fleet", engine_names=[OURS])
    rows = [dict(zip(table(section).header, row, strict=True)) for row in table(section).rows]
    assert [(row["processes"], row["compiles"]) for row in rows] == [(1, len(CHEAP)), (2, len(CHEAP))]
    assert all(row["CPU"] > 0 and row["service"] > 0 for row in rows)
    assert [len(points) for plot in section.plots for points in plot.series.values()] == [2]


def totals(asked: int, *, seconds: float, size_bytes: int) -> fleet.Totals:
    return fleet.Totals(seconds, asked, size_bytes, 0, asked)


def test_what_xgrammar_had_no_time_for_costs_what_the_rest_did() -> None:
    ours = {8: totals(800, seconds=2.0, size_bytes=1_000)}
    whole = {8: totals(800, seconds=80.0, size_bytes=40_000)}
    part = {2: totals(40, seconds=4.0, size_bytes=2_000)}
    for theirs in (whole, part):
        size, seconds = fleet._goals({OURS: ours, "XGrammar": theirs}, 100)
        assert (size.limit, seconds.limit) == (2_000, 4.0)
    assert "XGrammar's for 40, times 20.0" in seconds.text
    assert fleet._goals({OURS: {8: totals(799, seconds=2.0, size_bytes=1)}, "XGrammar": whole}, 100) == []
    assert fleet._goals({OURS: ours, "XGrammar": {}}, 100) == []


def test_no_schema_is_begun_after_the_time(measured: Measured) -> None:
    (section,) = measured("fleet", engine_names=[OURS], scale=replace(SCALE, fleet_seconds_max=0.0))
    assert [row[3] for row in table(section).rows] == [0, 0]
    assert sum("no schema was begun after" in note for note in section.notes) == 2


def test_no_schema_is_begun_without_memory(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.0 < fleet.free_memory_share() < 1.0
    monkeypatch.setattr(fleet, "free_memory_share", lambda: 0.2)
    (section,) = measured("fleet", engine_names=[OURS])
    assert [row[3] for row in table(section).rows] == [0, 0]


def test_growth(measured: Measured) -> None:
    (section,) = measured("growth", engine_names=[OURS], scale=replace(SCALE, growth_points=2))
    assert [row[0] for row in table(section).rows[::2]] == ["properties", "enum", "nesting", "maxLength", "vocabulary"]
    assert [type(row[2]) for row in table(section).rows] == [float] * 10
    assert len(section.goals) == 10


def test_clears(measured: Measured) -> None:
    (section,) = measured("clear", engine_names=[OURS])
    assert {name: len(values) for name, values in latencies(section).by_engine.items()} == {"5": 2, "5, in flight": 2}
    assert [row[0] for row in table(section, 1).rows] == ["5", "5, in flight"]
    assert all(value > 0 for row in table(section, 1).rows for value in row[1:])


def test_starts(measured: Measured) -> None:
    (section,) = measured("start-up", engine_names=[OURS])
    found = latencies(section).by_engine
    assert {len(values) for values in found.values()} == {1}
    assert found["import"][0] < found["interpreter and import"][0]
    assert found["import"][0] < found["first mask, compiled"][0]


def test_a_schema_that_takes_too_long_is_not_taken(setting: Setting) -> None:
    (section,) = run(replace(setting, scale=replace(SCALE, pair_seconds_max=1e-6)), ["cold"])
    assert latencies(section).rows() == []
    assert {row[2] for row in table(section, 1).rows} == {len(CHEAP)}
    assert all("longer than" in note for note in section.notes)
