"""The ranks of an engine in lock step: one compile per grammar, equal masks everywhere, and nothing left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcache import compile_regex
from shmcache.array_types import Int32Array
from shmcache.client import GrammarCache
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.segments import list_segments
from shmcache_tools.fleet import Course, FleetError, Plan, run_fleet
from shmcache_tools.fleet_rank import DRAFT_TOKENS, Rank, grammar_sources
from shmcache_tools.own_manager import own_manager
from shmcache_tools.shared_stats import open_view
from shmcache_tools.verification import verify
from shmcache_tools.vocabulary_choice import byte_vocabulary
from shmcache_workers.engine_matcher import EngineMatcher
from tests.manager.live import pause


@pytest.fixture(scope="module")
def host() -> Iterator[Namespace]:
    """A manager for this module's fleets."""
    with own_manager("fleet-test", workers=2, limit_bytes=1 << 28) as namespace:
        yield namespace


@pytest.fixture
def observer(host: Namespace) -> Iterator[GrammarCache]:
    """A client that looks, of an empty cache."""
    with GrammarCache(byte_vocabulary(), host, may_start=False) as cache:
        cache.clear_cache()
        yield cache


def check_host(observer: GrammarCache, host: Namespace) -> None:
    """All ranks are gone, nothing is left of them, and the account is that of the files, to the byte."""
    own = [{"pid": os.getpid()}]
    pause(lambda: observer.stats()["clients"] == own, "a rank is still counted")
    pause(lambda: observer.stats()["retired_bytes"] == 0, "something is still mapped")
    stats = observer.stats()
    assert stats["compiles_in_flight"] == 0
    assert stats["compiles"]["failed"] == stats["compiles"]["refused"] == stats["evictions"] == 0
    assert verify(open_view(host)).findings == ()
    files = [object_path(name) for name in list_segments(host.prefix)]
    assert sum(path.stat().st_blocks * 512 for path in files) == stats["charged_bytes"]["total"]
    assert stats["entries"]["grammar"] > 0
    observer.clear_cache()
    pause(lambda: observer.stats()["charged_bytes"]["grammar"] == 0, "a cleared grammar is charged")
    pause(lambda: observer.stats()["retired_bytes"] == 0, "a cleared grammar is still there")


def check_course(course: Course, plan: Plan) -> None:
    """Every request came to an end, and all ranks saw the same."""
    assert course.differences == []
    assert course.ended + course.cancelled == plan.requests
    assert course.tokens > plan.requests
    assert len(course.mask_seconds) == plan.ranks * course.steps


def test_a_fleet_with_every_accident(observer: GrammarCache, host: Namespace) -> None:
    plan = Plan(ranks=8, requests=48, grammars=10, killed_at=4, flushed_at=8, cancelled_share=0.4, seed=3)
    before = observer.stats()
    course = run_fleet(plan, host.name)
    check_course(course, plan)
    assert course.steps > 10
    assert course.cancelled > 0
    after = observer.stats()
    assert after["generation"] == before["generation"] + 1
    started = after["compiles"]["started"] - before["compiles"]["started"]
    assert started == course.compiles_expected
    assert course.compiles_expected > plan.grammars  # some of them in both generations
    check_host(observer, host)


def test_ranks_that_ask_at_once_wait_for_one_compile(observer: GrammarCache, host: Namespace) -> None:
    plan = Plan(
        ranks=3, requests=6, grammars=5, arrivals_per_step=6, killed_at=None, flushed_at=None, held_back_every=99
    )
    before = observer.stats()["compiles"]["started"]
    course = run_fleet(plan, host.name)
    check_course(course, plan)
    assert observer.stats()["compiles"]["started"] - before == course.compiles_expected <= 5
    check_host(observer, host)


def test_a_rank_that_differs_is_noticed() -> None:
    """What the comparison rests on: another seed gives other tokens and masks."""
    vocabulary = byte_vocabulary()
    grammar = compile_regex("[a-z]{40}", vocabulary)
    reports = []
    for seed in (1, 1, 2):
        rank = Rank(vocabulary, lambda kind, text: lambda: EngineMatcher(grammar), 2, seed)
        steps = [rank.step({"7": 1}, []), rank.step({}, []), rank.step({}, [7])]
        assert steps[-1]["tokens"] == {}
        assert all(1 <= len(step["tokens"][7]) <= DRAFT_TOKENS for step in steps[:-1])
        reports.append([(step["digest"], step["tokens"]) for step in steps])
    assert reports[0] == reports[1] != reports[2]


def test_with_xgrammar_in_every_rank_the_same_comes_out(observer: GrammarCache, host: Namespace) -> None:
    pytest.importorskip("xgrammar")
    plans = [
        Plan(ranks=2, requests=6, grammars=2, killed_at=None, engine=engine) for engine in ("shmcache", "xgrammar")
    ]
    courses = [run_fleet(plan, host.name) for plan in plans]
    for course, plan in zip(courses, plans, strict=True):
        check_course(course, plan)
    assert courses[0].tokens == courses[1].tokens
    assert courses[0].steps == courses[1].steps


@pytest.mark.parametrize(("token", "expected"), [("@", "refused against its mask"), ("b", "accepted against its mask")])
def test_a_mask_that_does_not_say_what_is_accepted_is_noticed(token: str, expected: str) -> None:
    grammar = compile_regex("[a-z]{40}", byte_vocabulary())

    class Wrong(EngineMatcher):
        """Allows one token, of which that is not true, or not the whole truth."""

        def write(self, row: Int32Array) -> None:
            row.fill(0)
            row[ord(token) // 32] = 1 << ord(token) % 32

    rank = Rank(byte_vocabulary(), lambda kind, text: lambda: Wrong(grammar), 2, 1)
    with pytest.raises(AssertionError, match=expected):
        rank.step({"1": 1}, [])


def test_a_rank_that_ends_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FleetError):
        run_fleet(Plan(ranks=2, requests=1, vocabulary=f"huggingface:{tmp_path}/none.json"), "no-manager-here")


def test_the_sources_are_different_and_the_same_for_all() -> None:
    sources = grammar_sources(20)
    assert sources == grammar_sources(20)
    assert len(set(sources)) == 20
    assert {kind for kind, _ in sources} == {"json", "regex"}
