"""The metrics: one account in every command, a text that Prometheus reads, names that are documented and used."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from shmcache.client import GrammarCache, connect
from shmcache.errors import SourceError, UnsupportedError
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.segments import list_segments
from shmcache_tools import exporter
from shmcache_tools.own_manager import own_manager, wait_until
from shmcache_tools.shared_stats import open_view
from tests.conftest import REPOSITORY
from tests.tools.support import BYTES, document, invoke, run, serving_metrics

DEPLOYMENT = REPOSITORY / "tools" / "shmcache_tools" / "deployment"
GUARD_SECONDS = 10.0
_IN_EXPRESSION = re.compile(r"\bshmcache_[a-z_]+\b")


@pytest.fixture(scope="module")
def cache() -> Iterator[tuple[Namespace, GrammarCache]]:
    """Hits, misses, refusals, an eviction, retired bytes that are still mapped; and then rest."""
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as client:
        kept = [client.compile_regex(f"old-{number}") for number in range(2)]
        client.clear_cache()
        for number in range(3):
            client.compile_json_schema({"type": "object", "properties": {f"p{number}": {"type": "string"}}})
            client.compile_regex(f"new-{number}")
        client.compile_regex("new-0")
        with pytest.raises(SourceError):
            client.compile_regex("(")
        with pytest.raises(UnsupportedError):
            client.compile_json_schema({"type": "string", "pattern": "(?<=a)b"})
        evicted = client.compile_regex("evicted")
        assert invoke("evict", evicted.key.hex(), "-n", namespace.name).exit_code == 0
        wait_until(
            lambda: all(worker["state"] != "busy" for worker in client.stats()["workers"]),
            seconds_max=GUARD_SECONDS,
            what="the worker to store its rows",
        )
        assert kept
        yield namespace, client


def figures(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a text that Prometheus' own parser reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def figure(found: dict[Any, float], name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


# --- one account ------------------------------------------------------------------------------------------------------


def test_every_command_shows_the_account_that_the_slots_and_the_files_have(
    cache: tuple[Namespace, GrammarCache],
) -> None:
    namespace, client = cache
    name = namespace.name
    found = figures(run("metrics", "-n", name).stdout)
    status = document(run("status", "-n", name, "--json").stdout)
    top = document(run("top", "-n", name, "--json").stdout)["stats"]
    for volatile in ("shm_free_bytes", "clients"):
        assert volatile in top
        del status[volatile], top[volatile]
    assert top == status
    mine = client.stats()
    assert {key: value for key, value in mine.items() if key in status} == status
    view = open_view(namespace)
    sums: dict[tuple[str, str], int] = {}
    for entry in document(run("ls", "-n", name, "--all", "--json").stdout)["entries"]:
        place = entry["state"], entry["tier"]
        sums[place] = sums.get(place, 0) + entry["charged_bytes"]
    for state in ("ready", "filling", "retired"):
        for tier in Tier:
            expected = sums.get((state, tier.name.lower()), 0)
            assert figure(found, "shmcache_bytes", state=state, tier=tier.name.lower()) == expected
    for tier in Tier:
        tier_name = tier.name.lower()
        assert status["charged_bytes"][tier_name] == sums.get(("ready", tier_name), 0)
        assert figure(found, "shmcache_entries", state="ready", tier=tier_name) == status["entries"][tier_name]
    assert status["retired_bytes"] == sum(size for (state, _), size in sums.items() if state == "retired") > 0
    files = [object_path(one) for one in list_segments(view.namespace.prefix)]
    assert sum(os.stat(path).st_blocks * 512 for path in files) == sum(sums.values())


def test_the_counters_are_those_of_the_status(cache: tuple[Namespace, GrammarCache]) -> None:
    namespace, _ = cache
    found = figures(run("metrics", "-n", namespace.name).stdout)
    stats = document(run("status", "-n", namespace.name, "--json").stdout)
    assert figure(found, "shmcache_up") == figure(found, "shmcache_manager_up") == 1
    assert figure(found, "shmcache_lookups_total", result="hit") == stats["lookups"]["hit"] == 1
    assert figure(found, "shmcache_lookups_total", result="miss") == stats["lookups"]["miss"] > 8
    assert figure(found, "shmcache_compiles_total", outcome="succeeded") == stats["compiles"]["succeeded"]
    assert figure(found, "shmcache_compile_seconds_count") == stats["compiles"]["succeeded"] == 9
    assert figure(found, "shmcache_compile_seconds_bucket", le="+Inf") == 9
    assert figure(found, "shmcache_compile_seconds_sum") == pytest.approx(stats["compile_seconds"]["sum"])
    assert figure(found, "shmcache_refusals_total", code="SOURCE_ERROR") == 1
    assert figure(found, "shmcache_refusals_total", code="UNSUPPORTED") == 1
    assert figure(found, "shmcache_evictions_total", reason="request") == stats["evictions"] == 1
    assert figure(found, "shmcache_clients") == stats["clients_connected"] == 1
    assert figure(found, "shmcache_generation") == 2
    assert figure(found, "shmcache_manager_restarts_total") == 0
    assert figure(found, "shmcache_compiles_in_flight") == figure(found, "shmcache_compile_waiters") == 0
    limit = figure(found, "shmcache_limit_bytes")
    assert limit == stats["limit_bytes"] or (math.isinf(limit) and stats["limit_bytes"] == -1)


def test_buckets_are_cumulative(cache: tuple[Namespace, GrammarCache]) -> None:
    found = figures(run("metrics", "-n", cache[0].name).stdout)
    buckets = [
        (float(dict(labels)["le"]), value) for (name, labels), value in found.items() if name.endswith("_bucket")
    ]
    counts = [count for _, count in sorted(buckets)]
    assert counts == sorted(counts)
    assert len(counts) == 13


def test_the_figures_as_a_document(cache: tuple[Namespace, GrammarCache]) -> None:
    told = document(run("metrics", "-n", cache[0].name, "--json").stdout)
    assert told["shmcache_generation"] == 2
    assert told['shmcache_refusals_total{"code": "SOURCE_ERROR"}'] == 1


def test_counters_outlive_a_manager(namespace: str) -> None:
    from tests.tools.support import ended, serving

    for restarts in (0, 1):
        with serving(namespace) as process:
            with connect(BYTES, namespace, autostart=False) as client:
                client.compile_regex("ab*c")
            found = figures(run("metrics", "-n", namespace).stdout)
            assert figure(found, "shmcache_manager_restarts_total") == restarts
            assert figure(found, "shmcache_compile_seconds_count") == 1
            ended(process, signal.SIGTERM)
    found = figures(run("metrics", "-n", namespace).stdout)
    assert figure(found, "shmcache_manager_up") == 0
    assert figure(found, "shmcache_clients") == 0
    assert figure(found, "shmcache_compile_seconds_count") == 1


# --- the text, over HTTP too ------------------------------------------------------------------------------------------


def test_no_cache_is_no_metrics_but_a_reason(namespace: str) -> None:
    assert run("metrics", "-n", namespace).returncode == 4
    text = "".join(f"{sample.name} {sample.value}" for family in parse(scrape(namespace)) for sample in family.samples)
    assert text == "shmcache_up 0.0"


def test_over_http(cache: tuple[Namespace, GrammarCache]) -> None:
    text = scrape(cache[0].name)
    over_http, printed = figures(text), figures(run("metrics", "-n", cache[0].name).stdout)
    for found in (over_http, printed):
        del found["shmcache_shm_free_bytes", ()]
    assert over_http == printed


def scrape(namespace: str) -> str:
    with serving_metrics(namespace) as address:
        plain = urllib.request.urlopen(address, timeout=GUARD_SECONDS).read().decode()
        asked = urllib.request.Request(address, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        openmetrics = urllib.request.urlopen(asked, timeout=GUARD_SECONDS).read().decode()
    assert len(list(parse_openmetrics(openmetrics))) == len(list(parse(plain)))
    return str(plain)


@pytest.mark.parametrize("address", ["x", "host:", "1:99999", "-1"])
def test_an_impossible_address_is_wrong_usage(address: str, namespace: str) -> None:
    assert invoke("metrics", "-n", namespace, f"--listen={address}").exit_code == 2


def test_an_address_that_cannot_be_had(namespace: str) -> None:
    with serving_metrics(namespace) as address:
        port = address.rpartition(":")[2].partition("/")[0]
        taken = run("metrics", "-n", namespace, "--listen", port)
    assert taken.returncode == 1
    assert "cannot listen" in taken.stderr


# --- names ------------------------------------------------------------------------------------------------------------


def sample_names() -> set[str]:
    histogram = {f"{exporter.HISTOGRAM}{part}" for part in ("_bucket", "_sum", "_count")}
    return (exporter.metric_names().keys() - {exporter.HISTOGRAM}) | histogram


def test_names_have_base_units_and_labels_are_bounded() -> None:
    for spec in exporter.METRICS:
        assert spec.name.startswith("shmcache_")
        assert spec.name.endswith("_total") == (spec.kind == "counter")
        assert not re.search(r"_(ms|us|kb|mb|percent)(_|$)", spec.name)
        assert set(spec.labels) <= {"state", "tier", "result", "outcome", "code", "reason"}


def test_what_is_exposed_is_what_is_named(cache: tuple[Namespace, GrammarCache]) -> None:
    assert {name for name, _ in figures(run("metrics", "-n", cache[0].name).stdout)} == sample_names()


def test_every_name_is_documented_with_its_meaning() -> None:
    text = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(shmcache_[a-z_]+)(?:\{[a-z, ]*\})?` \| [a-z]+ \| (.+?) \|$", text, re.MULTILINE))
    assert rows == exporter.metric_names()


def test_the_dashboard_and_the_alerts_use_names_that_exist() -> None:
    dashboard = json.loads((DEPLOYMENT / "grafana-dashboard.json").read_text(encoding="utf-8"))
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((DEPLOYMENT / "prometheus-alerts.yml").read_text(encoding="utf-8"))
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    for expressions in (shown, alerts):
        used = {name for expression in expressions for name in _IN_EXPRESSION.findall(expression)}
        assert used
        assert used <= sample_names()
    assert {name for expression in shown for name in _IN_EXPRESSION.findall(expression)} == sample_names(), (
        "the dashboard shows everything"
    )
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_each_label_value_that_an_alert_or_the_dashboard_names_exists(cache: tuple[Namespace, GrammarCache]) -> None:
    values = {value for _, labels in figures(run("metrics", "-n", cache[0].name).stdout) for _, value in labels}
    for name in ("grafana-dashboard.json", "prometheus-alerts.yml"):
        text = (DEPLOYMENT / name).read_text(encoding="utf-8").replace("\\", "")
        for wanted in re.findall(r'(?:state|tier|result|outcome|code|reason)=~?"([^"]+)"', text):
            assert set(wanted.split("|")) <= values


def test_every_alert_is_explained() -> None:
    rules = yaml.safe_load((DEPLOYMENT / "prometheus-alerts.yml").read_text(encoding="utf-8"))
    text = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
    for rule in rules["groups"][0]["rules"]:
        assert f"`{rule['alert']}`" in text
        assert rule["annotations"].keys() == {"summary", "description"}
