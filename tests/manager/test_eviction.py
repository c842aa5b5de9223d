"""Evictions among many entries: the worst of a sample goes, and a sample does not grow with the number of entries."""

from __future__ import annotations

from collections.abc import Iterator

from shmcache.manager import events as ev
from shmcache.manager.entries import SAMPLE_ENTRIES, SAMPLE_SHARE, Entries, Entry, take_sample
from shmcache.manager.policy import Policy
from shmcache.manager.store import Store
from shmcache.memory.layout import SlotState, Tier

PAGE = 4096


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def ready(count: int, *, tier: Tier = Tier.GRAMMAR) -> list[Entry]:
    """So many READY entries of a page each, with serials from 1 on."""
    return [Entry(serial, tier, key(serial), 1, SlotState.READY, PAGE) for serial in range(1, count + 1)]


class Crowd:
    """A store at its maximum of entries, asked again and again for one more."""

    def __init__(self, count: int, mapped: frozenset[int] = frozenset()) -> None:
        policy = Policy(entries_max=count)
        self.entries = Entries(policy, 1, count, ready(count))
        self.store = Store(policy, self.entries, lambda effect: None)
        self.mapped = mapped
        self.looked_at = 0

    def evict(self, last_use: dict[int, int]) -> set[int]:
        """Has room made for one more; returns the serials that went."""
        serial = self.entries.serial_last + 1
        asked = ev.AllocAsked(1, serial, 1, Tier.GRAMMAR, key(serial), PAGE)
        before = {entry.serial for entry in self.entries.ready(Tier.GRAMMAR)}
        candidates = self._counted(self.store.candidates(asked))
        seen: dict[int, int] = {}
        while self.mapped >= seen.keys() and (sample := take_sample(candidates, self.store.shortage_bytes(asked))):
            seen |= {entry.serial: last_use.get(entry.serial, 0) for entry in sample}
        self.store.see_use(ev.UseSeen(seen, self.mapped & seen.keys()))
        self.store.allocate(asked, 1)
        gone = before - {entry.serial for entry in self.entries.ready(Tier.GRAMMAR)}
        for serial_gone in gone:
            self.store.probed(ev.Probed(serial_gone, is_free=True), frozenset())
        self.store.abandon_all(1)
        for zombie in self.entries.zombies():
            self.store.probed(ev.Probed(zombie.serial, is_free=True), frozenset())
        # What was to come is there: the crowd is as large as before.
        for number in range(len(gone)):
            entry = self.entries.reserve(Tier.GRAMMAR, key(10**6 + serial + number), PAGE, 0)
            self.entries.publish(entry, charged_bytes=PAGE, payload_bytes=1, cost_us=0)
        if serial % 50 == 0:
            self.store.check()
        return gone

    def _counted(self, candidates: Iterator[Entry]) -> Iterator[Entry]:
        for entry in candidates:
            self.looked_at += 1
            yield entry


def test_one_goes_for_one_and_few_are_looked_at() -> None:
    for count in (100, 3_000):
        crowd = Crowd(count)
        for _ in range(20):
            assert len(crowd.evict({})) == 1
        assert crowd.looked_at == 20 * SAMPLE_ENTRIES


def test_what_is_used_stays_though_it_lies_side_by_side() -> None:
    # A tenth, made first and used ever since; after three times as many evictions as there are others.
    hot = dict.fromkeys(range(1, 101), 10**9)
    crowd = Crowd(1_000)
    gone = set().union(*(crowd.evict(hot) for _ in range(2_700)))
    assert len(gone) == 2_700
    assert len(gone & hot.keys()) <= 2, "what everybody uses was evicted"


def test_what_is_mapped_is_passed_over() -> None:
    mapped = frozenset(range(1, 201))
    crowd = Crowd(300, mapped)
    gone = set().union(*(crowd.evict({}) for _ in range(200)))
    assert not gone & mapped


def test_every_entry_has_its_turn() -> None:
    crowd = Crowd(500)
    gone = set().union(*(crowd.evict({}) for _ in range(1_500)))
    assert set(range(1, 501)) <= gone


def test_a_sample_holds_several_times_what_is_short() -> None:
    entries = ready(1_000)
    assert len(take_sample(iter(entries), 1)) == SAMPLE_ENTRIES
    assert len(take_sample(iter(entries), 100 * PAGE)) == SAMPLE_SHARE * 100
    assert len(take_sample(iter(entries), 10_000 * PAGE)) == 1_000
    assert take_sample(iter([]), 1) == []


def test_turns_of_what_went_without_its_turn_do_not_pile_up() -> None:
    entries = Entries(Policy(), 1, 0)
    for number in range(2_000):
        entry = entries.reserve(Tier.GRAMMAR, key(number), PAGE, 1)
        entry = entries.publish(entry, charged_bytes=PAGE, payload_bytes=1, cost_us=0)
        entries.free(entries.retire(entry))
    entries.check()
    assert len(entries._turns[Tier.GRAMMAR]) <= 70
