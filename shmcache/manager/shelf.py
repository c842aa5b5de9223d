"""Index, files and recency in the manager's hands: what the core decided about entries, done to shared memory.

Owns where an entry lies (its slot and its file), the order of stores and unlinks, and the probe for who still maps it.
Must never decide anything: every change comes as an effect of the core, every finding goes back as an event.

A retired file keeps its name until nobody maps it. Its slot is a ZOMBIE, so no look-up finds it; but the next manager
does, and knows its bytes exactly, which it could not of a file that has no name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.entries import Entry, by_worth, take_sample
from shmcache.memory.control import ControlWriter
from shmcache.memory.hints import Hints
from shmcache.memory.index import IndexWriter
from shmcache.memory.layout import WINDOW_SLOTS, SlotState, Tier
from shmcache.memory.lease import is_unused
from shmcache.memory.names import Namespace
from shmcache.memory.recency import Recency, now_ns
from shmcache.memory.segments import NO_TEXT, charged_bytes, open_segment, read_header, unlink_segment

_log = logging.getLogger(__name__)

PROBED_FOR_EVICTION_MAX = 512
"""Entries whose users are looked for before an eviction, unless one sample has more."""

StoreEffect = fx.OpenGeneration | fx.PlaceSlot | fx.PublishSlot | fx.RetireSlot | fx.FreeSlot


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a committed segment was found to be."""

    is_sound: bool
    charged_bytes: int
    descriptor: int
    """Open, of the image; the caller's to close. -1 when there is none."""


class Shelf:
    """The entries of one namespace in shared memory."""

    def __init__(
        self,
        namespace: Namespace,
        control: ControlWriter,
        index: IndexWriter,
        recency: Recency,
        *,
        leases_work: bool,
    ) -> None:
        self.namespace = namespace
        self.control = control
        self.index = index
        self.recency = recency
        self._leases_work = leases_work
        self._hints = Hints(control)
        self._slots = {entry.serial: entry.slot for entry in index.entries()}
        self._text_digests: dict[int, bytes] = {}
        self._unlinked: dict[int, int] = {}

    def name(self, serial: int) -> str:
        """The object name of an entry's file."""
        return self.namespace.data_name(self.control.instance, serial)

    def has_slot(self, key: bytes) -> bool:
        """Whether the index has a free place for that key."""
        return len(self.index.window_entries(key)) < WINDOW_SLOTS

    # --- effects -----------------------------------------------------------------------------------------------------

    def perform(self, effect: StoreEffect) -> ev.Probed | None:
        """Does it; what the core wants to know of it comes back."""
        match effect:
            case fx.OpenGeneration(generation):
                raised = self.index.raise_generation()
                assert raised == generation, "core and control segment disagree about the generation"
            case fx.PlaceSlot():
                self._place(effect)
            case fx.PublishSlot(serial, charged, payload_bytes, cost_us):
                slot = self._slots[serial]
                self.recency.begin(slot, now_ns())
                figures = {"charged_bytes": charged, "payload_bytes": payload_bytes}
                published = self.index.publish(slot, **figures, cost_us=cost_us)
                assert published is not None, "core and index disagree about the fence"
                text_digest = self._text_digests.pop(serial, None)
                if text_digest is not None:
                    self._hints.place(text_digest, slot, self._is_in_use)
            case fx.RetireSlot(serial):
                self._retire(serial)
                return ev.Probed(serial, self.probe(serial))
            case fx.FreeSlot(serial):
                self._free(serial)
        return None

    def _place(self, effect: fx.PlaceSlot) -> None:
        serial = self.control.next_serial()
        assert serial == effect.serial, "core and control segment disagree about the serial"
        entry = self.index.reserve(
            effect.key,
            tier=effect.tier,
            generation=effect.generation,
            serial=serial,
            reserved_bytes=effect.segment_bytes,
            owner=effect.owner,
        )
        assert entry is not None, "the core placed an entry where there was no slot"
        self._slots[serial] = entry.slot

    def _retire(self, serial: int) -> None:
        slot = self._slots[serial]
        entry = self.index.entry(slot)
        # One that is a ZOMBIE already is only to be probed again.
        if entry is not None and entry.state is not SlotState.ZOMBIE:
            self.index.retire(slot)

    def _is_in_use(self, slot: int) -> bool:
        """Whether a look-up finds what lies in that slot."""
        entry = self.index.entry(slot)
        if entry is None or entry.state is not SlotState.READY:
            return False
        return entry.is_valid_in(self.control.generation)

    def _free(self, serial: int) -> None:
        self._text_digests.pop(serial, None)
        unlink_segment(self.name(serial))
        descriptor = self._unlinked.pop(serial, None)
        if descriptor is not None:
            os.close(descriptor)
        self.index.release(self._slots.pop(serial))

    # --- who maps it -------------------------------------------------------------------------------------------------

    def probe(self, serial: int) -> bool | None:
        """Whether a retired file has no user any more; it has no name either then. None: this kernel cannot tell."""
        descriptor = self._unlinked.get(serial)
        if descriptor is not None:
            return is_unused(descriptor)
        name = self.name(serial)
        try:
            descriptor = open_segment(name)
        except FileNotFoundError:
            # Never published, or unlinked by somebody else: nothing of it can be opened by anyone any more.
            unlink_segment(name)
            return True
        except (SegmentError, OSError) as error:
            _log.warning("cannot probe %s: %s", name, error)
            return False
        if not self._leases_work:
            os.close(descriptor)
            return None
        is_free = is_unused(descriptor)
        if is_free:
            unlink_segment(name)
            # Somebody may have opened it between the probe and the unlinking; now nobody can any more.
            is_free = is_unused(descriptor)
            if not is_free:
                self._unlinked[serial] = descriptor
                return False
        os.close(descriptor)
        return is_free

    def is_mapped(self, serial: int) -> bool:
        """Whether anybody uses a READY entry's file just now; yes, where the kernel cannot tell."""
        if not self._leases_work:
            return True
        try:
            descriptor = open_segment(self.name(serial))
        except (SegmentError, OSError):
            return False
        try:
            return not is_unused(descriptor)
        finally:
            os.close(descriptor)

    def see_use(self, candidates: Iterator[Entry], shortage_bytes: int) -> ev.UseSeen:
        """When each of as many candidates as are needed was last used, and which are mapped.

        They are looked at sample by sample, and in each in the order in which they would go, until so many bytes are
        found that nobody maps. Which of the others are mapped is not found out: they count as mapped.
        """
        now = now_ns()
        last_use: dict[int, int] = {}
        mapped: set[int] = set()
        while shortage_bytes > 0 and len(last_use) < PROBED_FOR_EVICTION_MAX:
            sample = take_sample(candidates, shortage_bytes)
            if not sample:
                break
            last_use |= {entry.serial: self.recency.last_used_ns(self._slots[entry.serial], now) for entry in sample}
            for entry in by_worth(sample, last_use):
                if shortage_bytes <= 0 or self.is_mapped(entry.serial):
                    mapped.add(entry.serial)
                else:
                    shortage_bytes -= entry.charged_bytes
        return ev.UseSeen(last_use, frozenset(mapped))

    # --- files -------------------------------------------------------------------------------------------------------

    def open_entry(self, serial: int) -> int:
        """A descriptor of a READY entry, fit to be handed out. Raises SegmentError or OSError when there is none."""
        entry = self.index.entry(self._slots[serial])
        descriptor = open_segment(self.name(serial))
        try:
            if entry is None or not read_header(descriptor).is_of(entry, self.control.instance):
                raise SegmentError(f"{self.name(serial)} is not the segment of its entry")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def inspect(self, serial: int, tier: Tier, key: bytes, payload_bytes: int) -> Inspection:
        """Looks at a segment that a worker says is complete."""
        try:
            descriptor = open_segment(self.name(serial))
        except (SegmentError, OSError) as error:
            _log.warning("a worker committed %s, which cannot be opened: %s", self.name(serial), error)
            return Inspection(False, 0, -1)
        try:
            header = read_header(descriptor)
            found = (header.instance, header.serial, header.tier, header.key, header.payload_bytes)
            slot = self._slots.get(serial)
            entry = None if slot is None else self.index.entry(slot)
            is_sound = found == (self.control.instance, serial, tier, key, payload_bytes)
            is_sound = is_sound and (entry is None or entry.generation == header.generation)
            if is_sound and entry is not None and header.text_digest != NO_TEXT:
                self._text_digests[serial] = header.text_digest
        except SegmentError as error:
            _log.warning("a worker committed %s, which is not a segment: %s", self.name(serial), error)
            is_sound = False
        return Inspection(is_sound, charged_bytes(descriptor), descriptor)

    def close(self) -> None:
        """Closes what is open."""
        for descriptor in self._unlinked.values():
            os.close(descriptor)
        self._unlinked.clear()
