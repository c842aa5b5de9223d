"""The index: which key's entry lies where.

Owns the slots: their layout as records, the reader's probe, and the writer's state changes, each of which keeps the
header's totals. Must never know what an entry holds, nor touch the file behind it.

A key's slot is one of a fixed window of slots behind its home. A reader always searches the whole window, so a
deletion needs no tombstone and moves nothing: an entry can be missed while it changes, but never lost. The search is
over the fingerprints, which are only a hint; what decides is the record. A record's version word is 0 while the record
changes and different after each change, so that a reader who finds the same version before and after copying has a
whole record. It never tries again: a changing slot is a miss.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from shmcache.errors import SegmentError
from shmcache.memory import layout, steps
from shmcache.memory.account import Entry, Totals, exchange, sum_totals
from shmcache.memory.control import ControlReader, ControlWriter
from shmcache.memory.layout import RECORD_WORDS, WINDOW_SLOTS, SlotState, Tier
from shmcache.memory.words import checksum, key_to_words, words_to_key

_BYTES_MAX = 1 << 48
"""A record that claims more is damaged, whatever its checksum says: sums over all slots stay within a word."""

_READY = int(SlotState.READY)
_VOCABULARY = int(Tier.VOCABULARY)
_STATES = {int(state): state for state in SlotState}
_TIERS = {int(tier): tier for tier in Tier}


class IndexReader:
    """The lock-free look-up. Every method takes a bounded number of steps, whatever other processes do."""

    def __init__(self, control: ControlReader) -> None:
        self.control = control
        self.slot_count = control.slot_count
        self._words = control.words
        self._buffer = control.buffer
        self._home_count = control.home_count
        self._records_start = control.records_start

    def look_up(self, key: bytes) -> Entry | None:
        """The valid READY entry of a 32-byte key, or None. Follow up with :meth:`is_unchanged` after mapping."""
        generation = self._words[layout.GENERATION]
        wanted = list(key_to_words(key))
        fingerprint = wanted[0] or 1
        # A byte search over the fingerprints: fast, and right even if a load tears, since it only proposes slots.
        pattern = fingerprint.to_bytes(8, sys.byteorder)
        position = 8 * (layout.FINGERPRINTS + fingerprint % self._home_count)
        end = position + 8 * WINDOW_SLOTS
        while (position := self._buffer.find(pattern, position, end)) >= 0:
            slot = (position >> 3) - layout.FINGERPRINTS
            record = None if position & 7 else self._copy(slot)
            position += 1
            if (
                record is not None
                and record[layout.RECORD_KEY : layout.RECORD_KEY + 4] == wanted
                and _is_hit(record, generation)
            ):
                return _entry(slot, record)
        return None

    def ready_in(self, slot: int) -> Entry | None:
        """The valid READY entry of a slot, whichever it is, or None. Follow up as after :meth:`look_up`."""
        generation = self._words[layout.GENERATION]
        record = self._copy(slot)
        return _entry(slot, record) if record is not None and _is_hit(record, generation) else None

    def is_unchanged(self, entry: Entry) -> bool:
        """Whether the entry is still the one that was looked up, and its generation still valid."""
        words = self._words
        valid = entry.tier is Tier.VOCABULARY or words[layout.GENERATION] == entry.generation
        return bool(valid and words[self._records_start + RECORD_WORDS * entry.slot] == entry.version)

    def read(self, slot: int) -> Entry | None:
        """The record of a slot, or None when it is free, changing or damaged."""
        record = self._copy(slot)
        if record is None or record[layout.RECORD_STATE] == SlotState.FREE or not _is_sound(record):
            return None
        return _entry(slot, record)

    def read_all(self) -> Iterator[Entry]:
        """All entries that are not changing just now, in slot order."""
        for slot in range(self.slot_count):
            entry = self.read(slot)
            if entry is not None:
                yield entry

    def fingerprint(self, slot: int) -> int:
        """The fingerprint word of a slot: 0 unless it is READY."""
        return int(self._words[layout.FINGERPRINTS + slot])

    def is_damaged(self, slot: int) -> bool:
        """Whether a slot is neither free nor a sound record: at rest, the mark of a writer killed half-way."""
        start = self._records_start + RECORD_WORDS * slot
        record = self._words[start : start + RECORD_WORDS].tolist()
        if record[layout.RECORD_VERSION] == 0:
            return any(record) or self.fingerprint(slot) != 0
        return not _is_sound(record)

    def window(self, key: bytes) -> range:
        """The slots in which a key's entry can lie."""
        home = fingerprint_of(key) % self._home_count
        return range(home, home + WINDOW_SLOTS)

    def _copy(self, slot: int) -> list[int] | None:
        start = self._records_start + RECORD_WORDS * slot
        record: list[int] = self._words[start : start + RECORD_WORDS].tolist()
        version = record[layout.RECORD_VERSION]
        return record if version and self._words[start] == version else None


class IndexWriter(IndexReader):
    """The index in the hands of the manager, the only writer, with a private copy of every slot in use.

    Construction reads the slots as they are; a new manager calls :meth:`repair` before anything else.
    """

    def __init__(self, control: ControlWriter) -> None:
        super().__init__(control)
        self._header = control
        self._entries: dict[int, Entry] = {entry.slot: entry for entry in self.read_all()}
        self._totals = sum_totals(self._entries.values(), control.generation)

    @property
    def totals(self) -> Totals:
        """The account, always the sum over the slots."""
        return self._totals

    def entries(self) -> list[Entry]:
        """All entries, from the private copy, in no order."""
        return list(self._entries.values())

    def entry(self, slot: int) -> Entry | None:
        """The entry of a slot, from the private copy; None when it is free."""
        return self._entries.get(slot)

    def window_entries(self, key: bytes) -> list[Entry]:
        """The entries in a key's window."""
        return [self._entries[slot] for slot in self.window(key) if slot in self._entries]

    def stale_entries(self) -> list[Entry]:
        """READY entries of older generations: to be retired and unlinked when there is time."""
        generation = self._header.generation
        return [
            entry
            for entry in self._entries.values()
            if entry.state is SlotState.READY and not entry.is_valid_in(generation)
        ]

    def repair(self) -> list[int]:
        """Frees slots that a killed writer left half-changed, sets fingerprints and totals right; returns those slots.

        Their files, if any, then have no slot, which is how recovery knows to unlink them.
        """
        damaged = [slot for slot in range(self.slot_count) if self.is_damaged(slot)]
        for slot in damaged:
            self._write_free(slot)
        for slot in range(self.slot_count):
            entry = self._entries.get(slot)
            wanted = fingerprint_of(entry.key) if entry and entry.state is SlotState.READY else 0
            if self.fingerprint(slot) != wanted:
                steps.store(self._words, layout.FINGERPRINTS + slot, wanted)
        self._set_totals(sum_totals(self._entries.values(), self._header.generation))
        return damaged

    def reserve(
        self, key: bytes, *, tier: Tier, generation: int, serial: int, reserved_bytes: int, owner: int
    ) -> Entry | None:
        """FREE → FILLING in the key's window; None when the window is full (make room among :meth:`window_entries`)."""
        for slot in self.window(key):
            if slot not in self._entries:
                return self._change(
                    Entry(slot, 0, SlotState.FILLING, tier, generation, key, serial, reserved_bytes, 0, owner, 0)
                )
        return None

    def publish(self, slot: int, *, charged_bytes: int, payload_bytes: int, cost_us: int) -> Entry | None:
        """FILLING → READY and charged, in one step; None, and nothing changed, when its generation is over.

        This is the fence: the generation is looked at here, by the only process that can raise it.
        """
        entry = self._expect(slot, SlotState.FILLING)
        if not entry.is_valid_in(self._header.generation):
            return None
        return self._change(
            replace(
                entry,
                state=SlotState.READY,
                charged_bytes=charged_bytes,
                payload_bytes=payload_bytes,
                cost_us=cost_us,
            )
        )

    def retire(self, slot: int, *, charged_bytes: int | None = None) -> Entry:
        """READY or FILLING → ZOMBIE: no look-up finds it from here on, its bytes are retired.

        Call it before the file's name is removed. ``charged_bytes`` replaces what was promised to a FILLING entry.
        """
        entry = self._expect(slot, SlotState.READY, SlotState.FILLING)
        charged_bytes = entry.charged_bytes if charged_bytes is None else charged_bytes
        return self._change(replace(entry, state=SlotState.ZOMBIE, charged_bytes=charged_bytes))

    def release(self, slot: int) -> None:
        """FILLING or ZOMBIE → FREE, once the file has no name and nobody maps it."""
        entry = self._expect(slot, SlotState.FILLING, SlotState.ZOMBIE)
        self._write_free(slot)
        del self._entries[slot]
        self._set_totals(exchange(self._totals, entry, None, self._header.generation))

    def raise_generation(self) -> int:
        """Opens a new generation; one store retires every grammar and rule entry. Constant time."""
        generation = self._header.next_generation()
        self._set_totals(self._totals.after_clear())
        return generation

    def _expect(self, slot: int, *states: SlotState) -> Entry:
        entry = self._entries.get(slot)
        if entry is None or entry.state not in states:
            raise SegmentError(f"slot {slot} is {entry.state.name if entry else 'FREE'}, not {states[0].name}")
        return entry

    def _change(self, entry: Entry) -> Entry:
        """Writes a record, which gets the next version; the totals follow."""
        before = self._entries.get(entry.slot)
        entry = replace(entry, version=self._header.next_version())
        fields = [
            int(entry.state),
            int(entry.tier),
            entry.generation,
            *key_to_words(entry.key),
            entry.serial,
            entry.charged_bytes,
            entry.payload_bytes,
            entry.owner,
            entry.cost_us,
        ]
        is_ready = entry.state is SlotState.READY
        self._write_record(entry.slot, entry.version, fields, fingerprint_of(entry.key) if is_ready else 0)
        self._entries[entry.slot] = entry
        self._set_totals(exchange(self._totals, before, entry, self._header.generation))
        return entry

    def _write_free(self, slot: int) -> None:
        self._write_record(slot, self._header.next_version(), [0] * (layout.RECORD_CHECKSUM - 1), 0)

    def _write_record(self, slot: int, version: int, fields: list[int], fingerprint: int) -> None:
        words = self._words
        start = self._records_start + RECORD_WORDS * slot
        steps.store(words, start, 0)
        if not fingerprint:
            steps.store(words, layout.FINGERPRINTS + slot, 0)
        for position, value in enumerate(fields, start + layout.RECORD_STATE):
            steps.store(words, position, value)
        steps.store(words, start + layout.RECORD_CHECKSUM, checksum(fields))
        steps.store(words, start, version)
        if fingerprint:
            steps.store(words, layout.FINGERPRINTS + slot, fingerprint)

    def _set_totals(self, totals: Totals) -> None:
        self._totals = totals
        self._header.set_totals(totals)


def fingerprint_of(key: bytes) -> int:
    """The word that stands for a key in the fingerprint array; never 0."""
    return key_to_words(key)[0] or 1


def _is_hit(record: list[int], generation: int) -> bool:
    """Whether a look-up in that generation may find it."""
    tier = record[layout.RECORD_TIER]
    is_valid = tier == _VOCABULARY or record[layout.RECORD_GENERATION] == generation
    return record[layout.RECORD_STATE] == _READY and is_valid and tier in _TIERS


def _entry(slot: int, record: list[int]) -> Entry:
    return Entry(
        slot,
        record[layout.RECORD_VERSION],
        _STATES[record[layout.RECORD_STATE]],
        _TIERS[record[layout.RECORD_TIER]],
        record[layout.RECORD_GENERATION],
        words_to_key(record[layout.RECORD_KEY : layout.RECORD_KEY + 4]),
        record[layout.RECORD_SERIAL],
        record[layout.RECORD_CHARGED],
        record[layout.RECORD_PAYLOAD],
        record[layout.RECORD_OWNER],
        record[layout.RECORD_COST],
    )


def _is_sound(record: list[int]) -> bool:
    fields = record[layout.RECORD_STATE : layout.RECORD_CHECKSUM]
    return (
        record[layout.RECORD_CHECKSUM] == checksum(fields)
        and record[layout.RECORD_STATE] in _STATES
        and record[layout.RECORD_TIER] in _TIERS
        and max(record[layout.RECORD_CHARGED], record[layout.RECORD_PAYLOAD]) <= _BYTES_MAX
    )
