"""The entries of the cache and the account derived from them.

Owns which entries there are, in which state and of which generation, and what they sum up to: room, victims, backlog.
Must never know clients, workers, compiles, files, or the clock.

The account is derived: it is the sum over the entries by (tier, state, generation). :meth:`Entries._put` is the only
place where an entry changes, and it moves the entry's bytes from one sum to another in the same step, so that nothing
can be subtracted twice and nothing can go below zero; :meth:`Entries.check` recomputes every sum. A new generation
moves no bytes: an entry counts as charged while its generation is the current one, so raising that number retires all
older entries at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shmcache.manager.policy import CHARGED_TIERS, UNLIMITED, Policy
from shmcache.memory.layout import SlotState, Tier

ANY_GENERATION = 0
"""Generation of vocabulary entries: they are valid in every one. Real generations start at 1."""

NO_OWNER = 0
"""Owner of restored entries: workers of an earlier manager are no workers of this one."""

TURNS_SPARE = 64
"""Turns of entries that are gone are dropped when there are more of them than of others, and than this."""


SAMPLE_ENTRIES = 64
SAMPLE_SHARE = 4
"""So many candidates are looked at for an eviction, holding so many times what is needed: the worst of a sample is
about as bad as the worst of all, and is found in the same time among any number."""

CARRIED_ENTRIES = 16
"""So many that nearly had to go are in the next sample too: what lies side by side is often used side by side."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. ``charged_bytes`` is what its file takes, or while FILLING what was promised to it."""

    serial: int
    tier: Tier
    key: bytes
    generation: int
    state: SlotState
    charged_bytes: int
    payload_bytes: int = 0
    owner: int = NO_OWNER
    cost_us: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """Sums in bytes; ``charged_bytes`` and ``entry_count`` by tier, of READY entries valid now."""

    charged_bytes: tuple[int, int, int]
    entry_count: tuple[int, int, int]
    filling_bytes: int
    retired_bytes: int


class Entries:
    """All entries, the current generation, and the sums."""

    def __init__(self, policy: Policy, generation: int, serial_last: int, restored: Iterable[Entry] = ()) -> None:
        self.generation = generation
        self.serial_last = serial_last
        self._policy = policy
        self._entries: dict[int, Entry] = {}
        self._sums: dict[tuple[Tier, SlotState, int], list[int]] = {}
        self._valid: dict[Tier, dict[bytes, int]] = {tier: {} for tier in Tier}
        self._backlog: deque[Iterator[int]] = deque()
        self._passing: dict[SlotState, dict[int, None]] = {SlotState.FILLING: {}, SlotState.ZOMBIE: {}}
        self._turns: dict[Tier, deque[int]] = {tier: deque() for tier in Tier}
        for entry in sorted(restored, key=lambda entry: entry.serial):
            self.serial_last = max(self.serial_last, entry.serial)
            self._put(entry)
            valid = self._valid[entry.tier]
            if entry.state is SlotState.READY and self.is_current(entry) and entry.key not in valid:
                valid[entry.key] = entry.serial
                self._give_turn(entry)
            elif entry.state is not SlotState.ZOMBIE:
                self._backlog.append(iter((entry.serial,)))
        self._held_bytes_at_start = {tier: self.held_bytes(tier) for tier in CHARGED_TIERS}

    # --- looking -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, serial: int) -> Entry | None:
        """The entry of that serial, in whatever state."""
        return self._entries.get(serial)

    def is_current(self, entry: Entry) -> bool:
        """Whether the entry's generation is valid now."""
        return entry.generation in (self.generation, ANY_GENERATION)

    def find(self, tier: Tier, key: bytes) -> Entry | None:
        """The valid entry of that key, READY or FILLING."""
        serial = self._valid[tier].get(key)
        return None if serial is None else self._entries[serial]

    def find_ready(self, tier: Tier, key: bytes) -> Entry | None:
        """The valid READY entry of that key."""
        entry = self.find(tier, key)
        return entry if entry is not None and entry.state is SlotState.READY else None

    def ready(self, tier: Tier) -> list[Entry]:
        """All valid READY entries of a tier."""
        found = [self._entries[serial] for serial in self._valid[tier].values()]
        return [entry for entry in found if entry.state is SlotState.READY]

    def has_ready(self, tier: Tier) -> bool:
        """Whether a tier has any valid READY entry."""
        return next(self.candidates(tier), None) is not None

    def zombies(self) -> list[Entry]:
        """All entries that wait for their last mapping to go."""
        return [self._entries[serial] for serial in self._passing[SlotState.ZOMBIE]]

    def zombie_serials(self) -> list[int]:
        """The serials of all zombies."""
        return list(self._passing[SlotState.ZOMBIE])

    @property
    def has_zombies(self) -> bool:
        """Whether any entry waits for its last mapping to go."""
        return bool(self._passing[SlotState.ZOMBIE])

    def owned_filling(self, owner: int) -> list[Entry]:
        """FILLING entries of that worker."""
        filling = (self._entries[serial] for serial in self._passing[SlotState.FILLING])
        return [entry for entry in filling if entry.owner == owner]

    @property
    def has_backlog(self) -> bool:
        """Whether entries wait to be retired."""
        return bool(self._backlog)

    # --- the account -------------------------------------------------------------------------------------------------

    def account(self) -> Account:
        """The sums as they are now."""
        charged, count, filling, retired = [0, 0, 0], [0, 0, 0], 0, 0
        for (tier, state, generation), (amount_bytes, number) in self._sums.items():
            if state is SlotState.FILLING:
                filling += amount_bytes
            elif state is SlotState.READY and generation in (self.generation, ANY_GENERATION):
                charged[tier] += amount_bytes
                count[tier] += number
            else:
                retired += amount_bytes
        return Account((charged[0], charged[1], charged[2]), (count[0], count[1], count[2]), filling, retired)

    def held_bytes(self, tier: Tier) -> int:
        """READY, FILLING and retired bytes of a tier: what counts against its limit."""
        return sum(amount_bytes for (of, _, _), (amount_bytes, _) in self._sums.items() if of is tier)

    def zombie_bytes(self, tier: Tier) -> int:
        """Bytes of a tier that come back when their last mapping goes."""
        of_zombies = (cell for (of, state, _), cell in self._sums.items() if of is tier and state is SlotState.ZOMBIE)
        return sum(amount_bytes for amount_bytes, _ in of_zombies)

    def shortage_bytes(self, tier: Tier, wanted_bytes: int) -> int:
        """Bytes that must become free before ``wanted_bytes`` more fit under the tier's limit; 0 or less: they fit."""
        limit_bytes = self._policy.limit_of(tier)
        return 0 if limit_bytes == UNLIMITED else self.held_bytes(tier) + wanted_bytes - limit_bytes

    def check(self) -> None:
        """Recomputes everything that is derived; AssertionError when any of it is wrong."""
        sums: dict[tuple[Tier, SlotState, int], list[int]] = {}
        for entry in self._entries.values():
            cell = sums.setdefault((entry.tier, entry.state, entry.generation), [0, 0])
            cell[0] += entry.charged_bytes
            cell[1] += 1
        assert sums == {place: cell for place, cell in self._sums.items() if cell[1]}, "sums differ from the entries"
        assert all(cell[0] >= 0 for cell in self._sums.values()), "a sum is negative"
        for state, serials in self._passing.items():
            found = {serial for serial, entry in self._entries.items() if entry.state is state}
            assert found == set(serials), f"not all that is {state.name} is listed as such"
        for tier, turns in self._turns.items():
            assert {entry.serial for entry in self.ready(tier)} <= set(turns), "an entry whose turn never comes"
            assert len(set(turns)) == len(turns), "an entry with two turns"
        listed = [(tier, key, serial) for tier, valid in self._valid.items() for key, serial in valid.items()]
        for tier, key, serial in listed:
            entry = self._entries[serial]
            assert (entry.tier, entry.key) == (tier, key), "an entry is listed under another key"
            assert self.is_current(entry), "an old entry is listed as valid"
            assert entry.state in (SlotState.READY, SlotState.FILLING), "a zombie is listed as valid"
        for tier in CHARGED_TIERS:
            surplus_bytes = self.shortage_bytes(tier, 0)
            # A smaller limit than the last manager's is reached as fast as readers let go.
            assert surplus_bytes <= 0 or self.held_bytes(tier) <= self._held_bytes_at_start[tier], "over the limit"
        assert all(serial <= self.serial_last for serial in self._entries), "a serial from the future"

    # --- changing ----------------------------------------------------------------------------------------------------

    def reserve(self, tier: Tier, key: bytes, segment_bytes: int, owner: int) -> Entry:
        """A new FILLING entry under a new serial. The caller has made sure that it fits and that the key is free."""
        assert key not in self._valid[tier]
        self.serial_last += 1
        generation = ANY_GENERATION if tier is Tier.VOCABULARY else self.generation
        entry = Entry(self.serial_last, tier, key, generation, SlotState.FILLING, segment_bytes, owner=owner)
        self._put(entry)
        self._valid[tier][key] = entry.serial
        return entry

    def publish(self, entry: Entry, *, charged_bytes: int, payload_bytes: int, cost_us: int) -> Entry:
        """FILLING becomes READY, with what its file really takes. Only in its own generation."""
        assert entry.state is SlotState.FILLING
        assert self.is_current(entry)
        self._give_turn(entry)
        return self._put(
            replace(
                entry,
                state=SlotState.READY,
                charged_bytes=charged_bytes,
                payload_bytes=payload_bytes,
                cost_us=cost_us,
            )
        )

    def retire(self, entry: Entry) -> Entry:
        """READY or FILLING becomes ZOMBIE: no look-up finds it, its bytes are retired."""
        if self._valid[entry.tier].get(entry.key) == entry.serial:
            del self._valid[entry.tier][entry.key]
        return self._put(replace(entry, state=SlotState.ZOMBIE))

    def free(self, entry: Entry) -> None:
        """The entry is no more. Its serial never comes back."""
        assert entry.state is SlotState.ZOMBIE
        self._move(self._entries.pop(entry.serial), None)

    def open_generation(self) -> int:
        """Raises the generation; every grammar and rule entry is retired by that, and its file waits in the backlog.

        Takes the same time for any number of entries.
        """
        self.generation += 1
        for tier in CHARGED_TIERS:
            if self._valid[tier]:
                self._backlog.append(iter(self._valid[tier].values()))
                self._valid[tier] = {}
            self._turns[tier] = deque()
        return self.generation

    def take_backlog(self, count: int, *, enough_bytes: int | None = None) -> list[Entry]:
        """Up to ``count`` entries that are to be retired now, and no more than hold ``enough_bytes``."""
        taken: list[Entry] = []
        taken_bytes = 0
        while self._backlog and len(taken) < count and (enough_bytes is None or taken_bytes < enough_bytes):
            serial = next(self._backlog[0], None)
            entry = None if serial is None else self._entries.get(serial)
            if serial is None:
                self._backlog.popleft()
            # One that a worker still fills is retired by its commit, its abandonment or the worker's death.
            elif entry is not None and _is_abandoned(entry):
                taken.append(entry)
                taken_bytes += entry.charged_bytes
        return taken

    # --- eviction ----------------------------------------------------------------------------------------------------

    def candidates(self, tier: Tier, *, spared: frozenset[bytes] = frozenset()) -> Iterator[Entry]:
        """READY entries of a tier that may be evicted, those first that were not looked at for longest."""
        for serial in self._turns[tier]:
            entry = self._entries.get(serial)
            if entry is not None and entry.state is SlotState.READY and entry.key not in spared:
                yield entry

    def pass_over(self, tier: Tier, looked_at: Collection[Entry], again: Collection[Entry]) -> None:
        """The first of the candidates were looked at: those of ``again`` come first once more, the rest after all."""
        turns = self._turns[tier]
        serials = {entry.serial for entry in looked_at}
        first = {entry.serial for entry in again}
        passed: list[int] = []
        while serials and turns:
            serial = turns.popleft()
            serials.discard(serial)
            entry = self._entries.get(serial)
            if entry is not None and entry.state is SlotState.READY and serial not in first:
                passed.append(serial)
        turns.extend(passed)
        turns.extendleft(entry.serial for entry in again)

    def _give_turn(self, entry: Entry) -> None:
        turns = self._turns[entry.tier]
        if len(turns) > 2 * len(self._valid[entry.tier]) + TURNS_SPARE:
            # Of entries that went without their turn.
            serials = [serial for serial in turns if serial in self._entries]
            turns = self._turns[entry.tier] = deque(serials)
        turns.append(entry.serial)

    def victims(
        self,
        tier: Tier,
        *,
        last_use: Mapping[int, int],
        mapped: frozenset[int],
        spared: frozenset[bytes] = frozenset(),
    ) -> list[Entry]:
        """All READY entries of a tier in the order in which they should go."""
        return by_worth(list(self.candidates(tier, spared=spared)), last_use, mapped)

    # --- the one place of change -------------------------------------------------------------------------------------

    def _put(self, entry: Entry) -> Entry:
        self._move(self._entries.get(entry.serial), entry)
        self._entries[entry.serial] = entry
        return entry

    def _move(self, old: Entry | None, new: Entry | None) -> None:
        if old is not None:
            place = (old.tier, old.state, old.generation)
            cell = self._sums[place]
            cell[0] -= old.charged_bytes
            cell[1] -= 1
            if not cell[1]:
                del self._sums[place]
            self._passing.get(old.state, {}).pop(old.serial, None)
        if new is not None:
            cell = self._sums.setdefault((new.tier, new.state, new.generation), [0, 0])
            cell[0] += new.charged_bytes
            cell[1] += 1
            if new.state in self._passing:
                self._passing[new.state][new.serial] = None


def by_worth(
    entries: Sequence[Entry], last_use: Mapping[int, int], mapped: frozenset[int] = frozenset()
) -> list[Entry]:
    """The entries in the order in which they should go: greatest (age × bytes ÷ cost) first.

    Before that, those that are not ``mapped``: only their bytes become free at once.
    Of two entries of one size and cost that is the one used longer ago, of two of one age the one that holds more bytes
    per microsecond of compiling. Age is the place among them: what recency words say is any process's to write.
    """
    # An entry that no reader ever touched was last used when it was made; serials grow with time.
    order = sorted(entries, key=lambda entry: (last_use.get(entry.serial, 0), entry.serial))
    age = {entry.serial: len(order) - place for place, entry in enumerate(order)}

    def rank(entry: Entry) -> tuple[bool, float, int]:
        worthless = age[entry.serial] * entry.charged_bytes / max(1, entry.cost_us)
        return entry.serial in mapped, -worthless, entry.serial

    return sorted(order, key=rank)


def take_sample(candidates: Iterator[Entry], shortage_bytes: int, entries_min: int = 0) -> list[Entry]:
    """The next of the candidates: enough to choose well among them what is to go for that many bytes."""
    entries_min = max(entries_min, SAMPLE_ENTRIES)
    sample: list[Entry] = []
    sample_bytes = 0
    for entry in candidates:
        sample.append(entry)
        sample_bytes += entry.charged_bytes
        if len(sample) >= entries_min and sample_bytes >= SAMPLE_SHARE * shortage_bytes:
            break
    return sample


def _is_abandoned(entry: Entry) -> bool:
    return entry.state is SlotState.READY or (entry.state is SlotState.FILLING and entry.owner == NO_OWNER)
