"""The walker of the shared structures: does everything that must hold, hold?

Owns the comparison of index, header and files (invariants 1, 2 and 5). Must never change anything. It is exact at
rest; while a manager works, what it changes just then may be reported, so ask twice.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.memory.account import Entry, sum_totals
from shmcache.memory.control import UNLIMITED, ControlReader
from shmcache.memory.index import IndexReader, fingerprint_of
from shmcache.memory.layout import SlotState, Tier
from shmcache.memory.names import data_name, parse_data_name
from shmcache.memory.objects import SEALED_MODE, check_descriptor, list_objects, open_object
from shmcache.memory.segments import charged_bytes, list_segments, map_segment


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``code`` is stable; ``subject`` is a slot or an object's name."""

    code: str
    subject: str
    message: str


def check(control: ControlReader, index: IndexReader, prefix: str) -> list[Finding]:
    """All findings over one namespace whose object names start with ``prefix``. Maps and reads every payload."""
    entries = list(index.read_all())
    names = list_segments(prefix)
    return [
        *_check_slots(control, index, entries),
        *_check_totals(control, entries),
        *_check_files(control, entries, names, prefix),
        *_check_strangers(prefix, names, control.instance, entries),
    ]


def _check_slots(control: ControlReader, index: IndexReader, entries: list[Entry]) -> list[Finding]:
    findings = []
    for slot in range(index.slot_count):
        if index.is_damaged(slot):
            findings.append(Finding("SLOT_DAMAGED", f"slot {slot}", "neither free nor a whole record"))
    states = {entry.slot: entry for entry in entries}
    for slot in range(index.slot_count):
        entry = states.get(slot)
        wanted = fingerprint_of(entry.key) if entry and entry.state is SlotState.READY else 0
        if index.fingerprint(slot) != wanted:
            findings.append(Finding("FINGERPRINT", f"slot {slot}", "the fingerprint does not fit the record"))
    for entry in entries:
        if entry.slot not in index.window(entry.key):
            findings.append(Finding("SLOT_UNREACHABLE", f"slot {entry.slot}", "outside the window of its key"))
        if entry.serial > control.serial_last:
            findings.append(Finding("SERIAL_FUTURE", f"slot {entry.slot}", f"serial {entry.serial} was not given out"))
        if entry.generation > control.generation:
            findings.append(Finding("GENERATION_FUTURE", f"slot {entry.slot}", f"generation {entry.generation}"))
    for serial, count in Counter(entry.serial for entry in entries).items():
        if count > 1:
            findings.append(Finding("SERIAL_TWICE", f"serial {serial}", f"in {count} slots"))
    ready = (entry.key for entry in entries if entry.state is SlotState.READY and entry.is_valid_in(control.generation))
    for key, count in Counter(ready).items():
        if count > 1:
            findings.append(Finding("KEY_TWICE", key.hex(), f"READY in {count} slots"))
    return findings


def _check_totals(control: ControlReader, entries: list[Entry]) -> list[Finding]:
    findings = []
    totals, header = sum_totals(entries, control.generation), control.totals()
    if totals != header:
        findings.append(Finding("TOTALS", "header", f"the slots sum up to {totals}, the header says {header}"))
    limit_bytes = control.limit_bytes
    used_bytes = limited_bytes(entries)
    if limit_bytes != UNLIMITED and used_bytes > limit_bytes:
        findings.append(Finding("LIMIT", "header", f"{used_bytes} bytes in use, the limit is {limit_bytes}"))
    return findings


def limited_bytes(entries: list[Entry]) -> int:
    """READY, FILLING and ZOMBIE bytes of the tiers that the limit is about; vocabularies are counted apart."""
    return sum(entry.charged_bytes for entry in entries if entry.tier is not Tier.VOCABULARY)


def _check_files(control: ControlReader, entries: list[Entry], names: list[str], prefix: str) -> list[Finding]:
    findings = []
    present = set(names)
    for entry in entries:
        name = data_name(prefix, control.instance, entry.serial)
        if entry.state is SlotState.READY and name not in present:
            findings.append(Finding("FILE_MISSING", name, f"slot {entry.slot} is READY"))
        elif entry.state is SlotState.READY:
            findings += _check_file(entry, name, control.instance)
        elif entry.state is SlotState.ZOMBIE and name in present:
            # Somebody still maps it: it keeps its name so that its bytes stay known, and they must be right.
            findings += _check_retired(entry, name)
    return findings


def _check_file(entry: Entry, name: str, instance: int) -> list[Finding]:
    try:
        descriptor = open_object(name, mode=SEALED_MODE)
        try:
            status = check_descriptor(descriptor, name, mode=SEALED_MODE)
            mapping = map_segment(descriptor)
        finally:
            os.close(descriptor)
        mapping.check_payload()
    except (SegmentError, OSError) as error:
        return [Finding("FILE_DAMAGED", name, str(error))]
    findings = _check_charge(entry, name, status.st_blocks * 512)
    if not mapping.header.is_of(entry, instance):
        findings.append(Finding("FILE_FOREIGN", name, f"does not hold what slot {entry.slot} says"))
    return findings


def _check_retired(entry: Entry, name: str) -> list[Finding]:
    try:
        return _check_charge(entry, name, charged_bytes(name))
    except FileNotFoundError:
        # Its last reader let go just now.
        return []
    except (SegmentError, OSError) as error:
        return [Finding("FILE_DAMAGED", name, str(error))]


def _check_charge(entry: Entry, name: str, taken_bytes: int) -> list[Finding]:
    if taken_bytes == entry.charged_bytes:
        return []
    return [Finding("FILE_CHARGE", name, f"takes {taken_bytes} bytes, charged {entry.charged_bytes}")]


def _check_strangers(prefix: str, names: list[str], instance: int, entries: list[Entry]) -> list[Finding]:
    """Files without a slot, and objects of our prefix that no version of us makes."""
    findings = []
    serials = {entry.serial: entry.state for entry in entries}
    for name in names:
        parsed = parse_data_name(name)
        if parsed is None or parsed.instance != instance or parsed.serial not in serials:
            findings.append(Finding("FILE_STRAY", name, "no slot has it"))
        elif parsed.building and serials[parsed.serial] is not SlotState.FILLING:
            findings.append(Finding("FILE_UNFINISHED", name, "its slot is not being filled"))
    known = {*names, prefix + ".ctl", prefix + ".rdr", prefix + ".lck"}
    for name in list_objects(prefix):
        if name not in known:
            findings.append(Finding("OBJECT_UNKNOWN", name, "not an object of this namespace"))
    return findings
