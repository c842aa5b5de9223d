"""How many workers there are: one, and more when compiles have to wait; and how many entries an index takes."""

from __future__ import annotations

from shmcache.manager.policy import Policy
from shmcache.memory import layout
from shmcache.memory.layout import Tier
from tests.manager.world import World, key


def test_no_more_entries_than_the_index_is_made_for() -> None:
    policy = Policy()
    assert policy.fitting(layout.DEFAULT_HOME_COUNT) == policy
    # That of an earlier version.
    assert policy.fitting(16_384).entries_max == 8_192
    assert policy.fitting(1).entries_max == 1


def test_one_worker_is_enough_until_compiles_have_waited_for_it() -> None:
    world = World(Policy(hire_after_seconds=0.5)).with_vocabulary(1)
    world.join(2)
    world.ask(1, 1)
    world.ask(2, 2)
    assert len(world.spawned) == 1
    assert world.core.next_deadline() == world.now + 0.5
    world.advance(0.4)
    assert len(world.spawned) == 1
    world.finish(key(1))
    world.ask(1, 3)
    # In between none had to wait.
    world.advance(0.2)
    assert len(world.spawned) == 1
    world.advance(0.3)
    assert len(world.spawned) == 2
    world.start_workers()
    assert {world.job_of(key(2)).worker, world.job_of(key(3)).worker} == {1, 2}
    world.finish(key(2))
    world.finish(key(3))
    # No more than there may be, however long they wait; and who dies is replaced at once.
    for number in range(4, 8):
        world.ask(1, number)
    world.advance(10.0)
    assert len(world.spawned) == 2
    world.die(1)
    assert len(world.spawned) == 3


def test_a_worker_that_starts_is_no_reason_for_another() -> None:
    world = World(Policy())
    world.join(1)
    world.ask(1, 0, kind=Tier.VOCABULARY)
    world.advance(5.0)
    assert len(world.spawned) == 1
