"""The benchmark: its corpus is valid, its figures are those of what was timed, its document and table can be read."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.benchmark import engine_load, plots, scenarios
from shmcache_tools.benchmark.circumstances import circumstances, processor_name
from shmcache_tools.benchmark.corpus import INSTANCES_MAX, LongestTokens, cases_of_file, packaged_cases
from shmcache_tools.benchmark.figures import (
    Goal,
    Latencies,
    Plot,
    Point,
    Section,
    Table,
    percentile,
    percentiles,
    quantile_plot,
)
from shmcache_tools.benchmark.growth import SERIES, resized
from shmcache_tools.benchmark.showing import COLUMNS_MAX, amount, lines
from shmcache_tools.commands import bench
from shmcache_tools.fleet import Course, FleetError
from shmcache_tools.sources import demo_sources
from tests.tools.support import BYTES, document, invoke

SECTION = Section(
    "cold",
    [
        Latencies("both", {"shmcache": [1.0, 2.0, 3.0], "llguidance": [2.0, 4.0, 6.0], "other": [9.0, 1.0]}),
        Table("more", ("", "bytes", "seconds"), ("", "B", "s"), [("shmcache", 2048, 0.5), ("other", None, "too long")]),
    ],
    [Goal("cold p50", 2.0, 1.0, "µs"), Goal("size", 10, 60e3, "B")],
    ["a note"],
)


def instances_of(name: str) -> list[Any]:
    path = Path(bench.__file__).parent.parent / "demo_sources" / f"{name}.instances"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "source", [one for one in demo_sources() if one.kind == "json_schema"], ids=lambda one: one.name
)
def test_packaged_instances_are_valid(source: Any) -> None:
    instances = instances_of(source.name)
    assert len(instances) == 3
    for instance in instances:
        jsonschema.validate(instance, json.loads(source.text))


def test_packaged_cases_have_their_instances() -> None:
    cases = packaged_cases(LongestTokens(BYTES))
    assert len(cases) == 17
    for case in cases:
        texts = [bytes(tokens).decode() for tokens in case.instances]
        # Long ones are cut.
        expected = [json.dumps(one, ensure_ascii=False) for one in instances_of(case.name)]
        assert [len(text) > 10 and whole.startswith(text) for text, whole in zip(texts, expected, strict=True)] == [
            True
        ] * 3


def test_longest_tokens_are_taken() -> None:
    tokens = LongestTokens(Vocabulary([b"a", b"ab", b"abc", b"c", b"<x>"], special_token_ids=[4]))
    assert tokens.encode("abcab") == [2, 1]
    with pytest.raises(ValueError, match="no token begins"):
        tokens.encode("b")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_cases_of_a_file(tmp_path: Path, suffix: str) -> None:
    rows = [
        {
            "id": f"schema {number}",
            "schema": {"const": number},
            "tests": [{"data": number, "valid": True}, {"data": "no", "valid": False}] * 9,
        }
        for number in range(10)
    ]
    data = "\n".join(map(json.dumps, rows)).encode()
    path = tmp_path / f"some{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    assert len(cases_of_file(path, LongestTokens(BYTES))) == 10
    some = cases_of_file(path, LongestTokens(BYTES), limit=3)
    assert [case.name for case in some] == ["schema 0", "schema 3", "schema 6"]
    assert some[1].instances == ((ord("3"),),) * INSTANCES_MAX


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert percentile(values, 50) == pytest.approx(50.5)
    row = percentiles(values)
    assert row is not None
    assert row[-1] == 100
    assert row == sorted(row)
    assert percentiles([]) is None


def test_ratios_are_to_the_best_peer_at_each_percentile() -> None:
    latencies = SECTION.parts[0]
    assert isinstance(latencies, Latencies)
    ratios = latencies.ratios()
    assert ratios is not None
    assert ratios[0] == pytest.approx(2 / 4)
    assert ratios[-1] == pytest.approx(3 / 6)
    assert Latencies("alone", {"shmcache": [1.0]}).ratios() is None
    assert Latencies("others", {"llguidance": [1.0], "other": [2.0]}).ratios() is None
    assert Latencies("nothing of ours", {"shmcache": [], "other": [2.0]}).ratios() is None


def test_goals() -> None:
    assert Goal("x", 1.0, 1.0, "µs").is_met
    assert not Goal("x", 1.01, 1.0, "µs").is_met


def test_amounts() -> None:
    assert [amount(1500, "µs"), amount(2, "s"), amount(2048, "B"), amount(12_000, ""), amount(1.234, "")] == [
        *("1.50 ms", "2.00 s", "2.00 KiB", "12,000", "1.23")
    ]
    assert amount(None, "µs") == "–"
    assert len(amount("longer than anything that has room", "µs")) == 24


def test_a_section_as_text() -> None:
    text = "\n".join(lines(SECTION))
    assert all(len(line) <= COLUMNS_MAX for line in text.splitlines())
    assert "× best peer" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith(("cold p50", "size"))] == ["!!", "ok"]
    assert "cold: a note" in text


def test_a_curve_shows_no_more_than_was_measured() -> None:
    plot = quantile_plot("x", Latencies("x", {"a": [1.0] * 100, "b": []}))
    assert list(plot.series) == ["a"]
    assert min(point.x for point in plot.series["a"]) == 1.0


@pytest.mark.skipif(not plots.can_plot(), reason="matplotlib comes with the extra 'bench'")
def test_plots_are_files(tmp_path: Path) -> None:
    dots = Plot("dots", "dots", "x", "µs", {"a": [Point(1, 2), Point(10, 20), Point(0, 1)]}, has_lines=False)
    empty = Plot("empty", "empty", "x", "µs", {"a": []})
    assert plots.write_plots([dots, empty], tmp_path / "new") == [tmp_path / "new" / "dots.png"]
    assert (tmp_path / "new" / "dots.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("series", SERIES, ids=lambda one: one.name)
def test_instances_of_series_are_valid(series: Any) -> None:
    for size in series.sizes[:3]:
        schema, value = series.make(size)
        jsonschema.validate(value, schema)


def test_a_vocabulary_is_cut_and_extended() -> None:
    smaller, larger = resized(BYTES, 100, 1), resized(BYTES, 1_000, 1)
    assert [smaller.size, larger.size] == [100, 1_000]
    assert larger.stop_token_ids == BYTES.stop_token_ids
    assert len({larger.token_bytes(token_id) for token_id in range(1_000)}) == 1_000


def test_processors_are_named() -> None:
    assert processor_name("processor : 0\nmodel name\t: Some CPU @ 3 GHz\n") == "Some CPU @ 3 GHz"
    assert processor_name("") != ""


def test_the_circumstances_are_told() -> None:
    around = circumstances(7)
    assert around["seed"] == 7
    assert around["cores"] >= 1
    assert around["python"].startswith("3.")


def test_names_of_the_command_line_are_those_of_the_scenarios_and_engines() -> None:
    from shmcache_tools.benchmark.engines import ENGINES

    assert scenarios.NAMES == bench.SCENARIO_NAMES
    assert tuple(ENGINES) == bench.ENGINE_NAMES


@pytest.fixture
def one_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(setting: Any, names: Sequence[str]) -> list[Section]:
        setting.tell(f"{len(setting.cases)} cases")
        return [SECTION]

    monkeypatch.setattr(scenarios, "SCENARIOS", (scenarios.Scenario(("cold", "step"), run),))


@pytest.mark.tekken
@pytest.mark.usefixtures("one_scenario")
def test_the_command() -> None:
    result = invoke("bench", "--quick", "--json", "--seed", "3", "--count", "2", "--engines", "shmcache")
    as_json = document(result.stdout)
    assert "2 cases" in result.stderr
    assert [as_json["seed"], as_json["schemas"], as_json["missing"]] == [3, 2, []]
    (section,) = as_json["scenarios"]
    assert section["parts"][0]["engines"]["shmcache"]["count"] == 3
    assert section["parts"][0]["ratio_to_best_peer"]["p50"] == 0.5
    assert [goal["is_met"] for goal in section["goals"]] == [False, True]
    text = invoke("bench", "--quick", "--scenario", "step", "--count", "1").stdout
    assert all(len(line) <= COLUMNS_MAX for line in text.splitlines())
    assert "!!" in text


@pytest.mark.tekken
@pytest.mark.usefixtures("one_scenario")
def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xgrammar" else found(name))
    text = invoke("bench", "--quick", "--count", "1").stdout
    assert "left out: xgrammar, xgrammar-strict" in text


@pytest.mark.tekken
def test_a_scenario_that_fails_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(setting: Any, names: Sequence[str]) -> Iterator[Section]:
        raise TimeoutError("waited 60 s for the cache to be at rest")

    monkeypatch.setattr(scenarios, "SCENARIOS", (scenarios.Scenario(("clear",), fail),))
    result = invoke("bench", "--quick", "--count", "1")
    assert result.exit_code == 1
    assert "at rest" in result.stdout


@pytest.mark.tekken
@pytest.mark.parametrize(
    "arguments", [("--engines", "nobody"), ("--engines", ","), ("--scenario", "nothing"), ("--schemas", "/nowhere")]
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert invoke("bench", *arguments).exit_code == 2


@pytest.mark.tekken
def test_files_that_are_no_schemas(tmp_path: Path) -> None:
    for text in ("", "{}\n", "nothing\n"):
        (tmp_path / "x.jsonl").write_text(text)
        result = invoke("bench", "--schemas", str(tmp_path / "x.jsonl"))
        assert result.exit_code == 2
        assert "x.jsonl" in result.stderr


def test_the_load_of_a_fleet() -> None:
    """Without XGrammar installed, ours alone; all ranks see the same masks."""
    plain = document(invoke("bench", "fleet", "--quick", "--json").stdout)
    assert plain["fleet"][0]["engine"] == "shmcache"
    for run in plain["fleet"]:
        assert run["differing_masks"] == 0
        assert run["tokens"] > run["steps"] > 0
        assert 0 < run["step_seconds"]["p50"] <= run["step_seconds"]["p99"]
    assert plain["missing"] == ([] if len(plain["fleet"]) == 2 else ["xgrammar"])


def test_a_fleet_that_cannot_be_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise FleetError("a rank does not answer")

    monkeypatch.setattr(engine_load, "runs", fail)
    result = invoke("bench", "fleet", "--quick")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr


def test_the_table_of_a_fleet() -> None:
    course = Course(steps=2, tokens=5, compile_seconds=[0.5, 0.1], mask_seconds=[0.001, 0.002], seconds=1.5)
    text = engine_load.shown([engine_load.Run("shmcache", course), engine_load.Run("xgrammar", Course())])
    assert "1.50 s" in text
    assert "600 ms" in text
    assert max(map(len, text.splitlines())) <= 80
