"""The walker finds each kind of damage, and nothing in a sound cache."""

from __future__ import annotations

import os

import pytest

from shmcache.memory import layout
from shmcache.memory.account import Totals
from shmcache.memory.check import Finding, check
from shmcache.memory.control import open_control_reader
from shmcache.memory.index import IndexReader
from shmcache.memory.layout import RECORD_WORDS, Tier
from shmcache.memory.names import object_path
from shmcache.memory.segments import create_segment, unlink_segment
from tests.memory.support import Cache, key_of


def _check(cache: Cache) -> list[Finding]:
    control = open_control_reader(cache.namespace)
    return check(control, IndexReader(control), cache.namespace.prefix)


def _codes(cache: Cache) -> list[str]:
    return sorted(finding.code for finding in _check(cache))


def test_a_sound_cache_has_no_findings(cache: Cache) -> None:
    assert _check(cache) == []
    first = cache.add(key_of(1), b"x" * 10000)
    cache.add(key_of(2), b"x", tier=Tier.VOCABULARY)
    cache.add(key_of(3), b"", tier=Tier.RULE)
    assert _check(cache) == []
    cache.index.retire(first.slot)
    unlink_segment(cache.namespace.data_name(cache.control.instance, first.serial))
    assert _check(cache) == []
    cache.index.raise_generation()
    assert _check(cache) == []
    cache.index.release(first.slot)
    assert _check(cache) == []


def test_the_account_equals_the_file_system_to_the_byte(cache: Cache) -> None:
    for number in range(5):
        cache.add(key_of(number), bytes(number * 5000))
    directory = object_path(cache.namespace.control_name).parent
    start = cache.namespace.prefix[1:] + "-"
    taken = sum(path.stat().st_blocks * 512 for path in directory.iterdir() if path.name.startswith(start))
    assert cache.control.totals().all_bytes == taken > 0


def test_files_without_a_slot(cache: Cache) -> None:
    name = cache.namespace.data_name(cache.control.instance, 99)
    create_segment(name, [b"x"], key=key_of(9), generation=1, tier=0)
    assert _codes(cache) == ["FILE_STRAY"]
    unlink_segment(name)
    name = cache.namespace.data_name(cache.control.instance ^ 1, 1)
    cache.add(key_of(1), b"x")
    create_segment(name, [b"x"], key=key_of(9), generation=1, tier=0)
    assert _codes(cache) == ["FILE_STRAY"]


def test_unknown_objects_of_our_prefix(cache: Cache) -> None:
    object_path(cache.namespace.prefix + "-whatever").write_bytes(b"")
    assert _codes(cache) == ["OBJECT_UNKNOWN"]


def test_a_ready_slot_without_its_file(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"x")
    unlink_segment(cache.namespace.data_name(cache.control.instance, entry.serial))
    assert _codes(cache) == ["FILE_MISSING"]


def test_a_retired_file_that_kept_its_name(cache: Cache) -> None:
    entry = cache.index.retire(cache.add(key_of(1), b"x").slot)
    assert _codes(cache) == []
    cache.index.release(entry.slot)
    cache.index.reserve(key_of(1), tier=Tier.GRAMMAR, generation=1, serial=entry.serial, reserved_bytes=8192, owner=0)
    cache.index.retire(entry.slot)
    assert _codes(cache) == ["FILE_CHARGE"]


def test_a_damaged_payload(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload")
    path = object_path(cache.namespace.data_name(cache.control.instance, entry.serial))
    with path.open("r+b") as file:
        file.seek(130)
        file.write(b"!")
    assert _codes(cache) == ["FILE_DAMAGED"]


def test_a_file_of_another_entry(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload")
    name = cache.namespace.data_name(cache.control.instance, entry.serial)
    unlink_segment(name)
    create_segment(name, [b"payload"], key=key_of(2), generation=1, tier=0)
    assert _codes(cache) == ["FILE_FOREIGN"]


def test_a_wrong_charge(cache: Cache) -> None:
    serial = cache.control.next_serial()
    entry = cache.index.reserve(key_of(1), tier=Tier.GRAMMAR, generation=1, serial=serial, reserved_bytes=0, owner=0)
    assert entry is not None
    create_segment(
        cache.namespace.data_name(cache.control.instance, serial), [b"x"], key=key_of(1), generation=1, tier=0
    )
    cache.index.publish(entry.slot, charged_bytes=1, payload_bytes=1, cost_us=0)
    assert _codes(cache) == ["FILE_CHARGE"]


def test_header_totals_that_do_not_add_up(cache: Cache) -> None:
    cache.add(key_of(1), b"x")
    cache.control.set_totals(Totals((1, 0, 0), (1, 0, 0), 0, 0))
    assert _codes(cache) == ["TOTALS"]


def test_more_than_the_limit_vocabularies_apart(cache: Cache) -> None:
    cache.add(key_of(1), b"x" * 4000)
    cache.control.set_limit(8192)
    cache.add(key_of(2), b"x" * 100000, tier=Tier.VOCABULARY)
    assert _codes(cache) == []
    cache.control.set_limit(4096)
    entry = cache.add(key_of(3), b"x" * 4000, tier=Tier.RULE)
    assert _codes(cache) == ["LIMIT"]
    cache.index.retire(entry.slot)
    unlink_segment(cache.namespace.data_name(cache.control.instance, entry.serial))
    assert _codes(cache) == ["LIMIT"]
    cache.index.release(entry.slot)
    cache.control.set_limit(8192)
    assert _codes(cache) == []


@pytest.mark.parametrize(
    ("field", "code"),
    [(0, "SLOT_DAMAGED"), (layout.RECORD_STATE, "SLOT_DAMAGED"), (layout.RECORD_CHARGED, "SLOT_DAMAGED")],
)
def test_damaged_slots(cache: Cache, field: int, code: str) -> None:
    entry = cache.add(key_of(1), b"x")
    cache.control.words[cache.control.records_start + RECORD_WORDS * entry.slot + field] = 0
    assert code in _codes(cache)


def test_a_wrong_fingerprint(cache: Cache) -> None:
    entry = cache.add(key_of(1, fingerprint=5), b"x")
    cache.control.words[layout.FINGERPRINTS + entry.slot] = 6
    assert _codes(cache) == ["FINGERPRINT"]


def test_serials_and_generations_from_the_future(cache: Cache) -> None:
    cache.index.reserve(key_of(1), tier=Tier.RULE, generation=9, serial=77, reserved_bytes=0, owner=0)
    assert _codes(cache) == ["GENERATION_FUTURE", "SERIAL_FUTURE"]


def test_one_key_or_serial_in_two_slots(cache: Cache) -> None:
    cache.add(key_of(1), b"x")
    cache.add(key_of(1), b"x")
    assert _codes(cache) == ["KEY_TWICE"]
    serial = cache.control.serial_last
    cache.index.reserve(key_of(3), tier=Tier.RULE, generation=1, serial=serial, reserved_bytes=0, owner=0)
    assert _codes(cache) == ["KEY_TWICE", "SERIAL_TWICE"]


def test_checking_changes_nothing_and_leaks_nothing(cache: Cache) -> None:
    cache.add(key_of(1), b"x" * 10000)
    before = (bytes(cache.control.buffer), len(os.listdir("/proc/self/fd")))
    assert _check(cache) == []
    assert (bytes(cache.control.buffer), len(os.listdir("/proc/self/fd"))) == before
