"""The benchmark: its figures are those of what was timed, and its document and table can be read."""

from __future__ import annotations

import numpy as np
import pytest

from shmcache_tools import bench_run
from shmcache_tools.bench_run import QUICK, Figure, Scenario, circumstances, clearing, processor_name
from tests.tools.support import check_columns, document, invoke


def test_percentiles() -> None:
    seconds = list(np.arange(1, 101) / 1000)
    figure = Figure("x", seconds, 0.2)
    assert figure.percentile(50) == pytest.approx(0.0505)
    assert figure.percentile(100) == pytest.approx(0.1)
    assert figure.is_met
    assert not Figure("x", seconds, 0.05).is_met
    assert Figure("x", seconds).is_met is None
    plain = figure.to_plain()
    assert plain["count"] == 100
    assert plain["p50_us"] == pytest.approx(50_500)
    assert plain["max_us"] == pytest.approx(100_000)
    assert plain["goal_p50_us"] == pytest.approx(200_000)


def test_processors_are_named() -> None:
    assert processor_name("processor : 0\nmodel name\t: Some CPU @ 3 GHz\n") == "Some CPU @ 3 GHz"
    assert processor_name("") != ""


def test_the_circumstances_are_told() -> None:
    around = circumstances(7)
    assert around["seed"] == 7
    assert around["cores"] >= 1
    assert around["python"].startswith("3.")


def test_clears_are_of_as_many_entries_as_it_says() -> None:
    first, second = clearing(QUICK, 0)
    assert first.name == "clear of 50 entries"
    assert len(first.seconds) == len(second.seconds) == QUICK.clear_rounds
    assert all(0 < seconds < 5 for seconds in (*first.seconds, *second.seconds))


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [Figure("one", [1e-6, 2e-6, 3e-6], 5e-6), Figure("two", [2.5]), Figure("three", [1e-3], 1e-6)]
    monkeypatch.setattr(bench_run, "SCENARIOS", (Scenario("both", lambda scale, seed: figures),))
    as_json = document(invoke("bench", "--quick", "--json", "--seed", "3").stdout)
    assert as_json["seed"] == 3
    assert [figure["name"] for figure in as_json["figures"]] == ["one", "two", "three"]
    assert [figure["goal_met"] for figure in as_json["figures"]] == [True, None, False]
    text = invoke("bench", "--quick").stdout
    check_columns(text)
    assert "5.00 µs ok" in text
    assert "1.00 µs !!" in text


def test_a_failure_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scale: bench_run.Scale, seed: int) -> list[Figure]:
        raise TimeoutError("waited 60 s for the cache to be at rest")

    monkeypatch.setattr(bench_run, "SCENARIOS", (Scenario("one", fail),))
    result = invoke("bench", "--quick")
    assert result.exit_code == 1
    assert "at rest" in result.stderr


@pytest.mark.tekken
def test_hits_are_hits_of_what_another_process_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = [source for source in bench_run.demo_sources() if source.name[:2] in ("10", "18", "20")]
    monkeypatch.setattr(bench_run, "demo_sources", lambda: cheap)
    figures = {figure.name: figure for figure in bench_run.shared(QUICK, 1)}
    host = figures["host hit: request to first mask"]
    assert len(host.seconds) == QUICK.hit_processes * len(cheap)
    local = figures["local hit: request to grammar"]
    assert len(local.seconds) == QUICK.hit_processes * len(cheap) * QUICK.local_repeats
    assert local.percentile(50) < host.percentile(50)
    assert len(figures["decode step: fill and accept"].seconds) > len(cheap)


@pytest.mark.tekken
def test_the_peer_reads_what_is_not_ebnf() -> None:
    from shmcache_tools.bench_peer import cold_seconds

    seconds = cold_seconds(1)
    assert seconds is not None
    assert len(seconds) == 18
    assert all(one > 0 for one in seconds)
