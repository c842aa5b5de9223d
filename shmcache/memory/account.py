"""Entries as values, and the account that is derived from them.

Owns what an entry is, and which total it counts in. Must never know where entries are stored.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from shmcache.memory.layout import SlotState, Tier


@dataclass(frozen=True, slots=True)
class Entry:
    """One slot's record. ``charged_bytes`` is what the file takes, or while FILLING what was promised to it.

    ``owner`` is the manager's number for whoever compiles or compiled it, ``cost_us`` what compiling took.
    """

    slot: int
    version: int
    state: SlotState
    tier: Tier
    generation: int
    key: bytes
    serial: int
    charged_bytes: int
    payload_bytes: int
    owner: int
    cost_us: int

    def is_valid_in(self, generation: int) -> bool:
        """Whether a look-up in that generation may find it: a vocabulary in every one, the rest in their own."""
        return self.tier is Tier.VOCABULARY or self.generation == generation


@dataclass(frozen=True, slots=True)
class Totals:
    """The account, in bytes and entries; the three-element tuples are by :class:`Tier`.

    ``filling_bytes`` is promised to compiles in flight. ``retired_bytes`` is of entries that no look-up finds any more
    but whose memory may still be mapped.
    """

    charged_bytes: tuple[int, int, int] = (0, 0, 0)
    entries: tuple[int, int, int] = (0, 0, 0)
    filling_bytes: int = 0
    retired_bytes: int = 0

    @property
    def cache_bytes(self) -> int:
        """Charged bytes of the grammar and rule tiers."""
        return self.charged_bytes[Tier.GRAMMAR] + self.charged_bytes[Tier.RULE]

    @property
    def all_bytes(self) -> int:
        """Bytes of everything that has a slot."""
        return sum(self.charged_bytes) + self.filling_bytes + self.retired_bytes

    def after_clear(self) -> Totals:
        """The account once the generation is raised: what was charged to grammars and rules is retired."""
        return Totals(
            (0, 0, self.charged_bytes[Tier.VOCABULARY]),
            (0, 0, self.entries[Tier.VOCABULARY]),
            self.filling_bytes,
            self.retired_bytes + self.cache_bytes,
        )


class Share(enum.Enum):
    """Which total an entry counts in."""

    CHARGED = "charged"
    FILLING = "filling"
    RETIRED = "retired"


def share_of(entry: Entry, generation: int) -> Share:
    """The total that ``entry`` counts in. A READY entry of an older generation is retired, though its file stands."""
    if entry.state is SlotState.FILLING:
        return Share.FILLING
    if entry.state is SlotState.READY and entry.is_valid_in(generation):
        return Share.CHARGED
    return Share.RETIRED


def sum_totals(entries: Iterable[Entry], generation: int) -> Totals:
    """The account, from nothing but the entries."""
    charged, count, filling, retired = [0, 0, 0], [0, 0, 0], 0, 0
    for entry in entries:
        share = share_of(entry, generation)
        if share is Share.CHARGED:
            charged[entry.tier] += entry.charged_bytes
            count[entry.tier] += 1
        elif share is Share.FILLING:
            filling += entry.charged_bytes
        else:
            retired += entry.charged_bytes
    return Totals((charged[0], charged[1], charged[2]), (count[0], count[1], count[2]), filling, retired)


def exchange(totals: Totals, before: Entry | None, after: Entry | None, generation: int) -> Totals:
    """The account after one entry was exchanged for another (None: for nothing), in constant time."""
    out = sum_totals([before] if before else [], generation)
    into = sum_totals([after] if after else [], generation)

    def by_tier(
        total: tuple[int, int, int], less: tuple[int, int, int], more: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        return (total[0] - less[0] + more[0], total[1] - less[1] + more[1], total[2] - less[2] + more[2])

    return Totals(
        by_tier(totals.charged_bytes, out.charged_bytes, into.charged_bytes),
        by_tier(totals.entries, out.entries, into.entries),
        totals.filling_bytes - out.filling_bytes + into.filling_bytes,
        totals.retired_bytes - out.retired_bytes + into.retired_bytes,
    )
