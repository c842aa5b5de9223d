"""The start of a manager, which is always a recovery, and its end.

Owns how a namespace is brought to order: one path, whether there was no manager before, one that ended, or one that was
killed at any instruction. Must never know clients, workers or messages. The caller holds the manager's lock.

Readers keep hitting meanwhile: nothing that is valid is touched, and the generation stays as it is.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.manager.core import Restored
from shmcache.manager.entries import ANY_GENERATION, Entry
from shmcache.manager.shelf import Shelf
from shmcache.memory.control import ControlWriter, create_control, open_control_writer
from shmcache.memory.index import IndexWriter
from shmcache.memory.layout import GAUGE_NAMES, ManagerState, SlotState, Tier
from shmcache.memory.lease import leases_work
from shmcache.memory.names import Namespace, parse_data_name
from shmcache.memory.objects import WRITABLE_MODE, list_objects, open_object, unlink_object
from shmcache.memory.recency import Recency, create_recency, open_recency
from shmcache.memory.segments import list_segments, read_header, unlink_segment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """A namespace in order, and what the core goes on with."""

    shelf: Shelf
    restored: Restored
    epoch: int


def recover(namespace: Namespace, limit_bytes: int) -> Recovered:
    """Brings the namespace to order under this process as its manager, in state RECOVERING.

    Raises :class:`SegmentError` when a name is squatted by somebody else, :class:`LimitError` when there is no room for
    a control segment.
    """
    _sweep_unfinished(namespace)
    control = _open_control(namespace)
    epoch = control.begin_epoch(pid=os.getpid(), start_ticks=process_start_ticks())
    control.set_limit(limit_bytes)
    works = leases_work(namespace)
    control.set_lease_works(works)
    index = IndexWriter(control)
    damaged = index.repair()
    if damaged:
        _log.warning("freed %d slots that a killed manager left half-written", len(damaged))
    _drop_what_has_no_file(namespace, control, index)
    sweep_strays(namespace, control, index)
    recency = _open_recency(namespace, control)
    fold_rows(control, recency)
    for gauge in GAUGE_NAMES:
        control.set_gauge(gauge, 0)
    shelf = Shelf(namespace, control, index, recency, leases_work=works)
    return Recovered(shelf, _restored(control, index), epoch)


def _open_control(namespace: Namespace) -> ControlWriter:
    try:
        # Apart from the rest: what is not ours we neither use nor remove.
        os.close(open_object(namespace.control_name, mode=WRITABLE_MODE))
    except FileNotFoundError:
        remove_objects(namespace)
        return create_control(namespace)
    try:
        control = open_control_writer(namespace)
        if not control.is_dissolved:
            return control
        _log.info("the last manager had begun to remove this cache: making a new one")
    except SegmentError as error:
        _log.warning("the control segment is of no use (%s): making a new one", error)
    remove_objects(namespace)
    return create_control(namespace)


def _open_recency(namespace: Namespace, control: ControlWriter) -> Recency:
    try:
        return open_recency(namespace, control)
    except FileNotFoundError:
        pass
    except SegmentError as error:
        _log.warning("the recency segment is of no use (%s): making a new one", error)
    return create_recency(namespace, control)


def _drop_what_has_no_file(namespace: Namespace, control: ControlWriter, index: IndexWriter) -> None:
    """Frees slots of entries whose file is gone or is not theirs, and of what was never finished."""
    for entry in index.entries():
        name = namespace.data_name(control.instance, entry.serial)
        if entry.state is SlotState.FILLING:
            # Its worker died with its manager.
            unlink_segment(name)
            index.release(entry.slot)
            continue
        try:
            if read_header(name).is_of(entry, control.instance) or entry.state is SlotState.ZOMBIE:
                continue
            _log.warning("%s is not the segment of its slot: dropped", name)
        except FileNotFoundError:
            _log.log(
                logging.INFO if entry.state is SlotState.ZOMBIE else logging.WARNING, "%s is gone: its slot freed", name
            )
        except SegmentError as error:
            _log.warning("%s is of no use (%s): dropped", name, error)
        if entry.state is SlotState.READY:
            index.retire(entry.slot)
        _unlink_ours(name)
        index.release(entry.slot)


def sweep_strays(namespace: Namespace, control: ControlWriter, index: IndexWriter) -> int:
    """Unlinks data files that have no slot; returns how many. Files of serials yet to come are no strays."""
    known = {entry.serial for entry in index.entries()}
    count = 0
    for name in list_segments(namespace.prefix):
        parsed = parse_data_name(name)
        assert parsed is not None
        if parsed.instance != control.instance or parsed.serial not in known:
            count += _unlink_ours(name)
    if count:
        _log.info("unlinked %d files without a slot", count)
    return count


def _sweep_unfinished(namespace: Namespace) -> None:
    """Unlinks what managers killed while they made a control or recency segment, or tested themselves, have left."""
    known = {namespace.control_name, namespace.recency_name, "/" + namespace.shm_lock_path.name}
    for name in list_objects(namespace.prefix + "."):
        if name not in known:
            _unlink_ours(name)


def fold_rows(control: ControlWriter, recency: Recency) -> None:
    """Adds every client's counts to the totals and zeroes their rows: their clients will get new ones."""
    for row in range(recency.row_count):
        fold_row(control, recency, row)


def fold_row(control: ControlWriter, recency: Recency, row: int) -> None:
    """Adds one client's counts to the totals, and zeroes its row."""
    counts = recency.counts(row)
    for counter, count in counts.by_counter().items():
        if count:
            control.count(counter, count)
    recency.clear_row(row)


def _restored(control: ControlWriter, index: IndexWriter) -> Restored:
    entries = tuple(
        Entry(
            serial=entry.serial,
            tier=entry.tier,
            key=entry.key,
            generation=ANY_GENERATION if entry.tier is Tier.VOCABULARY else entry.generation,
            state=entry.state,
            charged_bytes=entry.charged_bytes,
            payload_bytes=entry.payload_bytes,
            # Workers of an earlier manager are no workers of this one.
            owner=0,
            cost_us=entry.cost_us,
        )
        for entry in index.entries()
    )
    return Restored(control.generation, control.serial_last, entries)


def remove_everything(shelf: Shelf) -> None:
    """The end of a cache: readers find nothing from here on, and every object loses its name."""
    shelf.control.dissolve()
    shelf.close()
    remove_objects(shelf.namespace)


def remove_objects(namespace: Namespace) -> None:
    """Unlinks all objects of the namespace but its lock."""
    for name in list_segments(namespace.prefix):
        _unlink_ours(name)
    for name in list_objects(namespace.prefix + "."):
        if not name.endswith(".lck"):
            _unlink_ours(name)


def leave(shelf: Shelf) -> None:
    """The end of a manager whose cache stays for the next one."""
    shelf.control.set_state(ManagerState.ABSENT)
    shelf.close()


def _unlink_ours(name: str) -> bool:
    try:
        return unlink_object(name)
    except PermissionError:
        _log.warning("%s belongs to somebody else: left alone", name)
        return False


def process_start_ticks() -> int:
    """When this process started, in clock ticks since boot: tells its pid from a later process of the same number."""
    with open("/proc/self/stat", "rb") as status:
        return int(status.read().rpartition(b")")[2].split()[19])
