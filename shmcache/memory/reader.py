"""A client's view of the cache: from a key to a mapped, checked payload, with no lock and no call.

Owns the order of the reader's steps and the reuse of mappings. Must never write the control segment, nor know what a
payload means.
"""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict

from shmcache.errors import SegmentError
from shmcache.memory.account import Entry
from shmcache.memory.control import ControlReader, open_control_reader
from shmcache.memory.hints import Hints
from shmcache.memory.index import IndexReader
from shmcache.memory.names import Namespace
from shmcache.memory.segments import Mapping, map_segment
from shmcache.memory.words import LOCK_FREE

MAPPINGS_MAX = 256
"""Mappings kept for reuse at most; a mapping dropped here lives on while a grammar uses it."""

_log = logging.getLogger("shmcache")


class SharedCache:
    """One namespace's cache as a reader sees it. Safe to use from several threads, and after ``fork``.

    ``lock_free`` is false on machines whose memory ordering the look-up does not yet support, and where the data
    segments cannot be opened by name: ask the manager then (``fetch``).
    """

    def __init__(self, namespace: Namespace, control: ControlReader, *, lock_free: bool = LOCK_FREE) -> None:
        self.namespace = namespace
        self.control = control
        self.index = IndexReader(control)
        self.hints = Hints(control)
        self.lock_free = lock_free
        self._mappings: OrderedDict[int, Mapping] = OrderedDict()

    @classmethod
    def open(cls, namespace: Namespace) -> SharedCache:
        """By name. Raises FileNotFoundError when there is no cache, :class:`SegmentError` when it is not usable."""
        return cls(namespace, open_control_reader(namespace))

    def open_entry(self, key: bytes) -> tuple[Entry, Mapping] | None:
        """The entry of a key and its mapped segment, or None. Bounded steps; anything odd on the way is a miss."""
        entry = self.index.look_up(key)
        if entry is None:
            return None
        mapping = self.map_entry(entry)
        if mapping is None or not self.index.is_unchanged(entry):
            return None
        return entry, mapping

    def open_text(self, text_digest: bytes) -> tuple[Entry, Mapping] | None:
        """The same of the entry that was made of the text with that digest, if a hint leads to it."""
        for slot in self.hints.slots(text_digest):
            entry = self.index.ready_in(slot)
            mapping = None if entry is None else self.map_entry(entry)
            if (
                entry is not None
                and mapping is not None
                and mapping.header.text_digest == text_digest
                and self.index.is_unchanged(entry)
            ):
                return entry, mapping
        return None

    def map_entry(self, entry: Entry) -> Mapping | None:
        """The mapping of an entry's segment; None when that is gone or not that entry's."""
        mapping = self._mappings.get(entry.serial)
        if mapping is None:
            name = self.namespace.data_name(self.control.instance, entry.serial)
            try:
                mapping = map_segment(name)
            except SegmentError as error:
                _log.warning("%s is not usable: %s", name, error)
                return None
            except OSError:
                return None
            if not mapping.header.is_of(entry, self.control.instance):
                _log.warning("%s does not hold what the index says", name)
                return None
            self._keep(mapping)
        return mapping

    def drop_mappings(self) -> None:
        """Forgets every mapping that nobody else uses."""
        self._mappings.clear()

    def _keep(self, mapping: Mapping) -> None:
        self._mappings[mapping.header.serial] = mapping
        while len(self._mappings) > MAPPINGS_MAX:
            # Another thread may drop them all between the two lines.
            with contextlib.suppress(KeyError):
                self._mappings.popitem(last=False)
