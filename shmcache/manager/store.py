"""Admission, publication, eviction and retirement: every change of the entries, with its effects.

Owns the order in which an entry comes and goes, and both ends of the generation fence. Must never know clients, the
queue of compiles, time, or files; what it wants done it emits.

The fence: :meth:`Store.allocate` grants room, and :meth:`Store.commit` makes an entry valid and charged, only when the
generation in which the compile's lease was granted is the current one. Comparing and charging are one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.entries import ANY_GENERATION, CARRIED_ENTRIES, Entries, Entry, by_worth, take_sample
from shmcache.manager.policy import CHARGED_TIERS, UNLIMITED, Policy
from shmcache.memory.layout import SlotState, Tier

Peer = tuple[str, int]
"""``client`` or ``worker``, and its number."""

_PROBES_MAX = 16
"""Zombies looked at again before anything is evicted; the others' turn comes soon anyway."""

_BACKLOG_MAX = 256
"""Entries of older generations that go before anything is evicted."""


@dataclass(slots=True)
class _Allocation:
    """An alloc that waits for retired entries to be probed."""

    asked: ev.AllocAsked
    lease_generation: int
    rounds: int = 0
    awaited: set[int] = field(default_factory=set)


class Store:
    """The entries and everything that changes them."""

    def __init__(self, policy: Policy, entries: Entries, emit: Callable[[fx.Effect], None]) -> None:
        self.entries = entries
        self._policy = policy
        self._emit = emit
        self._allocations: dict[int, _Allocation] = {}
        self._watched: dict[int, set[Peer]] = {}
        self._use = ev.UseSeen({}, frozenset())
        self.spared: frozenset[bytes] = frozenset()
        """Keys of vocabularies that a client uses: not to be evicted."""

    def see_use(self, seen: ev.UseSeen) -> None:
        """What readers have written about their use of entries; a hint, good for the next eviction."""
        self._use = seen

    def is_fenced(self, tier: Tier, lease_generation: int) -> bool:
        """Whether a compile of that generation is too old for anything of it to be stored."""
        return tier is not Tier.VOCABULARY and lease_generation != self.entries.generation

    # --- room --------------------------------------------------------------------------------------------------------

    def needs_use(self, asked: ev.AllocAsked) -> bool:
        """Whether this alloc may have to evict."""
        return self._shortage_bytes(asked) > 0 or self._is_crowded(asked.tier)

    def candidates(self, asked: ev.AllocAsked) -> Iterator[Entry]:
        """The entries that may be evicted for this alloc, in their turn."""
        return self.entries.candidates(self._tier_to_evict(asked), spared=self.spared)

    def shortage_bytes(self, asked: ev.AllocAsked) -> int:
        """Bytes that must go for this alloc; at least one, so that something goes where slots are short."""
        return max(1, self._shortage_bytes(asked))

    def _tier_to_evict(self, asked: ev.AllocAsked) -> Tier:
        # When only slots are short, a row goes before a grammar.
        is_crowd_only = self._shortage_bytes(asked) <= 0 and asked.tier is not Tier.VOCABULARY
        return Tier.RULE if is_crowd_only and self.entries.has_ready(Tier.RULE) else asked.tier

    def allocate(self, asked: ev.AllocAsked, lease_generation: int) -> None:
        """Answers an alloc, now or when entries retired for it have been probed."""
        self._decide(_Allocation(asked, lease_generation))

    def _decide(self, allocation: _Allocation) -> None:
        asked = allocation.asked
        outcome, serial = "granted", 0
        if self.is_fenced(asked.tier, allocation.lease_generation):
            outcome = "fenced"
        elif self.entries.find(asked.tier, asked.key) is not None:
            outcome = "exists"
        elif not asked.has_slot:
            outcome = "full"
        elif not self._fits(allocation):
            if self._make_room(allocation):
                self._allocations[asked.worker] = allocation
                return
            outcome = "full"
        else:
            serial = self._grant(asked)
        self._emit(fx.SendAllocated(asked.worker, asked.request, outcome, serial))

    def _grant(self, asked: ev.AllocAsked) -> int:
        entry = self.entries.reserve(asked.tier, asked.key, asked.segment_bytes, asked.worker)
        self._emit(
            fx.PlaceSlot(entry.serial, entry.tier, entry.key, entry.generation, entry.charged_bytes, entry.owner)
        )
        return entry.serial

    def _shortage_bytes(self, asked: ev.AllocAsked, rounds: int = 0) -> int:
        shortage_bytes = self.entries.shortage_bytes(asked.tier, asked.segment_bytes)
        # Host memory was full: so many bytes are to go first, but only once, whether or not that helped.
        return max(shortage_bytes, asked.reclaim_bytes) if rounds < 2 else shortage_bytes

    def _is_crowded(self, tier: Tier) -> bool:
        crowd = len(self.entries.ready(tier)) if tier is Tier.VOCABULARY else len(self.entries)
        return crowd >= (self._policy.vocabularies_max if tier is Tier.VOCABULARY else self._policy.entries_max)

    def _fits(self, allocation: _Allocation) -> bool:
        shortage_bytes = self._shortage_bytes(allocation.asked, allocation.rounds)
        return shortage_bytes <= 0 and not self._is_crowded(allocation.asked.tier)

    def _make_room(self, allocation: _Allocation) -> bool:
        """Retires or probes again what may give room; False when there is nothing that could."""
        asked = allocation.asked
        limit_bytes = self._policy.limit_of(asked.tier)
        allocation.rounds += 1
        if allocation.rounds > self._policy.allocation_rounds_max or asked.segment_bytes > limit_bytes != UNLIMITED:
            return False
        if allocation.rounds == 1:
            # Some of them may still be mapped, hence twice what is short.
            enough_bytes = 2 * self.shortage_bytes(asked)
            going = self.entries.take_backlog(_BACKLOG_MAX, enough_bytes=enough_bytes)
            zombies = (entry for entry in self.entries.zombies() if entry.tier is asked.tier)
            going += islice(zombies, max(0, _PROBES_MAX - len(going)))
            if not going:
                allocation.rounds += 1
        else:
            going = []
        if not going:
            going = self._choose(asked, max(1, self._shortage_bytes(asked, allocation.rounds - 1)))
        allocation.awaited = {entry.serial for entry in going}
        for entry in going:
            self.retire(entry)
        return bool(going)

    def _choose(self, asked: ev.AllocAsked, shortage_bytes: int) -> list[Entry]:
        """READY entries whose going gives that many bytes, or nothing when all that nobody maps would not be enough.

        In the latter case mapped ones are retired, so that their bytes come back when their readers let go and a later
        alloc finds room; but no more of them than that takes.
        """
        mapped, reason = self._use.mapped, self._reason(asked)
        tier = self._tier_to_evict(asked)
        sample = take_sample(self.entries.candidates(tier, spared=self.spared), shortage_bytes, len(self._use.last_use))
        order = by_worth(sample, self._use.last_use, mapped)
        chosen: list[Entry] = []
        for entry in order:
            if shortage_bytes <= 0 or entry.serial in mapped:
                break
            chosen.append(entry)
            shortage_bytes -= entry.charged_bytes
        self.entries.pass_over(tier, sample, order[len(chosen) :][:CARRIED_ENTRIES])
        if shortage_bytes > 0:
            shortage_bytes -= self.entries.zombie_bytes(asked.tier)
            for entry in order[len(chosen) :]:
                if shortage_bytes <= 0:
                    break
                self.evict(entry, reason)
                shortage_bytes -= entry.charged_bytes
            return []
        for entry in chosen:
            self._note_eviction(entry, reason)
        return chosen

    def _reason(self, asked: ev.AllocAsked) -> str:
        """Why this alloc needs others to go."""
        if self.entries.shortage_bytes(asked.tier, asked.segment_bytes) > 0:
            return "limit"
        return "entries" if self._is_crowded(asked.tier) else "shm_full"

    # --- publication -------------------------------------------------------------------------------------------------

    def commit(self, asked: ev.CommitAsked, lease_generation: int) -> str:
        """Makes the entry READY and charged, if its generation is still current; otherwise gets rid of it.

        ``ready``, ``fenced`` or ``unindexed``. Saying the same commit twice changes nothing the second time.
        """
        entry = self.entries.get(asked.serial)
        if entry is not None and (entry.tier, entry.key, entry.owner) != (asked.tier, asked.key, asked.worker):
            entry = None
        if entry is not None and entry.state is SlotState.READY:
            return "ready" if self.entries.is_current(entry) else "fenced"
        filling = entry if entry is not None and entry.state is SlotState.FILLING else None
        if self.is_fenced(asked.tier, lease_generation):
            outcome = "fenced"
        elif filling is None or not asked.is_sound or not self._may_charge(filling, asked.charged_bytes):
            outcome = "unindexed"
        else:
            outcome = "ready"
            figures = {"charged_bytes": asked.charged_bytes, "payload_bytes": asked.payload_bytes}
            self.entries.publish(filling, **figures, cost_us=asked.cost_us)
            self._emit(fx.PublishSlot(asked.serial, asked.charged_bytes, asked.payload_bytes, asked.cost_us))
        if filling is not None and outcome != "ready":
            self.retire(filling)
        return outcome

    def _may_charge(self, filling: Entry, charged_bytes: int) -> bool:
        surplus_bytes = charged_bytes - filling.charged_bytes
        return self.entries.is_current(filling) and (
            surplus_bytes <= 0 or self.entries.shortage_bytes(filling.tier, surplus_bytes) <= 0
        )

    def abandon(self, worker: int, serial: int) -> None:
        """That worker will not commit that entry."""
        entry = self.entries.get(serial)
        if entry is not None and entry.state is SlotState.FILLING and entry.owner == worker:
            self.retire(entry)

    def abandon_all(self, worker: int) -> None:
        """That worker is through with its job, or gone."""
        self._allocations.pop(worker, None)
        for entry in self.entries.owned_filling(worker):
            self.retire(entry)

    # --- the end of an entry -----------------------------------------------------------------------------------------

    def open_generation(self) -> int:
        """Raises the generation; vocabularies that nobody uses go too."""
        generation = self.entries.open_generation()
        self._emit(fx.OpenGeneration(generation))
        for entry in self.entries.ready(Tier.VOCABULARY):
            if entry.key not in self.spared:
                self.retire(entry)
        return generation

    def evict(self, entry: Entry, reason: str) -> None:
        """Retires a READY entry for one of the reasons in the layout, and counts that."""
        self.retire(entry)
        self._note_eviction(entry, reason)

    def retire(self, entry: Entry) -> None:
        """Makes an entry a ZOMBIE, if it is not one already, and has it probed."""
        if entry.state is not SlotState.ZOMBIE:
            self.entries.retire(entry)
        self._emit(fx.RetireSlot(entry.serial))

    def drain(self, count: int) -> None:
        """Retires up to so many entries of older generations."""
        for entry in self.entries.take_backlog(count):
            self.retire(entry)

    def trim(self) -> None:
        """Evicts until every tier is within its limit: after a start with a smaller one."""
        for tier in CHARGED_TIERS:
            order = self.entries.victims(tier, last_use=self._use.last_use, mapped=self._use.mapped)
            surplus_bytes = self.entries.shortage_bytes(tier, 0)
            for entry in order:
                if surplus_bytes <= 0:
                    break
                self.evict(entry, "limit")
                surplus_bytes -= entry.charged_bytes

    def probed(self, event: ev.Probed, peers: frozenset[Peer]) -> None:
        """Frees a zombie that nobody maps. Where the kernel cannot tell, that is when all who were there are gone."""
        entry = self.entries.get(event.serial)
        if entry is not None and entry.state is SlotState.ZOMBIE:
            if event.is_free is None:
                watched = self._watched.setdefault(event.serial, set(peers))
                if not watched:
                    self._free(entry)
            elif event.is_free:
                self._free(entry)
        self._settle({event.serial})

    def unwatch(self, peer: Peer) -> None:
        """That client or worker is gone, and all its mappings with it."""
        for serial, peers in list(self._watched.items()):
            peers.discard(peer)
            entry = self.entries.get(serial)
            if not peers and entry is not None:
                self._free(entry)

    def check(self) -> None:
        """AssertionError when anything that is derived is wrong."""
        self.entries.check()
        zombies = {entry.serial for entry in self.entries.zombies()}
        assert set(self._watched) <= zombies, "watching what is no zombie"

    def _free(self, entry: Entry) -> None:
        self._watched.pop(entry.serial, None)
        self.entries.free(entry)
        self._emit(fx.FreeSlot(entry.serial))

    def _settle(self, serials: Iterable[int]) -> None:
        """Decides again about the allocs that waited for these entries."""
        for worker, allocation in list(self._allocations.items()):
            allocation.awaited.difference_update(serials)
            if not allocation.awaited:
                del self._allocations[worker]
                self._decide(allocation)

    def _note_eviction(self, entry: Entry, reason: str) -> None:
        self._emit(fx.EntryEvicted(entry.tier, entry.key, entry.charged_bytes, reason))


__all__ = ["ANY_GENERATION", "Peer", "Store"]
