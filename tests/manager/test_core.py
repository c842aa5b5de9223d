"""The core's rules, one by one. Nothing here runs, waits or opens anything."""

from __future__ import annotations

from typing import Any

import pytest

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.core import Restored
from shmcache.manager.entries import Entry
from shmcache.manager.policy import KillReason, Limits, Policy
from shmcache.memory.layout import SlotState, Tier
from tests.manager.world import PAGE, VOCABULARY, World, key

MODES = [pytest.param(-1, id="unlimited"), pytest.param(300 * PAGE, id="finite")]
SOURCE = SourceError("bad", line=1, column=1).to_plain()
SECONDS = LimitError("slow", limit="seconds", value=30).to_plain()
STATES = LimitError("big", limit="states", value=10).to_plain()


def a_world(limit_bytes: int = -1, **settings: Any) -> World:
    """All workers are there from the beginning, unless the settings say otherwise."""
    policy = Policy(limit_bytes=limit_bytes, **{"workers_ready": 2, **settings})
    world = World(policy).with_vocabulary(1)
    world.join(2, 3)
    return world


@pytest.mark.parametrize("limit_bytes", MODES)
@pytest.mark.parametrize("ending", ["value", "exception"])
def test_the_fence(limit_bytes: int, ending: str) -> None:
    world = a_world(limit_bytes)
    before = world.ask(1, 7)
    held = world.job_of(key(7))
    row = world.alloc(held, tier=Tier.RULE, wanted=key(70))
    assert row.outcome == "granted"

    world.clear(2)
    generation = world.clear(2)
    assert world.charged() == 0

    again = world.ask(2, 7)
    assert world.finish(key(7), payload="new") == "ready"
    assert world.told[2, again].image == "new"
    assert world.charged() == PAGE
    entry = world.look_up(key(7))

    # The gate opens. Neither the image nor rows of the old compile may enter, whenever their room was granted.
    assert world.commit(held, row.serial, tier=Tier.RULE, wanted=key(70)) == "fenced"
    assert world.alloc(held, tier=Tier.RULE, wanted=key(71)).outcome == "fenced"
    if ending == "value":
        assert world.alloc(held).outcome == "fenced"
        assert world.commit(held, 0, payload="old") == "fenced"
        told = world.told[1, before].effect
        assert (told.image, told.serial, told.generation) == ("old", 0, generation - 2)
        assert world.counts["fenced"] == 1
    else:
        world.step(ev.JobFailed(held.worker, held.job, SOURCE))
        assert world.told[1, before].code == "SOURCE_ERROR"
    world.done(held)
    world.drain()

    assert world.charged() == PAGE
    assert world.look_up(key(7)) == entry is not None
    assert world.look_up(key(70), Tier.RULE) is None
    assert world.core.entries.account().retired_bytes == 0
    hit = world.ask(3, 7)
    assert isinstance(world.told[3, hit].effect, fx.SendEntry)


@pytest.mark.parametrize("limit_bytes", MODES)
def test_a_segment_allocated_before_the_clear_is_fenced_at_its_commit(limit_bytes: int) -> None:
    world = a_world(limit_bytes)
    request = world.ask(1, 7)
    job = world.job_of(key(7))
    room = world.alloc(job)
    world.clear(2)
    assert world.commit(job, room.serial, payload="old") == "fenced"
    assert world.told[1, request].effect.serial == 0
    assert world.look_up(key(7)) is None
    assert world.charged() == 0
    assert world.core.entries.account().filling_bytes == 0


def test_one_compile_for_sixteen_waiters() -> None:
    world = a_world()
    world.join(*range(10, 26))
    requests = {client: world.ask(client, 7) for client in range(10, 26)}
    assert len([job for job in world.jobs.values() if job.key == key(7)]) == 1
    world.finish(key(7))
    assert {world.told[place].image for place in requests.items()} == {"image"}
    assert world.counts["started"] == 1  # building the trie of the vocabulary is no compile
    assert world.counts["coalesced"] == 15
    assert len(world.dropped) == len(set(world.dropped)) == 17


def test_a_commit_said_twice_is_charged_once() -> None:
    world = a_world()
    world.ask(1, 7)
    job = world.job_of(key(7))
    room = world.alloc(job)
    assert world.commit(job, room.serial) == "ready"
    assert world.commit(job, room.serial) == "ready"
    assert world.charged() == PAGE
    assert world.counts["succeeded"] == 1


def test_a_commit_that_takes_more_than_was_granted_is_checked_again() -> None:
    world = a_world(30 * PAGE)
    world.ask(1, 7)
    job = world.job_of(key(7))
    room = world.alloc(job, PAGE)
    assert world.commit(job, room.serial, charged_bytes=40 * PAGE) == "unindexed"
    assert world.charged() == 0


def test_a_worker_cannot_store_what_is_not_its_jobs() -> None:
    world = a_world()
    world.ask(1, 7)
    job = world.job_of(key(7))
    assert world.alloc(job, wanted=key(8)).outcome == "fenced"
    assert world.alloc(job, tier=Tier.VOCABULARY).outcome == "fenced"
    assert world.commit(job, 0, wanted=key(8)) == "fenced"


def test_the_least_recently_used_goes_first() -> None:
    world = a_world(9 * PAGE)  # six pages of grammars
    for number in range(6):
        world.ask(1, number)
        assert world.finish(key(number)) == "ready"
    world.ask(1, 6)
    job = world.job_of(key(6))
    first = world.look_up(key(0))
    assert first is not None
    world.step(ev.UseSeen({first: 10**9}, frozenset()))
    request = world.next_request()
    world.step(ev.AllocAsked(job.worker, request, job.job, Tier.GRAMMAR, key(6), PAGE))
    assert world.allocated[job.worker, request].outcome == "granted"
    assert world.look_up(key(0)) == first
    assert world.look_up(key(1)) is None
    assert world.counts["evictions"] == 1


def test_what_nobody_maps_goes_before_what_is_older() -> None:
    world = a_world(9 * PAGE)
    for number in range(6):
        world.ask(1, number)
        world.finish(key(number))
    world.mapped = {serial for number in range(5) if (serial := world.look_up(key(number))) is not None}
    world.ask(1, 6)
    assert world.finish(key(6)) == "ready"
    assert world.look_up(key(5)) is None
    assert world.look_up(key(0)) is not None


def test_mapped_bytes_are_never_taken_for_free() -> None:
    world = a_world(9 * PAGE)
    for number in range(6):
        world.ask(1, number)
        world.finish(key(number))
    world.mapped = set(world.slots)
    request = world.ask(1, 6)
    assert world.finish(key(6), payload="unindexed image") == "unindexed"
    assert world.told[1, request].effect.serial == 0
    assert world.core.entries.held_bytes(Tier.GRAMMAR) == 6 * PAGE
    # One was retired, so that its bytes come back when its readers let go.
    assert len(world.core.entries.zombies()) == 1
    world.mapped.clear()
    world.ask(1, 6)
    assert world.finish(key(6)) == "ready"
    assert world.charged() == 6 * PAGE


def test_retired_bytes_count_against_the_limit() -> None:
    world = a_world(9 * PAGE)
    for number in range(6):
        world.ask(1, number)
        world.finish(key(number))
    world.mapped = set(world.slots)
    world.clear(1)
    world.drain()
    assert world.charged() == 0
    assert world.core.entries.account().retired_bytes == 6 * PAGE
    world.ask(1, 1)
    assert world.finish(key(1)) == "unindexed"
    world.mapped.clear()
    world.ask(1, 1)
    assert world.finish(key(1)) == "ready"


def test_a_clear_that_is_not_drained_yet_leaves_room() -> None:
    world = a_world(9 * PAGE)
    for number in range(6):
        world.ask(1, number)
        world.finish(key(number))
    world.clear(1)
    assert world.core.entries.has_backlog
    world.ask(1, 1)
    assert world.finish(key(1)) == "ready"


def test_tiers_share_two_to_one() -> None:
    world = a_world(9 * PAGE)
    world.ask(1, 1)
    job = world.job_of(key(1))
    for number in range(4):
        room = world.alloc(job, tier=Tier.RULE, wanted=key(100 + number))
        assert world.commit(job, room.serial, tier=Tier.RULE, wanted=key(100 + number)) == "ready"
    assert world.charged(Tier.RULE) == 3 * PAGE
    assert world.alloc(job, 7 * PAGE).outcome == "full"
    assert world.alloc(job, 6 * PAGE).outcome == "granted"


def test_a_full_host_makes_room_once() -> None:
    world = a_world()
    for number in range(6):
        world.ask(1, number)
        world.finish(key(number))
    world.ask(1, 6)
    assert world.alloc(world.job_of(key(6)), reclaim_bytes=2 * PAGE).outcome == "granted"
    assert world.charged() == 4 * PAGE


def test_entries_are_bounded_in_number_too() -> None:
    world = a_world(entries_max=4)
    for number in range(5):
        world.ask(1, number)
        assert world.finish(key(number)) == "ready"
    assert len(world.core.entries) == 4


def test_vocabularies_outlive_a_clear_while_used() -> None:
    world = a_world()
    world.clear(2)
    assert world.look_up(VOCABULARY, Tier.VOCABULARY) is not None
    world.step(ev.ClientLeft(1))
    world.clear(2)
    world.drain()
    assert world.look_up(VOCABULARY, Tier.VOCABULARY) is None
    request = world.ask(2, 7)
    assert world.told[2, request].code == "VOCABULARY_MISSING"


def test_a_vocabulary_built_across_a_clear_is_kept() -> None:
    world = World()
    world.join(1, 2)
    world.ask(1, 0, kind=Tier.VOCABULARY)
    world.start_workers()
    world.clear(2)
    assert world.finish(VOCABULARY) == "ready"


def test_the_compile_of_a_dead_worker_goes_to_another() -> None:
    world = a_world()
    request = world.ask(1, 7)
    job = world.job_of(key(7))
    room = world.alloc(job)
    world.die(job.worker)
    assert world.core.entries.get(room.serial) is None
    other = world.job_of(key(7))
    assert other.worker != job.worker
    assert other.source == job.source
    world.finish(key(7))
    assert world.told[1, request].image == "image"
    assert world.counts["started"] == 1


def test_a_grammar_that_kills_workers_is_given_up() -> None:
    world = a_world()
    request = world.ask(1, 7)
    for _ in range(world.policy.attempts_max):
        world.die(world.job_of(key(7)).worker)
        world.start_workers()
    assert world.told[1, request].code == "LIMIT"
    again = world.ask(1, 7)
    world.finish(key(7))
    assert world.told[1, again].image == "image"


def test_a_worker_past_its_deadline_is_killed_and_its_caller_told() -> None:
    world = a_world()
    request = world.ask(1, 7, Limits(seconds_max=5.0))
    job = world.job_of(key(7))
    world.advance(5.0)
    assert not world.killed
    world.advance(world.policy.grace_seconds)
    assert world.killed == {job.worker: KillReason.DEADLINE}
    told = world.told[1, request].effect.error
    assert (told["code"], told["details"]["limit"]) == ("LIMIT", "seconds")
    world.die(job.worker)
    again = world.ask(1, 7)
    world.start_workers()
    world.finish(key(7))
    assert world.told[1, again].image == "image", "a time-out must not be remembered"


@pytest.mark.parametrize("error", [SOURCE, UnsupportedError("no", feature="x").to_plain(), STATES])
def test_deterministic_refusals_are_remembered_for_one_generation(error: Any) -> None:
    world = a_world()
    world.ask(1, 7)
    world.fail(key(7), error)
    request = world.ask(2, 7)
    assert world.told[2, request].code == error["code"]
    assert not world.jobs
    world.clear(2)
    world.ask(2, 7)
    assert world.job_of(key(7))


@pytest.mark.parametrize("limit", ["seconds", "memory_bytes", "shm_bytes"])
def test_time_and_memory_are_never_remembered(limit: str) -> None:
    world = a_world()
    world.ask(1, 7)
    world.fail(key(7), LimitError("no", limit=limit, value=1).to_plain())
    world.ask(2, 7)
    assert world.job_of(key(7))


def test_a_refusal_of_an_old_compile_is_not_remembered() -> None:
    world = a_world()
    world.ask(1, 7)
    world.clear(2)
    world.fail(key(7), SOURCE)
    world.ask(2, 7)
    assert world.job_of(key(7))


def test_refusals_are_bounded() -> None:
    world = a_world(refusals_max=3)
    for number in range(5):
        world.ask(1, number)
        world.fail(key(number), SOURCE)
    assert len(world.core.refusals) == 3


def test_a_refusal_by_a_limit_does_not_bind_who_allows_more() -> None:
    world = a_world()
    little = world.ask(1, 7, Limits(states_max=10))
    much = world.ask(2, 7, Limits(states_max=1000))
    world.fail(key(7), STATES)
    assert world.told[1, little].code == "LIMIT"
    assert (2, much) not in world.told
    assert world.job_of(key(7)).limits.states_max == 1000
    world.finish(key(7))
    assert world.told[2, much].image == "image"


def test_a_false_source_costs_only_its_sender() -> None:
    world = a_world()
    liar = world.ask(1, 7)
    honest = world.ask(2, 7)
    world.fail(key(7), {"code": "KEY_MISMATCH", "message": "", "details": {}})
    assert world.told[1, liar].code == "KEY_MISMATCH"
    assert world.told[2, honest].code == "ASK_AGAIN"
    world.ask(2, 7)
    assert world.job_of(key(7))


def test_the_last_waiter_leaving_cancels() -> None:
    world = a_world()
    first, second = world.ask(1, 7), world.ask(2, 7)
    job = world.job_of(key(7))
    world.step(ev.CancelAsked(1, first))
    assert not world.cancelled
    world.step(ev.ClientLeft(2))
    assert world.cancelled == {job.job}
    assert job.source in world.dropped
    again = world.ask(1, 7)
    assert world.job_of(key(7)).job != job.job
    assert {(1, first), (2, second)}.isdisjoint(world.told)
    world.step(ev.JobFailed(job.worker, job.job, {"code": "CANCELLED", "message": "", "details": {}}))
    world.done(job)
    world.finish(key(7))
    assert world.told[1, again].image == "image"


def test_a_worker_that_does_not_cancel_is_killed() -> None:
    world = a_world()
    request = world.ask(1, 7)
    job = world.job_of(key(7))
    world.step(ev.CancelAsked(1, request))
    world.advance(world.policy.grace_seconds)
    assert job.worker in world.killed


def test_a_queued_compile_that_nobody_wants_never_starts() -> None:
    world = a_world(workers_max=1)
    world.ask(1, 7)
    request = world.ask(2, 8)
    world.step(ev.CancelAsked(2, request))
    world.finish(key(7))
    assert not world.jobs


def test_a_client_waits_for_so_many_compiles_at_once() -> None:
    world = a_world(waiting_per_client_max=3)
    requests = [world.ask(1, number) for number in range(4)]
    assert world.told[1, requests[3]].code == "LIMIT"
    other = world.ask(2, 50)
    assert (2, other) not in world.told


def test_a_request_number_that_waits_is_not_taken_twice() -> None:
    world = a_world()
    request = world.ask(1, 7)
    world.step(ev.CompileAsked(1, request, Tier.GRAMMAR, key(8), VOCABULARY, "other source"))
    assert world.told.pop((1, request)).code == "REQUEST_IN_USE"
    world.finish(key(7))
    assert world.told[1, request].image == "image"


def test_a_flood_does_not_starve_others() -> None:
    world = a_world(workers_max=1)
    for number in range(20):
        world.ask(1, number)
    world.ask(2, 50)
    world.finish(next(iter(world.jobs.values())).key)
    assert world.job_of(key(50))


def test_workers_that_die_at_once_are_started_ever_more_slowly() -> None:
    world = World(Policy(workers_max=1))
    world.join(1)
    request = world.ask(1, 0, kind=Tier.VOCABULARY)
    waits = []
    for _ in range(3):
        world.die(world.spawned[-1])
        deadline = world.core.next_deadline()
        assert deadline is not None
        waits.append(deadline - world.now)
        spawned = len(world.spawned)
        world.advance(waits[-1] / 2)
        assert len(world.spawned) == spawned
        world.advance(deadline - world.now)
        assert len(world.spawned) == spawned + 1
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]
    assert (1, request) not in world.told, "a request was lost"
    world.start_workers()
    world.finish(VOCABULARY)
    assert world.told[1, request].image == "image"


def test_when_no_worker_ever_lives_callers_are_told() -> None:
    world = World(Policy(workers_max=1))
    world.join(1)
    request = world.ask(1, 0, kind=Tier.VOCABULARY)
    for _ in range(world.policy.crashes_max):
        world.die(world.spawned[-1])
        world.advance(world.policy.back_off_seconds_max)
    assert world.told[1, request].code == "MANAGER_UNAVAILABLE"


def test_a_lost_file_is_compiled_anew() -> None:
    world = a_world()
    world.ask(1, 7)
    world.finish(key(7))
    serial = world.look_up(key(7))
    assert serial is not None
    world.lost.add(serial)
    request = world.ask(2, 7)
    world.finish(key(7), payload="again")
    assert world.told[2, request].image == "again"


def test_a_segment_that_is_not_what_its_worker_said_is_compiled_anew() -> None:
    world = a_world()
    request = world.ask(1, 7)
    job = world.job_of(key(7))
    room = world.alloc(job)
    assert world.commit(job, room.serial, is_sound=False) == "unindexed"
    world.done(job)
    world.finish(key(7), payload="again")
    assert world.told[1, request].image == "again"


def test_fetch_and_evict() -> None:
    world = a_world()
    world.ask(1, 7)
    world.finish(key(7))
    world.step(ev.FetchAsked(2, 900, Tier.GRAMMAR, key(7)))
    assert isinstance(world.told[2, 900].effect, fx.SendEntry)
    world.step(ev.EvictAsked(2, 901, key(7)))
    assert world.told[2, 901].effect == fx.SendEvicted(2, 901, 1, PAGE)
    world.step(ev.FetchAsked(2, 902, Tier.GRAMMAR, key(7)))
    assert isinstance(world.told[2, 902].effect, fx.SendMissing)
    world.step(ev.EvictAsked(2, 903, VOCABULARY))
    assert world.told[2, 903].effect.entries == 0, "a vocabulary in use stays"


def test_without_leases_retired_bytes_wait_for_everybody_who_was_there() -> None:
    world = a_world()
    world.leases_work = False
    world.ask(1, 7)
    world.finish(key(7))
    world.clear(1)
    world.drain()
    assert world.core.entries.account().retired_bytes == PAGE
    world.join(9)
    for client in (1, 2, 3):
        world.step(ev.ClientLeft(client))
    for worker in list(world.spawned):
        assert world.core.entries.account().retired_bytes == PAGE
        world.die(worker)
    assert world.core.entries.account().retired_bytes == 0


def test_a_cold_worker_takes_a_vocabulary_first_and_then_warms_up() -> None:
    world = World(Policy(workers_max=1), warm=False)
    world.join(1)
    world.ask(1, 0, kind=Tier.VOCABULARY)
    world.start_workers()
    worker = world.core.workers.get(world.job_of(VOCABULARY).worker)
    assert worker is not None
    assert not worker.is_warm
    world.finish(VOCABULARY)
    assert worker.is_warm


def restored_entry(serial: int, number: int, state: SlotState, generation: int = 5) -> Entry:
    return Entry(serial, Tier.GRAMMAR, key(number), generation, state, PAGE, 100, 0, 10)


def test_a_new_manager_goes_on_where_the_last_one_stopped() -> None:
    entries = (
        restored_entry(1, 1, SlotState.READY),
        restored_entry(2, 2, SlotState.READY, generation=4),
        restored_entry(3, 3, SlotState.FILLING),
        restored_entry(4, 4, SlotState.ZOMBIE),
    )
    world = World(Policy(), Restored(5, 17, entries))
    world.join(1)
    world.drain()
    assert set(world.slots) == {1}
    assert world.look_up(key(1)) == 1
    world.ask(1, 0, kind=Tier.VOCABULARY)
    world.start_workers()
    world.finish(VOCABULARY)
    assert world.look_up(VOCABULARY, Tier.VOCABULARY) == 18


def test_a_smaller_limit_at_the_start_evicts() -> None:
    entries = tuple(restored_entry(serial, serial, SlotState.READY) for serial in range(1, 11))
    world = World(Policy(limit_bytes=6 * PAGE), Restored(5, 10, entries))
    assert world.charged() == 4 * PAGE
    assert world.look_up(key(10)) == 10


def test_events_about_strangers_do_nothing() -> None:
    world = a_world()
    for event in (
        ev.ClientLeft(99),
        ev.CancelAsked(99, 1),
        ev.WorkerGone(99),
        ev.WorkerReported(99, is_warm=True),
        ev.Abandoned(99, 1, 1),
        ev.JobDone(99, 1),
        ev.JobFailed(99, 1, SOURCE),
        ev.Probed(99, is_free=True),
        ev.EntryLost(99),
    ):
        account = world.core.entries.account()
        world.step(event)
        assert world.core.entries.account() == account
    world.step(ev.CompileAsked(99, 1, Tier.GRAMMAR, key(1), VOCABULARY, "stray"))
    assert "stray" in world.dropped
