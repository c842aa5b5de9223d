"""What can wait: it begins after a rest, goes on in slices with pauses, and comes to an end."""

from __future__ import annotations

import math
from collections import Counter

from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.chores import PAUSE_SECONDS, PROBE_SECONDS, PROBES_AT_ONCE, REST_SECONDS, Chores
from shmcache.manager.core import ManagerCore, Restored
from shmcache.manager.entries import Entry
from shmcache.manager.policy import Policy
from shmcache.memory.layout import SlotState, Tier


class Host:
    """A core with entries, and what is done to them: everything is mapped until :attr:`mapped` says otherwise."""

    def __init__(self, count: int) -> None:
        entries = tuple(
            Entry(serial, Tier.GRAMMAR, serial.to_bytes(32, "big"), 1, SlotState.READY, 4096)
            for serial in range(1, count + 1)
        )
        self.core = ManagerCore(Policy(), Restored(entries=entries, serial_last=count))
        self.chores = Chores(self.core, self, self.apply)  # type: ignore[arg-type]
        self.now = 100.0
        self.is_mapped = True
        self.retired: list[int] = []
        self.probed: Counter[int] = Counter()

    def probe(self, serial: int) -> bool:
        self.probed[serial] += 1
        return not self.is_mapped

    def apply(self, event: ev.Event) -> None:
        for effect in self.core.step(event, self.now):
            if isinstance(effect, fx.RetireSlot):
                self.retired.append(effect.serial)

    def clear(self) -> None:
        self.apply(ev.ClearAsked(1, 1))

    def turn(self) -> None:
        """Time passes until something is due, and that is done."""
        self.now = max(self.now, self.chores.due())
        self.chores.run(self.now)


def test_nothing_is_due_where_there_is_nothing_to_do() -> None:
    assert Host(3).chores.due() == math.inf


def test_after_an_answer_it_rests_first() -> None:
    host, said = Host(10), []
    host.clear()
    host.chores.postpone(lambda: said.append("cleared"), host.now)
    assert host.chores.due() == host.now + REST_SECONDS
    host.now += REST_SECONDS / 2
    host.chores.run(host.now)
    assert not said
    assert not host.retired
    host.turn()
    assert said == ["cleared"]
    assert not host.retired, "one slice, and one thing in it"


def test_a_slice_retires_few_and_a_pause_follows() -> None:
    host = Host(101)
    host.clear()
    done = 0
    while host.core.entries.has_backlog:
        host.turn()
        assert len(host.retired) - done <= host.core.policy.retire_batch
        done = len(host.retired)
        assert host.chores.due() >= host.now + PAUSE_SECONDS
    assert sorted(host.retired) == list(range(1, 102))


def test_a_round_probes_every_zombie_once_and_few_at_once() -> None:
    host = Host(30)
    host.clear()
    while host.core.entries.has_backlog:
        host.turn()
    begun = host.now
    while host.chores.due() < begun + PROBE_SECONDS / 2:
        before = host.probed.total()
        host.turn()
        assert host.probed.total() - before <= PROBES_AT_ONCE
    host.is_mapped = False
    assert set(host.probed.values()) == {1}
    assert set(host.probed) == set(range(1, 31))
    while host.core.entries.has_zombies:
        host.turn()
    assert host.chores.due() == math.inf
    assert host.now < begun + 3 * PROBE_SECONDS


def test_what_is_gone_by_its_turn_is_not_probed() -> None:
    host = Host(PROBES_AT_ONCE + 1)
    host.clear()
    while host.core.entries.has_backlog:
        host.turn()
    host.turn()
    last = PROBES_AT_ONCE + 1
    host.apply(ev.Probed(last, is_free=True))
    host.turn()
    assert last not in host.probed


def test_what_was_postponed_is_done_before_the_end() -> None:
    host, said = Host(1), []
    for number in range(3):
        host.chores.postpone(lambda number=number: said.append(number), host.now)  # type: ignore[misc]
    host.chores.finish()
    assert said == [0, 1, 2]
